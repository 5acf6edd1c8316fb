"""Show a run's summary, or one call in full: prompt, answer, verdict, attempts, timings.

CALL is PROMPT_ID, SUITE/PROMPT_ID, or TARGET/SUITE/PROMPT_ID#REPEAT; every call that fits is shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from clawgauge.cli.files import open_run, render, tell_unreadable
from clawgauge.cli.process import print_json
from clawgauge.errors import RunFolderError
from clawgauge.reports.call import render_call
from clawgauge.reports.document import Commands, Part, Prose, Section
from clawgauge.reports.grid import describe_grid
from clawgauge.reports.summary import describe_summary
from clawgauge.run_data import Run
from clawgauge.run_data.calls import CallFinder
from clawgauge.run_data.resume import resume_command
from clawgauge.run_data.state import RunState, read_state
from clawgauge.summary import summarize_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help="a run id, a path to a run folder, or latest (default)",
    )
    add("cell", metavar="CALL", nargs="?", help="one call")
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add("-v", "--verbose", action="store_true", help="every figure, not only the answer")
    add("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    path = open_run(arguments.run, arguments.runs_dir)
    if arguments.cell is None:
        return _show_summary(path, as_json=arguments.json, verbose=arguments.verbose)
    return _show_calls(path, arguments.cell, as_json=arguments.json)


def _show_summary(path: Path, *, as_json: bool, verbose: bool) -> int:
    # Computed from the records, so that it is right even where summary.json is old or missing.
    summary = summarize_folder(path)
    title, *rest = describe_summary(
        summary,
        Run.open(path).config,
        grid=describe_grid(path, summary),
        verbose=verbose,
        path=path,
    )
    sections = [title, Section("", _describe_state(path)), *rest]
    form = "json" if as_json else "text"
    sys.stdout.write(render(sections, form, document=summary))
    return tell_unreadable(summary.n_unreadable_lines)


def _describe_state(path: Path) -> list[Part]:
    """That a run is going on, or was interrupted; nothing of one that has ended."""
    state = read_state(path)
    if state is RunState.RUNNING:
        watch = "clawgauge view shows it as it goes on"
        return [Prose([f"in progress: this is what is recorded so far; {watch}"])]
    if state is RunState.INTERRUPTED:
        return [Prose(["interrupted; go on with:"]), Commands([resume_command(path)])]
    return []


def _show_calls(path: Path, cell: str, *, as_json: bool) -> int:
    run = Run.open(path)
    finder = CallFinder(cell)
    prompts = run.prompts_by_text()
    rows_read = run.feed(finder)
    if not finder.offsets:
        forms = "PROMPT_ID, SUITE/PROMPT_ID or TARGET/SUITE/PROMPT_ID#REPEAT"
        raise RunFolderError(f"no call in {path.name} fits {cell!r}: name one as {forms}")
    for _, result in run.results_at(finder.offsets):
        if as_json:
            print_json(msgspec.structs.replace(result, asked=result.was_asked))
        else:
            sys.stdout.write(render_call(result, prompts.get(result.text)))
    return tell_unreadable(rows_read.n_unreadable_lines)
