"""The Nth system call of a kind fails, for N = 1, 2, 3 … until a run passes without the fault being reached.

Whatever the machine refuses, at whatever moment: one sentence and a true exit code, every acknowledged record whole, no
blame on the server, and a resumed run that ends like an undisturbed one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faults.nth_fault import Fault, FaultyCommand, counts
from faults.processes import SMALL, ended, started
from support.command import Outcome, chat_config, read_records, write_suite
from support.fake_claude import install_fake_claude
from support.published_schema import check_run_folder
from support.scripted_server import ScriptedServer

CONFIG = ("--config", "clawgauge.toml")
RUN = ("run", "-t", "fake:scripted-model", "-s", "two.json", "--run-id", "r", *CONFIG)
RESUME = ("run", "--resume", "r", "--retry-errors", *CONFIG)
N_CELLS = 2
MAX_N = 300
# What a record may say of a call that met a refusal of this machine. Anything else would be the server's blame.
OUR_FAILURES = frozenset({None, "client_limit"})
NO_TOOLS = {
    "PATH": "/nowhere"
}  # free, df and nvidia-smi: each is a process more, and nothing that a run needs
VERBS = {
    "summarize": ("summarize", "r"),
    "report": ("report", "r"),
    "rescore": ("rescore", "r"),
    "export": ("export", "r", "-o", "table.csv"),
    "resume": ("run", "--resume", "r", *CONFIG),
}


def sweep(*faults: Fault) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "fault", [pytest.param(fault, id=str(fault)) for fault in faults]
    )


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCommand]:
    started = FaultyCommand.start(tmp_path_factory.mktemp("shim"))
    yield started
    started.close()


@pytest.fixture
def prepared(tmp_path: Path, server: ScriptedServer) -> Path:
    """A folder with all that a run needs; each fault strikes in a copy of it."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    chat_config(folder, fake=server.v1_url)
    write_suite(
        folder / "two.json",
        {"prompt": "yes?", "validator": {"type": "max_words", "value": 99}},
        {"prompt": "x"},
    )
    return folder


def copies(prepared: Path, fault: Fault) -> Iterator[tuple[Path, Fault]]:
    """A fresh copy of the folder for each N, cleared away after it."""
    for n in range(1, MAX_N):
        place = prepared.with_name(f"n{n}")
        shutil.copytree(prepared, place)
        yield place, replace(fault, n=n)
        shutil.rmtree(place)
    raise AssertionError(f"no run without the fault in {MAX_N} tries: is the fault counted at all?")


def check_ending(done: Outcome, where: str) -> None:
    """No traceback, a documented exit code, and a sentence where it is not 0."""
    assert done.code in {0, 2, 3, 4, 5}, f"{where}: exit {done.code}\n{done.stderr[-1500:]}"
    assert not any(word in done.stderr for word in ("Traceback", "Exception", "Warning:")), (
        f"{where}\n{done.stderr}"
    )
    if done.code in {2, 4}:
        *_, last = done.stderr.splitlines()
        assert last.startswith("clawgauge: "), f"{where}: {last}"


def check_kept(folder: Path, where: str) -> int:
    """How many records are there: all whole, and none that blames the server."""
    records = read_records(folder) if (folder / "results.jsonl").exists() else []
    assert {record["failure_type"] for record in records} <= OUR_FAILURES, (
        f"{where}: {records[0]['error']}"
    )
    if (folder / "summary.json").exists():
        assert json.loads((folder / "summary.json").read_bytes())["run_id"] == "r"
    return sum(record["failure_type"] is None for record in records)


def check_complete(folder: Path, where: str) -> None:
    """A whole run, one line a cell, and nothing that does not belong there."""
    cells = [(record["prompt_id"], record["failure_type"]) for record in read_records(folder)]
    assert sorted(cells) == [("P0", None), ("P1", None)], f"{where}: {cells}"
    strays = {
        path.name for path in folder.iterdir() if path.name.startswith(".") and path.name != ".lock"
    }
    assert not strays, f"{where}: {strays}"
    check_run_folder(folder)
    (group,) = counts(json.loads((folder / "summary.json").read_bytes()))
    assert (group["n_total"], group["n_success"], group["n_scheduled"], group["n_passed"]) == (
        2,
        2,
        2,
        1,
    ), where
    assert (
        "P0" in (folder / "results.jsonl").read_text()
        and (folder / "summary.md").stat().st_size > 0
    )


