"""Show a run's summary, or one call in full: prompt, answer, verdict, attempts, timings.

CELL is PROMPT_ID, SUITE/PROMPT_ID, or TARGET/SUITE/PROMPT_ID#REPEAT; every call that fits is shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SUMMARY = "the summary of a run, or one call in full"
EXAMPLES = """\
examples:
  clawgauge show                       the newest run
  clawgauge show 20260213_235930 core/P3
  clawgauge show latest embedded:smollm2-135m/tool_use/P0 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="latest", help="a run id, a path to a run folder, or latest (default)"
    )
    parser.add_argument("cell", metavar="CELL", nargs="?", help="one call")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.opening import open_run
    from clawgauge.cli.reading import print_cells, print_summary

    path = open_run(arguments.run, arguments.runs_dir)
    if arguments.cell is None:
        return print_summary(path, as_json=arguments.json, out=sys.stdout)
    return print_cells(path, arguments.cell, as_json=arguments.json, out=sys.stdout)
