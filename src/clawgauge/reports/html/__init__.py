"""A report as one HTML file: the answer, the charts behind it, and every call to look at."""

from clawgauge.reports.html.page import ReportRun, render_report
from clawgauge.reports.html.survey import CallRow

__all__ = ["CallRow", "ReportRun", "render_report"]
