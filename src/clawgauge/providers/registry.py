"""Finds providers by name: those of this package in a table, all others through the `clawgauge.providers` entry points.

A plug-in is an equal: the same contract, found by the same call. The table only spares the common case a search through
every installed package, which takes longer than all else a dry run does.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from clawgauge.errors import ConfigError
from clawgauge.providers.base import Provider, ProviderSettings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "clawgauge.providers"
BUILT_IN = {
    "claude_code_cli": "claude.provider",
    "embedded": "embedded.provider",
    "ollama_openai": "ollama",
    "openai_chat": "openai.chat",
    "openai_responses": "openai.responses",
}
"""The types of this package, and the module of this room that has the `create` of each."""


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    metadata = import_module("importlib.metadata")
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def provider_types() -> list[str]:
    """Every provider type installed, built-in or not, by name."""
    return sorted({*BUILT_IN, *_entries()})


def create_provider(settings: ProviderSettings) -> Provider:
    """Load the provider's module and make it. Loading happens here, so that listing names costs nothing.

    Raises `ConfigError` for one that cannot be had.
    """
    if settings.unusable is not None:
        raise ConfigError(settings.unusable)
    create: Callable[[ProviderSettings], Provider]
    if settings.type in BUILT_IN:
        create = import_module(f"clawgauge.providers.{BUILT_IN[settings.type]}").create
    elif settings.type in _entries():
        create = _entries()[settings.type].load()
    else:
        raise ConfigError(unknown_provider(settings.type, provider_types()))
    return create(settings)


def unknown_provider(name: str, known: list[str]) -> str:
    """The sentence for a provider that is not there."""
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown provider {name!r}:{guess} known providers are {', '.join(known)}"
