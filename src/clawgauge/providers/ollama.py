"""Ollama through its OpenAI-compatible endpoint, with its own API for what it has and what is loaded."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.http.lenient_json import decode_lenient
from clawgauge.providers.http.server import label, listed_models
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.proxies import is_loopback
from clawgauge.records import ModelInfo, ProviderProbe, as_count
from clawgauge.secrets import public_address
from clawgauge.words import format_bytes, plural

_EMBEDDING_WORDS = ("embed", "bge-", "minilm", "e5-", "gte-")
_EMBEDDING_FAMILIES = frozenset({"bert", "nomic-bert"})


class Ollama(ChatServer):
    """Ollama. Does not load, pull or unload anything unless `--unload-others` asks for it. No key is needed."""

    local = True
    default_base_url = "http://localhost:11434/v1"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._api = self.base_url.removesuffix("/v1") + "/api"

    async def probe(self) -> ProviderProbe:
        try:
            models = await self.models()
            loaded = await self._loaded()
        except CallFailure as failure:
            return self.unreachable(failure)
        version = None
        with contextlib.suppress(CallFailure):
            told = decode_lenient(await self.client.ask(self._api + "/version")) or {}
            version = label(told.get("version"))
        detail = f"{plural(len(models), 'model')}, {len(loaded)} loaded"
        return ProviderProbe(
            provider=self.name,
            reachable=True,
            address=public_address(self.base_url),
            detail=detail,
            hint=None if models else "no model yet: ollama pull llama3.2:3b",
            version=version,
            models=models,
            loaded_models=loaded,
        )

    async def models(self) -> list[ModelInfo]:
        found = []
        for item in await self._list("/tags"):
            details = item["details"] if isinstance(item.get("details"), dict) else {}
            name, family = item["name"], label(details.get("family"))
            embeds = family in _EMBEDDING_FAMILIES or any(word in name.lower() for word in _EMBEDDING_WORDS)
            model = ModelInfo(
                name=name,
                size_bytes=as_count(item.get("size")),
                digest=label(item.get("digest")),
                quantization=label(details.get("quantization_level")),
                family=family,
                parameters=label(details.get("parameter_size")),
                kind="embedding" if embeds else "chat",
            )
            found.append(model)
        return found

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        try:
            loaded = await self._loaded()
            if unload_others:
                for other in loaded:
                    if not _same_model(other, model):
                        body = msgspec.json.encode({"model": other, "keep_alive": 0})
                        with contextlib.suppress(CallFailure):  # what stays loaded is seen in the snapshots
                            await self.client.ask(self._api + "/generate", body)
        except CallFailure:
            # Not reachable, or no Ollama API behind the address: the first call will say so with its own evidence.
            return None
        return any(_same_model(name, model) for name in loaded)

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """They fit if all are loaded now, or, on this machine without its GPU, if their files fit the free memory."""
        try:
            running = await self._list("/ps")
            known = await self.models()
        except CallFailure:
            return None  # the first call will say it with its own evidence
        absent = [model for model in models if not any(_same_model(item["name"], model) for item in running)]
        if not absent:
            return None
        sizes = [m.size_bytes for m in known if any(_same_model(m.name, model) for model in absent)]
        wanted_bytes = sum(size or 0 for size in sizes)
        is_known = len(sizes) == len(absent) and None not in sizes
        on_gpu = any(as_count(item.get("size_vram")) for item in running)
        here = is_loopback(urlsplit(self.base_url).hostname or "")
        if here and is_known and not on_gpu and wanted_bytes <= free_bytes:
            return None
        room = f"{format_bytes(wanted_bytes)} more to load, {format_bytes(free_bytes)} free on this machine"
        return (
            f"Ollama at {public_address(self.base_url)} does not have {' and '.join(models)} loaded at once and may "
            f"drop one for another ({room}): load them until `ollama ps` lists all of them, or give each a server"
        )

    async def loaded_models(self) -> list[str]:
        try:
            return await self._loaded()
        except CallFailure:
            return []

    def hint(self, failure: CallFailure) -> str:
        if failure.http_status is not None:
            return f"is it Ollama that answers at {public_address(self.base_url)}?"
        return f"is Ollama running at {public_address(self.base_url)}? start it with: ollama serve"

    async def _loaded(self) -> list[str]:
        return [item["name"] for item in await self._list("/ps")]

    async def _list(self, path: str) -> list[dict[str, Any]]:
        return listed_models(await self.client.ask(self._api + path), "models", "name")


create = Ollama


def _same_model(one: str, other: str) -> bool:
    """`llama3.2` and `llama3.2:latest` are the same model to Ollama."""
    return one.removesuffix(":latest") == other.removesuffix(":latest")
