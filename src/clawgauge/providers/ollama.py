"""Ollama through its own API, which tells where a call's time went, or through its OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import re
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
from clawgauge.registry import PROVIDER_TYPES
from clawgauge.secrets import public_address
from clawgauge.words import format_bytes, plural

_ASKING_S = 5.0
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_EMBEDDING_WORDS = ("embed", "bge-", "minilm", "e5-", "gte-")
_EMBEDDING_FAMILIES = frozenset({"bert", "nomic-bert"})
_DETAILS = {"quantization": "quantization_level", "family": "family", "parameters": "parameter_size"}


def same_model(one: str, other: str) -> bool:
    """`llama3.2` and `llama3.2:latest` are the same model to Ollama."""
    return one.removesuffix(":latest") == other.removesuffix(":latest")


class Ollama(ChatServer):
    """Ollama. Does not load, pull or unload anything unless `--unload-others` asks for it. No key is needed."""

    local = True
    # `prompt_eval_count` is what was read anew: 0 for a prompt that is all in the cache.
    counts_cached_input = False
    default_base_url = PROVIDER_TYPES["ollama_openai"].default_address

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.api = self.base_url.removesuffix("/v1") + "/api"

    async def probe(self) -> ProviderProbe:
        try:
            models = await self.models()
            loaded = [item["name"] for item in await self._list("/ps")]
        except CallFailure as failure:
            return self.unreachable(failure)
        version = None
        with contextlib.suppress(CallFailure):
            version = label((decode_lenient(await self.client.query(self.api + "/version")) or {}).get("version"))
        address, detail = public_address(self.base_url), f"{plural(len(models), 'model')}, {len(loaded)} loaded"
        found: Any = {"version": version, "models": models, "loaded_models": loaded}
        hint = None if models else "no model yet: ollama pull llama3.2:3b"
        return ProviderProbe(provider=self.name, reachable=True, address=address, detail=detail, hint=hint, **found)

    async def models(self) -> list[ModelInfo]:
        found = []
        for item in await self._list("/tags"):
            details = item["details"] if isinstance(item.get("details"), dict) else {}
            told: dict[str, Any] = {field: label(details.get(key)) for field, key in _DETAILS.items()}
            words = any(word in item["name"].lower() for word in _EMBEDDING_WORDS)
            told["kind"] = "embedding" if words or told["family"] in _EMBEDDING_FAMILIES else "chat"
            size, digest = as_count(item.get("size")), label(item.get("digest"))
            found.append(ModelInfo(name=item["name"], size_bytes=size, digest=digest, **told))
        return found

    async def look_up(self, model: ModelInfo) -> ModelInfo:
        told = await self._show(model.name)
        able, facts = told.get("capabilities"), told.get("model_info")
        facts = facts if isinstance(facts, dict) else {}
        window = as_count(facts.get(f"{facts.get('general.architecture')}.context_length"))
        takes_tools = "tools" in able if isinstance(able, list) else None
        return msgspec.structs.replace(model, context_tokens=window, takes_tools=takes_tools)

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        try:
            loaded = [item["name"] for item in await self._list("/ps")]
        except CallFailure:
            # Not reachable, or no Ollama API behind the address: the first call will say so with its own evidence.
            return None
        for other in loaded:
            if unload_others and not same_model(other, model):
                body = msgspec.json.encode({"model": other, "keep_alive": 0})
                with contextlib.suppress(CallFailure):  # what stays loaded is seen in the snapshots
                    await self.client.query(self.api + "/generate", body)
        return any(same_model(name, model) for name in loaded)

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """They fit if all are loaded now, or, on this machine without its GPU, if their files fit the free memory."""
        try:
            running = await self._list("/ps")
            known = await self.models()
        except CallFailure:
            return None  # the first call will say it with its own evidence
        absent = [model for model in models if not any(same_model(item["name"], model) for item in running)]
        if not absent:
            return None
        sizes = [m.size_bytes for m in known if any(same_model(m.name, model) for model in absent)]
        wanted_bytes = sum(size or 0 for size in sizes)
        is_known = len(sizes) == len(absent) and None not in sizes
        on_gpu = any(as_count(item.get("size_vram")) for item in running)
        here = is_loopback(urlsplit(self.base_url).hostname or "")
        if here and is_known and not on_gpu and wanted_bytes <= free_bytes:
            return None
        room = f"{format_bytes(wanted_bytes)} more to load, {format_bytes(free_bytes)} free on this machine"
        which = f"Ollama at {public_address(self.base_url)} does not have {' and '.join(models)} loaded at once"
        way_out = "load them until `ollama ps` lists all of them, or give each a server"
        return f"{which} and may drop one for another ({room}): {way_out}"

    async def loaded_models(self) -> list[str]:
        with contextlib.suppress(CallFailure):
            return [self._shown(item) for item in await self._list("/ps")]
        return []

    def _shown(self, item: dict[str, Any]) -> str:
        """A loaded model, for the resource snapshots."""
        return str(item["name"])

    def hint(self, failure: CallFailure) -> str:
        if failure.http_status is not None:
            return f"is it Ollama that answers at {public_address(self.base_url)}?"
        return f"is Ollama running at {public_address(self.base_url)}? start it with: ollama serve"

    async def _list(self, path: str) -> list[dict[str, Any]]:
        return listed_models(await self.client.query(self.api + path), "models", "name")

    async def _show(self, model: str) -> dict[str, Any]:
        return decode_lenient(await self.client.query(self.api + "/show", msgspec.json.encode({"model": model}))) or {}


class _Line(msgspec.Struct):
    message: Delta | None = None
    done: Any = None
    error: Any = None


@dataclass(slots=True)
class OllamaReader(EventReader):
    _decoder = msgspec.json.Decoder(_Line)
    _protocol = "a reply of Ollama's /api/chat"
    _last_word = "Ollama said that it was done"
    by_line = True

    input_tokens: int = field(init=False, default=0)
    _n_calls: int = field(init=False, default=0)
    _spoke: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Line, data: bytes) -> bool:
        self._spoke = self._spoke or event.message is not None
        said = event.message or Delta()
        if said.thinking:
            self.sink.reasoning(at_ns, said.thinking)
        if isinstance(said.content, str) and said.content:
            self.sink.text(at_ns, said.content)
        for made in [call.function for call in said.tool_calls or () if call.function is not None]:
            self._n_calls += 1
            self.sink.tool_whole(at_ns, self._n_calls, made.name, arguments_text(made.arguments))
        if event.done is not True:
            return False
        # The last line: how many tokens, why it stopped, and what the server did with the time.
        self._ended, told = True, decode_lenient(data) or {}
        reason = label(told.get("done_reason")) or "stop"
        self.sink.finish("tool_calls" if self._n_calls and reason == "stop" else reason)
        counts = report_counts(self.sink, told, "prompt_eval_count", "eval_count")
        self.input_tokens = counts.input_tokens or 0
        if (model := label(told.get("model"))) is not None:
            self.sink.note(model_reported=model)
        total_ns = as_count(told.get("total_duration"))
        names = {"load": "load_duration", "prefill": "prompt_eval_duration", "decode": "eval_duration"}
        parts = {part: as_count(told.get(name)) or 0 for part, name in names.items()}
        if total_ns is not None and any(parts.values()):
            # Waiting for a free slot is in the total alone.
            self.sink.note(server_ns={**parts, "queue": max(0, total_ns - sum(parts.values())), "total": total_ns})
        return True

    def close(self) -> None:
        if not self._ended and not self._spoke:
            raise self._not_the_protocol(self._unread)
        EventReader.close(self)


class OllamaNative(Ollama):
    """Ollama's `/api/chat`. `context` of its table is sent as `num_ctx`, `keep_alive` as it is."""

    cannot_send = frozenset({"tool_choice"})
    # Fields of the body's `options`.
    sampling_names = {"temperature": ("temperature",), "max_tokens": ("num_predict",), "seed": ("seed",)}

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.base_url = self.base_url.removesuffix("/v1")
        # What each model was found to be loaded with; 0 where nobody can tell.
        self._windows: dict[str, int] = {}

    def sampling(self, call: Call) -> Sampling:
        replaced = self.extra_body.get("options")
        if isinstance(replaced, dict):
            # The options of `extra_body` are sent instead of ours, all of them.
            return apply_extra_body(Sampling(), replaced, self.sampling_names)
        return Provider.sampling(self, call)

    async def attempt(self, call: Call, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + call.timeout_s
        form = call.response_format or {}
        sampling = self.sampling(call)
        options = {
            "num_ctx": self.context_tokens,
            "num_predict": sampling.max_tokens,
            "seed": sampling.seed,
            "temperature": sampling.temperature,
        }
        body = {
            "model": call.model,
            "messages": chat_messages(call, ollama=True),
            "stream": call.stream,
            # It knows three levels, and takes any of them for "think" where a model has none.
            "think": "high" if call.thinking_level == "xhigh" else call.thinking_level,
            "tools": call.tools or None,
            "format": form.get("json_schema", {}).get("schema", "json") if form else None,
            "options": {name: value for name, value in options.items() if value is not None},
            "keep_alive": self.settings.extra.get("keep_alive"),
        }
        if not call.stream:
            sink.note(first_token_captured=False)
        reader = OllamaReader(sink, call.model)
        await self._post("/api/chat", body, call, reader)
        if call.model not in self._windows and loop.time() + _ASKING_S < until_s:
            # What the model was loaded with is known once it is. The clock has stopped, the deadline has not.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ASKING_S):
                    self._windows[call.model] = await self.find_window(call.model) or 0
        if 0 < self._windows.get(call.model, 0) <= reader.input_tokens:
            told = f"the server read {reader.input_tokens} tokens, all that its window holds"
            sink.note(warning=f"prompt_cut: {told}: what was beyond was cut in silence; raise context in its table")

    async def find_window(self, model: str) -> int | None:
        """What it is to be loaded with, or is; else what its Modelfile says, or the most the model was made for."""
        wanted, shown = [self.context_tokens], {}
        with contextlib.suppress(CallFailure):  # the first call will say it with its own evidence
            running = [item for item in await self._list("/ps") if same_model(item["name"], model)]
            wanted += [as_count(item.get("context_length")) for item in running]
            shown = await self._show(model)
        wanted += map(int, _NUM_CTX.findall(str(shown.get("parameters"))))
        info = shown.get("model_info")
        most = [n for key, n in info.items() if key.endswith(".context_length")] if isinstance(info, dict) else []
        return min(filter(None, [next(filter(None, wanted), None), *map(as_count, most)]), default=None)

    def _shown(self, item: dict[str, Any]) -> str:
        size, on_gpu = (format_bytes(as_count(item.get(key)) or 0) for key in ("size", "size_vram"))
        return f"{item['name']} ({size}, {on_gpu} of it in VRAM)"
