"""What may be said about a run, on the command line or in `[run]` of clawgauge.toml: the same words in both."""

from __future__ import annotations

from typing import Self

import msgspec


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The long options of `clawgauge run`, with underscores; None where nothing is said."""

    targets: list[str] | None = None
    suites: list[str] | None = None
    prompt_ids: list[str] | None = None
    repeats: int | None = None
    concurrency: int | None = None
    timeout: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stream: bool | None = None
    warm_up: bool | None = None
    max_retries: int | None = None
    max_wait: float | None = None
    unload_others: bool | None = None
    unique_prefix: bool | None = None
    until_decided: bool | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prices: str | None = None
    runs_dir: str | None = None
    fail_under: float | None = None

    def over(self, other: Self) -> Self:
        """These words, and those of `other` where these say nothing."""
        said = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(other, **said)
