"""Which model for which job: one function from the figures of a run to a verdict on each, in words that all show."""

from clawgauge.verdict.jobs import BUILT_IN, best_first, judge_jobs, order_targets, word_run
from clawgauge.verdict.load import judge_load

__all__ = ["BUILT_IN", "best_first", "judge_jobs", "judge_load", "order_targets", "word_run"]
