"""Show a run's summary, or one call in full: prompt, answer, verdict, attempts, timings.

CELL is PROMPT_ID, SUITE/PROMPT_ID, or TARGET/SUITE/PROMPT_ID#REPEAT; every call that fits is shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from clawgauge.cli.files import open_run, output_width, tell_unreadable
from clawgauge.cli.process import DONE, UNREADABLE_LINES
from clawgauge.errors import RunFolderError
from clawgauge.journal import encode_document, iter_results, read_config
from clawgauge.records import Prompt, Result, RunSummary, Target
from clawgauge.reports.call import render_call
from clawgauge.reports.summary import describe_summary
from clawgauge.summary import summarize_folder

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
    path = open_run(arguments.run, arguments.runs_dir)
    if arguments.cell is None:
        return print_summary(path, as_json=arguments.json, out=sys.stdout)
    return print_cells(path, arguments.cell, as_json=arguments.json, out=sys.stdout)


def print_summary(path: Path, *, as_json: bool, out: TextIO) -> int:
    """`show RUN`: computed from the records, so that it is right even where summary.json is old or missing."""
    summary = summarize_folder(path)
    if as_json:
        out.write(to_json(summary))
    else:
        from clawgauge.reports.terminal import as_text

        out.write(as_text(describe_summary(summary), output_width()))
    return UNREADABLE_LINES if summary.n_unreadable_lines else DONE


def print_cells(path: Path, cell: str, *, as_json: bool, out: TextIO) -> int:
    """`show RUN CELL`: every call that fits, in full."""
    config = read_config(path)
    prompts = {(p.suite, p.id): p for p in config.prompts} if config else {}
    reader = iter_results(path)
    shown = 0
    for result in reader:
        if not fits(result, cell):
            continue
        shown += 1
        prompt: Prompt | None = prompts.get((result.suite, result.prompt_id))
        out.write(to_json(result) if as_json else render_call(result, prompt))
    if not shown:
        raise RunFolderError(f"no call in {path.name} fits {cell!r}: name PROMPT_ID, SUITE/PROMPT_ID or TARGET/SUITE/…")
    return tell_unreadable(reader.bad_lines)


def fits(result: Result, cell: str) -> bool:
    """Whether CELL names this result: a suffix of TARGET/SUITE/PROMPT_ID, with an optional #REPEAT."""
    target = Target(result.provider, result.model, result.thinking_level).label
    whole = f"{target}/{result.suite}/{result.prompt_id}"
    named = {result.prompt_id, f"{result.suite}/{result.prompt_id}", whole, result.prompt_name, target}
    # A number behind a hash sign may also be part of the id: `P3#2` is the second form of `P3`.
    name, _, repeat = cell.rpartition("#")
    return cell in named or (name in named and repeat == str(result.repeat))


def to_json(record: RunSummary | Result) -> str:
    """Indented JSON and a line end, with the escapes of the files: nothing in it steers a terminal."""
    return encode_document(record).decode()
