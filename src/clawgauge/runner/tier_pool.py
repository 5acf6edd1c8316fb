"""Which prompts the tier rests on, and in which order they tell the most. Pure.

Owns: the pool (prompts that offer tools and expect a call, or, where the plan has none, text prompts that expect a
tool; restraint and tasks are never in it) and its order. Refuses: outcomes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias, TypeVar

from clawgauge.records import Prompt

PromptKey: TypeAlias = tuple[str, str]
"""(suite, prompt id)."""

T = TypeVar("T")


def tier_pool(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts of a plan that count toward the tier, in the order in which to ask them one by one.

    Suites and categories take turns, and within them the prompts before their variants: whenever the asking stops, it
    has seen as many kinds of task as it could.
    """
    expecting = [prompt for prompt in prompts if prompt.expected_tools and not _stands_apart(prompt)]
    native = any(prompt.tools for prompt in expecting)
    pool = [prompt for prompt in expecting if bool(prompt.tools) == native]
    kinds = _grouped(((prompt.suite, prompt.category), prompt) for prompt in pool)
    return _take_turns([_take_turns(_grouped((p.variant_of or p.id, p) for p in kind)) for kind in kinds])


def pool_key(prompt: Prompt) -> PromptKey:
    """What a prompt is found by in the pool."""
    return prompt.suite, prompt.id


def _stands_apart(prompt: Prompt) -> bool:
    validator: dict[str, Any] = prompt.validator
    restraint = validator.get("type") == "tool_call" and bool(validator.get("no_call") or validator.get("ask"))
    return restraint or prompt.world is not None or validator.get("type") == "world_state"


def _grouped(pairs: Iterable[tuple[Hashable, T]]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return list(groups.values())


def _take_turns(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each, and so on."""
    return [member for turn in zip_longest(*groups) for member in turn if member is not None]
