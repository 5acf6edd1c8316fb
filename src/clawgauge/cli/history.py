"""All runs of a folder as one table: what was run when, the latest and the best of every model,
drift, coverage.

With --fill it prints the commands that would ask what has no answer in any run (model × prompt)."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

import msgspec

from clawgauge.cli.files import configured_runs_dir, render, write_output
from clawgauge.cli.process import DONE, UNREADABLE_LINES, tell
from clawgauge.config.settings import flag_of
from clawgauge.history.filling import FillStep, MissingPrompts, plan_filling
from clawgauge.history.findings import FillCommand, History
from clawgauge.history.overview import read_history
from clawgauge.records import RunOptions
from clawgauge.reports.clean import one_row
from clawgauge.reports.history import describe_history, list_unreadable
from clawgauge.run_data.resume import resume_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs"
    )
    parser.add_argument(
        "--models", action="append", default=[], metavar="PATTERN", help="only these; repeatable"
    )
    parser.add_argument("--suite", metavar="NAME", help="only this suite")
    parser.add_argument(
        "--fill", action="store_true", help="the commands that would ask the missing prompts"
    )
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    parser.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout"
    )


def execute(arguments: argparse.Namespace) -> int:
    runs_dir = arguments.runs_dir or configured_runs_dir()
    history, missing = read_history(runs_dir, models=arguments.models, suite=arguments.suite)
    if arguments.fill:
        history = _add_commands(history, missing, arguments.runs_dir)
    write_output(arguments.output, _render_history(history, arguments.format))
    unreadable = list_unreadable(history)
    tell(*unreadable)
    return UNREADABLE_LINES if unreadable else DONE


def _render_history(history: History, form: str) -> str:
    if form == "text" and not history.runs and not history.unreadable:
        advice = "make one with clawgauge run, or name its --runs-dir"
        return one_row(f"no run in {history.runs_dir} fits: {advice}")
    return render(
        describe_history(history),
        form,
        document=history,
        title=f"Runs in {history.runs_dir}",
        width=120,
    )


def _add_commands(history: History, missing: MissingPrompts, runs_dir: Path | None) -> History:
    """The history with the commands that fill what is missing, and the targets that none asks for
    want of a key."""
    filling = plan_filling(missing, os.environ)
    commands = []
    for step in filling.steps:
        cells = []
        for target, (suite, prompt_id) in step.cells:
            cells.append((target.label, suite, prompt_id))
        commands.append(FillCommand(command=_word_command(step, runs_dir), cells=cells))
    no_key = {}
    for target, key in filling.missing_keys.items():
        no_key[target.label] = (key.variable, key.n_prompts)
    return msgspec.structs.replace(history, fill=commands, no_key=no_key)


def _word_command(step: FillStep, runs_dir: Path | None) -> str:
    if step.resume is not None:
        return resume_command(step.resume.path, retry_errors=True)
    return _run_command(step, runs_dir)


def _run_command(step: FillStep, runs_dir: Path | None) -> str:
    """A new run of the missing prompts alone, set up like the run they are known from."""
    command = ["clawgauge", "run"]
    for target in step.targets:
        command += ["-t", target.label]
    sources = {info.name: info.source for info in step.like.suites}
    for suite in dict.fromkeys(suite for suite, _ in step.prompts):
        command += ["-s", sources.get(suite, suite)]
    if not step.whole_suites:
        prompt_ids = [f"{suite}/{prompt_id}" for suite, prompt_id in step.prompts]
        command += ["--prompt-ids", ",".join(prompt_ids)]
    command += _options_like(step.like.options)
    if runs_dir is not None:
        command += ["--runs-dir", str(runs_dir)]
    return shlex.join(command)


def _options_like(options: RunOptions) -> list[str]:
    """The options that decide what is asked and how it is timed, where they are not the usual: a
    filled cell has to be like its neighbours."""
    usual = RunOptions()
    values = {
        "draw": (options.draw, usual.draw),
        "repeats": (options.repeats, usual.repeats),
        "concurrency": (options.concurrency, usual.concurrency),
        "timeout_s": (options.timeout_s, usual.timeout_s),
        "max_tokens": (options.max_tokens, usual.max_tokens),
        "temperature": (options.temperature, usual.temperature),
        "seed": (options.seed, usual.seed),
    }
    command = []
    for name, (value, usual_value) in values.items():
        if value != usual_value:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            command += [flag_of(name), text]
    if options.warm_up:
        command.append(flag_of("warm_up"))
    if options.unload_others:
        command.append(flag_of("unload_others"))
    if options.unique_prefix:
        command.append(flag_of("unique_prefix"))
    if not options.stream:
        command.append("--no-stream")
    return command
