"""Puts an executable `claude` into a directory, for tests that put that directory on PATH.

    fake = install_fake_claude(tmp_path / "bin", recording="err_s401_retries0")
    ...
    assert "--tools" in fake.calls[0].argv

It replays what the real program was recorded printing, or answers, hangs and fails as told, and writes down
how it was called. What the real program does with a real server is tested elsewhere, against the real program.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

PROGRAM = Path(__file__).with_name("fake_claude_program.py")
RECORDINGS = Path(__file__).parents[1] / "data" / "wire" / "claude_cli"
VERSION = "2.1.325 (Claude Code)"
BAD_TEXT = "before INVALID after"


@dataclass(frozen=True, kw_only=True)
class ClaudeBehaviour:
    """What the fake does. Without any of these it replays its recording and exits as recorded.

    What it prints: `answer` (a text, in proper output lines; `chunks` are its deltas), `echo` (stdin as the answer),
    `invalid_utf8` (an answer with a byte that is no UTF-8), `result` (keys to change in the result line, as
    `{"is_error": True}`), `stdout` (exactly these bytes), `stderr`, `canary` (a secret
    it blurts out in its answer and on stderr). `stop_reason="max_tokens"` repeats the message four times and fails, as
    the real program does.
    How it uses tools: `tool_rounds` (for each turn before `answer`: (text, [(name, arguments as JSON), …])),
    `names_calls` (it tells the server its id of each call), and `mcp_fails` (it could not reach that server).
    What it does for one prompt alone: `by_prompt` (fields to change, by the prompt that comes on stdin).
    When it speaks: `first_delay_s`, `gap_s`, `apart` (each line waits until the one before has been read), and
    `waits_for` (a file that must be there before it says anything).
    How it ends: `exit_code`, `hang`, `grandchild` (a child of its own keeps the pipes open), `ignore_sigterm`.
    What it is: `version`, `missing_flags` (an older CLI: not in `--help`, refused when used).
    What it notes: the names of all environment variables, and the values of those in `env_values`.
    """

    answer: str | None = None
    echo: bool = False
    chunks: Sequence[str] | None = None
    invalid_utf8: bool = False
    stop_reason: str = "end_turn"
    result: dict[str, Any] = field(default_factory=dict)
    stdout: bytes | None = None
    stderr: str = ""
    canary: str | None = None
    tool_rounds: Sequence[tuple[str, Sequence[tuple[str, str]]]] | None = None
    names_calls: bool = True
    mcp_fails: bool = False
    by_prompt: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    exit_code: int | None = None
    first_delay_s: float = 0.0
    gap_s: float = 0.0
    apart: bool = False
    waits_for: Path | None = None
    hang: Literal["before_output", "mid_stream", "after_result"] | None = None
    grandchild: bool = False
    ignore_sigterm: bool = False
    read_stdin: bool = True
    version: str = VERSION
    missing_flags: Sequence[str] = ()
    env_values: Sequence[str] = ()


@dataclass(frozen=True)
class ClaudeCall:
    """One start of the fake: `kind` is `call`, or `question` for `--version` and `--help`."""

    kind: str
    argv: list[str]
    stdin: str
    env_names: list[str]
    env: dict[str, str]
    cwd: str
    cwd_entries: list[str]
    pid: int
    grandchild_pid: int | None = None


@dataclass(frozen=True)
class FakeClaude:
    """The installed fake: the directory for PATH, the program itself, and what it noted."""

    bin_dir: Path
    log_path: Path

    @property
    def path(self) -> Path:
        return self.bin_dir / "claude"

    @property
    def starts(self) -> list[ClaudeCall]:
        """Every start, questions about version and help included."""
        if not self.log_path.exists():
            return []
        *whole, _being_written = self.log_path.read_bytes().split(b"\n")
        return [ClaudeCall(**json.loads(line)) for line in whole]

    @property
    def calls(self) -> list[ClaudeCall]:
        """The starts that came with a prompt."""
        return [start for start in self.starts if start.kind == "call"]


def install_fake_claude(
    bin_dir: Path, recording: str = "ok_stream_min", **behaviour: Any
) -> FakeClaude:
    """Write `bin_dir/claude`; keywords are the fields of `ClaudeBehaviour`."""
    wanted = ClaudeBehaviour(**behaviour)
    bin_dir.mkdir(parents=True, exist_ok=True)
    notes = bin_dir / ".fake_claude"
    notes.mkdir(exist_ok=True)
    fake = FakeClaude(bin_dir, notes / "calls.jsonl")
    settings = _settings(wanted) | _read_recording(recording) | {"log_path": str(fake.log_path)}
    behaviour_path = notes / "behaviour.json"
    behaviour_path.write_text(json.dumps(settings), encoding="utf-8")
    # A shell line and not a shebang: an interpreter in a deep temporary directory is too long for one.
    command = shlex.join([sys.executable, "-I", "-S", str(PROGRAM), str(behaviour_path)])
    fake.path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    fake.path.chmod(0o755)
    return fake


def recording_names() -> list[str]:
    """All recordings that can be replayed."""
    return sorted(path.stem for path in RECORDINGS.glob("*.meta"))


def _settings(wanted: ClaudeBehaviour) -> dict[str, Any]:
    settings = asdict(wanted) | {"waits_for": str(wanted.waits_for or "")}
    if wanted.stdout is not None:
        settings["stdout"] = wanted.stdout.decode("latin-1")
    if wanted.invalid_utf8:
        settings["answer"] = BAD_TEXT
    if wanted.canary is not None:
        settings["answer"] = f"{wanted.answer or 'the key is'} {wanted.canary}"
        settings["stderr"] = f"{wanted.stderr}warning: using key {wanted.canary}\n"
    if wanted.stop_reason == "max_tokens":
        settings["result"] = {"is_error": True, "terminal_reason": "api_error", **wanted.result}
        settings["exit_code"] = 1 if wanted.exit_code is None else wanted.exit_code
    return settings


def _read_recording(name: str) -> dict[str, Any]:
    meta = (RECORDINGS / f"{name}.meta").read_text(encoding="utf-8")
    exit_code = re.search(r"^### exit=(\d+)", meta, re.MULTILINE)
    return {
        "recorded_stdout": _read_text(f"{name}.stdout"),
        "recorded_stderr": _read_text(f"{name}.stderr"),
        # The recordings of a missing login note no exit code; the program ends with 1 there.
        "recorded_exit": int(exit_code[1]) if exit_code else 1,
    }


def _read_text(file_name: str) -> str:
    path = RECORDINGS / file_name
    return path.read_text(encoding="utf-8") if path.exists() else ""
