"""What may be said about a run, on the command line or in `[run]` of clawgauge.toml: the same words in both."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar, get_args, get_type_hints

import msgspec

T = TypeVar("T")

# A setting that is taken from a file the user has neither named nor trusted. Only what shapes the questions and the
# patience of a run is: nothing that runs a program, chooses who is asked or gets a key, names a variable, acts on
# somebody's server or says where files are.
_HARMLESS = msgspec.Meta(extra={"harmless": True})
Harmless = Annotated[T, _HARMLESS]


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The long options of `clawgauge run`, with underscores; None where nothing is said.

    Limits are harmless because a flag always wins: a file can set one where the user set none, and raise none.
    """

    targets: list[str] | None = None
    suites: Harmless[list[str] | None] = None
    prompt_ids: Harmless[list[str] | None] = None
    repeats: Harmless[int | None] = None
    concurrency: Harmless[int | None] = None
    timeout: Harmless[float | None] = None
    max_tokens: Harmless[int | None] = None
    temperature: Harmless[float | None] = None
    seed: Harmless[int | None] = None
    stream: Harmless[bool | None] = None
    warm_up: Harmless[bool | None] = None
    max_retries: Harmless[int | None] = None
    max_wait: Harmless[float | None] = None
    unload_others: bool | None = None
    unique_prefix: Harmless[bool | None] = None
    until_decided: Harmless[bool | None] = None
    max_calls: Harmless[int | None] = None
    max_cost: Harmless[float | None] = None
    prices: str | None = None
    runs_dir: str | None = None
    fail_under: Harmless[float | None] = None

    def over(self, other: Self) -> Self:
        """These words, and those of `other` where these say nothing."""
        return msgspec.structs.replace(other, **self.said())

    def said(self) -> dict[str, Any]:
        """What is said at all."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


def harmless_fields(settings: type) -> frozenset[str]:
    """The fields that are declared harmless; one that is not declared is not."""
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _HARMLESS in get_args(hint)[1:])
