"""The scores of a model, and what it is compared with others by: the means of its prompt families;
for runs of earlier versions, its scores over prompts drawn anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from clawgauge.figures import timed
from clawgauge.records import PromptKey
from clawgauge.records.summary import FamilyMeans
from clawgauge.routing.evidence import Cell, Evidence
from clawgauge.stats.proportions import lower_end
from clawgauge.stats.tiers import effective_counts
from clawgauge.summary.groups import BEYOND_MS
from clawgauge.verdict.ranking import (
    HALF_COST_USD,
    HALF_P95_MS,
    HALF_TTFT_MS,
    ComparedModel,
    score_falling,
)

_MIN_RESAMPLES = 200
_MAX_RESAMPLES = 500
# Of all resamplings together: a second on a slow machine.
_MAX_STEPS = 1_000_000
# A percentile of more times than these is the same to any digit a score has.
_MAX_TIMES = 2_000
Drawn: TypeAlias = Mapping[PromptKey, int]
"""How often each family of prompts was drawn."""


class Scores:
    """One model's scores between 0 and 1, as measured and over families drawn anew; rates by their
    lower end."""

    def __init__(self, evidence: Evidence) -> None:
        group = evidence.group
        cells = evidence.cells.values()
        effective = effective_counts(list(evidence.verdicts.values()))
        self._n_verdicts = effective.trials if effective else 0.0
        self._n_tools = group.tool_use.n_eff or group.tool_use.n
        self._verdicts = [(family, *counts) for family, counts in evidence.verdicts.items()]
        self._tools: list[tuple[PromptKey, int, int]] = []
        ttfts_ms: list[tuple[int, PromptKey]] = []
        for cell in cells:
            if cell.used_tool is not None:
                self._tools.append((cell.family, int(cell.used_tool), 1))
            if cell.ttft_ms is not None:
                ttfts_ms.append((cell.ttft_ms, cell.family))
        self._times_ms = _descending(_censored_times(cells))
        self._ttfts_ms = _descending(ttfts_ms)
        # An unknown price is not a low one.
        self._cost = find_cost_score(evidence) or 0.0
        times = timed(group)
        self.measured = self._score(
            pass_rate=effective.passes / effective.trials if effective else None,
            tool_rate=group.tool_use.rate,
            p95_ms=None if "p95" in times.beyond else times.p95,
            ttft_ms=group.ttft_ms.p50,
        )
        self.families = {*evidence.verdicts, *(cell.family for cell in cells)}

    @property
    def n_steps(self) -> int:
        """How much work one resampling is."""
        columns = (self._verdicts, self._tools, self._times_ms, self._ttfts_ms)
        return 1 + sum(len(column) for column in columns)

    def over(self, drawn: Drawn) -> dict[str, float]:
        """The scores had these families been asked, each so many times."""
        p95_ms = _drawn_percentile(self._times_ms, drawn, 0.95)
        if p95_ms == BEYOND_MS:
            # Among the timeouts: nobody knows how long it is, and a short deadline must not make it
            # look short.
            p95_ms = None
        return self._score(
            pass_rate=_drawn_rate(self._verdicts, drawn),
            tool_rate=_drawn_rate(self._tools, drawn),
            p95_ms=p95_ms,
            ttft_ms=_drawn_percentile(self._ttfts_ms, drawn, 0.50),
        )

    def _score(
        self,
        *,
        pass_rate: float | None,
        tool_rate: float | None,
        p95_ms: float | None,
        ttft_ms: float | None,
    ) -> dict[str, float]:
        return {
            "pass_rate": lower_end(pass_rate, self._n_verdicts),
            "tool_use": lower_end(tool_rate, self._n_tools),
            "latency": score_falling(p95_ms, HALF_P95_MS),
            "ttft": score_falling(ttft_ms, HALF_TTFT_MS),
            "cost": self._cost,
        }


def to_compared(evidence: Evidence) -> ComparedModel:
    """What a model is compared by, under the names of a policy's weights."""
    means = evidence.group.by_family or FamilyMeans(families=[], figures={})
    return ComparedModel(
        rates={"pass_rate": means.of("passes"), "tool_use": means.of("tools")},
        times={"latency": means.of("latency"), "ttft": means.of("first_token")},
        known={"cost": find_cost_score(evidence)},
    )


def find_cost_score(evidence: Evidence) -> float | None:
    """The score of what a call costs; None where that is not known."""
    if evidence.free_of_charge:
        return 1.0
    if evidence.cost_per_call_usd is None:
        return None
    return score_falling(evidence.cost_per_call_usd, HALF_COST_USD)


def weigh_scores(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of scores."""
    return sum(weights[name] * scores[name] for name in scores) / sum(weights.values())


def find_best_shares(models: Sequence[Scores], weights: Mapping[str, float]) -> list[float]:
    """In which share of resamplings, the same for all, each model has the highest score; equals
    share it."""
    families = sorted({family for model in models for family in model.families})
    if not families or len(models) < 2:
        return [1.0 / len(models) for _ in models]
    n_affordable = _MAX_STEPS // sum(model.n_steps for model in models)
    n_resamples = max(_MIN_RESAMPLES, min(_MAX_RESAMPLES, n_affordable))
    # The same every time: a run and a policy give one order.
    generator = random.Random(0)
    wins = [0.0] * len(models)
    for _ in range(n_resamples):
        drawn = dict.fromkeys(families, 0) | Counter(generator.choices(families, k=len(families)))
        scores = [weigh_scores(model.over(drawn), weights) for model in models]
        highest = max(scores)
        best = [index for index, score in enumerate(scores) if score == highest]
        for index in best:
            wins[index] += 1 / len(best)
    return [n_wins / n_resamples for n_wins in wins]


def _drawn_rate(counts: Iterable[tuple[PromptKey, int, int]], drawn: Drawn) -> float | None:
    passes = 0
    trials = 0
    for family, k, n in counts:
        passes += drawn[family] * k
        trials += drawn[family] * n
    return passes / trials if trials else None


def _censored_times(cells: Iterable[Cell]) -> Iterator[tuple[int, PromptKey]]:
    """The time of every answer, and of every timeout a time that is longer than any answer's."""
    for cell in cells:
        if cell.cut_off_ms is not None:
            yield BEYOND_MS, cell.family
        elif cell.latency_ms is not None:
            yield cell.latency_ms, cell.family


def _descending(times: Iterable[tuple[int, PromptKey]]) -> list[tuple[int, PromptKey]]:
    """The times in descending order; of very many, one in so many."""
    ordered = sorted(times, reverse=True)
    return ordered[:: len(ordered) // _MAX_TIMES + 1]


def _drawn_percentile(
    descending: Sequence[tuple[int, PromptKey]], drawn: Drawn, q: float
) -> float | None:
    n_above = (1 - q) * sum(drawn[family] for _, family in descending)
    for time_ms, family in descending:
        n_above -= drawn[family]
        if n_above < 0:
            return time_ms
    return None
