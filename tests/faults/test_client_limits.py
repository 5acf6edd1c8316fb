"""Our own limits are our own failures: short of descriptors, memory, ports or processes, no server is blamed."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.client_limits import fit_to_descriptors
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.claude.provider import ClaudeCodeCli
from faults.asking import WaitingClock, ask, ask_provider
from support.command import Outcome, clean_environment, write_suite
from support.fake_claude import install_fake_claude
from support.scripted_server import ScriptedServer, Text
from support.waiting import PATIENCE_S
from unit.providers.observed import attempt

OURS = [
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOBUFS,
    errno.EADDRNOTAVAIL,
    errno.EPERM,
    errno.EACCES,
]
THEIRS = {
    errno.ECONNREFUSED: "connection_refused",
    errno.EHOSTUNREACH: "connection_refused",
    errno.ETIMEDOUT: "connection_refused",
    errno.ECONNRESET: "connection_refused",
}


def limited(
    place: Path, soft: int, hard: int, *words: str, env: dict[str, str] | None = None
) -> Outcome:
    """The real command under `ulimit -n`."""
    done = subprocess.run(
        [sys.executable, "-m", "clawgauge", *words],
        cwd=place,
        env=clean_environment(**(env or {})),
        capture_output=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), place)


def statuses(done: Outcome) -> set[tuple[str, str | None]]:
    return {(record["availability_status"], record["failure_type"]) for record in done.records()}


@pytest.mark.parametrize(
    ("soft", "hard", "said"), [(100, 100, True), (64, 400, False)], ids=["fitted", "raised"]
)
def test_more_calls_at_once_than_descriptors(
    soft: int, hard: int, said: bool, server: ScriptedServer, place: Path
) -> None:
    """Concurrency is fitted to what there is, the limit raised first: all is answered, and all of it written."""
    server.reply_with(Text("yes", first_delay_s=0.05))
    write_suite(place / "many.json", *({"prompt": f"prompt {n}"} for n in range(50)))
    words = (
        "-t",
        "fake:scripted-model",
        "-s",
        "many.json",
        "--repeats",
        "3",
        "--concurrency",
        "150",
    )
    done = limited(place, soft, hard, "run", *words)
    assert done.code == 0, done.stderr
    assert statuses(done) == {("ok", None)} and len(done.records()) == 150
    assert done.summary()["models"][0]["n_ok"] == 150
    names = {path.name for path in done.folder.iterdir()}
    assert {"summary.json", "summary.md", "inventory.json"} <= names
    assert len([name for name in names if name.startswith("resources_")]) == 2
    assert ("more than this machine's limit of open files" in done.stderr) == said
    assert done.stderr.count("limit of open files") <= 1
    recorded = json.loads((done.folder / "config.json").read_bytes())["options"]["concurrency"]
    assert (recorded == 150) == (not said)


def test_claude_is_fitted_by_what_a_child_needs(place: Path) -> None:
    """A child takes several descriptors: fewer run at once, and none is said to be missing or broken."""
    program = install_fake_claude(place / "bin")
    write_suite(place / "many.json", *({"prompt": f"prompt {n}"} for n in range(24)))
    env = {"PATH": f"{program.path.parent}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "k"}
    words = ("run", "-t", "claude_code_cli:m", "-s", "many.json", "--concurrency", "24")
    done = limited(place, 80, 80, *words, env=env)
    assert statuses(done) == {("ok", None)}, done.stderr
    assert "limit of open files" in done.stderr


def test_a_limit_that_is_there_all_along_blames_nobody_else(
    server: ScriptedServer, place: Path
) -> None:
    """Descriptors that others hold: calls may fail as client_limit, and the summary is still written."""
    write_suite(place / "one.json", *({"prompt": f"prompt {n}"} for n in range(3)))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "clawgauge",
                "run",
                "-t",
                "fake:scripted-model",
                "-s",
                "one.json",
            ],
            cwd=place,
            env=clean_environment(),
            capture_output=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
            pass_fds=held,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (max(held) + 14, max(held) + 14)
            ),
        )
    finally:
        for descriptor in held:
            os.close(descriptor)
    found = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), place)
    assert "Traceback" not in found.stderr
    assert statuses(found) <= {("error", "client_limit"), ("ok", None)}
    assert found.summary()["models"]


class RefusingSocket(socket.socket):
    """A socket that this machine, or the network, does not let connect."""

    number = 0
    when: Callable[[], bool] = staticmethod(lambda: True)

    def __init__(self, *given: Any, **named: Any) -> None:
        fresh = named.get("fileno") is None and len(given) < 4
        if fresh and self.when():
            raise OSError(self.number, os.strerror(self.number))
        super().__init__(*given, **named)


def refuse_sockets(
    monkeypatch: pytest.MonkeyPatch, number: int, when: Callable[[], bool] = lambda: True
) -> None:
    kind = type("Refusing", (RefusingSocket,), {"number": number, "when": staticmethod(when)})
    monkeypatch.setattr("aiohappyeyeballs.impl.socket.socket", kind)


@pytest.mark.parametrize("number", [*OURS, *THEIRS], ids=lambda number: errno.errorcode[number])
def test_whose_fault_a_failed_connection_is(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine lacks or forbids is client_limit; what the network says is about the server."""
    with monkeypatch.context() as patch:
        refuse_sockets(patch, number)
        _, failure = attempt("openai_chat", "http://127.0.0.1:9/v1")
    assert failure is not None
    if number in THEIRS:
        assert (failure.status, failure.failure_type) == ("skipped_unavailable", THEIRS[number])
    else:
        assert (failure.status, failure.failure_type) == ("error", "client_limit")
        assert "this machine" in failure.message or "this program" in failure.message


