"""Columns of numbers as summary.json has them.

Owns: which percentiles are only indicative. Refuses: choosing columns.
"""

from __future__ import annotations

from clawgauge.records import LatencyStats, Percentiles
from clawgauge.stats import Distribution, samples_needed

_MIN_SAMPLES = {"p95": samples_needed(0.95), "p99": samples_needed(0.99)}


def to_latency_stats(figures: Distribution) -> LatencyStats:
    """The schema document's four figures."""
    return LatencyStats(p50=figures.p50, p95=figures.p95, p99=figures.p99, mean=figures.mean)


def to_percentiles(figures: Distribution) -> Percentiles:
    """All figures, with their intervals and the names of those that rest on too few calls."""
    thin = [name for name, least in _MIN_SAMPLES.items() if 0 < figures.n < least]
    return Percentiles(**figures._asdict(), indicative=thin)
