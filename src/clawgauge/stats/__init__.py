"""Pure numbers: intervals, tiers, percentiles, what repeats are worth, paired tests.

A figure that does not exist (no trials, one cluster) is None, never 0 and never NaN.
"""

from clawgauge.stats.paired import PairedDifference, above_zero_p, holm, mcnemar_exact, paired_difference, sign_flip_p
from clawgauge.stats.proportions import (
    Z95,
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
    "DECIDED_LEVEL",
    "TIER_1_RATE",
    "TIER_2_RATE",
    "Z95",
    "Cluster",
    "CountedValues",
    "Distribution",
    "EffectiveCounts",
    "Interval",
    "PairedDifference",
    "above_zero_p",
    "clean_passes_needed",
    "describe",
    "effective_counts",
    "holm",
    "is_decided",
    "mcnemar_exact",
    "newcombe_interval",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentile_interval",
    "point_tier",
    "samples_needed",
    "sign_flip_p",
    "tier_posterior",
    "wilson_interval",
]
