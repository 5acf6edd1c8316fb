"""How many tool prompts a tier is likely to take, for models of a given true rate. Pure and exact.

Owns: the walk through every outcome of asking one prompt after another until the tier is decided. Refuses: knowing any
model; the rates are examples, one or two of each tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clawgauge.stats import DECIDED_LEVEL
from clawgauge.stats.tiers import TIER_1_RATE, TIER_2_RATE

EXAMPLE_RATES = (0.95, 0.9, 0.65, 0.3)
# A model that takes more than this to decide sits on a border, where no number of prompts is enough.
_LOOK_AHEAD = 200
_HALF = 0.5


class Foresight(NamedTuple):
    """What asking a model of true rate `rate` is likely to take.

    Half of such models are decided within `median` prompts (None: not within 200), and the share `p_decided` within
    as many as the plan has.
    """

    rate: float
    median: int | None
    p_decided: float


def foresee(n_prompts: int, rates: Sequence[float] = EXAMPLE_RATES) -> list[Foresight]:
    """One line for each rate, for a plan with `n_prompts` tool prompts."""
    walks = [_Walk(rate) for rate in rates]
    low, high = [1.0], [1.0]
    for n in range(1, _LOOK_AHEAD + 1):
        # Bin(n, ·) of the two borders becomes Bin(n + 1, ·), which the posterior after n answers is read from.
        low, high = (_one_more(pmf, border) for pmf, border in ((low, TIER_2_RATE), (high, TIER_1_RATE)))
        decided = _decided(_one_more(low, TIER_2_RATE), _one_more(high, TIER_1_RATE), n)
        for walk in walks:
            walk.step(n, decided, within_plan=n <= n_prompts)
        if n >= n_prompts and all(walk.median is not None for walk in walks):
            break
    return [Foresight(walk.rate, walk.median, walk.p_in_plan) for walk in walks]


class _Walk:
    """Where models of one rate stand after n answers, as long as they are undecided: chances by number of passes."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.median: int | None = None
        self.p_in_plan = 0.0
        self._p_decided = 0.0
        self._undecided = [1.0]

    def step(self, n: int, decided: list[bool], *, within_plan: bool) -> None:
        reached = _one_more(self._undecided, self.rate)
        self._p_decided += sum(p for p, is_over in zip(reached, decided, strict=True) if is_over)
        self._undecided = [0.0 if is_over else p for p, is_over in zip(reached, decided, strict=True)]
        if self.median is None and self._p_decided >= _HALF:
            self.median = n
        if within_plan:
            self.p_in_plan = self._p_decided


def _one_more(chances: list[float], rate: float) -> list[float]:
    """The chances of k passes after one more trial."""
    failed = [p * (1 - rate) for p in chances]
    passed = [p * rate for p in chances]
    return [a + b for a, b in zip([*failed, 0.0], [0.0, *passed], strict=True)]


def _decided(low: list[float], high: list[float], n: int) -> list[bool]:
    """Whether one tier has 95% of the probability, for k = 0 … n; `low`, `high`: Bin(n + 1) at the two borders."""
    found, below_low, below_high = [], 0.0, 0.0
    for k in range(n + 1):
        below_low += low[k]
        below_high += high[k]
        p1, p3 = below_high, 1.0 - below_low
        found.append(max(p1, p3, 1.0 - p1 - p3) >= DECIDED_LEVEL)
    return found
