"""The OpenClaw that is installed here, run on an isolated copy of a configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes.child import Captured, ChildCommand, capture
from clawgauge.errors import CallFailure
from clawgauge.small_file import UnfitFile, read_small_file

TESTED_VERSIONS = ("2026.9.6",)
STEP_TIMEOUT_S = 240.0
_CHECKED_TABLES = ("agents", "models", "tools", "the file")
_MAX_PACKAGE_BYTES = 1 << 20
_MAX_REASON_CHARS = 300
_PROMPT = "Reply with READY and nothing else."
# What OpenClaw says where it has no key with which to call a server.
_NO_KEY = re.compile(
    r"No API key found for provider [\\\"]*[^\\\".\s]+|No route-compatible authentication[^.\n]*"
)
_ENDED_EARLY = "OpenClaw ended without asking the model"


class Untold(Exception):
    """Something could not be found out; the message says why."""


class RefusedConfiguration(Untold):
    """OpenClaw does not take the configuration."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the whole must be over."""

    at_s: float

    @staticmethod
    def in_s(seconds: float) -> Deadline:
        return Deadline(time.monotonic() + seconds)

    def left_s(self) -> float:
        return max(0.0, self.at_s - time.monotonic())


@dataclass(frozen=True, slots=True)
class OpenClaw:
    """The program, and where it is run."""

    path: Path
    version: str | None
    environ: Mapping[str, str]
    workspace: Path
    config: Path
    deadline: Deadline

    def command(self, *arguments: str) -> ChildCommand:
        return ChildCommand((str(self.path), *arguments), self.environ, cwd=self.workspace)

    async def run(self, *arguments: str, timeout_s: float = STEP_TIMEOUT_S) -> Captured:
        """Run it to its end. Raises `Untold` where it cannot be run or takes too long."""
        timeout_s = min(timeout_s, self.deadline.left_s())
        if not timeout_s:
            raise Untold("the time of --verify-timeout was over before it was asked")
        try:
            return await capture(self.command(*arguments), timeout_s=timeout_s)
        except TimeoutError:
            raise Untold(f"OpenClaw took over {timeout_s:.0f} s") from None
        except (CallFailure, OSError) as fault:
            raise Untold(f"OpenClaw cannot be run: {fault}") from None

    async def validate(self, config: Path, variables: Mapping[str, str]) -> None:
        """Have a configuration checked that names these variables.

        Raises `RefusedConfiguration` where it is refused. What it says of other tables than those
        of models and agents is not told: the plugins that they are for may not be in this state
        folder.
        """
        environ = {**self.environ, **variables, "OPENCLAW_CONFIG_PATH": str(config)}
        done = await OpenClaw(
            self.path, self.version, environ, self.workspace, config, self.deadline
        ).run("config", "validate", "--json")
        verdict = _last_object(done.stdout)
        if verdict.get("valid") is True:
            return
        issues = verdict.get("issues")
        if not isinstance(issues, list):
            raise Untold(f"OpenClaw did not check the configuration: {word_output(done)}")
        for issue in issues:
            place = str(issue.get("path") or "the file") if isinstance(issue, dict) else ""
            if place.partition(".")[0] in _CHECKED_TABLES:
                message = _one_line(str(issue.get("message")))
                raise RefusedConfiguration(f"OpenClaw does not take {place}: {message}")

    async def ask(self, ref: str, level: str | None) -> Captured:
        """One turn of the agent with this model."""
        arguments = ["agent", "exec", _PROMPT, "--config", str(self.config)]
        arguments += ["--cwd", str(self.workspace), "--model", ref, "--json"]
        if level is not None:
            arguments += ["--thinking", level]
        return await self.run(*arguments)


def find_program(environ: Mapping[str, str]) -> Path | None:
    """The `openclaw` on PATH."""
    found = shutil.which("openclaw", path=environ.get("PATH", ""))
    return Path(found).absolute() if found else None


def read_version(program: Path) -> str | None:
    """OpenClaw's version, by the package that its program is in."""
    with suppress(UnfitFile, msgspec.DecodeError, OSError):
        path = program.resolve().parent / "package.json"
        package = msgspec.json.decode(read_small_file(path, _MAX_PACKAGE_BYTES, "too large"))
        if isinstance(package, dict) and isinstance(package.get("version"), str):
            version: str = package["version"]
            return version
    return None


def write_private(path: Path, value: Any) -> None:
    """A JSON file that its owner alone can read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(value, file)


def find_missing_key(done: Captured) -> str | None:
    """What OpenClaw says where it made no call for want of a key."""
    match = _NO_KEY.search(done.stdout + "\n" + done.stderr)
    if match is None:
        return None
    return _one_line(match[0].replace("\\", "").replace('"', ""))


def word_output(done: Captured) -> str:
    """Why a run came to nothing, in OpenClaw's own words."""
    verdict = _last_object(done.stdout)
    for name in ("error", "message", "reason"):
        said = verdict.get(name)
        if isinstance(said, dict):
            said = said.get("message")
        if isinstance(said, str) and said:
            return _one_line(said)
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    if not lines:
        return f"{_ENDED_EARLY} (exit code {done.exit_code})"
    return _one_line(lines[-1])


def _last_object(text: str) -> dict[str, Any]:
    """The JSON object that a program printed, whatever stands before it."""
    start = text.find("{")
    while start >= 0:
        with suppress(ValueError, RecursionError):
            value = json.loads(text[start:])
            return value if isinstance(value, dict) else {}
        start = text.find("\n{", start + 1)
        start = start + 1 if start >= 0 else -1
    return {}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_REASON_CHARS]
