"""A provider of a node, as far as planning a run needs one."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from clawgauge.errors import CallFailure
from clawgauge.fleet.wire import PLANNING_FACTS, ProviderFacts
from clawgauge.prices import host_of
from clawgauge.providers.base import (
    Call,
    Provider,
    ProviderSettings,
    Sampling,
    Sink,
    create_provider,
)
from clawgauge.proxies import is_loopback
from clawgauge.records import ModelInfo, ProviderProbe, SentSettings
from clawgauge.registry import PROVIDER_TYPES, find_type

_HOST_OF_URL = re.compile(r"//([^/?#]*@)?(\[.*?\]|[^:/?#]*)")


class RemoteProvider(Provider):
    """A provider of a node, or of several. It is asked there, never here."""

    def __init__(
        self,
        node_name: str,
        public_host: str | None,
        facts: ProviderFacts,
        settings: ProviderSettings,
    ) -> None:
        """`public_host` is where others reach the servers of the node, as far as the user told."""
        super().__init__(settings)
        self._node_name = node_name
        self._public_host = public_host
        self._facts = facts
        for name in PLANNING_FACTS:
            setattr(self, name, getattr(facts, name))
        self._twin = _make_twin(facts, settings)
        if self._twin is not None:
            self.fixed_max_tokens = self._twin.fixed_max_tokens

    async def attempt(self, call: Call, sink: Sink) -> None:
        raise CallFailure("error", "exception", f"{self.name} is asked on its node")

    def sampling(self, call: Call) -> Sampling:
        """What the node will send: the same version is there, and decides as it would here."""
        if self._twin is None:
            return super().sampling(call)
        return self._twin.sampling(call)

    def request_settings(self, call: Call) -> SentSettings | None:
        return None if self._twin is None else self._twin.request_settings(call)

    def why_not_level(self, model: str, level: str) -> str | None:
        if self._twin is None:
            return super().why_not_level(model, level)
        return self._twin.why_not_level(model, level)

    async def probe(self) -> ProviderProbe:
        return replace(self._facts.probe, provider=self.name)

    async def models(self) -> list[ModelInfo]:
        probe = self._facts.probe
        if not probe.reachable:
            raise CallFailure("skipped_unavailable", "connection_refused", probe.detail)
        return probe.models

    def check_here(self, model: str) -> None:
        """An Ollama lists all that it has: what it does not have is not asked."""
        if not find_type(self.settings.type).is_ollama:
            return
        listed_models = set()
        for info in self._facts.probe.models:
            listed_models.add(info.name.removesuffix(":latest"))
        if listed_models and model.removesuffix(":latest") not in listed_models:
            raise CallFailure(
                "skipped_unavailable",
                "model_not_found",
                f"no model {model!r} on {self._node_name}",
            )

    def describe(self) -> dict[str, Any]:
        """As the node does; its own loopback is nobody else's, and has an address for others or
        none."""
        description: dict[str, Any] = {**self._facts.described, "node": self._node_name}
        url = str(description.get("base_url"))
        if is_loopback(host_of(url)):
            host = f"//{self._public_host or 'localhost'}"
            url_for_others = _HOST_OF_URL.sub(lambda _: host, url, count=1)
            description["base_url"] = url_for_others
            if is_loopback(host_of(url_for_others)):
                description["base_url"] = None
        return description


def _make_twin(facts: ProviderFacts, settings: ProviderSettings) -> Provider | None:
    """A provider of the same built-in type, which is asked nothing but what it would send.

    None for a type that is not known here.
    """
    provider_type = str(facts.described.get("type"))
    if provider_type not in PROVIDER_TYPES:
        return None
    extra = {}
    extra_body = facts.described.get("extra_body")
    if isinstance(extra_body, dict):
        extra["extra_body"] = extra_body
    return create_provider(
        ProviderSettings(settings.name, provider_type, "http://localhost", extra=extra)
    )
