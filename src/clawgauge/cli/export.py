"""Write the results of one or more runs as one flat table: CSV, Parquet or JSON Lines, one row per result.

Several runs stack: the column run_id tells them apart. The columns are in docs/export.md."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from clawgauge.cli.files import open_run, output_file, tell_unreadable
from clawgauge.cli.process import interruption
from clawgauge.errors import ConfigError
from clawgauge.export import ResultStream, choose_columns, iter_csv, iter_jsonl, write_parquet
from clawgauge.reports.clean import clean_lines, clean_terminal
from clawgauge.words import plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "runs",
        metavar="RUN",
        nargs="*",
        default=["latest"],
        help="a run id, a path to a run folder, or latest",
    )
    add("--format", choices=("csv", "parquet", "jsonl"), help="default: as FILE ends, else csv")
    add("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    add("--columns", metavar="A,B", help="only these columns, in this order")
    add("--excel-safe", action="store_true", help="CSV: no cell is a formula; marked as UTF-8")
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


_SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def execute(arguments: argparse.Namespace) -> int:
    output, excel_safe = arguments.output, arguments.excel_safe
    suffix = output.suffix if output is not None else ""
    form = arguments.format or _SUFFIXES.get(suffix.lower(), "" if suffix else "csv")
    if not form:
        how = f"end its name in {', '.join(_SUFFIXES)}, or say what it is with --format"
        raise ConfigError(f"export writes no {suffix} files, as {output} would be: {how}")
    if excel_safe and form != "csv":
        raise ConfigError(f"--excel-safe is about CSV, and the format is {form}")
    if form == "parquet" and output is None:
        raise ConfigError("Parquet is no text for a terminal: name a file with -o FILE")
    if form == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError(
            "Parquet needs pyarrow, which is not here: pip install 'clawgauge[parquet]', or use CSV"
        )
    names = (
        None
        if arguments.columns is None
        else [word.strip() for word in arguments.columns.split(",")]
    )
    columns = choose_columns(names)
    # Each once: `latest` and a run's own id may be the same one.
    folders: dict[Path, Path] = {}
    for ref in arguments.runs:
        folder = open_run(ref, arguments.runs_dir)
        if folder.resolve() in folders:
            sys.stderr.write(
                clean_lines(f"{ref} is {folder}, which is named already: its rows are written once")
            )
        folders.setdefault(folder.resolve(), folder)
    results = ResultStream(list(folders.values()))
    if form == "parquet":
        with output_file(output) as file:
            write_parquet(results, columns, file)
    else:
        lines = (
            iter_csv(results, columns, excel_safe=excel_safe)
            if form == "csv"
            else iter_jsonl(results, columns)
        )
        if output is not None:
            with output_file(output) as file:
                file.writelines(lines)
        else:
            # A pipe gets what was recorded; a terminal must not be steered by it.
            shown = clean_terminal if sys.stdout.isatty() else str
            for line in takewhile(lambda _: not interruption.reader_left, lines):
                sys.stdout.write(shown(line.decode()))
    if output is not None:
        n_rows, n_columns = plural(results.n_rows, "row"), plural(len(columns), "column")
        sys.stderr.write(clean_lines(f"{n_rows} of {n_columns} in {output}"))
    return tell_unreadable(results.n_unreadable)
