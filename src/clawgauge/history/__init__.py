"""Many runs as one: what was run when, how each model fared over time, what is missing and how to fill it.

Owns: reading a folder of runs, with the summaries they already have. Refuses: calling models and writing; a folder that
cannot be read is listed, and the rest is shown.
"""

from clawgauge.history.filling import FillStep
from clawgauge.history.findings import Coverage, FillCommand, History, Point, RunLine, Trend, UnreadableRun
from clawgauge.history.overview import read_history

__all__ = [
    "Coverage",
    "FillCommand",
    "FillStep",
    "History",
    "Point",
    "RunLine",
    "Trend",
    "UnreadableRun",
    "read_history",
]
