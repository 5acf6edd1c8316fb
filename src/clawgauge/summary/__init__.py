"""Rows in, figures out: one group per target, every rate with its n, every tier with its evidence."""

from clawgauge.summary.figures import summarize, summarize_folder
from clawgauge.summary.groups import Strata

__all__ = ["Strata", "summarize", "summarize_folder"]
