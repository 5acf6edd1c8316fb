"""A report as one HTML file: the answer, the charts behind it, and every call to look at."""

from clawgauge.reports.html.calls import Survey
from clawgauge.reports.html.page import read_runs, render_report

__all__ = ["Survey", "read_runs", "render_report"]
