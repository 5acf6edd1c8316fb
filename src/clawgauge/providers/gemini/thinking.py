"""What a thinking level becomes for each family of Gemini models.

The tables follow documents, not recordings: which levels and budgets a model takes is from Google's
pages on thinking (ai.google.dev/gemini-api/docs/thinking and its counterpart on
docs.cloud.google.com, November 2026), the budget of each level from what OpenClaw 2026.9.6 sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clawgauge.records import THINKING_OFF
from clawgauge.words import list_names

_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?![\d.])")
_FIRST_THINKING_VERSION = (2, 5)
_FIRST_VERSION_WITH_LEVELS = (3, 0)
# How many tokens a model of version 2.5 thinks at most where it is not told how many.
_ROOM_UNTOLD = 8_192
# Nobody says how many tokens a `thinkingLevel` may take: as many as the largest budget there is.
_ROOM_OF_LEVELS = 32_768
_MAX_LEVELS_SHOWN = 5


class Thinking(NamedTuple):
    """What is sent of thinking with one call."""

    config: Mapping[str, Any] | None
    """`thinkingConfig`; None where nothing is said of thinking."""
    room: int
    """How many tokens it may take: `maxOutputTokens` limits thoughts and answer together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Models that are told alike how much to think."""

    configs: Mapping[str, Mapping[str, Any]]
    """`thinkingConfig` for each level that they take."""
    untold_room: int
    """The room for thoughts where no level is given: these models think by themselves."""
    checks_signatures: bool = False
    """Whether the API refuses earlier calls that it has not signed."""


def _budgets(**tokens_by_level: int) -> _Family:
    configs: dict[str, Mapping[str, Any]] = {}
    for level, n_tokens in tokens_by_level.items():
        config: dict[str, Any] = {"thinkingBudget": n_tokens}
        if n_tokens:
            config["includeThoughts"] = True
        configs[level] = config
    return _Family(configs=configs, untold_room=_ROOM_UNTOLD)


def _levels(
    *levels: str, untold_room: int = _ROOM_OF_LEVELS, checks_signatures: bool = False
) -> _Family:
    configs = {}
    for level in levels:
        configs[level] = {"thinkingLevel": level.upper(), "includeThoughts": True}
    return _Family(configs=configs, untold_room=untold_room, checks_signatures=checks_signatures)


_WITHOUT_THINKING = _Family(configs={}, untold_room=0)
_PRO_2_5 = _budgets(low=2_048, medium=8_192, high=32_768)
_FLASH_2_5 = _budgets(off=0, low=2_048, medium=8_192, high=24_576)
_PRO_3_0 = _levels("low", "high", checks_signatures=True)
_FROM_3 = _levels("low", "medium", "high", checks_signatures=True)
# Models of other names, such as Gemma.
_OTHERS = _levels("low", "medium", "high", untold_room=0)


def _find_family(model: str) -> _Family:
    version = _VERSION.match(model)
    if version is None:
        # An alias such as `gemini-flash-latest` stands for one of the newest.
        return _FROM_3 if model.startswith("gemini-") else _OTHERS
    number = (int(version[1]), int(version[2] or 0))
    is_pro = model[version.end() :].startswith("-pro")
    if number < _FIRST_THINKING_VERSION:
        return _WITHOUT_THINKING
    if number < _FIRST_VERSION_WITH_LEVELS:
        return _PRO_2_5 if is_pro else _FLASH_2_5
    if number == _FIRST_VERSION_WITH_LEVELS and is_pro:
        return _PRO_3_0
    return _FROM_3


def why_not_level(model: str, level: str) -> str | None:
    """Why a model cannot be asked with a thinking level; None where it can."""
    levels = list(_find_family(model).configs)
    if level in levels:
        return None
    if not levels:
        return f"{model} does not think: leave out @{level}"
    taken = list_names([f"@{name}" for name in levels], _MAX_LEVELS_SHOWN)
    if level == THINKING_OFF:
        return f"{model} cannot be asked not to think; it takes {taken}"
    return f"{model} takes no thinking level {level}; it takes {taken}"


def checks_signatures(model: str) -> bool:
    """Whether the API refuses calls in a conversation with this model that it has not signed."""
    return _find_family(model).checks_signatures


def find_thinking(model: str, level: str | None) -> Thinking:
    """What is sent of thinking, for a level that the model takes."""
    family = _find_family(model)
    if level is None:
        return Thinking(config=None, room=family.untold_room)
    config = family.configs[level]
    return Thinking(config=config, room=config.get("thinkingBudget", _ROOM_OF_LEVELS))
