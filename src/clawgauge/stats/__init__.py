"""Pure numbers: `proportions` and what repeats are worth, `tiers`, `quantiles`, `paired` tests, evidence over time.

A figure that does not exist (no trials, one cluster) is None, never 0 and never NaN.
"""
