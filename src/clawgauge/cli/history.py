"""All runs of a folder as one table: what was run when, the latest and the best of every model, drift, coverage.

With --fill it prints the commands that would ask what has no answer in any run (model × prompt)."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from clawgauge.cli.files import configured_runs_dir, render, write_output
from clawgauge.cli.process import DONE, UNREADABLE_LINES, tell
from clawgauge.config.settings import flag_of
from clawgauge.history.findings import FillCommand, FillStep
from clawgauge.history.trends import read_history
from clawgauge.prices import missing_key
from clawgauge.records import RunOptions
from clawgauge.reports.clean import one_row
from clawgauge.reports.history import describe_history, list_unreadable
from clawgauge.run_data.resume import resume_command

# Options that decide what is asked and how it is timed: a filled cell has to be like its neighbours.
_CARRIED = ("draw", "repeats", "concurrency", "timeout_s", "max_tokens", "temperature", "seed")
_CARRIED_SWITCHES = ("warm_up", "unload_others", "unique_prefix")


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
    runs_dir = arguments.runs_dir
    history, steps = read_history(
        runs_dir or configured_runs_dir(), models=arguments.models, suite=arguments.suite
    )
    if arguments.fill:
        commands, no_key = _plan(steps, runs_dir)
        history = msgspec.structs.replace(history, fill=commands, no_key=no_key)
    text = one_row(
        f"no run in {history.runs_dir} fits: make one with clawgauge run, or name its --runs-dir"
    )
    if arguments.format != "text" or history.runs or history.unreadable:
        sections, title = describe_history(history), f"Runs in {history.runs_dir}"
        text = render(sections, arguments.format, document=history, title=title, width=120)
    write_output(arguments.output, text)
    tell(*(unread := list_unreadable(history)))
    return UNREADABLE_LINES if unread else DONE


def _plan(
    steps: Sequence[FillStep], runs_dir: Path | None
) -> tuple[list[FillCommand], dict[str, tuple[str, int]]]:
    """The commands, without the targets whose key is not set here: nobody could ask them. And who these are."""
    commands, no_key = [], dict[str, tuple[str, int]]()
    for step in steps:
        lacking = {
            t: key
            for t in step.targets
            if (key := missing_key(step.settings.get(t, {}), os.environ))
        }
        for target, key in lacking.items():
            n_before = no_key.get(target.label, (key, 0))[1]
            no_key[target.label] = key, n_before + sum(cell[0] == target for cell in step.cells)
        able = [target for target in step.targets if target not in lacking]
        # A run that goes on asks all its targets: beside one that cannot be asked, each other one gets a new run.
        resume, together = (
            None if lacking else step.resume,
            [[one] for one in able] if step.resume else [able],
        )
        for targets in filter(None, together if lacking else [able]):
            cells = [cell for cell in step.cells if cell[0] in targets]
            left = replace(
                step,
                targets=targets,
                cells=cells,
                prompts=list(dict.fromkeys(key for _, key in cells)),
            )
            command = (
                resume_command(resume.path, retry_errors=True)
                if resume
                else _run_command(left, runs_dir)
            )
            named = [(target.label, suite, prompt_id) for target, (suite, prompt_id) in cells]
            commands.append(FillCommand(command=command, cells=named))
    return commands, no_key


def _run_command(step: FillStep, runs_dir: Path | None) -> str:
    """A new run of the missing prompts alone, set up like the run they are known from."""
    words = ["clawgauge", "run"]
    for target in step.targets:
        words += ["-t", target.label]
    sources = {info.name: info.source for info in step.like.suites}
    for suite in dict.fromkeys(suite for suite, _ in step.prompts):
        words += ["-s", sources.get(suite, suite)]
    if not step.whole_suites:
        words += [
            "--prompt-ids",
            ",".join(f"{suite}/{prompt_id}" for suite, prompt_id in step.prompts),
        ]
    usual, options = RunOptions(), step.like.options
    for name in _CARRIED:
        value = getattr(options, name)
        if value != getattr(usual, name):
            words += [flag_of(name), f"{value:g}" if isinstance(value, float) else str(value)]
    words += [flag_of(name) for name in _CARRIED_SWITCHES if getattr(options, name)]
    words += [] if options.stream else ["--no-stream"]
    if runs_dir is not None:
        words += ["--runs-dir", str(runs_dir)]
    return shlex.join(words)
