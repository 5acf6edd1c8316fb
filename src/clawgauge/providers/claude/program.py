"""The Claude Code program a user has installed: where it is, which version, and which flags it knows."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clawgauge.child_processes.child import Captured, ChildCommand, capture
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure

PROGRAM_NAME = "claude"
QUESTION_TIMEOUT_S = 10.0
INSTALL_HINT = "install it with `npm install -g @anthropic-ai/claude-code`, or set `command` to its path"

# What a shell and `env` say of a program they cannot start: a launcher whose interpreter is missing, for one.
_CANNOT_RUN = (126, 127)
_OPTION_ROW = re.compile(r"^ {1,6}(?:-\w, )?(--[\w-]+)(?:, (--[\w-]+))?", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


@dataclass(frozen=True, slots=True)
class ClaudeProgram:
    """What is installed. `flags` is None where its help could not be read: it is then taken for a current one."""

    path: Path
    version: str | None = None
    flags: frozenset[str] | None = None

    def knows(self, flag: str) -> bool:
        return self.flags is None or flag in self.flags


def find_program(environ: Mapping[str, str], command: str | None = None) -> Path:
    """The program on the user's PATH, or at `command`. Raises `CallFailure` when it is missing or cannot be run."""
    search_path = environ.get("PATH", os.defpath)
    if command is not None and os.sep in command:
        candidates = [Path(command).expanduser()]
    else:
        name = command or PROGRAM_NAME
        if found := shutil.which(name, path=search_path):
            return Path(found).absolute()
        candidates = [Path(folder) / name for folder in search_path.split(os.pathsep) if folder]
    present = [candidate for candidate in candidates if candidate.is_file()]
    if not present:
        where = f"at {candidates[0]}" if command is not None and os.sep in command else "on PATH"
        raise CallFailure("skipped_unavailable", "cli_missing", f"Claude Code is not {where}: {INSTALL_HINT}")
    if not os.access(present[0], os.X_OK):
        raise _not_executable(present[0], "it has no execute permission")
    return present[0].absolute()


async def ask_program(path: Path, env: Mapping[str, str], cwd: Path) -> ClaudeProgram:
    """Ask for version and flags. A program that does not answer is taken as it is; one that cannot start is refused."""
    answer = await _ask(path, "--version", env, cwd)
    if answer is None:
        return ClaudeProgram(path=path)
    if answer.exit_code in _CANNOT_RUN:
        raise _not_executable(path, answer.stderr.strip() or f"exit code {answer.exit_code}")
    described = await _ask(path, "--help", env, cwd)
    rows = _OPTION_ROW.findall(described.stdout if described else "")
    flags = frozenset(flag for row in rows for flag in row if flag)
    version = _VERSION.search(answer.stdout)
    return ClaudeProgram(path, version[0] if version else None, flags if "--print" in flags else None)


async def _ask(path: Path, question: str, env: Mapping[str, str], cwd: Path) -> Captured | None:
    command = ChildCommand(argv=(str(path), question), env=env, cwd=cwd)
    try:
        return await capture(command, timeout_s=QUESTION_TIMEOUT_S)
    except TimeoutError:
        return None
    except OSError as fault:
        raise client_limit(fault) or _not_executable(path, fault.strerror or str(fault)) from fault


def _not_executable(path: Path, why: str) -> CallFailure:
    message = f"{path} cannot be run ({why}): repair it, or set `command` to another Claude Code"
    return CallFailure("skipped_unavailable", "cli_not_executable", message)
