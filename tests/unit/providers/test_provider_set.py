"""The providers of a plan: each is made once, opened once, and closed."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from clawgauge.errors import ConfigError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.providers.provider_set import ProviderSet


class Watched(Provider):
    """Notes what becomes of every provider of its kind."""

    def __init__(self, log: list[str], settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._log = log
        log.append(f"made {self.name}, {settings.concurrency} at once")

    async def __aenter__(self) -> Provider:
        self._log.append(f"opened {self.name}")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._log.append(f"closed {self.name}")

    async def attempt(self, call: Call, sink: Sink) -> None: ...


def settings_of(log: list[str], *names: str) -> dict[str, ProviderSettings]:
    make = partial(Watched, log)
    return {name: ProviderSettings(name, "watched", make=make) for name in names}


def test_a_provider_is_made_and_opened_once_and_closed_with_the_set() -> None:
    log: list[str] = []

    async def ask() -> None:
        providers = ProviderSet(settings_of(log, "a", "b"))
        async with providers:
            assert providers.get("a") is providers.get("a")
            assert await providers.open("a") is providers.get("a")
            await providers.open("a")
        assert providers.get("a").name == "a", "what needs no connection can be asked still"

    asyncio.run(ask())
    assert log == ["made a, 1 at once", "opened a", "closed a"]


def test_what_was_opened_is_closed_where_a_question_fails() -> None:
    log: list[str] = []

    async def ask() -> None:
        async with ProviderSet(settings_of(log, "a")) as providers:
            await providers.open("a")
            raise ConfigError("no such model")

    with pytest.raises(ConfigError, match="no such model"):
        asyncio.run(ask())
    assert log[-1] == "closed a"


def test_a_target_is_measured_with_a_provider_of_its_own() -> None:
    """It gets the concurrency of the run; that of a node replaces one of its name."""
    log: list[str] = []
    providers = ProviderSet(settings_of(log, "a"))
    own = providers.get("a")
    assert providers.create("a", 8) is not own and providers.create("a", 8) is not own
    assert log[1:] == ["made a, 8 at once"] * 2
    providers.add(settings_of(log, "a", "node.a"))
    assert providers.get("a") is not own and providers.get("node.a").name == "node.a"


def test_a_provider_that_cannot_be_had_is_refused_with_its_reason() -> None:
    providers = ProviderSet({"a": ProviderSettings("a", "watched", unusable="its address is none")})
    with pytest.raises(ConfigError, match="its address is none"):
        providers.get("a")
