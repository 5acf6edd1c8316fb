"""The verdict on a figure of all pairs that are shown: the more there are, the more of them luck
alone moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from clawgauge.compare.findings import Paired, PairedRate, PairedShift, Verdict
from clawgauge.stats.paired import (
    ALPHA,
    NOTICEABLE_CHANGE,
    SMALL_ENOUGH_TO_SEE,
    holm,
    holm_level,
)

# 0.85 − 0.95 is not −0.1 in floats.
_TOLERANCE = 1e-9

Measured = TypeVar("Measured", PairedRate, PairedShift)
Found = TypeVar("Found", bound=Paired, covariant=True)


class Measurement(Protocol[Found]):
    def at(self, alpha: float) -> Found:
        """The figure with its interval at this level of significance, not corrected."""


def settle(measurements: Sequence[Measurement[Measured]]) -> list[Measured]:
    """One figure of all the pairs that are shown, each with its verdict: p-values and intervals
    corrected by Holm."""
    uncorrected = [measurement.at(ALPHA) for measurement in measurements]
    p_values_holm = holm([figure.p for figure in uncorrected])
    settled = []
    for measurement, figure, p_holm in zip(measurements, uncorrected, p_values_holm, strict=True):
        corrected = figure
        if len(measurements) > 1:
            corrected = measurement.at(holm_level(figure.p, p_holm, len(measurements)))
        settled.append(_settle_one(figure, p_holm, corrected))
    return settled


def _settle_one(figure: Measured, p_holm: float, corrected: Measured) -> Measured:
    verdict, reason = _judge(figure, p_holm, corrected)
    settled = msgspec.structs.replace(
        figure,
        p_holm=p_holm,
        verdict=verdict,
        reason=reason,
        ci_holm=corrected.ci95,
        smallest_change=corrected.smallest_change,
    )
    if isinstance(settled, PairedShift) and isinstance(corrected, PairedShift):
        return msgspec.structs.replace(settled, ratio_ci_holm=corrected.ratio_ci95)
    return settled


def _judge(figure: Paired, p_holm: float, corrected: Paired) -> tuple[Verdict, str | None]:
    """The verdict, and why where nothing can be told. A move that anybody would notice is never
    called no change, and neither is what could not have been seen. `corrected` is measured at the
    level that Holm's correction leaves."""
    if figure.reason is not None or figure.difference is None:
        return "cannot_tell", figure.reason
    if p_holm < ALPHA:
        return "changed", None
    if isinstance(figure, PairedRate) and figure.test == "bets":
        return "cannot_tell", (
            "the results of a side decided how many prompts it was asked, and these do not tell "
            "the two apart"
        )
    is_large = abs(_moved_share(figure)) >= NOTICEABLE_CHANGE - _TOLERANCE
    if not is_large and _sees_enough(corrected):
        return "no_change_seen", None
    reason = "so large a move may still be luck" if is_large else "this comparison is too small"
    if corrected.smallest_change:
        unit = "%" if isinstance(figure, PairedShift) else " points"
        size = f"{math.ceil(corrected.smallest_change * 100)}{unit}"
        reason += f": only a change of {size} or more is found in 4 of 5 cases here"
    return "cannot_tell", reason


def _moved_share(figure: Paired) -> float:
    """How far a rate moved, or by what share a time or a count did."""
    if not isinstance(figure, PairedShift):
        return figure.difference or 0.0
    return 0.0 if figure.ratio is None else figure.ratio - 1


def _sees_enough(corrected: Paired) -> bool:
    """Whether a change of a size that matters would have been found."""
    if corrected.smallest_change is not None:
        return corrected.smallest_change <= SMALL_ENOUGH_TO_SEE
    # Ratios that are all the same have an interval without width; else no change at all could be
    # found.
    return isinstance(corrected, PairedShift) and corrected.ratio_ci95 is not None
