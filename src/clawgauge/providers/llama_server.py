"""Starts, watches and stops the embedded model's server process.

Owns: the child's life. Refuses: speaking to the model; `embedded` does that over HTTP like any other client.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.process_groups import adopt, release, signal_group
from clawgauge.python_child import isolated_module, needed_environment

START_TIMEOUT_S = 120.0
CONTEXT_TOKENS = 4096
_STDERR_KEPT_BYTES = 16 * 1024
_INSTALL = "pip install 'clawgauge[embedded]'"


class LlamaServer:
    """One child serving one model file. `start` returns when it answers; `stop` returns when it is gone."""

    def __init__(
        self, path: Path, *, alias: str, slots: int, environ: Mapping[str, str], chat_template: Path | None = None
    ):
        self._path = path.absolute()
        self._alias = alias
        self._slots = max(1, slots)
        self._environ = environ
        self._chat_template = chat_template and chat_template.absolute()
        self._process: asyncio.subprocess.Process | None = None
        self._stderr_tail = bytearray()
        self._stderr_reader: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives, for the memory sampler."""
        alive = self._process is not None and self._process.returncode is None
        return self._process.pid if alive and self._process else None

    async def start(self) -> None:
        """Spawn the child and wait for its address. Raises `CallFailure` with the child's own last words."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise CallFailure(
                "skipped_unavailable", "runtime_missing", f"the embedded model needs xllamacpp: {_INSTALL}"
            )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=needed_environment(self._environ),
                # llama.cpp looks for backends to load in its current directory.
                cwd=self._path.anchor,
                start_new_session=True,
            )
        except OSError as fault:
            raise client_limit(fault) or fault from fault
        adopt(self._process.pid)
        self._stderr_reader = asyncio.create_task(self._keep_stderr(self._process))
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self.address = await self._await_address(self._process)
        except TimeoutError:
            await self.stop()
            raise CallFailure("error", "timeout", f"the model did not load within {START_TIMEOUT_S:g} s") from None
        except BaseException:
            await self.stop()
            raise

    def _command(self) -> list[str]:
        options = {
            "--model": os.fspath(self._path),
            "--alias": self._alias,
            "--context-tokens": str(CONTEXT_TOKENS),
            "--slots": str(self._slots),
            "--threads": str(_threads()),
            "--chat-template": os.fspath(self._chat_template) if self._chat_template else "",
        }
        flags = [f"{name}={value}" for name, value in options.items()]
        return isolated_module("clawgauge.providers.llama_child", *flags)

    async def _await_address(self, process: asyncio.subprocess.Process) -> str:
        if process.stdout is None:
            raise RuntimeError("the child was spawned without a pipe")
        while line := await process.stdout.readline():
            # llama.cpp may print lines of its own before ours.
            with contextlib.suppress(ValueError):
                report = json.loads(line)
                if isinstance(report, dict) and "address" in report:
                    return str(report["address"])
                if isinstance(report, dict) and "error" in report:
                    raise CallFailure("skipped_unavailable", "model_not_found", self._cannot_load(str(report["error"])))
        await process.wait()
        raise CallFailure("skipped_unavailable", "model_not_found", self._cannot_load(self._last_words()))

    def _cannot_load(self, why: str) -> str:
        return f"llama.cpp cannot load {self._path.name}: {why}"

    def _last_words(self) -> str:
        lines = self._stderr_tail.decode("utf-8", "replace").strip().splitlines()
        code = self._process.returncode if self._process else None
        return lines[-1].strip() if lines else f"the server process ended with code {code}"

    async def _keep_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Drain the log, or the child would block on a full pipe; keep its end for the error message."""
        while process.stderr is not None and (block := await process.stderr.read(8192)):
            self._stderr_tail += block
            del self._stderr_tail[:-_STDERR_KEPT_BYTES]

    async def stop(self) -> None:
        """End the child's whole process group. SIGKILL: its own shutdown can hang with a request in flight."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
        await process.wait()
        release(process.pid)
        if self._stderr_reader is not None:
            await asyncio.wait([self._stderr_reader], timeout=1.0)
            self._stderr_reader.cancel()


def _threads() -> int:
    """All cores but one. llama.cpp's threads wait by spinning: with one on every core, whatever else runs (this program
    and its clock too) slows the model down tenfold.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, cores - 1)
