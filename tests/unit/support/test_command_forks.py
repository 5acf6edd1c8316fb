"""The forked command is the command: same words, same end, nothing shared between calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.command import (
    chat_config,
    clean_environment,
    read_records,
    start_and_wait,
    trust_configuration,
    write_suite,
)
from support.command_forks import ForkServer, fork_server
from support.scripted_server import Hang, ScriptedServer
from support.waiting import PATIENCE_S, growing_deadlines

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="commands are forked on Linux alone"
)


@pytest.fixture
def forks() -> ForkServer:
    server = fork_server()
    assert server is not None
    return server


def forked(
    forks: ForkServer, words: tuple[str, ...], cwd: Path, **env: str
) -> subprocess.CompletedProcess[bytes]:
    done = forks.run(words, cwd, clean_environment(**env), PATIENCE_S)
    assert done is not None
    return done


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("run", "--help"),
        ("suites", "--json"),
        ("show", "nowhere"),
        ("no-such-verb",),
        (),
    ],
)
def test_it_says_what_a_started_interpreter_says(
    forks: ForkServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Exit code and both streams of a fork are those of `python -m clawgauge`."""
    started = start_and_wait(words, tmp_path, clean_environment(), PATIENCE_S)
    done = forked(forks, words, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


def test_calls_share_nothing(forks: ForkServer, tmp_path: Path) -> None:
    """Folder and environment are the call's own: the next one starts from what it was given alone."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_suite(tmp_path / name / "s.json", {"prompt": name})
    with ScriptedServer() as server:
        for name, key in (("one", {"MY_KEY": "first-key-0123456789"}), ("two", {})):
            cwd = tmp_path / name
            chat_config(cwd, fake=server.v1_url)
            with (cwd / "clawgauge.toml").open("a") as file:
                file.write('api_key_env = "MY_KEY"\n' if key else "")
            trust_configuration(cwd)
            done = forked(
                forks,
                ("run", "-t", "fake:scripted-model", "-s", "s.json", "--run-id", "r"),
                cwd,
                **key,
            )
            assert done.returncode == 0 and done.stdout == b"runs/r\n", done.stderr
            assert len(read_records(cwd / "runs" / "r")) == 1
    assert [call.headers.get("authorization") for call in server.calls] == [
        "Bearer first-key-0123456789",
        None,
    ]
    assert [call.prompt for call in server.calls] == ["one", "two"]


def test_a_steered_interpreter_is_not_forked(forks: ForkServer, tmp_path: Path) -> None:
    """What is read while an interpreter starts cannot be shown by a fork of one that has."""
    assert (
        forks.run(
            ("--version",), tmp_path, clean_environment(PYTHONIOENCODING="latin-1"), PATIENCE_S
        )
        is None
    )
    assert (
        forks.run(("--version",), tmp_path, clean_environment(TZ="Not/What/It/Was"), PATIENCE_S)
        is None
    )


@pytest.mark.slow
def test_a_call_that_takes_too_long(tmp_path: Path) -> None:
    """It is ended and reported as such, and the server, whose channel is out of step now, takes no other."""
    write_suite(tmp_path / "s.json", {"prompt": "never"})
    with ScriptedServer() as server:
        chat_config(tmp_path, fake=server.v1_url)
        for number, timeout_s in enumerate(growing_deadlines(1.0)):
            server.script_anew(Hang())
            words = ("run", "-t", "fake:scripted-model", "-s", "s.json", "--run-id", f"r{number}")
            forks = ForkServer()
            with pytest.raises(subprocess.TimeoutExpired):
                forks.run(words, tmp_path, clean_environment(), timeout_s)
            assert forks.run(("--version",), tmp_path, clean_environment(), PATIENCE_S) is None
            if server.calls:
                break  # it was asking when its time was over
        resumed = start_and_wait(
            ("run", "--resume", f"r{number}"), tmp_path, clean_environment(), PATIENCE_S
        )
        assert resumed.returncode == 0, resumed.stderr  # no process holds the folder any more
