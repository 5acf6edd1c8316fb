"""The figures of one step of a capacity run: a steady load and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from clawgauge.figures.values import (
    Amount,
    Better,
    Figure,
    Percentile,
    PercentileName,
    Titles,
    Unit,
)
from clawgauge.records import Percentiles, StepSummary


def _amount(
    name: str,
    unit: Unit,
    better: Better,
    titles: Titles,
    read: Callable[[StepSummary], float | None],
) -> Figure[StepSummary]:
    return Figure(name, unit, better, lambda step: Amount(read(step)), titles)


def _percentiles(
    name: str, label: str, read: Callable[[StepSummary], Percentiles]
) -> list[Figure[StepSummary]]:
    figures = []
    names: tuple[PercentileName, ...] = ("p50", "p95", "p99")
    for percentile in names:
        title = f"{label} {percentile}"
        figure = Figure(
            name=f"{name}_{percentile}_ms",
            unit="ms",
            better="lower",
            read=partial(_read_percentile, read, percentile),
            titles=Titles(title, title),
        )
        figures.append(figure)
    return figures


def _read_percentile(
    read: Callable[[StepSummary], Percentiles], name: PercentileName, step: StepSummary
) -> Percentile:
    return Percentile.of(read(step), name)


_TABLE: list[Figure[StepSummary]] = [
    _amount("n", "count", None, Titles("n", "Calls"), lambda step: step.n),
    _amount("visits", "count", None, Titles("visits", "Visits"),
            lambda step: len(step.trusted_visits) if step.concurrency else None),
    _amount("requests_per_s", "per_s", "higher", Titles("requests/s", "Requests/s"),
            lambda step: step.requests_per_s),
    _amount("output_tokens_per_s", "tps", "higher", Titles("tokens/s", "Tokens/s"),
            lambda step: step.output_tokens_per_s),
    *_percentiles("ttft", "first token", lambda step: step.ttft_ms),
    *_percentiles("tpot", "tpot", lambda step: step.tpot_ms),
    *_percentiles("itl", "itl", lambda step: step.itl_ms),
    *_percentiles("e2e", "e2e", lambda step: step.e2e_ms),
    _amount("queue_ms", "ms", "lower", Titles("queue", "Queue"),
            lambda step: step.server_ms.get("queue")),
    _amount("prefill_ms", "ms", "lower", Titles("prefill", "Prefill"),
            lambda step: step.server_ms.get("prefill")),
    _amount("attained", "rate", "higher", Titles("within limits", "Within limits"),
            lambda step: step.attained),
    _amount("n_failed", "count", "lower", Titles("failed", "Failed"),
            lambda step: step.n_failed),
    _amount("output_tokens", "count", None, Titles("answer", "Answer"),
            lambda step: step.output_tokens),
    _amount("cached_tokens", "count", "higher", Titles("cached", "Cached"),
            lambda step: step.cached_tokens),
]  # fmt: skip
LOAD_FIGURES: Mapping[str, Figure[StepSummary]] = {figure.name: figure for figure in _TABLE}
