"""Make one HTML file of one or more runs: the answer, charts, and every call to look at. It loads nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "one self-contained HTML file to look at"
EXAMPLES = """\
examples:
  clawgauge report latest                              report.html in the run folder
  clawgauge report 20260213_235930 20260214_101500 -o both.html
  clawgauge report ../old-harness/runs/20260101_120000 -o - > old.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run id, a path to a run folder, or latest")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; - for stdout (default: the first RUN's folder)"
    )
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.reporting import report_runs

    return report_runs(arguments.runs, arguments.runs_dir, arguments.output)
