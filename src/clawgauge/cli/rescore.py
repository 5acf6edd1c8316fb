"""Judge the recorded answers again with today's validators. No calls are made; only verdicts change.

Cells whose recorded answer was cut at 64 KB keep their verdict: it was made on the whole text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "judge recorded answers again; no calls"
EXAMPLES = """\
examples:
  clawgauge rescore latest --dry-run
  clawgauge rescore 20260213_235930
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run id, a path to a run folder, or latest")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--suite", metavar="FILE", help="judge by this suite's validators instead of the recorded ones")
    parser.add_argument("--dry-run", action="store_true", help="say what would change; write nothing")
    parser.add_argument("--json", action="store_true", help="the summary on stdout too")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.opening import open_run
    from clawgauge.cli.rescoring import rescore

    path = open_run(arguments.run, arguments.runs_dir)
    return rescore(path, suite=arguments.suite, dry_run=arguments.dry_run, as_json=arguments.json)
