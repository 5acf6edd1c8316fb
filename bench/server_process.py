"""A calibrated server in a process of its own: ours, or another one that keeps the same names and log (`truthd`).

Owns: starting it, asking it for its truth, ending it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.truth import TruthRow, read_rows

READY_S = 10.0
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class CalibratedServer:
    """A server that is up. `tags_requests` tells whether its log holds the marks that prompts carry."""

    name: str
    port: int
    tags_requests: bool

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def reset(self) -> None:
        self._get("/truth/reset")

    def rows(self) -> list[TruthRow]:
        return read_rows(self._get("/truth.csv"))

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads(self._get("/truth"))
        return figures

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as reply:
            text: str = reply.read().decode()
        return text


@contextlib.contextmanager
def serving(truthd: Path | None = None) -> Iterator[CalibratedServer]:
    """Our server, or the one at `truthd`, from ready to gone."""
    port = _free_port()
    if truthd is None:
        argv = [sys.executable, "-m", "bench.calibrated_server", "--port", str(port)]
    else:
        argv = [str(truthd.resolve()), "-p", str(port)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_ready(process, port)
        yield CalibratedServer(
            "bench.calibrated_server" if truthd is None else truthd.name, port, truthd is None
        )
    finally:
        process.terminate()
        process.wait(timeout=READY_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _await_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(
        f"the calibrated server did not come up: {process.args!r} (exit code {process.poll()})"
    )
