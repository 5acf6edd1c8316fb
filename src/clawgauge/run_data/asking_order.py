"""The order in which the prompts of a run are asked, as far as the answers do not change it.

It is the same for everybody who asks the same suites, and knows nothing of how hard a prompt is:
two runs can be compared by the prompts that both have asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from clawgauge.records import Prompt, PromptKey
from clawgauge.run_data.evidence import ARGUMENTS, CALLS, TASKS, EvidencePools

T = TypeVar("T")
# Texts of more characters are long: to read one costs more than a task of several calls.
_LONG_CHARS = 20_000
_NATIVE = (CALLS, ARGUMENTS)


class Effort(IntEnum):
    """What it costs to ask a prompt. What is cheap is asked first."""

    ONE_CALL = 0
    TASK = 1
    LONG_TEXT = 2


class TextToAsk(NamedTuple):
    """A prompt, and which drawing of it."""

    prompt: Prompt
    draw: int


class Source(NamedTuple):
    """Prompts that tell of the same needs, in the order of asking."""

    pools: tuple[str, ...]
    effort: Effort
    texts: list[TextToAsk]


def order_sources(
    prompts: Sequence[Prompt],
    pools: EvidencePools,
    versions: Mapping[str, str],
    order: int,
    n_drawings: int,
) -> list[Source]:
    """The sources of a run: prompts with native tools, restraint, the jobs' own prompts, tasks.

    `versions` are those of the suites, by name; another `order` is another order of the same
    prompts.
    """
    names: list[tuple[str, ...]] = [_NATIVE]
    for name in pools.pools:
        if name not in (CALLS, ARGUMENTS, TASKS):
            names.append((name,))
    names.append((TASKS,))
    sources = []
    for pool_names in names:
        pool = pools.pools[pool_names[0]]
        members = [prompt for prompt in prompts if prompt.key in pool.prompts]
        if not members:
            continue
        texts = order_texts(members, pools, versions, order, n_drawings)
        sources.append(Source(pool_names, _find_effort(members), texts))
    return sources


def _find_effort(prompts: Iterable[Prompt]) -> Effort:
    efforts = []
    for prompt in prompts:
        if prompt.world is not None:
            efforts.append(Effort.TASK)
        elif sum(map(len, prompt.texts)) > _LONG_CHARS:
            efforts.append(Effort.LONG_TEXT)
        else:
            efforts.append(Effort.ONE_CALL)
    return max(efforts)


def order_texts(
    prompts: Sequence[Prompt],
    pools: EvidencePools,
    versions: Mapping[str, str],
    order: int,
    n_drawings: int,
) -> list[TextToAsk]:
    """All families as written, then their variants, then the drawings 1, 2 … of each family.

    Categories take turns, so that whenever the asking stops, it has seen as many kinds of prompt
    as it could; of tasks that are the levels.
    """
    firsts: dict[PromptKey, list[Prompt]] = {}
    variants: dict[PromptKey, list[Prompt]] = {}
    for prompt in prompts:
        family = pools.family(prompt.key)
        is_variant = prompt.variant_of not in (None, prompt.id)
        if family in firsts and is_variant:
            variants.setdefault(family, []).append(prompt)
        else:
            firsts.setdefault(family, []).append(prompt)
    families = _order_families(firsts, versions, order)
    texts = []
    for family in families:
        texts += [TextToAsk(prompt, 0) for prompt in firsts[family]]
    for turn in zip_longest(*(variants.get(family, ()) for family in families)):
        texts += [TextToAsk(prompt, 0) for prompt in turn if prompt is not None]
    for draw in range(1, n_drawings + 1):
        for family in families:
            texts += [TextToAsk(prompt, draw) for prompt in firsts[family]]
    return texts


def _order_families(
    firsts: Mapping[PromptKey, Sequence[Prompt]], versions: Mapping[str, str], order: int
) -> list[PromptKey]:
    """The families of each category in an order that their suite draws; categories take turns."""
    by_category = _group(firsts, lambda family: (family[0], firsts[family][0].category))
    shuffled = []
    for (suite, category), families in by_category.items():
        drawn = sorted(families)
        seed = f"{suite} {versions.get(suite, '')} {category} {order}"
        random.Random(seed).shuffle(drawn)
        shuffled.append(drawn)
    return list(_take_turns(shuffled))


def _group(
    members: Iterable[PromptKey], key: Callable[[PromptKey], tuple[str, str | None]]
) -> dict[tuple[str, str | None], list[PromptKey]]:
    """The members that have a key in common, in the order in which the keys come up."""
    groups: dict[tuple[str, str | None], list[PromptKey]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def _take_turns(groups: Sequence[Sequence[T]]) -> Iterator[T]:
    """The first of each group, then the second of each, and so on."""
    for turn in zip_longest(*groups):
        for member in turn:
            if member is not None:
                yield member
