"""The providers that the targets of a run may name, each made once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from clawgauge.providers.base import Provider, ProviderSettings, create_provider
from clawgauge.records import Target
from clawgauge.registry import find_type


class ProviderSet:
    """Providers by name, made when they are first needed, and closed when the set is left.

    A provider that was only made answers what needs no connection: how it is described, what it can
    be sent. Whoever wants to ask its server opens it, inside `async with`. Models are measured with
    providers of their own, which `create` makes.
    """

    def __init__(self, settings: Mapping[str, ProviderSettings]) -> None:
        self.settings = dict(settings)
        self._made: dict[str, Provider] = {}
        self._open_names: set[str] = set()
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> ProviderSet:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._open_names.clear()
        await self._exits.aclose()

    def add(self, settings: Mapping[str, ProviderSettings]) -> None:
        """More providers, such as those of nodes; one replaces another of its name."""
        for name, provider_settings in settings.items():
            self.settings[name] = provider_settings
            self._made.pop(name, None)

    def get(self, name: str) -> Provider:
        """The provider of this name; raises `ConfigError` where it cannot be had."""
        if name not in self._made:
            self._made[name] = create_provider(self.settings[name])
        return self._made[name]

    def model_target(self, target: Target) -> Target:
        """The target whose model answers: of one inside an agent program that of the bare model."""
        settings = self.settings.get(target.provider)
        if settings is None or not find_type(settings.type).is_agent:
            return target
        provider, _, model = target.model.partition("/")
        return Target(provider, model, target.thinking_level)

    async def open(self, name: str) -> Provider:
        """The provider of this name, ready to ask its server; it is closed when the set is left."""
        provider = self.get(name)
        if name not in self._open_names:
            await self._exits.enter_async_context(provider)
            self._open_names.add(name)
        return provider

    def create(self, name: str, concurrency: int) -> Provider:
        """Another provider of this name, for one target, which whoever enters it has to leave."""
        return create_provider(replace(self.settings[name], concurrency=concurrency))
