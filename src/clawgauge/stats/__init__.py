"""Pure numbers: intervals, tiers, percentiles, clustered errors, paired tests.

Owns: every formula behind a figure a person reads. Refuses: records, files, wording, and any package outside the
standard library; whoever calls decides what counts as a trial and how to say the outcome. A figure that does not exist
(no trials, one cluster) is None, never 0 and never NaN.
"""

from clawgauge.stats.clusters import (
    Cluster,
    EffectiveCounts,
    clustered_error,
    design_effect,
    effective_counts,
    effective_size,
    naive_error,
    pass_at_k,
    pass_hat_k,
)
from clawgauge.stats.distributions import binomial_cdf, regularized_beta, student_t_cdf, student_t_quantile
from clawgauge.stats.intervals import Z95, Interval, newcombe_interval, wilson_interval
from clawgauge.stats.pairs import PairedDifference, holm, mcnemar_exact, paired_difference, sign_flip_p
from clawgauge.stats.quantiles import (
    Distribution,
    OrderInterval,
    describe,
    order_interval,
    percentile,
    percentile_interval,
    samples_needed,
)
from clawgauge.stats.sequential import Sprt
from clawgauge.stats.tiers import (
    DECIDED_LEVEL,
    TierPosterior,
    clean_passes_needed,
    is_decided,
    point_tier,
    tier_posterior,
)

__all__ = [
    "DECIDED_LEVEL",
    "Z95",
    "Cluster",
    "Distribution",
    "EffectiveCounts",
    "Interval",
    "OrderInterval",
    "PairedDifference",
    "Sprt",
    "TierPosterior",
    "binomial_cdf",
    "clean_passes_needed",
    "clustered_error",
    "describe",
    "design_effect",
    "effective_counts",
    "effective_size",
    "holm",
    "is_decided",
    "mcnemar_exact",
    "naive_error",
    "newcombe_interval",
    "order_interval",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentile_interval",
    "point_tier",
    "regularized_beta",
    "samples_needed",
    "sign_flip_p",
    "student_t_cdf",
    "student_t_quantile",
    "tier_posterior",
    "wilson_interval",
]
