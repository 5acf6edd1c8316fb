"""Two models on the prompts that both were asked: in how many families only one of them was
right."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from clawgauge.records import PromptKey
from clawgauge.run_data.evidence import Evidence

_Place: TypeAlias = tuple[int, bool, str]
"""Where a text stands in its family: by its drawing, variants after the prompt they are of."""


class Wins(NamedTuple):
    """Of the `n_shared` families that both models were asked, how many only one was right in."""

    n_shared: int
    only_a: int
    only_b: int


def count_wins(a: Evidence, b: Evidence, pools: Collection[str]) -> Wins:
    """How two models stand in the families of some pools.

    A family counts once, by the first of its texts that only one model passed: what its answers
    have in common makes no second win. So of two equal models each is as likely to win a family,
    and texts of families in which they do not differ yet are as good as new prompts.
    """
    passed_by_a = _find_passes(a, pools)
    passed_by_b = _find_passes(b, pools)
    n_shared = 0
    only_a = 0
    only_b = 0
    for family, texts_of_a in passed_by_a.items():
        texts_of_b = passed_by_b.get(family, {})
        shared = sorted(texts_of_a.keys() & texts_of_b.keys())
        n_shared += bool(shared)
        for place in shared:
            if texts_of_a[place] == texts_of_b[place]:
                continue
            only_a += texts_of_a[place]
            only_b += texts_of_b[place]
            break
    return Wins(n_shared, only_a, only_b)


def _find_passes(evidence: Evidence, names: Collection[str]) -> dict[PromptKey, dict[_Place, bool]]:
    """What a model passed, by family and text; the two halves of a pair are one text, once both
    are there."""
    pools = [evidence.pools.pools[name] for name in names if name in evidence.pools.pools]
    passes: dict[PromptKey, dict[_Place, bool]] = {}
    first_halves: dict[tuple[PromptKey, _Place], bool] = {}
    for prompt, draw, seen in evidence.observations.counting():
        holding = [pool for pool in pools if prompt in pool.prompts]
        if not holding or seen.passed is None:
            continue
        if seen.is_refusal and all(pool.leaves_out_refusals for pool in holding):
            continue
        passed = seen.passed
        family = evidence.pools.family(prompt)
        if family in evidence.pools.pairs:
            place = (draw, False, "")
            first_half = first_halves.pop((family, place), None)
            if first_half is None:
                first_halves[family, place] = passed
                continue
            passed = passed and first_half
        else:
            is_variant = prompt != family
            place = (draw, is_variant, prompt[1] if is_variant else "")
        passes.setdefault(family, {})[place] = passed
    return passes
