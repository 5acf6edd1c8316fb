"""A report as one HTML file: the answer, the charts behind it, and every call to look at."""

from clawgauge.reports.html.page import render_report
from clawgauge.reports.html.survey import Survey, read_runs

__all__ = ["Survey", "read_runs", "render_report"]
