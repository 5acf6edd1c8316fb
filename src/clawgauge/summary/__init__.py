"""Results in, figures out: one group per target, every rate with its n, every tier with its evidence."""

from clawgauge.summary.rows import InvocationRow, SummaryRow
from clawgauge.summary.run import summarize, summarize_folder

__all__ = ["InvocationRow", "SummaryRow", "summarize", "summarize_folder"]
