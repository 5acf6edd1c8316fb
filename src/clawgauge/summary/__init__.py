"""Rows in, figures out: one group per target, every rate with its n, every tier with its
evidence."""

from clawgauge.summary.groups import Strata
from clawgauge.summary.summarize import summarize, summarize_folder

__all__ = ["Strata", "summarize", "summarize_folder"]
