"""What repeats of a prompt say: how often one of k tries passes, and how often all of them do.

Owns: which prompts count (those judged at least k times) and the mean over them. Refuses: the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from clawgauge.records import Repeatability
from clawgauge.stats import pass_at_k, pass_hat_k
from clawgauge.summary.groups import EndingCount
from clawgauge.summary.schedule import PromptKey


def judge_repeatability(endings: Sequence[EndingCount], repeats: int) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, or where the plan is not known the fewest times a prompt was judged.

    None where nothing was asked twice.
    """
    trials: dict[PromptKey, tuple[int, int]] = {}
    for ending in endings:
        if ending.ending.judged:
            n, passes = trials.get(ending.prompt, (0, 0))
            trials[ending.prompt] = n + ending.n, passes + (ending.n if ending.ending.passed else 0)
    k = repeats or min((n for n, _ in trials.values()), default=0)
    if k < 2:
        return None
    counted = [(n, passes) for n, passes in trials.values() if n >= k]
    return Repeatability(
        k=k,
        n_prompts=len(counted),
        pass_at_k=_mean([pass_at_k(n, passes, k) for n, passes in counted]),
        pass_hat_k=_mean([pass_hat_k(n, passes, k) for n, passes in counted]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
