"""Make one HTML file of one or more runs: the answer, charts, and every call to look at. It loads
nothing."""

from __future__ import annotations

import argparse
import io
import sys
import webbrowser
from pathlib import Path

from clawgauge.cli.files import open_run, tell_unreadable, write_output
from clawgauge.reports.html import Survey, read_runs, render_report

REPORT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "runs",
        metavar="RUN",
        nargs="*",
        default=["latest"],
        help="a run id, a path to a run folder, or latest",
    )
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write; - for stdout (default: the first RUN's folder)",
    )
    add("--open", action="store_true", help="open it in a browser")
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    """Prints the path of the file alone, or the page itself for `-`."""
    folders = [open_run(ref, arguments.runs_dir) for ref in arguments.runs]
    paths = list({path.resolve(): path for path in folders}.values())
    survey = Survey()
    runs = read_runs(paths, survey)
    page = render_report(runs, survey)
    if arguments.output == "-":
        # The page says that it is UTF-8, whatever this terminal speaks.
        if isinstance(sys.__stdout__, io.TextIOWrapper):
            sys.__stdout__.reconfigure(encoding="utf-8", newline="\n")
        sys.stdout.write(page)
    else:
        output = Path(arguments.output) if arguments.output is not None else paths[0] / REPORT
        write_output(output, page)
        sys.stdout.write(f"{arguments.output or output}\n")
        if arguments.open:
            webbrowser.open(output.resolve().as_uri())
    return tell_unreadable(sum(run.summary.n_unreadable_lines for run in runs))
