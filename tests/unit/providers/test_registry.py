"""What the registry says of a provider without loading it is what the provider does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from clawgauge.providers.base import Provider, ProviderSettings, create_provider
from clawgauge.registry import PROVIDER_TYPES, UNKNOWN, ProviderType


@pytest.mark.parametrize("provider_type", PROVIDER_TYPES.values(), ids=PROVIDER_TYPES)
def test_every_entry_describes_its_class(provider_type: ProviderType) -> None:
    """Place, thinking and the counting of cached input are told once, and held to by class and entry."""
    provider = create_provider(ProviderSettings(provider_type.name, provider_type.name))
    assert provider.local == provider_type.is_local
    assert provider.takes_thinking == provider_type.takes_thinking
    assert provider.counts_cached_input == provider_type.counts_cached_input


def test_no_provider_may_import_another() -> None:
    """The rule is a list of rooms: what the registry names is in one of them.

    Chat completions are what others build on. Agent programs are put before the models of all.
    """
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    (rule,) = (each for each in contracts if each["name"] == "Providers do not know each other")
    for provider_type in PROVIDER_TYPES.values():
        module = provider_type.factory.partition(":")[0]
        if provider_type.is_agent:
            continue
        if module != "clawgauge.providers.openai.chat":
            assert any(f"{module}.".startswith(f"{room}.") for room in rule["modules"]), module


def test_what_is_known_of_a_plug_in_is_what_a_provider_does_by_default() -> None:
    """A class that says nothing of itself is described by the entry of those that have none."""
    assert Provider.local == UNKNOWN.is_local
    assert Provider.takes_thinking == UNKNOWN.takes_thinking
    assert Provider.counts_cached_input == UNKNOWN.counts_cached_input
