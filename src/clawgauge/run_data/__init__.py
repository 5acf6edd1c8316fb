"""A run folder as data: each file read once, the one view of a recorded line, and what was planned
beside what is done.

Everything that reads a run asks a `Run`. It streams its rows to whoever counts them and keeps
none."""

from clawgauge.run_data.row import Collector, Row, RowsRead, Run
from clawgauge.run_data.schedule import Schedule, read_schedule

__all__ = ["Collector", "Row", "RowsRead", "Run", "Schedule", "read_schedule"]
