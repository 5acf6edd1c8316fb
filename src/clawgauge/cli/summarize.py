"""Rebuild summary.json and summary.md from a run folder alone. No model, no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clawgauge.cli.files import open_run, tell_unreadable, write_summary
from clawgauge.cli.process import print_json
from clawgauge.journal.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help="a run id, a path to a run folder, or latest",
    )
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add("--json", action="store_true", help="the summary on stdout too")


def execute(arguments: argparse.Namespace) -> int:
    path = open_run(arguments.run, arguments.runs_dir)
    with RunFolder.open_existing(path) as folder:
        sys.stderr.write("".join(f"{warning}\n" for warning in folder.warnings))
        summary = write_summary(folder)
    if arguments.json:
        print_json(summary)
    else:
        sys.stdout.write(f"{path / 'summary.md'}\n")
    return tell_unreadable(summary.n_unreadable_lines)
