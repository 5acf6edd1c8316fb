"""What the Claude Code tests share: a sink that keeps everything, an environment, and whether a process is gone."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from clawgauge.errors import CallFailure
from support.waiting import PATIENCE_S

STREAM_RECORDINGS = Path(__file__).parents[2] / "data" / "wire" / "claude_cli_stream"


@dataclass
class SeenCall:
    """A `Sink` that keeps what it is told, in the words it was told."""

    started_ns: int | None = None
    ended_ns: int | None = None
    connected_with: list[int | None] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    thoughts: list[tuple[int, str]] = field(default_factory=list)
    tools: list[tuple[int | str, str | None, str | None]] = field(default_factory=list)
    turns: int = 0
    answers: dict[int | str, str] = field(default_factory=dict)
    tokens: dict[str, int | None] = field(default_factory=dict)
    finish_reason: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def answer(self) -> str:
        return "".join(piece for _, piece in self.texts)

    @property
    def thinking(self) -> str:
        return "".join(piece for _, piece in self.thoughts)

    def start(self, at_ns: int) -> None:
        assert self.started_ns is None
        self.started_ns = at_ns

    def connected(self, took_ns: int | None) -> None:
        self.connected_with.append(took_ns)

    def text(self, at_ns: int, piece: str) -> None:
        assert piece
        self.texts.append((at_ns, piece))

    def reasoning(self, at_ns: int, piece: str) -> None:
        assert piece
        self.thoughts.append((at_ns, piece))

    def tool_delta(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        self.tools.append((index, name, arguments))

    def turn(self) -> None:
        self.turns += 1

    def tool_answer(self, index: int | str, answer: str) -> None:
        self.answers[index] = answer

    def usage(self, **tokens: int | None) -> None:
        self.tokens = tokens

    def finish(self, reason: str | None) -> None:
        self.finish_reason = reason

    def note(self, **facts: Any) -> None:
        self.notes |= facts

    def end(self, at_ns: int) -> None:
        assert self.ended_ns is None, "the clock is stopped once"
        self.ended_ns = at_ns


def environment(bin_dir: Path, **more: str) -> dict[str, str]:
    """A user's environment with `bin_dir` first on PATH and a home of its own."""
    return {
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "HOME": str(bin_dir.parent),
        "ANTHROPIC_API_KEY": "key-of-a-test",
        **more,
    }


def kind_of(failure: CallFailure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.status, failure.failure_type)


def is_gone(pid: int, within_s: float = PATIENCE_S) -> bool:
    """Whether the process has ended, or ends soon; one that nobody has reaped yet has ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def write_program(path: Path, shell_text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{shell_text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
