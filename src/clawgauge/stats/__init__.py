"""Pure numbers: intervals, tiers, percentiles, what repeats are worth, paired tests, evidence over time.

A figure that does not exist (no trials, one cluster) is None, never 0 and never NaN.
"""

from clawgauge.stats.changes import find_change
from clawgauge.stats.eprocess import (
    can_tell_tier_1,
    confidence_sequence,
    tell_above,
    tell_tier_1,
    tier_1_bounds,
)
from clawgauge.stats.paired import PairedDifference, above_zero_p, holm, mcnemar_exact, paired_difference, sign_flip_p
from clawgauge.stats.proportions import (
    Z95,
    Cluster,
    Interval,
    clustered_interval,
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
    TierPosterior,
    clean_passes_needed,
    effective_counts,
    is_decided,
    judge_tier_1,
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
    "TierPosterior",
    "above_zero_p",
    "can_tell_tier_1",
    "clean_passes_needed",
    "clustered_interval",
    "confidence_sequence",
    "describe",
    "effective_counts",
    "find_change",
    "holm",
    "is_decided",
    "judge_tier_1",
    "mcnemar_exact",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentile_interval",
    "point_tier",
    "samples_needed",
    "sign_flip_p",
    "tell_above",
    "tell_tier_1",
    "tier_1_bounds",
    "tier_posterior",
    "wilson_interval",
]