def strike_run(command: FaultyCommand, server: ScriptedServer, place: Path, fault: Fault) -> bool:
    """One run that meets the fault, and what came of it; False where it did not meet it."""
    folder = place / "runs" / "r"
    before = len(server.calls)
    done, struck = command.run(place, *RUN, fault=fault, env=NO_TOOLS)
    where = f"{fault} {fault.n} {struck[:1]}"
    if not struck:
        assert done.code == 0, done.stderr
        check_complete(folder, where)
        return False
    if done.code == -6 and fault.kind == "thread":
        return True  # libuv ends the process that refuses it the threads of its own pool, and nothing has been asked
    asked = len(server.calls) - before
    check_ending(done, where)
    n_kept = check_kept(folder, where)
    assert asked <= n_kept + 1, f"{where}: {asked} were asked and {n_kept} recorded"
    assert done.code != 2 or asked == 0, (
        f"{where}: exit 2 says that nothing was sent\n{done.stderr}"
    )
    if done.code == 0:
        # What this machine refused a call of its own is on record as that, and can be asked again.
        if n_kept == N_CELLS:
            check_complete(folder, where)
        lost = "could not be written" in done.stderr
        assert lost or len((folder / "events.jsonl").read_bytes().splitlines()) == 4, (
            f"{where}: events lost unsaid"
        )
    if fault.error == "EINTR":
        assert done.code == 0 and "could not" not in done.stderr, f"{where}: {done.stderr}"
        return True
    again, _ = command.run(
        place, *(RESUME if (folder / "config.json").exists() else RUN), env=NO_TOOLS
    )
    assert again.code == 0, f"{where}: {again.stderr}"
    check_complete(folder, where)
    assert len(server.calls) - before == asked + N_CELLS - n_kept, (
        f"{where}: an answer on disk was asked again"
    )
    return True


def strike_all(
    command: FaultyCommand, server: ScriptedServer, prepared: Path, fault: Fault
) -> None:
    for place, numbered in copies(prepared, fault):
        if not strike_run(command, server, place, numbered):
            return


@pytest.mark.parametrize("n", [7, 8, 12])
def test_a_disk_that_fills_up_at_a_write_costs_one_answer_at_most(
    command: FaultyCommand, server: ScriptedServer, prepared: Path, n: int
) -> None:
    """At the first record, the second, and the summary."""
    assert strike_run(command, server, prepared, Fault("write", "ENOSPC", lasting=True, n=n))


@pytest.mark.parametrize(
    "n_descriptors",
    [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 6, 7, 8, 9, 12, 14, 16, 20, 24))],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs ulimit")
def test_too_few_descriptors_are_said_in_one_sentence(
    place: Path, server: ScriptedServer, n_descriptors: int
) -> None:
    """Not even an event loop can be had: libuv would end the process without a word."""
    limited = ("/bin/sh", "-c", f'ulimit -n {n_descriptors}; exec "$@"', "sh")
    with started(place, *SMALL, *CONFIG, prefix=limited) as process:
        code, _, err = ended(process)
    check_ending(Outcome(code, "", err, place), f"{n_descriptors} descriptors")
    assert code == 4 or n_descriptors > 14, err


@pytest.mark.slow
@pytest.mark.timeout(300)
@sweep(
    Fault("open", "EIO"),
    Fault("open", "EACCES", lasting=True),
    Fault("write", "ENOSPC"),
    Fault("write", "ENOSPC", lasting=True),
    Fault("sync", "EIO"),
    Fault("rename", "EIO"),
    Fault("truncate", "EIO"),
    Fault("mkdir", "EACCES"),
    Fault("unlink", "EIO", lasting=True),
    Fault("stat", "EACCES"),
    Fault("read", "EIO"),
    Fault("read", "EIO", lasting=True),
    Fault("lock", "ENOLCK"),
    Fault("thread", "EAGAIN"),
)
def test_whatever_the_system_refuses_a_run_ends_true_and_can_be_resumed(
    command: FaultyCommand, server: ScriptedServer, prepared: Path, fault: Fault
) -> None:
    strike_all(command, server, prepared, fault)


