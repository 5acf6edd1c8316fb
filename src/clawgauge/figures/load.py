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
    title: str,
    read: Callable[[StepSummary], float | None],
) -> Figure[StepSummary]:
    return Figure(name, unit, better, "load", lambda step: Amount(read(step)), Titles(title, title))


def _percentiles(
    name: str, read: Callable[[StepSummary], Percentiles]
) -> list[Figure[StepSummary]]:
    figures = []
    names: tuple[PercentileName, ...] = ("p50", "p95", "p99")
    for percentile in names:
        title = f"{name} {percentile}"
        figure = Figure(
            name=f"{name}_{percentile}_ms",
            unit="ms",
            better="lower",
            scope="load",
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
    _amount("n", "count", None, "n", lambda step: step.n),
    _amount("requests_per_s", "per_s", "higher", "requests/s", lambda step: step.requests_per_s),
    _amount("output_tokens_per_s", "tps", "higher", "tokens/s",
            lambda step: step.output_tokens_per_s),
    *_percentiles("ttft", lambda step: step.ttft_ms),
    *_percentiles("tpot", lambda step: step.tpot_ms),
    *_percentiles("itl", lambda step: step.itl_ms),
    *_percentiles("e2e", lambda step: step.e2e_ms),
    _amount("queue_ms", "ms", "lower", "queue", lambda step: step.server_ms.get("queue")),
    _amount("prefill_ms", "ms", "lower", "prefill", lambda step: step.server_ms.get("prefill")),
    _amount("attained", "rate", "higher", "within limits", lambda step: step.attained),
    _amount("n_failed", "count", "lower", "failed", lambda step: step.n_failed),
    _amount("output_tokens", "count", None, "answer", lambda step: step.output_tokens),
    _amount("cached_tokens", "count", "higher", "cached", lambda step: step.cached_tokens),
]  # fmt: skip
LOAD_FIGURES: Mapping[str, Figure[StepSummary]] = {figure.name: figure for figure in _TABLE}