@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_the_nth_socket_that_cannot_be_had(
    nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One shortage in the middle of a run costs a wait: the call is made again, and the target is not given up."""
    server = ScriptedServer(dialect="llama_cpp")
    n_made = 0

    def when() -> bool:
        nonlocal n_made
        n_made += 1
        return n_made == nth

    with server, monkeypatch.context() as patch:
        server.reply_with(Text("yes"))
        refuse_sockets(patch, errno.EMFILE, when)
        patch.setattr(
            "clawgauge.providers.http.client._CLOSING_SERVERS", frozenset({"", "llama.cpp"})
        )
        clock = WaitingClock()
        records = ask(tmp_path, server.v1_url, n_prompts=6, clock=clock)
    failures = [record["failure_type"] for record in records]
    # Before the first connection nothing of ours is there to wait for.
    assert failures == (["client_limit"] + [None] * 5 if nth == 1 else [None] * 6)
    assert {attempt["failure_type"] for record in records for attempt in record["attempts"]} == {
        None,
        "client_limit",
    }


def test_a_name_that_cannot_be_looked_up_for_want_of_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A resolver that cannot open a socket says that the name is unknown: that is our shortage."""

    async def unknown(*given: object, **named: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", unknown)
    _, failure = attempt("openai_chat", "http://model.invalid/v1", settings=None)
    assert failure is not None and failure.failure_type == "dns_error"
    monkeypatch.setattr("clawgauge.client_limits._is_full", lambda: True)
    _, failure = attempt("openai_chat", "http://model.invalid/v1")
    assert failure is not None and failure.failure_type == "client_limit"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_a_child_that_this_machine_cannot_start(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claude that cannot be started for want of memory, processes or descriptors is neither missing nor broken."""
    program = install_fake_claude(tmp_path / "bin")
    environ = {"PATH": str(program.path.parent), "ANTHROPIC_API_KEY": "k"}
    settings = ProviderSettings(name="claude", type="claude_code_cli", environ=environ)

    async def no_child(*given: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    provider = ClaudeCodeCli(settings)
    monkeypatch.setattr(
        "clawgauge.child_processes.child.asyncio.get_running_loop", _loop_without_children(no_child)
    )
    records = ask_provider(tmp_path, provider, n_prompts=2, clock=WaitingClock(), max_retries=1)
    assert {(record["availability_status"], record["failure_type"]) for record in records} == {
        ("error", "client_limit")
    }


def _loop_without_children(no_child: Callable[..., Any]) -> Callable[[], Any]:
    real = asyncio.get_running_loop

    class Loop:
        subprocess_exec = staticmethod(no_child)

        def __getattr__(self, name: str) -> Any:
            return getattr(real(), name)

    def running() -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        return Loop() if caller == "clawgauge.child_processes.child" else real()

    return running


@pytest.mark.parametrize(
    "fault", [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "x")]
)
def test_a_shortage_anywhere_in_an_attempt_is_ours(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of us runs short, the record says client_limit and not that the program is at fault."""

    async def short(*given: object, **named: object) -> None:
        raise fault

    monkeypatch.setattr("clawgauge.providers.openai.chat.ChatServer.attempt", short)
    (record,) = ask(tmp_path, "http://127.0.0.1:9/v1", clock=WaitingClock(), max_retries=0)
    assert (record["availability_status"], record["failure_type"]) == ("error", "client_limit")


def test_fitting_never_asks_for_less_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the limit, one call at a time is tried."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (8, 8))
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    assert fit_to_descriptors(100, 4) == 1


def test_dry_run_tells_the_concurrency_of_the_run(place: Path) -> None:
    """What a run would do includes that it would do less at once."""
    write_suite(place / "one.json", {"prompt": "p"})
    words = (
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "one.json",
        "--concurrency",
        "400",
        "--dry-run",
        "--json",
    )
    done = limited(place, 100, 100, *words)
    assert json.loads(done.stdout)["concurrency"] < 100


@pytest.mark.parametrize("limit", [9, 11, 13])
def test_too_few_descriptors_to_begin_is_one_sentence(limit: int, place: Path) -> None:
    """Nothing is asked and nothing left behind where not even the files of a run could be opened."""
    write_suite(place / "one.json", {"prompt": "p"})
    done = limited(place, limit, limit, "run", "-t", "fake:scripted-model", "-s", "one.json")
    assert (done.code, done.stdout) == (4, "")
    assert done.stderr.splitlines()[-1].startswith("clawgauge: this program may open too few files")
    assert not (place / "runs").exists()
