"""Many comparisons shown at once: p-values that take it into account.

Owns: Holm's step-down rule, which reports use; Bonferroni's, which it improves on; and Benjamini and Hochberg's, which
bounds the share of false alarms instead of their chance. Refuses: choosing which comparisons belong together.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(_ascending(p_values)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Every p-value times their number, 1 at most."""
    return [min(1.0, len(p_values) * p) for p in p_values]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """False-discovery-rate adjusted p-values, in the order given."""
    adjusted = [1.0] * len(p_values)
    running = 1.0
    for rank, index in reversed(list(enumerate(_ascending(p_values), 1))):
        running = min(running, len(p_values) / rank * p_values[index])
        adjusted[index] = running
    return adjusted


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)
