"""Results in, figures out: one group per target, every rate with its n, every tier with its evidence.

Owns: `summarize` for rows at hand and `summarize_folder` for a run folder. Refuses: calling models, judging answers and
writing files; all it says can be rebuilt from a run folder alone.
"""

from clawgauge.summary.rows import InvocationRow, SummaryRow
from clawgauge.summary.run import summarize, summarize_folder

__all__ = ["InvocationRow", "SummaryRow", "summarize", "summarize_folder"]
