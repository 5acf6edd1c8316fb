"""`compare`: from the words of the command line to a comparison in the format asked for."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from clawgauge.cli.exit_codes import DONE, GATE_FAILED, UNREADABLE_LINES
from clawgauge.cli.opening import open_run
from clawgauge.cli.output_file import print_output
from clawgauge.compare import Comparison, IncomparableRuns, Wishes, compare_runs, parse_rule
from clawgauge.errors import ConfigError
from clawgauge.journal import encode_document
from clawgauge.reports.comparison_junit import render_comparison_junit
from clawgauge.reports.comparison_markdown import render_comparison_markdown
from clawgauge.reports.comparison_phrases import say_difference
from clawgauge.reports.comparison_text import render_comparison_text
from clawgauge.reports.phrases import one_row


def compare(arguments: argparse.Namespace) -> int:
    """The whole verb; its exit code is the gate's."""
    wishes = Wishes(
        models=tuple(arguments.models) if arguments.models else None,
        maps=arguments.map,
        rules=[parse_rule(text, significant=arguments.significant) for text in arguments.fail_on],
        force=arguments.force,
        skip_changed=arguments.skip_changed,
        answers=arguments.answers,
    )
    path_a, path_b = _locate(arguments)
    try:
        comparison = compare_runs(path_a, path_b, wishes)
    except IncomparableRuns as wrong:
        sys.stderr.write(_say_refusal(wrong))
        return wrong.exit_code
    rendered = _render(comparison, arguments.format)
    print_output(arguments.output, rendered)
    return _exit_code(comparison)


def _locate(arguments: argparse.Namespace) -> tuple[Path, Path]:
    if (arguments.b is None) != bool(arguments.models):
        wanted = "one run with --models X Y" if arguments.models else "two runs, or one run with --models X Y"
        raise ConfigError(f"compare takes {wanted}")
    if arguments.models and arguments.map:
        raise ConfigError("--map puts targets of two runs together; with --models there is one run")
    if arguments.significant and not arguments.fail_on:
        raise ConfigError("--significant is about the rules of --fail-on: give at least one")
    first = open_run(arguments.a, arguments.runs_dir)
    second = first if arguments.b is None else open_run(arguments.b, arguments.runs_dir)
    if arguments.b is not None and first.resolve() == second.resolve():
        raise ConfigError(f"A and B are both {first}: name two runs, or two of its targets with --models X Y")
    return first, second


def _render(comparison: Comparison, form: str) -> str:
    if form == "json":
        return encode_document(comparison).decode()
    if form == "markdown":
        return render_comparison_markdown(comparison)
    if form == "junit":
        return render_comparison_junit(comparison)
    return render_comparison_text(comparison, shutil.get_terminal_size((100, 24)).columns)


def _say_refusal(wrong: IncomparableRuns) -> str:
    lines = [f"clawgauge: {wrong}, because these differ:"]
    lines += [f"  {say_difference(difference)}" for difference in wrong.differences]
    return "".join(map(one_row, [*lines, "compare them anyway with --force"]))


def _exit_code(comparison: Comparison) -> int:
    if comparison.gate_failed:
        return GATE_FAILED
    return UNREADABLE_LINES if comparison.a.n_unreadable_lines or comparison.b.n_unreadable_lines else DONE
