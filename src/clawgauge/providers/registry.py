"""Finds providers by name through the `clawgauge.providers` entry points. The built-in ones are found the same way."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from clawgauge.errors import ConfigError
from clawgauge.providers.base import Provider, ProviderSettings

GROUP = "clawgauge.providers"
Factory = Callable[[ProviderSettings], Provider]


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def provider_types() -> list[str]:
    """Every provider type installed, built-in or not, by name."""
    return sorted(_entries())


def create_provider(settings: ProviderSettings) -> Provider:
    """Load the provider's module and make it. Loading happens here, so that listing names costs nothing."""
    entry = _entries().get(settings.type)
    if entry is None:
        raise ConfigError(unknown_provider(settings.type, provider_types()))
    factory: Factory = entry.load()
    return factory(settings)


def unknown_provider(name: str, known: list[str]) -> str:
    """The sentence for a provider that is not there."""
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown provider {name!r}:{guess} known providers are {', '.join(known)}"
