"""The scores a model is placed by, and how surely it is the best: scored again over prompts that are drawn anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from clawgauge.records import PromptKey
from clawgauge.routing.evidence import Evidence
from clawgauge.stats import effective_counts, wilson_interval
from clawgauge.verdict.jobs import HALF_COST_USD, HALF_P95_MS, HALF_TTFT_MS

_MIN_RESAMPLES, _MAX_RESAMPLES = 200, 500
_STEPS = 1_000_000
# A percentile of more times than these is the same to any digit a score has.
_MAX_TIMES = 2_000
# How often each family was drawn.
Drawn: TypeAlias = Mapping[PromptKey, int]


class Scores:
    """One model's scores, each between 0 and 1, as measured and over families of prompts drawn anew.

    Rates count by the lower end of their interval: ten of ten says less than a hundred of a hundred.
    """

    def __init__(self, evidence: Evidence) -> None:
        group, tool_use, cells = evidence.group, evidence.group.tool_use, evidence.cells.values()
        effective = effective_counts(list(evidence.verdicts.values()))
        self._n_verdicts, self._n_tools = effective.trials if effective else 0.0, tool_use.n_eff or tool_use.n
        self._verdicts = [(family, *cluster) for family, cluster in evidence.verdicts.items()]
        self._tools = [(cell.family, int(cell.used_tool), 1) for cell in cells if cell.used_tool is not None]
        self._times_ms = _descending((cell.waited_ms, cell.family) for cell in cells if cell.answered)
        self._ttfts_ms = _descending((cell.ttft_ms, cell.family) for cell in cells if cell.ttft_ms is not None)
        self._cost = 1.0 if evidence.free_of_charge else _falling(evidence.cost_per_call_usd, HALF_COST_USD)
        passed = effective.passes / effective.trials if effective else None
        self.measured = self._score(passed, tool_use.rate, group.latency_ms.p95, group.ttft_ms.p50)
        self.families = {*evidence.verdicts, *(cell.family for cell in cells)}
        self.n_steps = 1 + len(self._verdicts) + len(self._tools) + len(self._times_ms) + len(self._ttfts_ms)

    def over(self, drawn: Drawn) -> dict[str, float]:
        """The scores over drawn families."""
        passed, used = _drawn_rate(self._verdicts, drawn), _drawn_rate(self._tools, drawn)
        times = _drawn_percentile(self._times_ms, drawn, 0.95), _drawn_percentile(self._ttfts_ms, drawn, 0.50)
        return self._score(passed, used, *times)

    def _score(
        self, passed: float | None, used: float | None, p95_ms: float | None, ttft_ms: float | None
    ) -> dict[str, float]:
        return {
            "pass_rate": _lower_end(passed, self._n_verdicts),
            "tool_use": _lower_end(used, self._n_tools),
            "latency": _falling(p95_ms, HALF_P95_MS),
            "ttft": _falling(ttft_ms, HALF_TTFT_MS),
            "cost": self._cost,
        }


def weigh(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean."""
    return sum(weights[name] * scores[name] for name in scores) / sum(weights.values())


def best_shares(models: Sequence[Scores], weights: Mapping[str, float]) -> list[float]:
    """In which share of resamplings each model has the highest score; equal ones share it.

    Families of prompts are drawn with replacement, the same for all models: what two of them find hard moves both.
    """
    families = sorted({family for one in models for family in one.families})
    if not families or len(models) < 2:
        return [1.0 / len(models) for _ in models]
    n_resamples = max(_MIN_RESAMPLES, min(_MAX_RESAMPLES, _STEPS // sum(one.n_steps for one in models)))
    generator, wins = random.Random(0), [0.0] * len(models)
    for _ in range(n_resamples):
        drawn = dict.fromkeys(families, 0) | Counter(generator.choices(families, k=len(families)))
        scores = [weigh(one.over(drawn), weights) for one in models]
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        for place in best:
            wins[place] += 1 / len(best)
    return [count / n_resamples for count in wins]


def _drawn_rate(clusters: Iterable[tuple[PromptKey, int, int]], drawn: Drawn) -> float | None:
    passes = trials = 0
    for family, k, n in clusters:
        passes += drawn[family] * k
        trials += drawn[family] * n
    return passes / trials if trials else None


def _descending(times: Iterable[tuple[int, PromptKey]]) -> list[tuple[int, PromptKey]]:
    ordered = sorted(times, reverse=True)
    return ordered[:: len(ordered) // _MAX_TIMES + 1]


def _drawn_percentile(descending: Sequence[tuple[int, PromptKey]], drawn: Drawn, q: float) -> float | None:
    above = (1 - q) * sum(drawn[family] for _, family in descending)
    for time_ms, family in descending:
        above -= drawn[family]
        if above < 0:
            return time_ms
    return None


def _lower_end(rate: float | None, n: float) -> float:
    bounds = None if rate is None else wilson_interval(rate * n, n)
    return bounds[0] if bounds else 0.0


def _falling(value: float | None, half: float) -> float:
    return 0.0 if value is None else half / (half + value)
