"""Which model for which job: one function from the figures of a run to a verdict on each job.

Whoever shows an answer (terminal, summary.md, the page, `route`) shows these words in this order.
"""

from clawgauge.verdict.jobs import BUILT_IN as BUILT_IN
from clawgauge.verdict.jobs import best_first as best_first
from clawgauge.verdict.jobs import judge_jobs as judge_jobs
