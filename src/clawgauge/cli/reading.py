"""Verbs that only read a run folder, or rebuild what can be rebuilt from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from clawgauge.cli.writing import write_summary
from clawgauge.errors import RunFolderError
from clawgauge.journal import RunFolder, encode_document, iter_results, locate_run, read_config
from clawgauge.records import Prompt, Result, RunSummary, Target
from clawgauge.reports.call_text import render_call
from clawgauge.reports.terminal import render_summary
from clawgauge.reports.wording import plural
from clawgauge.summary import summarize_folder

EXIT_UNREADABLE = 5


def open_run(ref: str, runs_dir: Path) -> Path:
    """The folder a RUN word stands for."""
    return locate_run(ref, runs_dir)


def print_summary(path: Path, *, as_json: bool, out: TextIO) -> int:
    """`show RUN`: computed from the records, so that it is right even where summary.json is old or missing."""
    summary = summarize_folder(path)
    out.write(to_json(summary) if as_json else render_summary(summary))
    return EXIT_UNREADABLE if summary.n_unreadable_lines else 0


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
    return _tell_unreadable(reader.bad_lines)


def fits(result: Result, cell: str) -> bool:
    """Whether CELL names this result: a suffix of TARGET/SUITE/PROMPT_ID, with an optional #REPEAT."""
    name, hash_mark, repeat = cell.rpartition("#")
    if hash_mark and repeat.isdecimal():
        if result.repeat != int(repeat):
            return False
        cell = name
    target = Target(result.provider, result.model, result.thinking_level).label
    whole = f"{target}/{result.suite}/{result.prompt_id}"
    named = {result.prompt_id, f"{result.suite}/{result.prompt_id}", whole, result.prompt_name}
    return cell in named or cell == target


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
    return _tell_unreadable(summary.n_unreadable_lines)


def to_json(record: RunSummary | Result) -> str:
    """Indented JSON and a line end, with the escapes of the files: nothing in it steers a terminal."""
    return encode_document(record).decode()


def _tell_unreadable(n_lines: int) -> int:
    """Say what was left out, and give the exit code for it."""
    if not n_lines:
        return 0
    sys.stderr.write(f"{plural(n_lines, 'line')} of results.jsonl could not be read and counted in nothing\n")
    return EXIT_UNREADABLE
