"""Pure numbers: intervals, tiers, percentiles, clustered errors, paired tests.

Owns: every formula behind a figure a person reads. Refuses: records, files, wording, and any package outside the
standard library; whoever calls decides what counts as a trial and how to say the outcome. A figure that does not exist
(no trials, one cluster) is None, never 0 and never NaN.
"""

from clawgauge.stats.adjustments import benjamini_hochberg, bonferroni, holm
from clawgauge.stats.clusters import (
    Cluster,
    clustered_error,
    design_effect,
    naive_error,
    pass_at_k,
    pass_hat_k,
    prompt_means_error,
)
from clawgauge.stats.designs import BinomialDesign, binomial_design, prompts_needed
from clawgauge.stats.distributions import (
    beta_quantile,
    binomial_cdf,
    regularized_beta,
    student_t_cdf,
    student_t_quantile,
)
from clawgauge.stats.evidence import EffectiveCounts, effective_counts, effective_size
from clawgauge.stats.intervals import (
    Z95,
    Interval,
    clopper_interval,
    jeffreys_interval,
    newcombe_interval,
    wilson_interval,
)
from clawgauge.stats.pairs import (
    PairedDifference,
    correlation,
    mcnemar_chi_square,
    mcnemar_exact,
    mcnemar_mid_p,
    paired_difference,
    sign_flip_p,
    unpaired_error,
)
from clawgauge.stats.quantiles import (
    CountedValues,
    Distribution,
    OrderInterval,
    describe,
    order_interval,
    percentile,
    percentile_interval,
    percentile_of_type,
    samples_for_interval,
    samples_needed,
    shortest_order_interval,
)
from clawgauge.stats.sequential import Forecast, Sprt
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
    "BinomialDesign",
    "Cluster",
    "CountedValues",
    "Distribution",
    "EffectiveCounts",
    "Forecast",
    "Interval",
    "OrderInterval",
    "PairedDifference",
    "Sprt",
    "TierPosterior",
    "benjamini_hochberg",
    "beta_quantile",
    "binomial_cdf",
    "binomial_design",
    "bonferroni",
    "clean_passes_needed",
    "clopper_interval",
    "clustered_error",
    "correlation",
    "describe",
    "design_effect",
    "effective_counts",
    "effective_size",
    "holm",
    "is_decided",
    "jeffreys_interval",
    "mcnemar_chi_square",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "naive_error",
    "newcombe_interval",
    "order_interval",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentile_interval",
    "percentile_of_type",
    "point_tier",
    "prompt_means_error",
    "prompts_needed",
    "regularized_beta",
    "samples_for_interval",
    "samples_needed",
    "shortest_order_interval",
    "sign_flip_p",
    "student_t_cdf",
    "student_t_quantile",
    "tier_posterior",
    "unpaired_error",
    "wilson_interval",
]
