"""Pure numbers: intervals, tiers, percentiles, what repeats are worth, paired tests.

A figure that does not exist (no trials, one cluster) is None, never 0 and never NaN.
"""

from clawgauge.stats.paired import (
    ALPHA,
    BetweenRuns,
    Moved,
    agree,
    compare_run_means,
    holm,
    mcnemar_exact,
    median_interval,
    paired_rate_interval,
    sign_flip_p,
    smallest_rate_change,
    smallest_ratio_change,
)
from clawgauge.stats.proportions import (
    Cluster,
    Interval,
    newcombe_interval,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from clawgauge.stats.quantiles import (
    CountedValues,
    Distribution,
    describe,
    percentile,
    percentile_interval,
    samples_needed,
)
from clawgauge.stats.tiers import (
    DECIDED_LEVEL,
    TIER_1_RATE,
    TIER_2_RATE,
    EffectiveCounts,
    clean_passes_needed,
    effective_counts,
    is_decided,
    point_tier,
    tier_posterior,
)

__all__ = [
    "ALPHA",
    "DECIDED_LEVEL",
    "TIER_1_RATE",
    "TIER_2_RATE",
    "BetweenRuns",
    "Cluster",
    "CountedValues",
    "Distribution",
    "EffectiveCounts",
    "Interval",
    "Moved",
    "agree",
    "clean_passes_needed",
    "compare_run_means",
    "describe",
    "effective_counts",
    "holm",
    "is_decided",
    "mcnemar_exact",
    "median_interval",
    "newcombe_interval",
    "paired_rate_interval",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentile_interval",
    "point_tier",
    "samples_needed",
    "sign_flip_p",
    "smallest_rate_change",
    "smallest_ratio_change",
    "tier_posterior",
    "wilson_interval",
]
