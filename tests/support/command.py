"""The `clawgauge` command as a user runs it: a real process, a clean environment, its own folder."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawgauge.config import local_servers
from clawgauge.config.trusted_files import place_of, read_trusted, write_trusted
from support.command_forks import fork_server
from support.isolation import NO_SERVER
from support.waiting import PATIENCE_S

KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "CLAWGAUGE_CACHE_DIR",
    "XDG_CACHE_HOME",
    "SYSTEMROOT",
    "TMPDIR",
)


@dataclass(frozen=True)
class Outcome:
    """How one call of the command ended."""

    code: int
    stdout: str
    stderr: str
    cwd: Path

    @property
    def folder(self) -> Path:
        """The run folder whose path `run` printed."""
        return self.cwd / self.stdout.strip()

    def records(self) -> list[dict[str, Any]]:
        return read_records(self.folder)

    def summary(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "summary.json").read_bytes())
        return loaded


def clean_environment(**changes: str) -> dict[str, str]:
    """Nothing of the caller's but what a program needs to start; no server is found, retries wait next to nothing."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment["CLAWGAUGE_RETRY_BASE_S"] = "0.01"
    environment["OLLAMA_HOST"] = NO_SERVER
    environment[local_servers.VARIABLE] = local_servers.NOWHERE
    environment["XDG_STATE_HOME"] = state_home()
    return {**environment, **changes}


@functools.cache
def state_home() -> str:
    """Where the commands of this test process keep what they trust."""
    folder = tempfile.mkdtemp(prefix="clawgauge-state-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def trust_configuration(cwd: Path, state: str | None = None) -> None:
    """What `clawgauge trust` does with the clawgauge.toml of a folder, where there is one."""
    file = cwd / "clawgauge.toml"
    if file.is_file():
        environ = {"XDG_STATE_HOME": state or state_home()}
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        trusted = read_trusted(environ)
        trusted.add(place_of(file), sha256)
        write_trusted(environ, trusted)


def clawgauge(
    cwd: Path,
    *words: str,
    timeout_s: float = PATIENCE_S,
    env: dict[str, str] | None = None,
    trusting: bool = True,
) -> Outcome:
    """Run the command to its end, in a fork of a started interpreter where that makes no difference.

    The folder's clawgauge.toml is trusted first, unless the test says otherwise.
    """
    environment = clean_environment(**(env or {}))
    if trusting:
        trust_configuration(cwd, environment["XDG_STATE_HOME"])
    forks = fork_server()
    done = forks and forks.run(words, cwd, environment, timeout_s)
    if done is None:
        done = start_and_wait(words, cwd, environment, timeout_s)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), cwd)


def start_and_wait(
    words: Sequence[str], cwd: Path, env: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """The command from the very start of the interpreter to its end."""
    return subprocess.run(
        [sys.executable, "-m", "clawgauge", *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )


def read_records(folder: Path) -> list[dict[str, Any]]:
    """results.jsonl by a strict reader that knows nothing of the program's own types."""

    def refuse(word: str) -> None:
        raise ValueError(f"not JSON: {word}")

    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    return [json.loads(line, parse_constant=refuse) for line in lines]


def write_suite(path: Path, *prompts: dict[str, Any], **header: Any) -> Path:
    """A suite file; prompts get ids and names where they have none."""
    filled = [
        {"id": f"P{n}", "name": f"prompt_{n}", "validator": {"type": "noop"}, **p}
        for n, p in enumerate(prompts)
    ]
    path.write_text(json.dumps({"name": path.stem, **header, "prompts": filled}))
    return path


def chat_config(cwd: Path, **servers: str) -> None:
    """A clawgauge.toml that names chat servers by address."""
    tables = [
        f'[providers.{name}]\ntype = "openai_chat"\nbase_url = "{url}"\nlocal = true\n'
        for name, url in servers.items()
    ]
    (cwd / "clawgauge.toml").write_text("\n".join(tables))
    trust_configuration(cwd)
