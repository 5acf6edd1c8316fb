"""The fake `claude` prints what the real one was recorded printing, and misbehaves as told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.fake_claude import RECORDINGS, FakeClaude, install_fake_claude, recording_names
from support.waiting import PATIENCE_S

STREAM = [
    "-p",
    "--model",
    "m",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
]


def run(
    fake: FakeClaude, *argv: str, stdin: bytes = b"hi", **env: str
) -> subprocess.CompletedProcess[bytes]:
    command = [str(fake.path), *(argv or STREAM)]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        env=env,
        cwd=fake.bin_dir.parent,
    )


def start(fake: FakeClaude) -> subprocess.Popen[bytes]:
    command = [str(fake.path), *STREAM]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> bytes:
    """End the fake with its whole group and return what was left in its pipe."""
    os.killpg(process.pid, signal.SIGKILL)
    left, _ = process.communicate(timeout=PATIENCE_S)
    return left


def lines(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(
    "name", ["ok_stream_min", "err_s401_retries0", "real_min_2", "bad_flag", "notloggedin_text"]
)
def test_a_recording_is_replayed_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Both outputs and the exit code are those of the real program."""
    done = run(install_fake_claude(tmp_path / "bin", name))
    for suffix, output in (("stdout", done.stdout), ("stderr", done.stderr)):
        path = RECORDINGS / f"{name}.{suffix}"
        assert output == (path.read_bytes() if path.exists() else b"")
    assert done.returncode == (0 if name in {"ok_stream_min", "real_min_2"} else 1)


def test_every_recording_can_be_installed(tmp_path: Path) -> None:
    """No recording is unreadable, and none of them names a path of the machine it was made on."""
    assert len(recording_names()) > 25
    for name in recording_names():
        install_fake_claude(tmp_path / name, name)
    for path in RECORDINGS.iterdir():
        assert not [
            mark
            for mark in (b"/home/", b"/root/", b"/Users/", b"/tmp/")
            if mark in path.read_bytes()
        ]


def test_version_and_help_are_answered(tmp_path: Path) -> None:
    """The fake says the recorded version, and its help lists the flags that it takes."""
    fake = install_fake_claude(tmp_path / "bin")
    assert run(fake, "--version").stdout == b"2.1.325 (Claude Code)\n"
    assert b"--strict-mcp-config\n" in run(fake, "--help").stdout


def test_an_older_cli_lacks_flags(tmp_path: Path) -> None:
    """A missing flag is not in the help, and using it fails in the real program's words."""
    fake = install_fake_claude(
        tmp_path / "bin", version="1.0.3 (Claude Code)", missing_flags=["--bare"]
    )
    assert b"--bare" not in run(fake, "--help").stdout
    refused = run(fake, *STREAM, "--bare")
    assert (refused.returncode, refused.stderr) == (1, b"error: unknown option '--bare'\n")


def test_no_prompt_is_an_error(tmp_path: Path) -> None:
    """Empty stdin and no argument end as recorded from the real program."""
    done = run(install_fake_claude(tmp_path / "bin"), stdin=b"")
    assert done.stderr == (RECORDINGS / "no_prompt.stderr").read_bytes()
    assert done.returncode == 1


def test_echo_has_the_recorded_line_types(tmp_path: Path) -> None:
    """An echoed answer comes in the same kinds of lines as a recorded one, around the text from stdin."""
    done = run(install_fake_claude(tmp_path / "bin", echo=True), stdin=b"--help")
    recorded = lines((RECORDINGS / "ok_stream_min.stdout").read_bytes())

    def kinds(rows: list[dict[str, Any]]) -> list[str]:
        named = [
            row["type"] + ":" + row.get("event", {}).get("type", "")
            for row in rows
            if row["type"] != "system"
        ]
        return [kind for index, kind in enumerate(named) if index == 0 or named[index - 1] != kind]

    assert kinds(lines(done.stdout)) == kinds(recorded)
    assert lines(done.stdout)[-1]["result"] == "--help"
    assert set(lines(done.stdout)[-1]) <= set(recorded[-1])


def test_max_tokens_goes_round_four_times(tmp_path: Path) -> None:
    """Like the real program, the fake meets the token limit four times and then fails."""
    done = run(install_fake_claude(tmp_path / "bin", answer="cut", stop_reason="max_tokens"))
    assert done.stdout.count(b'"stop_reason": "max_tokens", "stop_sequence"') == 4
    assert done.returncode == 1
