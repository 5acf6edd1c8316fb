"""Ollama through its OpenAI-compatible endpoint, with its own API for what it has and what is loaded."""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.http.lenient_json import decode_lenient
from clawgauge.providers.http.server import label, listed_models, refused_question
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.records import ModelInfo, ProviderProbe, as_count
from clawgauge.secrets import public_address
from clawgauge.words import plural

DEFAULT_BASE_URL = "http://localhost:11434/v1"
_EMBEDDING_WORDS = ("embed", "bge-", "minilm", "e5-", "gte-")
_EMBEDDING_FAMILIES = frozenset({"bert", "nomic-bert"})


class Ollama(ChatServer):
    """Ollama. Does not load, pull or unload anything unless `--unload-others` asks for it."""

    def __init__(self, settings: ProviderSettings, *, base_url: str) -> None:
        super().__init__(settings, base_url=base_url, local=True)
        self._api = self.base_url.removesuffix("/v1") + "/api"

    async def probe(self) -> ProviderProbe:
        try:
            models = await self.models()
            loaded = await self._loaded()
            version = await self._version()
        except CallFailure as failure:
            return self.unreachable(failure)
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
        return [_model_info(item) for item in await self._list("/tags")]

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        try:
            loaded = await self._loaded()
            if unload_others:
                for other in loaded:
                    if not _same_model(other, model):
                        await self._unload(other)
        except CallFailure:
            # Not reachable, or no Ollama API behind the address: the first call will say so with its own evidence.
            return None
        return any(_same_model(name, model) for name in loaded)

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

    async def _version(self) -> str | None:
        reply = await self._client.get_json(self._api + "/version")
        return label((decode_lenient(reply.data) or {}).get("version"))

    async def _unload(self, model: str) -> None:
        body = msgspec.json.encode({"model": model, "keep_alive": 0})
        await self._client.post_json(self._api + "/generate", body)

    async def _list(self, path: str) -> list[dict[str, Any]]:
        reply = await self._client.get_json(self._api + path)
        if reply.status != 200:
            raise refused_question(reply.status, f"/api{path}")
        return listed_models(reply.data, "models", "name")


def create(settings: ProviderSettings) -> Provider:
    """Ollama at the configured address; no key is needed."""
    return Ollama(settings, base_url=settings.base_url or DEFAULT_BASE_URL)


def _same_model(one: str, other: str) -> bool:
    """`llama3.2` and `llama3.2:latest` are the same model to Ollama."""
    return one.removesuffix(":latest") == other.removesuffix(":latest")


def _model_info(item: dict[str, Any]) -> ModelInfo:
    details = item["details"] if isinstance(item.get("details"), dict) else {}
    name = item["name"]
    family = label(details.get("family"))
    embeds = family in _EMBEDDING_FAMILIES or any(word in name.lower() for word in _EMBEDDING_WORDS)
    return ModelInfo(
        name=name,
        size_bytes=as_count(item.get("size")),
        digest=label(item.get("digest")),
        quantization=label(details.get("quantization_level")),
        family=family,
        parameters=label(details.get("parameter_size")),
        kind="embedding" if embeds else "chat",
    )
