"""The embedded model: any GGUF file, served by a llama.cpp child process that this provider starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from clawgauge.child_processes.child import Child, ChildCommand, running
from clawgauge.child_processes.isolated import isolated_module, needed_environment
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import EMBEDDED_MODEL, Call, Provider, ProviderSettings, Sink
from clawgauge.providers.embedded.model import GET_COMMAND, fetch, is_fetched, model_path
from clawgauge.providers.http.lenient_json import decode_lenient
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.records import TOOLS_DROPPED, ModelInfo, ProviderProbe
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.words import format_bytes

START_TIMEOUT_S = 120.0
CONTEXT_TOKENS = 4096
_INSTALL = "pip install 'clawgauge[embedded]'"
MAX_TEMPLATE_BYTES = 1 << 20
_TEMPLATE_DROPS_TOOLS = (
    f"{TOOLS_DROPPED} the model's chat template has no place for tools, so the model has not seen them; "
    "chat_template_file in the provider's table gives it another template"
)


def _threads() -> int:
    """All cores but one. llama.cpp's threads wait by spinning: with one on every core, whatever else runs (this program
    and its clock too) slows the model down tenfold.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, cores - 1)


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
        self._life = contextlib.AsyncExitStack()
        self._child: Child | None = None
        self._chat: ChatServer | None = None
        self._shows_tools = True
        self._template = _find_template(settings)
        self._extra_body = {"cache_prompt": False, **settings.extra.get("extra_body", {})}

    async def __aexit__(self, *exc_info: object) -> None:
        self._chat = None
        await self._life.aclose()

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Start the server for this model. It answers once the model is loaded and has run once, so no call is cold."""
        await self.__aexit__()
        path = await fetch(self.settings.environ, self.settings.tell) if model == EMBEDDED_MODEL else self._path(model)
        if not path.is_file():
            instead = f"give the path of a GGUF file, or {EMBEDDED_MODEL!r} for the built-in model"
            words = f"no model file at {model!r}: {instead}"
            raise CallFailure("skipped_unavailable", "model_not_found", words)
        if importlib.util.find_spec("xllamacpp") is None:
            words = f"the embedded model needs xllamacpp: {_INSTALL}"
            raise CallFailure("skipped_unavailable", "runtime_missing", words)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                address = await self._start(path.absolute(), model)
        except TimeoutError:
            await self.__aexit__()
            raise CallFailure("error", "timeout", f"the model did not load within {START_TIMEOUT_S:g} s") from None
        except BaseException:
            await self.__aexit__()
            raise
        extra = {"extra_body": self._extra_body}
        options = ProviderSettings(self.name, self.settings.type, address + "/v1", extra=extra)
        self._chat = await self._life.enter_async_context(ChatServer(options))
        self._shows_tools = True
        with contextlib.suppress(CallFailure):  # it may yet answer what matters
            able = (decode_lenient(await self._chat.client.ask(address + "/props")) or {}).get("chat_template_caps")
            # A template that has no place for tools drops them in silence.
            self._shows_tools = not isinstance(able, dict) or able.get("supports_tools") is not False
        return True

    async def _start(self, path: Path, alias: str) -> str:
        """Spawn the child and wait for its address. Raises `CallFailure` with the child's own last words."""
        options = {
            "model": os.fspath(path),
            "alias": alias,
            "context_tokens": self.context_tokens,
            "slots": max(1, self.settings.concurrency),
            "threads": _threads(),
            "chat_template": os.fspath(self._template.absolute()) if self._template else None,
        }
        command = ChildCommand(
            argv=tuple(isolated_module("clawgauge.providers.embedded.child", json.dumps(options))),
            env=needed_environment(self.settings.environ),
            # llama.cpp looks for backends to load in its current directory.
            cwd=Path(path.anchor),
            stdin=None,
        )
        try:
            child = self._child = await self._life.enter_async_context(running(command))
        except OSError as fault:
            raise client_limit(fault) or fault from fault
        why = None
        while why is None and (stamped := await child.next_line()) is not None:
            # llama.cpp may print lines of its own before ours.
            report = decode_lenient(stamped[1]) or {}
            if "address" in report:
                return str(report["address"])
            why = str(report["error"]) if "error" in report else None
        if why is None:
            await child.wait_exit(START_TIMEOUT_S)
            words = child.stderr_tail.strip().splitlines()
            why = words[-1].strip() if words else f"the server process ended with code {child.exit_code}"
        raise CallFailure("skipped_unavailable", "model_not_found", f"llama.cpp cannot load {path.name}: {why}")

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """Each target has a server of its own; two names of one file share its memory."""
        paths = {self._path(model).resolve() for model in models}
        wanted_bytes = sum(path.stat().st_size for path in paths if path.is_file())
        if len(paths) == 1 or wanted_bytes <= free_bytes:
            return None
        room = f"{format_bytes(wanted_bytes)} of model files, {format_bytes(free_bytes)} of memory free"
        return (
            f"{', '.join(models)} do not fit this machine side by side ({room}): take smaller models or fewer of them"
        )

    def _path(self, model: str) -> Path:
        return model_path(self.settings.environ) if model == EMBEDDED_MODEL else Path(model).expanduser()

    async def attempt(self, call: Call, sink: Sink) -> None:
        if self._chat is None:
            raise CallFailure("skipped_unavailable", "connection_refused", "the embedded server is not running")
        if call.tools and not self._shows_tools:
            sink.note(warning=_TEMPLATE_DROPS_TOOLS)
        await self._chat.attempt(call, sink)

    def pids(self) -> list[int]:
        return [self._child.group_id] if self._child is not None and self._child.exited_ns is None else []

    async def probe(self) -> ProviderProbe:
        reachable, detail, hint = True, f"{EMBEDDED_MODEL} is ready", None
        if importlib.util.find_spec("xllamacpp") is None:
            reachable, detail, hint = False, "xllamacpp is not installed", _INSTALL
        elif not is_fetched(self.settings.environ):
            detail, hint = f"{EMBEDDED_MODEL} is fetched on first use (93 MB)", GET_COMMAND
        models = [ModelInfo(name=EMBEDDED_MODEL, quantization="Q4_1", family="llama", parameters="135M")]
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
        return self.default_max_tokens if model == EMBEDDED_MODEL else super().fit_reply(model, wanted)

    def describe(self) -> dict[str, Any]:
        known = {"type": self.settings.type, "server": "llama.cpp (xllamacpp)", "extra_body": self._extra_body}
        given = self.settings.extra
        return known | {name: given[name] for name in ("chat_template_file", "context") if given.get(name)}


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
