"""Puts summary.json and summary.md into a held run folder."""

from __future__ import annotations

from clawgauge.journal import RunFolder, read_config
from clawgauge.records import RunSummary
from clawgauge.reports.markdown import render_markdown
from clawgauge.summary import summarize_folder


def write_summary(folder: RunFolder) -> RunSummary:
    """Summarise what is recorded now, and keep it."""
    summary = summarize_folder(folder.path)
    folder.write_json("summary.json", summary)
    folder.write_text("summary.md", render_markdown(summary, read_config(folder.path)))
    return summary
