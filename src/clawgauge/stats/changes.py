"""Has a figure changed its level somewhere in a row of runs? One that may be asked after every run.

An e-detector (Shin, Ramdas & Rinaldo 2022): for every run at which the level may have changed, the evidence that it
did, all added up as the runs come in. Were there no change, that sum would be t after t runs on average, so it reaches
1,000 within 50 runs in at most 5% of all rows. The evidence is a Bayes factor of two means (Gönen et al. 2005), whose
spread is that between the runs themselves, however much more alike the calls within one run may be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

RUNS_AT_5_PERCENT = 50
_ALARM = RUNS_AT_5_PERCENT / 0.05
# Prior variances of the change, in those of a run: some standard deviations, or many.
_VARIANCES = (4.0, 30.0)
_MAX_LOG = 50.0
_MIN_RUNS = 2


def find_change(values: Sequence[float], usual_sd: float, n_usual: int = 4) -> int | None:
    """The index of the first value after the latest change of level; None where none is seen.

    `usual_sd` is what values commonly differ by from run to run, and counts as much as `n_usual` runs would: without it
    nothing could be said of the first few.
    """
    begin, found = 0, None
    for end in range(_MIN_RUNS, len(values) + 1):
        evidence = _evidence(values[begin:end], usual_sd, n_usual)
        if evidence and math.fsum(evidence) >= _ALARM:
            begin = found = begin + 1 + evidence.index(max(evidence))
    return found


def _evidence(values: Sequence[float], usual_sd: float, n_usual: int) -> list[float]:
    """The Bayes factor of a change after the first value, after the second, and so on but the last."""
    n, sums, squares = len(values), list(accumulate(values)), list(accumulate(v * v for v in values))
    factors = []
    for n_before in range(1, n):
        n_after, before = n - n_before, sums[n_before - 1]
        after = sums[-1] - before
        within = squares[-1] - before * before / n_before - after * after / n_after
        n_effective, freedom = n_before * n_after / n, n - 2 + n_usual
        variance = (max(0.0, within) + n_usual * usual_sd**2) / freedom
        t_squared = (after / n_after - before / n_before) ** 2 * n_effective / variance
        factors.append(math.fsum(_factor(t_squared, n_effective, freedom, g) for g in _VARIANCES) / len(_VARIANCES))
    return factors


def _factor(t_squared: float, n_effective: float, freedom: int, prior_variance: float) -> float:
    wider = 1.0 + n_effective * prior_variance
    gain = math.log1p(t_squared / freedom) - math.log1p(t_squared / (freedom * wider))
    return math.exp(min(_MAX_LOG, (freedom + 1) / 2 * gain - math.log(wider) / 2))
