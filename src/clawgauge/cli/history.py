"""All runs of a folder as one table: what was run when, the latest and the best of every model, drift, coverage.

With --fill it prints the commands that would fill the cells (model × prompt) that have no answer in any run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "all runs as one table, and what is missing"
EXAMPLES = """\
examples:
  clawgauge history
  clawgauge history --models '*llama*' --suite core
  clawgauge history --fill --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--models", action="append", default=[], metavar="PATTERN", help="only these; repeatable")
    parser.add_argument("--suite", metavar="NAME", help="only this suite")
    parser.add_argument("--fill", action="store_true", help="the commands that would fill the missing cells")
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.history_listing import list_history

    return list_history(arguments)
