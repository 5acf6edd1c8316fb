"""Rebuild summary.json and summary.md from a run folder alone. No model, no network."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "rebuild summary.json and summary.md"
EXAMPLES = """\
examples:
  clawgauge summarize latest
  clawgauge summarize ../old-harness/runs/20260213_235930
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run id, a path to a run folder, or latest")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--json", action="store_true", help="the summary on stdout too")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.opening import open_run
    from clawgauge.cli.reading import rebuild

    return rebuild(open_run(arguments.run, arguments.runs_dir), as_json=arguments.json)
