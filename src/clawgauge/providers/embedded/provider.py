"""The embedded model: any GGUF file, served by a llama.cpp child process that this provider starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawgauge.child_processes import adopt, isolated_module, needed_environment, release, signal_group
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.providers.child_process import ChildCommand, capture
from clawgauge.providers.embedded.model import (
    DEFAULT_MODEL,
    GET_COMMAND,
    fetching_environment,
    is_fetched,
    model_path,
    resolve,
)
from clawgauge.providers.http.lenient_json import decode_lenient
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.records import ModelInfo, ProviderProbe
from clawgauge.small_file import UnfitFile, read_small_file

START_TIMEOUT_S = 120.0
CONTEXT_TOKENS = 4096
_STDERR_KEPT_BYTES = 16 * 1024
_INSTALL = "pip install 'clawgauge[embedded]'"
# The fetching process has a limit of its own; this one is for when it does not keep it.
FETCH_TIMEOUT_S = 660.0
MAX_TEMPLATE_BYTES = 1 << 20
_TOOLS_DROPPED = (
    "tools_dropped: the model's chat template has no place for tools, so the model has not seen them; "
    "chat_template_file in the provider's table gives it another template"
)


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
        return isolated_module("clawgauge.providers.embedded.child", *flags)

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


class _LlamaChat(ChatServer):
    """llama.cpp's own server, which can say what the model's chat template has a place for."""

    async def shows_tools(self, address: str) -> bool:
        """Whether offered tools reach the model; a template that has no place for them drops them in silence."""
        try:
            reply = await self._client.get_json(address + "/props")
        except CallFailure:  # it may yet answer what matters
            return True
        able = (decode_lenient(reply.data) or {}).get("chat_template_caps")
        return not isinstance(able, dict) or able.get("supports_tools") is not False


class Embedded(Provider):
    """Serves one model at a time. Nothing runs before `before_target`; nothing is left after the context ends.

    The server's prompt cache is switched off per call: a repeated prompt would otherwise skip its own prefill and look
    faster than it is.
    """

    local = True
    takes_thinking = False
    default_max_tokens = 256

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._server: LlamaServer | None = None
        self._chat: _LlamaChat | None = None
        self._shows_tools = True
        self._template = _find_template(settings)

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Start the server for this model. It answers once the model is loaded and has run once, so no call is cold."""
        await self._stop()
        if model == DEFAULT_MODEL and not is_fetched(self.settings.environ):
            await self._fetch()
        path = resolve(model, self.settings.environ, self.settings.tell)
        server = LlamaServer(
            path,
            alias=model,
            slots=self.settings.concurrency,
            environ=self.settings.environ,
            chat_template=self._template,
        )
        await server.start()
        self._server = server
        self._chat = await self._client(server.address).__aenter__()
        self._shows_tools = await self._chat.shows_tools(server.address)
        return True

    async def _fetch(self) -> None:
        """Get the model in a process of its own: that can be ended in the middle of 93 MB, a thread cannot."""
        self.settings.tell(f"getting the embedded model once (93 MB) into {model_path(self.settings.environ).parent}")
        words = isolated_module("clawgauge", *GET_COMMAND.split()[1:])
        try:
            done = await capture(
                ChildCommand(argv=tuple(words), env=fetching_environment(self.settings.environ)),
                timeout_s=FETCH_TIMEOUT_S,
            )
        except (OSError, TimeoutError) as fault:
            if (own := client_limit(fault)) is not None:
                raise own from fault
            why = f"the embedded model could not be fetched ({fault or 'it took too long'}): try {GET_COMMAND}"
            raise CallFailure("skipped_unavailable", "model_not_found", why) from fault
        if done.exit_code != 0:
            _, _, why = done.stderr.strip().rpartition("clawgauge: ")
            raise CallFailure("skipped_unavailable", "model_not_found", why or f"try {GET_COMMAND}")

    def _client(self, address: str) -> _LlamaChat:
        options = {"extra_body": {"cache_prompt": False, **self.settings.extra.get("extra_body", {})}}
        settings = ProviderSettings(
            name=self.name, type=self.settings.type, extra=options, concurrency=self.settings.concurrency
        )
        return _LlamaChat(settings, base_url=address + "/v1", local=True)

    async def attempt(self, call: Call, sink: Sink) -> None:
        if self._chat is None or self._server is None:
            raise CallFailure("skipped_unavailable", "connection_refused", "the embedded server is not running")
        if call.tools and not self._shows_tools:
            sink.note(warning=_TOOLS_DROPPED)
        await self._chat.attempt(call, sink)

    def pids(self) -> list[int]:
        pid = self._server.pid if self._server else None
        return [pid] if pid is not None else []

    async def probe(self) -> ProviderProbe:
        environ = self.settings.environ
        if importlib.util.find_spec("xllamacpp") is None:
            return self._probed(False, "xllamacpp is not installed", "pip install 'clawgauge[embedded]'")
        if not is_fetched(environ):
            return self._probed(True, f"{DEFAULT_MODEL} is fetched on first use (93 MB)", GET_COMMAND)
        return self._probed(True, f"{DEFAULT_MODEL} is ready", None)

    def _probed(self, reachable: bool, detail: str, hint: str | None) -> ProviderProbe:
        models = [ModelInfo(name=DEFAULT_MODEL, quantization="Q4_1", family="llama", parameters="135M")]
        return ProviderProbe(
            provider=self.name,
            reachable=reachable,
            address=str(model_path(self.settings.environ).parent),
            detail=detail,
            hint=hint,
            models=models if reachable else [],
        )

    async def models(self) -> list[ModelInfo]:
        return (await self.probe()).models

    def describe(self) -> dict[str, Any]:
        body = {"cache_prompt": False, **self.settings.extra.get("extra_body", {})}
        known = {"type": self.settings.type, "server": "llama.cpp (xllamacpp)", "extra_body": body}
        if template := self.settings.extra.get("chat_template_file"):
            known["chat_template_file"] = template
        return known

    async def _stop(self) -> None:
        chat, self._chat = self._chat, None
        server, self._server = self._server, None
        if chat is not None:
            await chat.__aexit__(None, None, None)
        if server is not None:
            await server.stop()


def create(settings: ProviderSettings) -> Provider:
    """The default when nothing else is there."""
    return Embedded(settings)


def _find_template(settings: ProviderSettings) -> Path | None:
    """The chat template to use instead of the model's own."""
    chosen = settings.extra.get("chat_template_file")
    if chosen is None:
        return None
    try:
        path = Path(chosen).expanduser()
        read_small_file(path, MAX_TEMPLATE_BYTES, "over 1 MiB; that is no chat template")
    except (UnfitFile, RuntimeError) as unfit:
        raise ConfigError(f"chat_template_file of [providers.{settings.name}], {chosen!r}: {unfit}") from None
    return path
