"""Many runs as one: what was run when, how each model fared over time, what is missing and how to fill it."""

from clawgauge.history.coverage import FillStep
from clawgauge.history.findings import Coverage, FillCommand, History, Point, RunLine, Trend
from clawgauge.history.trends import read_history

__all__ = [
    "Coverage",
    "FillCommand",
    "FillStep",
    "History",
    "Point",
    "RunLine",
    "Trend",
    "read_history",
]
