"""`history`: the table of all runs, and the commands that fill what is missing."""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path

import msgspec

from clawgauge.cli.exit_codes import DONE, UNREADABLE_LINES
from clawgauge.cli.opening import configured_runs_dir
from clawgauge.cli.output_file import print_output
from clawgauge.cli.writing import refill_command
from clawgauge.history import FillCommand, FillStep, History, read_history
from clawgauge.journal import encode_document
from clawgauge.records import RunOptions
from clawgauge.reports.history_markdown import render_history_markdown
from clawgauge.reports.history_text import render_history_text

# Options that decide what is asked and how it is timed: a filled cell has to be like its neighbours.
_CARRIED = {
    "repeats": "--repeats",
    "concurrency": "--concurrency",
    "timeout_s": "--timeout",
    "max_tokens": "--max-tokens",
    "temperature": "--temperature",
    "seed": "--seed",
}
_CARRIED_SWITCHES = {"warm_up": "--warm-up", "unload_others": "--unload-others", "unique_prefix": "--unique-prefix"}


def list_history(arguments: argparse.Namespace) -> int:
    """The whole verb."""
    history, steps = read_history(
        arguments.runs_dir or configured_runs_dir(), models=arguments.models, suite=arguments.suite
    )
    if arguments.fill:
        history = msgspec.structs.replace(history, fill=[_command(step, arguments.runs_dir) for step in steps])
    rendered = _render(history, arguments.format)
    print_output(arguments.output, rendered)
    spoilt = history.unreadable or any(run.n_unreadable_lines for run in history.runs)
    return UNREADABLE_LINES if spoilt else DONE


def _render(history: History, form: str) -> str:
    if form == "json":
        return encode_document(history).decode()
    if form == "markdown":
        return render_history_markdown(history)
    return render_history_text(history, shutil.get_terminal_size((120, 24)).columns)


def _command(step: FillStep, runs_dir: Path | None) -> FillCommand:
    command = refill_command(step.resume.path, step.like) if step.resume else _run_command(step, runs_dir)
    cells = [(target.label, suite, prompt_id) for target, (suite, prompt_id) in step.cells]
    return FillCommand(command=command, cells=cells)


def _run_command(step: FillStep, runs_dir: Path | None) -> str:
    """A new run of the missing prompts alone, set up like the run they are known from."""
    words = ["clawgauge", "run"]
    for target in step.targets:
        words += ["-t", target.label]
    sources = {info.name: info.source for info in step.like.suites}
    for suite in dict.fromkeys(suite for suite, _ in step.prompts):
        words += ["-s", sources.get(suite, suite)]
    if not step.whole_suites:
        words += ["--prompt-ids", ",".join(f"{suite}/{prompt_id}" for suite, prompt_id in step.prompts)]
    words += _options(step.like.options)
    if runs_dir is not None:
        words += ["--runs-dir", str(runs_dir)]
    return shlex.join(words)


def _options(options: RunOptions) -> list[str]:
    usual, words = RunOptions(), []
    for name, flag in _CARRIED.items():
        value = getattr(options, name)
        if value != getattr(usual, name):
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    words += [flag for name, flag in _CARRIED_SWITCHES.items() if getattr(options, name)]
    return words if options.stream else [*words, "--no-stream"]