@pytest.mark.slow
@pytest.mark.timeout(300)
@sweep(
    Fault("descriptor", "EMFILE"),
    Fault("descriptor", "EMFILE", lasting=True),
    Fault("socket", "ENOBUFS"),
    Fault("connect", "EADDRNOTAVAIL", lasting=True),
)
def test_what_this_machine_lacks_is_never_the_servers_failure(
    command: FaultyCommand, server: ScriptedServer, prepared: Path, fault: Fault
) -> None:
    strike_all(command, server, prepared, fault)


@pytest.mark.slow
@sweep(*(Fault(kind, "EINTR") for kind in ("open", "read", "write", "sync", "lock", "truncate")))
def test_an_interrupted_system_call_is_not_noticed(
    command: FaultyCommand, server: ScriptedServer, prepared: Path, fault: Fault
) -> None:
    strike_all(command, server, prepared, fault)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("verb", VERBS)
@sweep(
    Fault("open", "EIO"),
    Fault("read", "EIO"),
    Fault("write", "ENOSPC", lasting=True),
    Fault("sync", "EIO"),
    Fault("rename", "EIO"),
    Fault("lock", "ENOLCK"),
    Fault("stat", "EACCES"),
    Fault("unlink", "EACCES"),
    Fault("descriptor", "EMFILE"),
)
def test_a_verb_that_fails_leaves_the_old_files_or_the_new_ones(
    command: FaultyCommand, prepared: Path, verb: str, fault: Fault
) -> None:
    """Nothing is lost, nothing half written, and exit 0 only with the very result of an undisturbed call."""
    assert command.run(prepared, *RUN, env=NO_TOOLS)[0].code == 0
    old = files(prepared)
    intact = prepared.with_name("intact")
    shutil.copytree(prepared, intact)
    assert command.run(intact, *VERBS[verb], env=NO_TOOLS)[0].code == 0
    expected = files(intact)
    for place, numbered in copies(prepared, fault):
        done, struck = command.run(place, *VERBS[verb], fault=numbered, env=NO_TOOLS)
        where = f"{verb} {numbered} {numbered.n} {struck[:1]}"
        check_ending(done, where)
        found = files(place)
        if done.code == 0:
            assert found.keys() - {"events.jsonl", ".lock"} == expected.keys() - {"events.jsonl"}, (
                where
            )
        assert found["results.jsonl"] == old["results.jsonl"], where
        for name in found.keys() - {"results.jsonl", "events.jsonl", ".lock"}:
            assert found[name] in (old.get(name), expected.get(name)), (
                f"{where}: {name} is neither old nor new"
            )
        again, _ = command.run(place, *VERBS[verb], env=NO_TOOLS)
        assert again.code == 0, f"{where}: {again.stderr}"
        check_complete(place / "runs" / "r", where)
        if not struck:
            return


def files(place: Path) -> dict[str, object]:
    """What every file of the run, and beside it, says: without the times in it, by length where it is prose."""
    found: dict[str, object] = {}
    for path in (*(place / "runs" / "r").iterdir(), *place.glob("*.csv")):
        if path.name == "summary.json":
            found[path.name] = counts(json.loads(path.read_bytes()))
        elif path.name == "results.jsonl":
            found[path.name] = read_records(path.parent)
        elif path.suffix in {".html", ".md"}:
            found[path.name] = path.read_bytes().rstrip()[-20:]
        else:
            found[path.name] = path.read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@sweep(Fault("process", "EAGAIN"), Fault("process", "EAGAIN", lasting=True))
def test_a_process_that_cannot_be_started_is_no_failure_of_the_cli(
    command: FaultyCommand, prepared: Path, fault: Fault
) -> None:
    """Neither "not installed" nor an answer of the model: the machine had no room for one more process."""
    env = {"HOME": str(prepared), "ANTHROPIC_API_KEY": "key-of-a-test"}
    for place, numbered in copies(prepared, fault):
        fake = install_fake_claude(place / "bin", answer="yes")
        words = ("run", "-t", "claude_code_cli:m", "-s", "two.json", "--run-id", "r")
        path = f"{fake.bin_dir}:{os.defpath}"
        done, struck = command.run(place, *words, fault=numbered, env={**env, "PATH": path})
        if not struck:
            return
        where = f"{numbered} {numbered.n}"
        check_ending(done, where)
        check_kept(place / "runs" / "r", where)
