"""Compare two runs, or two targets of one run, prompt by prompt: what changed, and is it more than luck?

Every change is B minus A. What cannot be compared is refused with what differs (exit 2); --force compares it anyway.
With --fail-on it is a gate: exit 1 when a rule is broken or the figures for it are missing, exit 2 for a rule that
no outcome could break."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from clawgauge.cli.files import open_run, render, tell_unreadable, write_output
from clawgauge.cli.process import DONE, GATE_FAILED
from clawgauge.compare.comparison import IncomparableRuns, Wishes, compare_runs
from clawgauge.compare.gate import parse_rule, say_untested
from clawgauge.errors import ClawgaugeError, ConfigError
from clawgauge.journal.locate import has_answer, list_runs
from clawgauge.journal.names import LATEST
from clawgauge.records import CapacityOptions
from clawgauge.reports.capacity import describe_load_changes
from clawgauge.reports.clean import one_row
from clawgauge.reports.compare import describe_comparison, render_comparison_junit, say_difference
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from clawgauge.verdict.load import compare_capacity

_OF_A_LOAD = {
    "output_tokens": "--output",
    "shape": "--shape",
    "shared_prefix": "--shared-prefix",
    "slo": "--slo",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "a",
        metavar="A",
        nargs="?",
        help="a run id, a path to a run folder, or latest; several with commas",
    )
    add(
        "b",
        metavar="B",
        nargs="?",
        help="another run, or several; not with --models. Without A and B: the newest two",
    )
    add("--models", nargs=2, metavar=("X", "Y"), help="compare two targets of run A")
    add(
        "--map",
        action="append",
        default=[],
        metavar="X=Y",
        help="target X of A beside target Y of B; repeatable",
    )
    add("--answers", action="store_true", help="both answers of every prompt that changed sides")
    add("--skip-changed", action="store_true", help="leave out prompts that differ between A and B")
    add("--force", action="store_true", help="compare although something differs that spoils it")
    gate = parser.add_argument_group("gate")
    gate.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="RULE",
        help="exit 1 if broken; repeatable",
    )
    gate.add_argument(
        "--significant",
        action="store_true",
        help="a rule is broken only by more than luck (p < 0.05)",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=("text", "markdown", "json", "junit"), default="text")
    out.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )
    out.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout"
    )
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    models = tuple(arguments.models) if arguments.models else None
    rules = [parse_rule(text, significant=arguments.significant) for text in arguments.fail_on]
    how = {name: getattr(arguments, name) for name in ("force", "skip_changed", "answers")}
    wishes = Wishes(models=models, maps=arguments.map, rules=rules, **how)
    if arguments.a is None:
        arguments.a, arguments.b = (
            (LATEST, None) if models else _newest_two(arguments.runs_dir, wishes)
        )
    if (arguments.b is None) != bool(arguments.models):
        wanted = (
            "one run with --models X Y"
            if arguments.models
            else "two runs, or one run with --models X Y"
        )
        raise ConfigError(f"compare takes {wanted}")
    if arguments.models and arguments.map:
        raise ConfigError("--map puts targets of two runs together; with --models there is one run")
    if arguments.significant and not arguments.fail_on:
        raise ConfigError("--significant is about the rules of --fail-on: give at least one")
    sys.stderr.write(
        "".join(one_row(f"clawgauge: warning: {words}") for words in say_untested(wishes.rules))
    )
    paths_a = _open_runs(arguments.a, arguments.runs_dir)
    paths_b = paths_a if arguments.b is None else _open_runs(arguments.b, arguments.runs_dir)
    for path in paths_b if arguments.b is not None else ():
        if path.resolve() in [other.resolve() for other in paths_a]:
            raise ConfigError(
                f"A and B are both {path}: name two runs, or two of its targets with --models X Y"
            )
    runs = [Run.open(path) for path in [*paths_a, *paths_b]]
    loads = [
        run.config.capacity
        for run in runs
        if run.config is not None and run.config.capacity is not None
    ]
    if loads:
        return _compare_loads(arguments, runs, loads)
    try:
        comparison = compare_runs(paths_a, paths_b, wishes)
    except IncomparableRuns as wrong:
        lines = [f"clawgauge: {wrong}, because these differ:"]
        lines += [f"  {say_difference(difference)}" for difference in wrong.differences]
        sys.stderr.write("".join(map(one_row, [*lines, "compare them anyway with --force"])))
        return wrong.exit_code
    if arguments.format == "junit":
        text = render_comparison_junit(comparison)
    else:
        sections, title = (
            describe_comparison(comparison),
            f"{comparison.a.run_id} → {comparison.b.run_id}",
        )
        text = render(sections, arguments.format, document=comparison, title=title, width=100)
    write_output(arguments.output, text)
    unread = {side.run_id: side.n_unreadable_lines for side in (comparison.a, comparison.b)}
    code = max(tell_unreadable(n_lines, run_id) for run_id, n_lines in unread.items())
    return GATE_FAILED if comparison.gate_failed else code


def _compare_loads(
    arguments: argparse.Namespace, runs: list[Run], loads: list[CapacityOptions]
) -> int:
    """Two capacity runs: of the same load, unless --force says that it does not matter."""
    if (
        len(runs) != 2
        or len(loads) != 2
        or arguments.fail_on
        or arguments.models
        or arguments.format == "junit"
    ):
        raise ConfigError(
            "a capacity run is compared with one other, without --models, --fail-on and junit"
        )
    a, b = loads
    differing = [flag for name, flag in _OF_A_LOAD.items() if getattr(a, name) != getattr(b, name)]
    if differing and not arguments.force:
        raise ConfigError(
            f"the two capacity runs differ in {', '.join(differing)}: compare them anyway with --force"
        )
    changes = list(compare_capacity(*(summarize_folder(run.path).capacity for run in runs)))
    facts, title = [change._asdict() for change in changes], " → ".join(run.run_id for run in runs)
    text = render(describe_load_changes(changes), arguments.format, document=facts, title=title)
    write_output(arguments.output, text)
    return DONE


def _newest_two(runs_dir: Path | None, wishes: Wishes) -> tuple[str, str]:
    """The newest run, and before it the newest of those that it can be compared with and that somebody answered."""
    newest = open_run(LATEST, runs_dir, loads=False)
    runs = list_runs(newest.parent)
    for path in (path for path in runs[runs.index(newest) + 1 :] if has_answer(path, loads=False)):
        with suppress(ClawgaugeError):
            compare_runs(path, newest, wishes._replace(rules=()))
            return str(path), str(newest)
    raise ConfigError(
        f"no run before {newest.name} can be compared with it: `clawgauge history` lists all"
    )


def _open_runs(words: str, runs_dir: Path | None) -> list[Path]:
    """The runs of a side, joined by commas; a folder that has a comma in its name is meant as it is."""
    refs = [words] if Path(words).is_dir() else [ref.strip() for ref in words.split(",")]
    paths = [open_run(ref, runs_dir, loads=False) for ref in refs]
    for number, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:number]]:
            raise ConfigError(f"{path} is named twice on one side: name every run once")
    return paths
