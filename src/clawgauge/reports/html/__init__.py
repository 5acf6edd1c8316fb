"""A report as one HTML file: the answer, the charts behind it, and every call to look at.

Owns: choosing what fits a page, packing it, and the page with its scripts and styles in `static/`. Refuses: computing
figures, reading run folders, loading anything from anywhere, and treating a word of a model as markup.
"""

from clawgauge.reports.html.choice import MAX_CALLS
from clawgauge.reports.html.document import ReportRun
from clawgauge.reports.html.page import render_report
from clawgauge.reports.html.survey import CallRow

__all__ = ["MAX_CALLS", "CallRow", "ReportRun", "render_report"]
