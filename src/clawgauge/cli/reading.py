"""Verbs that only read a run folder, or rebuild what can be rebuilt from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from clawgauge.cli.exit_codes import DONE, UNREADABLE_LINES
from clawgauge.cli.unreadable import tell_unreadable
from clawgauge.cli.writing import write_summary
from clawgauge.errors import RunFolderError
from clawgauge.journal import encode_document, iter_results, read_config
from clawgauge.journal.folder import RunFolder
from clawgauge.records import Prompt, Result, RunSummary, Target
from clawgauge.reports.call_text import render_call
from clawgauge.reports.terminal import render_summary
from clawgauge.summary import summarize_folder


def print_summary(path: Path, *, as_json: bool, out: TextIO) -> int:
    """`show RUN`: computed from the records, so that it is right even where summary.json is old or missing."""
    summary = summarize_folder(path)
    out.write(to_json(summary) if as_json else render_summary(summary))
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


def rebuild(path: Path, *, as_json: bool) -> int:
    """`summarize RUN`."""
    folder = RunFolder.open_existing(path)
    try:
        for warning in folder.warnings:
            sys.stderr.write(f"{warning}\n")
        summary = write_summary(folder)
    finally:
        folder.close()
    sys.stdout.write(to_json(summary) if as_json else f"{path / 'summary.md'}\n")
    return tell_unreadable(summary.n_unreadable_lines)


def to_json(record: RunSummary | Result) -> str:
    """Indented JSON and a line end, with the escapes of the files: nothing in it steers a terminal."""
    return encode_document(record).decode()
