"""Make one HTML file of one or more runs: the answer, charts, and every call to look at. It loads nothing."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from clawgauge.cli.files import open_run, tell_unreadable, write_output
from clawgauge.reports.html import Survey, read_runs, render_report

EXAMPLES = """\
examples:
  clawgauge report latest                              report.html in the run folder
  clawgauge report 20260213_235930 20260214_101500 -o both.html
  clawgauge report ../old-harness/runs/20260101_120000 -o - > old.html
"""
REPORT = "report.html"
_STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run id, a path to a run folder, or latest")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; - for stdout (default: the first RUN's folder)"
    )
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    return report_runs(arguments.runs, arguments.runs_dir, arguments.output)


def report_runs(refs: Sequence[str], runs_dir: Path | None, output: str | None) -> int:
    """`report RUN…`: prints the path of the file alone, or the page itself for `-`."""
    found = [open_run(ref, runs_dir) for ref in refs]
    paths = list({path.resolve(): path for path in found}.values())
    survey = Survey()
    runs = read_runs(paths, survey)
    page = render_report(runs, survey)
    if output == _STDOUT:
        _write_stdout(page)
    elif output is not None:
        write_output(Path(output), page)
        sys.stdout.write(f"{output}\n")
    else:
        write_output(paths[0] / REPORT, page)
        sys.stdout.write(f"{paths[0] / REPORT}\n")
    return tell_unreadable(sum(run.summary.n_unreadable_lines for run in runs))


def _write_stdout(page: str) -> None:
    # The page says that it is UTF-8, whatever this terminal speaks.
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(page)
