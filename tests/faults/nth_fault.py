"""The command in a process whose Nth call of a kind into the system fails."""

from __future__ import annotations

import errno
import itertools
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clean_environment
from support.command_forks import ForkServer

SHIM = Path(__file__).parents[1] / "support" / "nth_fault.c"


@dataclass(frozen=True)
class Fault:
    """The `n`th call of `kind` fails with `error`, a name of `errno`; with `lasting` so do all that follow."""

    kind: str
    error: str
    lasting: bool = False
    n: int = 1

    def __str__(self) -> str:
        return f"{self.kind}-{self.error}-{'lasting' if self.lasting else 'once'}"

    def words(self, report: Path, under: Path) -> str:
        mode = "on" if self.lasting else "once"
        return f"{self.kind} {getattr(errno, self.error)} {self.n} {mode} {report} {under}"


class FaultyCommand:
    """Calls of the command, each in a fork of an interpreter that has loaded the shim along with the program."""

    def __init__(self, folder: Path) -> None:
        shim = folder / "nth_fault.so"
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(SHIM), "-ldl", "-lpthread"]
        compiled = subprocess.run(words, capture_output=True, text=True)
        if compiled.returncode:
            pytest.skip(f"the shim does not compile here: {compiled.stderr[:300]}")
        self._forks = ForkServer(LD_PRELOAD=str(shim))
        self._folder = folder
        self._serial = itertools.count()

    @classmethod
    def start(cls, folder: Path) -> FaultyCommand:
        if sys.platform != "linux" or shutil.which("cc") is None:
            pytest.skip("needs Linux and a C compiler")
        return cls(folder)

    def run(
        self, cwd: Path, *words: str, fault: Fault | None = None, env: dict[str, str] | None = None
    ) -> tuple[Outcome, list[str]]:
        """How it ended, and the calls that were made to fail."""
        report = self._folder / f"struck{next(self._serial)}"
        environment = clean_environment(**(env or {}))
        if fault is not None:
            environment["NTH_FAULT"] = fault.words(report, cwd.resolve())
        done: subprocess.CompletedProcess[bytes] | None = self._forks.run(
            words, cwd, environment, timeout_s=60.0
        )
        assert done is not None
        struck = report.read_text().splitlines() if report.exists() else []
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), cwd), struck

    def close(self) -> None:
        self._forks.close()


def counts(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a summary, what does not depend on the moment."""
    kept = ("objective_pass_rate", "pass_rate_scheduled", "tool_use", "restraint", "tasks")
    return [
        {k: v for k, v in group.items() if k.startswith("n_") or k in kept}
        for group in summary["models"]
    ]
