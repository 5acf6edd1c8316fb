"""Write the results of one or more runs as one flat table: CSV, Parquet or JSON Lines, one row per result.

Several runs stack: the column run_id tells them apart. The columns are in docs/export.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "results as CSV, Parquet or JSON Lines"
EXAMPLES = """\
examples:
  clawgauge export latest > results.csv
  clawgauge export 20260213_235930 20260214_001500 -o both.parquet
  clawgauge export latest --format jsonl --columns target,prompt_id,objective_pass,e2e_ms
  clawgauge export latest --excel-safe -o for-a-spreadsheet.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run id, a path to a run folder, or latest")
    parser.add_argument("--format", choices=("csv", "parquet", "jsonl"), help="default: as FILE ends, else csv")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    parser.add_argument("--columns", metavar="A,B", help="only these columns, in this order")
    parser.add_argument("--excel-safe", action="store_true", help="CSV: no cell is a formula; marked as UTF-8")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.exporting import export

    return export(arguments)
