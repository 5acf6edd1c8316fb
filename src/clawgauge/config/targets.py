"""Target strings: `PROVIDER:MODEL[@THINKING]`, patterns, and exclusions."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from dataclasses import dataclass

from clawgauge.errors import TargetError
from clawgauge.providers.registry import unknown_provider
from clawgauge.records import THINKING_LEVELS, Target

_WILD = frozenset("*?[")
_EXAMPLE = "for example ollama_openai:llama3.2:3b or openai_responses:gpt-5-codex@high"


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """One `-t`. `excludes` is a leading `!`; a model with `*`, `?` or `[` matches what the provider lists."""

    target: Target
    excludes: bool = False

    @property
    def is_wild(self) -> bool:
        return bool(_WILD & set(self.target.model))

    def matches(self, other: Target) -> bool:
        """Whether an expanded target falls under this pattern. No thinking level in an exclusion means any."""
        same_level = self.target.thinking_level in (None, other.thinking_level)
        return (
            self.target.provider == other.provider
            and same_level
            and fnmatch.fnmatchcase(other.model, self.target.model)
        )


def provider_name(text: str) -> str:
    """The provider that a target's text names, right or wrong."""
    return text.removeprefix("!").partition(":")[0]


def parse_target(text: str, providers: Collection[str]) -> TargetPattern:
    """Read one target. Raises `TargetError` naming what is wrong and what would be right."""
    excludes = text.startswith("!")
    provider, colon, rest = text.removeprefix("!").partition(":")
    if not colon or not provider or not rest:
        raise TargetError(f"target {text!r} is not PROVIDER:MODEL[@THINKING]; {_EXAMPLE}")
    if provider not in providers:
        raise TargetError(f"target {text!r}: {unknown_provider(provider, sorted(providers))}")
    model, at, level = rest.rpartition("@")
    if not at:
        return TargetPattern(Target(provider, rest), excludes)
    if level in THINKING_LEVELS and model:
        return TargetPattern(Target(provider, model, level), excludes)
    raise TargetError(
        f"target {text!r}: {level!r} is not a thinking level; use one of {', '.join(THINKING_LEVELS)}, "
        "or leave out the @"
    )


def apply_patterns(patterns: list[TargetPattern], listed: dict[str, list[str]]) -> list[Target]:
    """Expand patterns against what providers list, take out exclusions, drop doubles, keep the order."""
    chosen: dict[Target, None] = {}
    for pattern in patterns:
        if pattern.excludes:
            continue
        target = pattern.target
        if not pattern.is_wild:
            chosen[target] = None
            continue
        names = listed.get(target.provider, [])
        for name in names:
            if fnmatch.fnmatchcase(name, target.model):
                chosen[Target(target.provider, name, target.thinking_level)] = None
    excluded = [pattern for pattern in patterns if pattern.excludes]
    return [target for target in chosen if not any(pattern.matches(target) for pattern in excluded)]
