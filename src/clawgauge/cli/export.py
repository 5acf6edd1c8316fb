"""Write the results of one or more runs as one flat table: CSV, Parquet or JSON Lines, one row per
result.

Or, for OpenTelemetry, as one span per call (otlp) or as histograms (otlp-metrics).
Several runs stack: the column run_id tells them apart. The columns are in docs/export.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from clawgauge.cli.files import open_run, output_file, tell_unreadable
from clawgauge.cli.process import interruption
from clawgauge.errors import ConfigError
from clawgauge.export import (
    OtlpExport,
    ResultStream,
    choose_columns,
    iter_csv,
    iter_jsonl,
    write_parquet,
)
from clawgauge.reports.clean import clean_lines, clean_terminal
from clawgauge.words import plural

_OTLP_FORMS = ("otlp", "otlp-metrics")
_FORMS = ("csv", "parquet", "jsonl", *_OTLP_FORMS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "runs",
        metavar="RUN",
        nargs="*",
        default=["latest"],
        help="a run id, a path to a run folder, or latest",
    )
    add("--format", choices=_FORMS, help="default: as FILE ends, else csv")
    add("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    add("--columns", metavar="A,B", help="only these columns, in this order")
    add("--excel-safe", action="store_true", help="CSV: no cell is a formula; marked as UTF-8")
    add("--texts", action="store_true", help="otlp: prompts and answers in the spans, too")
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


_FORM_BY_SUFFIX = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def execute(arguments: argparse.Namespace) -> int:
    form = _choose_form(arguments)
    if form in _OTLP_FORMS:
        return _export_otlp(arguments, form)
    columns = choose_columns(_read_names(arguments.columns))
    results = ResultStream(_open_folders(arguments))
    if form == "parquet":
        with output_file(arguments.output) as file:
            write_parquet(results, columns, file)
    elif form == "csv":
        lines = iter_csv(results, columns, excel_safe=arguments.excel_safe)
        _write_lines(lines, arguments.output)
    else:
        _write_lines(iter_jsonl(results, columns), arguments.output)
    if arguments.output is not None:
        n_rows = plural(results.n_rows, "row")
        n_columns = plural(len(columns), "column")
        sys.stderr.write(clean_lines(f"{n_rows} of {n_columns} in {arguments.output}"))
    return tell_unreadable(results.n_unreadable)


def _export_otlp(arguments: argparse.Namespace, form: str) -> int:
    export = OtlpExport(_open_folders(arguments), with_texts=arguments.texts)
    lines = export.iter_traces() if form == "otlp" else export.iter_metrics()
    _write_lines(lines, arguments.output)
    if arguments.output is not None:
        sys.stderr.write(clean_lines(f"{plural(export.n_calls, 'call')} in {arguments.output}"))
    return tell_unreadable(export.n_unreadable)


def _choose_form(arguments: argparse.Namespace) -> str:
    """csv, parquet or jsonl: as the user says, else as the name of the file ends. Raises
    `ConfigError` where that cannot be written, or not there."""
    output = arguments.output
    suffix = output.suffix if output is not None else ""
    form = arguments.format or _FORM_BY_SUFFIX.get(suffix.lower())
    if form is None and not suffix:
        form = "csv"
    if form is None:
        suffixes = ", ".join(_FORM_BY_SUFFIX)
        raise ConfigError(
            f"export writes no {suffix} files, as {output} would be: end its name in {suffixes}, "
            f"or say what it is with --format"
        )
    if arguments.texts and form != "otlp":
        raise ConfigError(f"--texts is about the spans of --format otlp, and the format is {form}")
    if form in _OTLP_FORMS and arguments.columns is not None:
        raise ConfigError(f"--columns is about tables, and the format is {form}")
    if arguments.excel_safe and form != "csv":
        raise ConfigError(f"--excel-safe is about CSV, and the format is {form}")
    if form == "parquet" and output is None:
        raise ConfigError("Parquet is no text for a terminal: name a file with -o FILE")
    if form == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError(
            "Parquet needs pyarrow, which is not here: pip install 'clawgauge[parquet]', or use CSV"
        )
    return str(form)


def _read_names(columns: str | None) -> list[str] | None:
    """The columns that are named; None where none are."""
    if columns is None:
        return None
    return [name.strip() for name in columns.split(",")]


def _open_folders(arguments: argparse.Namespace) -> list[Path]:
    """The folders of the runs, each once: `latest` and a run's own id may be the same one."""
    folders: dict[Path, Path] = {}
    for ref in arguments.runs:
        folder = open_run(ref, arguments.runs_dir)
        if folder.resolve() in folders:
            sys.stderr.write(
                clean_lines(f"{ref} is {folder}, which is named already: its rows are written once")
            )
        folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def _write_lines(lines: Iterable[bytes], output: Path | None) -> None:
    if output is not None:
        with output_file(output) as file:
            file.writelines(lines)
        return
    is_terminal = sys.stdout.isatty()
    for line in lines:
        if interruption.reader_left:
            break
        text = line.decode()
        # A pipe gets what was recorded; a terminal must not be steered by it.
        sys.stdout.write(clean_terminal(text) if is_terminal else text)
