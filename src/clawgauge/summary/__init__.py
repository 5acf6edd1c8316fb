"""Results in, figures out: one group per target, every rate with its n, every tier with its evidence."""

from clawgauge.summary.rows import SummaryRow
from clawgauge.summary.run import summarize, summarize_folder

__all__ = ["SummaryRow", "summarize", "summarize_folder"]
