"""Ollama: its own API, which tells where a call's time went, and its OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.http.errors import decode_lenient
from clawgauge.providers.http.events import EventReader, arguments_text, report_counts
from clawgauge.providers.http.server import apply_extra_body, label, listed_models
from clawgauge.providers.openai.chat import ChatServer, Delta, chat_messages
from clawgauge.proxies import is_loopback
from clawgauge.records import ModelInfo, ProviderProbe, as_count
from clawgauge.registry import OLLAMA_OPENAI
from clawgauge.secrets import public_address
from clawgauge.words import format_bytes, plural

_WINDOW_TIMEOUT_S = 5.0
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
# What tells a model for embeddings from one to chat with: a part of its name, or its family.
_EMBEDDING_NAMES = ("embed", "bge-", "minilm", "e5-", "gte-")
_EMBEDDING_FAMILIES = frozenset({"bert", "nomic-bert"})
# The parts of the server's time, in the last line of a reply.
_DURATIONS = {
    "load": "load_duration",
    "prefill": "prompt_eval_duration",
    "decode": "eval_duration",
}


def same_model(name: str, other: str) -> bool:
    """Whether two names mean one model: `llama3.2` and `llama3.2:latest` are the same to Ollama."""
    return name.removesuffix(":latest") == other.removesuffix(":latest")


class Ollama(ChatServer):
    """Ollama. Does not load, pull or unload anything unless `--unload-others` asks for it.

    No key is needed.
    """

    local = OLLAMA_OPENAI.is_local
    counts_cached_input = OLLAMA_OPENAI.counts_cached_input
    default_base_url = OLLAMA_OPENAI.default_address

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.api = self.base_url.removesuffix("/v1") + "/api"

    async def probe(self) -> ProviderProbe:
        try:
            models = await self.models()
            loaded_models = [item["name"] for item in await self._list("/ps")]
        except CallFailure as failure:
            return self.unreachable(failure)
        version = None
        with contextlib.suppress(CallFailure):
            reply = decode_lenient(await self.client.query(self.api + "/version")) or {}
            version = label(reply.get("version"))
        return ProviderProbe(
            provider=self.name,
            reachable=True,
            address=public_address(self.base_url),
            detail=f"{plural(len(models), 'model')}, {len(loaded_models)} loaded",
            hint=None if models else "no model yet: ollama pull llama3.2:3b",
            version=version,
            models=models,
            loaded_models=loaded_models,
        )

    async def models(self) -> list[ModelInfo]:
        return [_model_info(item) for item in await self._list("/tags")]

    async def look_up(self, model: ModelInfo) -> ModelInfo:
        facts = await self._show(model.name)
        takes_tools = _read_takes_tools(facts)
        model_info = facts.get("model_info")
        if not isinstance(model_info, dict):
            model_info = {}
        architecture = model_info.get("general.architecture")
        context_tokens = as_count(model_info.get(f"{architecture}.context_length"))
        return msgspec.structs.replace(
            model, context_tokens=context_tokens, takes_tools=takes_tools
        )

    async def takes_tools(self, model: str) -> bool | None:
        # What cannot be asked the first call will say with its own evidence.
        with contextlib.suppress(CallFailure):
            return _read_takes_tools(await self._show(model))
        return None

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        try:
            loaded_models = [item["name"] for item in await self._list("/ps")]
        except CallFailure:
            # Not reachable, or no Ollama API behind the address: the first call will say so with
            # its own evidence.
            return None
        for loaded_model in loaded_models:
            if unload_others and not same_model(loaded_model, model):
                body = msgspec.json.encode({"model": loaded_model, "keep_alive": 0})
                # What stays loaded is seen in the snapshots.
                with contextlib.suppress(CallFailure):
                    await self.client.query(self.api + "/generate", body)
        return any(same_model(loaded_model, model) for loaded_model in loaded_models)

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """They fit if all are loaded now, or if the files of the others fit the free memory.

        The latter is known only of a server on this machine that does not use its GPU.
        """
        try:
            loaded_items = await self._list("/ps")
            models_on_server = await self.models()
        except CallFailure:
            # The first call will say it with its own evidence.
            return None
        absent_models = []
        for model in models:
            if not any(same_model(item["name"], model) for item in loaded_items):
                absent_models.append(model)
        if not absent_models:
            return None
        absent_sizes = []
        for model_info in models_on_server:
            if any(same_model(model_info.name, model) for model in absent_models):
                absent_sizes.append(model_info.size_bytes)
        needed_bytes = sum(size or 0 for size in absent_sizes)
        are_sizes_known = len(absent_sizes) == len(absent_models) and None not in absent_sizes
        uses_gpu = any(as_count(item.get("size_vram")) for item in loaded_items)
        is_here = is_loopback(urlsplit(self.base_url).hostname or "")
        if is_here and are_sizes_known and not uses_gpu and needed_bytes <= free_bytes:
            return None
        return (
            f"Ollama at {public_address(self.base_url)} does not have {' and '.join(models)} loaded"
            f" at once and may drop one for another ({format_bytes(needed_bytes)} more to load,"
            f" {format_bytes(free_bytes)} free on this machine): load them until `ollama ps` lists"
            " all of them, or give each a server"
        )

    async def loaded_models(self) -> list[str]:
        with contextlib.suppress(CallFailure):
            return [self._describe_loaded(item) for item in await self._list("/ps")]
        return []

    def _describe_loaded(self, item: dict[str, Any]) -> str:
        """A loaded model, for the resource snapshots."""
        return str(item["name"])

    def hint(self, failure: CallFailure) -> str:
        address = public_address(self.base_url)
        if failure.http_status is not None:
            return f"is it Ollama that answers at {address}?"
        return f"is Ollama running at {address}? start it with: ollama serve"

    async def _list(self, path: str) -> list[dict[str, Any]]:
        """The models that the server has (`/tags`) or has loaded (`/ps`). Raises `CallFailure`."""
        return listed_models(await self.client.query(self.api + path), "models", "name")

    async def _show(self, model: str) -> dict[str, Any]:
        """What the server knows of one model. Raises `CallFailure`."""
        body = msgspec.json.encode({"model": model})
        return decode_lenient(await self.client.query(self.api + "/show", body)) or {}


def _read_takes_tools(facts: Mapping[str, Any]) -> bool | None:
    """Whether a model takes tools, by what `/api/show` says of it."""
    capabilities = facts.get("capabilities")
    return "tools" in capabilities if isinstance(capabilities, list) else None


def _model_info(item: dict[str, Any]) -> ModelInfo:
    """A model as the server lists it."""
    details = item.get("details")
    if not isinstance(details, dict):
        details = {}
    family = label(details.get("family"))
    lower_name = item["name"].lower()
    is_embedding = family in _EMBEDDING_FAMILIES
    if any(part in lower_name for part in _EMBEDDING_NAMES):
        is_embedding = True
    return ModelInfo(
        name=item["name"],
        size_bytes=as_count(item.get("size")),
        digest=label(item.get("digest")),
        quantization=label(details.get("quantization_level")),
        family=family,
        parameters=label(details.get("parameter_size")),
        kind="embedding" if is_embedding else "chat",
    )


class _Line(msgspec.Struct):
    message: Delta | None = None
    done: Any = None
    error: Any = None


@dataclass(slots=True)
class OllamaReader(EventReader):
    """Reads the lines of a reply of `/api/chat`, or the only one of a whole reply."""

    _decoder = msgspec.json.Decoder(_Line)
    _protocol = "a reply of Ollama's /api/chat"
    _last_word = "Ollama said that it was done"
    by_line = True

    input_tokens: int = field(init=False, default=0)
    """How many tokens the server read of the prompt, as far as it said."""
    _n_calls: int = field(init=False, default=0)
    _has_message: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Line, data: bytes) -> bool:
        if event.message is not None:
            self._has_message = True
            self._report_message(at_ns, event.message)
        if event.done is not True:
            return False
        self._ended = True
        self._report_end(decode_lenient(data) or {})
        return True

    def _report_message(self, at_ns: int, message: Delta) -> None:
        if message.thinking:
            self.sink.reasoning(at_ns, message.thinking)
        if isinstance(message.content, str) and message.content:
            self.sink.text(at_ns, message.content)
        for call in message.tool_calls or ():
            if call.function is None:
                continue
            self._n_calls += 1
            arguments = arguments_text(call.function.arguments)
            self.sink.tool_whole(at_ns, self._n_calls, call.function.name, arguments)

    def _report_end(self, line: dict[str, Any]) -> None:
        """The last line: how many tokens, why it stopped, what the server did with the time."""
        reason = label(line.get("done_reason")) or "stop"
        if self._n_calls and reason == "stop":
            reason = "tool_calls"
        self.sink.finish(reason)
        counts = report_counts(self.sink, line, "prompt_eval_count", "eval_count")
        self.input_tokens = counts.input_tokens or 0
        model = label(line.get("model"))
        if model is not None:
            self.sink.note(model_reported=model)
        server_ns = {}
        for part, name in _DURATIONS.items():
            server_ns[part] = as_count(line.get(name)) or 0
        total_ns = as_count(line.get("total_duration"))
        if total_ns is not None and any(server_ns.values()):
            # Waiting for a free slot is in the total alone.
            server_ns["queue"] = max(0, total_ns - sum(server_ns.values()))
            server_ns["total"] = total_ns
            self.sink.note(server_ns=server_ns)

    def close(self) -> None:
        if not self._ended and not self._has_message:
            raise self._not_the_protocol(self._unread)
        # A dataclass with slots is made anew, so that `super()` would not know it.
        EventReader.close(self)


class OllamaNative(Ollama):
    """Ollama's `/api/chat`. `context` of its table is sent as `num_ctx`, `keep_alive` as it is."""

    cannot_send = frozenset({"tool_choice"})
    # Fields of the body's `options`.
    sampling_names = {
        "temperature": ("temperature",),
        "max_tokens": ("num_predict",),
        "seed": ("seed",),
    }

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.base_url = self.base_url.removesuffix("/v1")
        # What each model was found to be loaded with; 0 where nobody can tell.
        self._windows: dict[str, int] = {}

    def sampling(self, call: Call) -> Sampling:
        options = self.extra_body.get("options")
        if isinstance(options, dict):
            # The options of `extra_body` are sent instead of ours, all of them.
            return apply_extra_body(Sampling(), options, self.sampling_names)
        return Provider.sampling(self, call)

    def request_path(self, call: Call) -> str:
        return "/api/chat"

    def settings_body(self, call: Call) -> dict[str, Any]:
        sampling = self.sampling(call)
        options = {
            "num_ctx": self.context_tokens,
            "num_predict": sampling.max_tokens,
            "seed": sampling.seed,
            "temperature": sampling.temperature,
        }
        # It knows three levels, and takes any of them for "think" where a model has none.
        think = "high" if call.thinking_level == "xhigh" else call.thinking_level
        return {
            "model": call.model,
            "stream": call.stream,
            "think": think,
            "options": {name: value for name, value in options.items() if value is not None},
            "keep_alive": self.settings.extra.get("keep_alive"),
        }

    async def attempt(self, call: Call, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + call.timeout_s
        answer_format = None
        if call.response_format:
            answer_format = call.response_format.get("json_schema", {}).get("schema", "json")
        body = {
            "messages": chat_messages(call, ollama=True),
            "tools": call.tools or None,
            "format": answer_format,
        }
        if not call.stream:
            sink.note(first_token_captured=False)
        reader = OllamaReader(sink, call.model)
        await self._post(body, call, reader)
        # What the model was loaded with is known once it is. The clock has stopped, the deadline
        # has not.
        if call.model not in self._windows and loop.time() + _WINDOW_TIMEOUT_S < deadline_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WINDOW_TIMEOUT_S):
                    self._windows[call.model] = await self.find_window(call.model) or 0
        window = self._windows.get(call.model, 0)
        if 0 < window <= reader.input_tokens:
            sink.note(
                warning=(
                    f"prompt_cut: the server read {reader.input_tokens} tokens, all that its window"
                    " holds: what was beyond was cut in silence; raise context in its table"
                )
            )

    async def find_window(self, model: str) -> int | None:
        """What it is to be loaded with, or is; else what its Modelfile says.

        It is never more than the model was made for.
        """
        windows = [self.context_tokens]
        facts: dict[str, Any] = {}
        # The first call will say with its own evidence what fails here.
        with contextlib.suppress(CallFailure):
            for item in await self._list("/ps"):
                if same_model(item["name"], model):
                    windows.append(as_count(item.get("context_length")))
            facts = await self._show(model)
        for digits in _NUM_CTX.findall(str(facts.get("parameters"))):
            windows.append(int(digits))

        limits: list[int] = []
        for window in windows:
            if window:
                # The first of them counts.
                limits.append(window)
                break
        model_info = facts.get("model_info")
        if isinstance(model_info, dict):
            for key, value in model_info.items():
                trained_window = as_count(value)
                if key.endswith(".context_length") and trained_window:
                    limits.append(trained_window)
        return min(limits, default=None)

    def _describe_loaded(self, item: dict[str, Any]) -> str:
        size = format_bytes(as_count(item.get("size")) or 0)
        size_in_vram = format_bytes(as_count(item.get("size_vram")) or 0)
        return f"{item['name']} ({size}, {size_in_vram} of it in VRAM)"
