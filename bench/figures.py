"""The few numbers a measurement is boiled down to. Pure; independent of the statistics it measures."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of values in ascending order, interpolated between neighbours."""
    if not ordered:
        raise ValueError("no values, no quantile")
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    return quantile(sorted(values), 0.5)


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the worst, rounded for reading."""
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "p50": round(quantile(ordered, 0.50), 3),
        "p95": round(quantile(ordered, 0.95), 3),
        "p99": round(quantile(ordered, 0.99), 3),
        "max": round(ordered[-1], 3),
    }


def median_of(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Key by key, the median over rounds of the same measurement."""
    return {key: round(median([one[key] for one in rounds]), 3) for key in rounds[0]}
