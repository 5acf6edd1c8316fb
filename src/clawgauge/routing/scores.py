"""The scores a model is placed by, and how surely it is the best: scored again over prompts that are drawn anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from clawgauge.records import PromptKey
from clawgauge.routing.evidence import Evidence
from clawgauge.stats import effective_counts, wilson_interval

# The value at which a score is one half: a p95 of five seconds, a first token after one, a cent a call.
HALF_P95_MS = 5_000.0
HALF_TTFT_MS = 1_000.0
HALF_COST_USD = 0.01
_MAX_RESAMPLES = 500
_MIN_RESAMPLES = 200
_STEPS = 1_000_000
# A percentile of more times than these is the same to any digit a score has.
_MAX_TIMES = 2_000


def score_all(evidence: Evidence) -> dict[str, float]:
    """Every score of a model, each between 0 and 1.

    Rates count by the lower end of their interval: ten of ten says less than a hundred of a hundred.
    """
    group, tool_use = evidence.group, evidence.group.tool_use
    effective = effective_counts(list(evidence.verdicts.values()))
    n_tools = tool_use.n_eff or tool_use.n
    return {
        "pass_rate": _lower_end(effective.passes, effective.trials) if effective else 0.0,
        "tool_use": tool_use.ci95[0] if tool_use.ci95 else _lower_end((tool_use.rate or 0.0) * n_tools, n_tools),
        "latency": _falling(group.latency_ms.p95, HALF_P95_MS),
        "ttft": _falling(group.ttft_ms.p50, HALF_TTFT_MS),
        "cost": 1.0 if evidence.free_of_charge else _falling(evidence.cost_per_call_usd, HALF_COST_USD),
    }


def weigh(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean."""
    return sum(weights[name] * scores[name] for name in scores) / sum(weights.values())


def best_shares(models: Sequence[Evidence], weights: Mapping[str, float]) -> list[float]:
    """In which share of resamplings each model has the highest score; equal ones share it.

    Families of prompts are drawn with replacement, the same for all models: what two of them find hard moves both.
    """
    families = sorted({family for one in models for family in (*one.verdicts, *(c.family for c in one.cells.values()))})
    if not families or len(models) < 2:
        return [1.0 / len(models) for _ in models]
    places = {family: place for place, family in enumerate(families)}
    columns = [_Columns(one, places) for one in models]
    n_resamples = max(_MIN_RESAMPLES, min(_MAX_RESAMPLES, _STEPS // sum(one.n_steps for one in columns)))
    generator, wins = random.Random(0), [0.0] * len(models)
    for _ in range(n_resamples):
        counts = Counter(generator.choices(range(len(families)), k=len(families)))
        drawn = [counts[place] for place in range(len(families))]
        scores = [weigh(one.scores(drawn), weights) for one in columns]
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        for place in best:
            wins[place] += 1 / len(best)
    return [count / n_resamples for count in wins]


class _Columns:
    """One model's cells by the place of their family, ready to be counted as often as it is drawn."""

    def __init__(self, evidence: Evidence, places: Mapping[PromptKey, int]) -> None:
        cells = [(places[cell.family], cell) for cell in evidence.cells.values()]
        tools = [(place, cell.used_tool) for place, cell in cells if cell.used_tool is not None]
        self._fixed = score_all(evidence)
        self._verdicts = [(places[family], *cluster) for family, cluster in evidence.verdicts.items()]
        self._n_verdicts = effective_counts(list(evidence.verdicts.values()))
        n_used, n_asked = Counter(place for place, used in tools if used), Counter(place for place, _ in tools)
        self._tools = [(place, n_used[place], n) for place, n in n_asked.items()]
        self._n_tools = evidence.group.tool_use.n_eff or evidence.group.tool_use.n
        self._times_ms = _descending((cell.e2e_ms, place) for place, cell in cells)
        self._ttfts_ms = _descending((cell.ttft_ms, place) for place, cell in cells)

    @property
    def n_steps(self) -> int:
        """How much one resampling has to look at."""
        return len(self._verdicts) + len(self._tools) + len(self._times_ms) + len(self._ttfts_ms) + 1

    def scores(self, drawn: Sequence[int]) -> dict[str, float]:
        verdict_trials = self._n_verdicts.trials if self._n_verdicts else 0.0
        return self._fixed | {
            "pass_rate": _rate_score(self._verdicts, drawn, verdict_trials),
            "tool_use": _rate_score(self._tools, drawn, self._n_tools),
            "latency": _falling(_drawn_percentile(self._times_ms, drawn, 0.95), HALF_P95_MS),
            "ttft": _falling(_drawn_percentile(self._ttfts_ms, drawn, 0.50), HALF_TTFT_MS),
        }


def _rate_score(clusters: Iterable[tuple[int, int, int]], drawn: Sequence[int], n_effective: float) -> float:
    passes = trials = 0
    for place, k, n in clusters:
        passes += drawn[place] * k
        trials += drawn[place] * n
    return _lower_end(passes / trials * n_effective, n_effective) if trials else 0.0


def _descending(times: Iterable[tuple[int | None, int]]) -> list[tuple[int, int]]:
    known = sorted(((time_ms, place) for time_ms, place in times if time_ms is not None), reverse=True)
    return known[:: len(known) // _MAX_TIMES + 1]


def _drawn_percentile(descending: Sequence[tuple[int, int]], drawn: Sequence[int], q: float) -> float | None:
    above = (1 - q) * sum(drawn[place] for _, place in descending)
    for time_ms, place in descending:
        above -= drawn[place]
        if above < 0:
            return time_ms
    return None


def _lower_end(passes: float, trials: float) -> float:
    bounds = wilson_interval(passes, trials)
    return bounds[0] if bounds else 0.0


def _falling(value: float | None, half: float) -> float:
    return 0.0 if value is None else half / (half + value)
