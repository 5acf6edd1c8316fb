"""Which model for which job: from the figures of a run to a verdict on each.

`needs` holds a model against conditions, `ranking` orders models, `reasons` says why in codes,
`wording` in words."""

from clawgauge.verdict.jobs import BUILT_IN, best_first, judge_jobs, order_targets
from clawgauge.verdict.load import judge_load
from clawgauge.verdict.wording import word_run

__all__ = ["BUILT_IN", "best_first", "judge_jobs", "judge_load", "order_targets", "word_run"]
