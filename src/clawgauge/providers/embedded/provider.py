"""The embedded model: any GGUF file, served by a llama.cpp child process that this provider starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawgauge.child_processes import isolated_module, needed_environment
from clawgauge.child_processes.child import Child, ChildCommand, capture, running
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
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
        self,
        path: Path,
        *,
        alias: str,
        slots: int,
        environ: Mapping[str, str],
        context: int = CONTEXT_TOKENS,
        chat_template: Path | None = None,
    ) -> None:
        self._path = path.absolute()
        options = {
            "model": self._path,
            "alias": alias,
            "context-tokens": context,
            "slots": max(1, slots),
            "threads": _threads(),
            "chat-template": chat_template.absolute() if chat_template else "",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        self._command = ChildCommand(
            argv=tuple(isolated_module("clawgauge.providers.embedded.child", *flags)),
            env=needed_environment(environ),
            # llama.cpp looks for backends to load in its current directory.
            cwd=Path(self._path.anchor),
            stdin=None,
        )
        self._child: Child | None = None
        self._life = contextlib.AsyncExitStack()
        self.address = ""

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives, for the memory sampler."""
        return self._child.group_id if self._child is not None and self._child.exited_ns is None else None

    async def start(self) -> None:
        """Spawn the child and wait for its address. Raises `CallFailure` with the child's own last words."""
        if importlib.util.find_spec("xllamacpp") is None:
            words = f"the embedded model needs xllamacpp: {_INSTALL}"
            raise CallFailure("skipped_unavailable", "runtime_missing", words)
        async with contextlib.AsyncExitStack() as life:
            try:
                self._child = await life.enter_async_context(running(self._command))
            except OSError as fault:
                raise client_limit(fault) or fault from fault
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    self.address = await self._await_address(self._child)
            except TimeoutError:
                raise CallFailure("error", "timeout", f"the model did not load within {START_TIMEOUT_S:g} s") from None
            self._life = life.pop_all()

    async def _await_address(self, child: Child) -> str:
        while (stamped := await child.next_line()) is not None:
            # llama.cpp may print lines of its own before ours.
            report = decode_lenient(stamped.line) or {}
            if "address" in report:
                return str(report["address"])
            if "error" in report:
                raise self._not_loaded(str(report["error"]))
        await child.wait_exit(START_TIMEOUT_S)
        words = child.stderr_tail.strip().splitlines()
        raise self._not_loaded(words[-1].strip() if words else f"the server process ended with code {child.exit_code}")

    def _not_loaded(self, why: str) -> CallFailure:
        words = f"llama.cpp cannot load {self._path.name}: {why}"
        return CallFailure("skipped_unavailable", "model_not_found", words)

    async def stop(self) -> None:
        """End the child's whole process group."""
        await self._life.aclose()


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
            data = await self._client.ask(address + "/props")
        except CallFailure:  # it may yet answer what matters
            return True
        able = (decode_lenient(data) or {}).get("chat_template_caps")
        return not isinstance(able, dict) or able.get("supports_tools") is not False


class Embedded(Provider):
    """Serves one model at a time. Nothing runs before `before_target`; nothing is left after the context ends.

    The server's prompt cache is switched off per call: a repeated prompt would otherwise skip its own prefill and look
    faster than it is.
    """

    local = True
    takes_thinking = False
    default_context = CONTEXT_TOKENS
    default_max_tokens = 256

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._server: LlamaServer | None = None
        self._chat: _LlamaChat | None = None
        self._shows_tools = True
        self._template = _find_template(settings)
        self._extra_body = {"cache_prompt": False, **settings.extra.get("extra_body", {})}

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Start the server for this model. It answers once the model is loaded and has run once, so no call is cold."""
        await self._stop()
        environ, slots = self.settings.environ, self.settings.concurrency
        if model == DEFAULT_MODEL and not is_fetched(environ):
            await self._fetch()
        path = resolve(model, environ, self.settings.tell)
        server = LlamaServer(
            path,
            alias=model,
            slots=slots,
            environ=environ,
            context=self.context_tokens or CONTEXT_TOKENS,
            chat_template=self._template,
        )
        await server.start()
        self._server = server
        options = ProviderSettings(
            name=self.name,
            type=self.settings.type,
            base_url=server.address + "/v1",
            extra={"extra_body": self._extra_body},
            concurrency=slots,
        )
        self._chat = _LlamaChat(options)
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
            return self._probed(False, "xllamacpp is not installed", _INSTALL)
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

    def fit_reply(self, model: str, wanted: int | None) -> int:
        # The model that comes along has nothing to think about: it would fill whatever room a prompt leaves to others.
        return self.default_max_tokens if model == DEFAULT_MODEL else super().fit_reply(model, wanted)

    def describe(self) -> dict[str, Any]:
        known = {"type": self.settings.type, "server": "llama.cpp (xllamacpp)", "extra_body": self._extra_body}
        if template := self.settings.extra.get("chat_template_file"):
            known["chat_template_file"] = template
        if context := self.settings.extra.get("context"):
            known["context"] = context
        return known

    async def _stop(self) -> None:
        chat, self._chat = self._chat, None
        server, self._server = self._server, None
        if chat is not None:
            await chat.__aexit__(None, None, None)
        if server is not None:
            await server.stop()


create = Embedded


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
