"""Compare two runs, or two targets of one run, prompt by prompt: what changed, and is it more than
luck?

Every change is B minus A. What cannot be compared is refused with what differs (exit 2); --force
compares it anyway. With --fail-on it is a gate: exit 1 when a rule is broken or the figures for it
are missing, exit 2 for a rule that no outcome could break."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clawgauge.cli.files import open_run, render, tell_unreadable, write_output
from clawgauge.cli.process import DONE, GATE_FAILED
from clawgauge.compare.comparison import (
    ComparisonOptions,
    IncomparableRuns,
    PairedSides,
    compare_sides,
    read_sides,
    require_comparable,
)
from clawgauge.compare.findings import Comparison
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


@dataclass(frozen=True, slots=True)
class ChosenSides:
    """The folders of both sides. With `--models` they are the same. `sides` has what was read of
    them already, where they were searched for."""

    paths_a: list[Path]
    paths_b: list[Path]
    sides: PairedSides | None = None

    @property
    def paths(self) -> list[Path]:
        """Every folder once."""
        if self.paths_b is self.paths_a:
            return self.paths_a
        return [*self.paths_a, *self.paths_b]


def execute(arguments: argparse.Namespace) -> int:
    options = _read_options(arguments)
    newest_two = None
    if arguments.a is None and options.models is None:
        newest_two = _find_newest_two(arguments.runs_dir, options)
    else:
        _require_runs_that_fit(arguments)
    _require_options_that_fit(arguments)
    for warning in say_untested(options.rules):
        sys.stderr.write(one_row(f"clawgauge: warning: {warning}"))
    chosen = newest_two or _open_sides(arguments)
    runs = [Run.open(path) for path in chosen.paths]
    loads = _find_loads(runs)
    if loads:
        return _compare_loads(arguments, runs, loads)
    try:
        comparison = _compare(chosen, options)
    except IncomparableRuns as error:
        _report_differences(error)
        return error.exit_code
    write_output(arguments.output, _render_comparison(comparison, arguments.format))
    code = DONE
    # Each run once: with --models both sides are the same.
    n_unreadable_by_run = {
        side.run_id: side.n_unreadable_lines for side in (comparison.a, comparison.b)
    }
    for run_id, n_lines in n_unreadable_by_run.items():
        code = max(code, tell_unreadable(n_lines, run_id))
    return GATE_FAILED if comparison.gate_failed else code


def _read_options(arguments: argparse.Namespace) -> ComparisonOptions:
    rules = []
    for text in arguments.fail_on:
        rules.append(parse_rule(text, significant=arguments.significant))
    return ComparisonOptions(
        models=tuple(arguments.models) if arguments.models else None,
        maps=arguments.map,
        rules=rules,
        force=arguments.force,
        skip_changed=arguments.skip_changed,
        answers=arguments.answers,
    )


def _require_runs_that_fit(arguments: argparse.Namespace) -> None:
    """Two runs, or one with `--models`."""
    if arguments.models and arguments.b is not None:
        raise ConfigError("compare takes one run with --models X Y")
    if not arguments.models and arguments.b is None:
        raise ConfigError("compare takes two runs, or one run with --models X Y")


def _require_options_that_fit(arguments: argparse.Namespace) -> None:
    if arguments.models and arguments.map:
        raise ConfigError("--map puts targets of two runs together; with --models there is one run")
    if arguments.significant and not arguments.fail_on:
        raise ConfigError("--significant is about the rules of --fail-on: give at least one")


def _open_sides(arguments: argparse.Namespace) -> ChosenSides:
    """The runs that are named on the command line; without one, `--models` is about the newest."""
    paths_a = _open_runs(arguments.a or LATEST, arguments.runs_dir)
    if arguments.b is None:
        return ChosenSides(paths_a=paths_a, paths_b=paths_a)
    paths_b = _open_runs(arguments.b, arguments.runs_dir)
    for path in paths_b:
        if _is_among(path, paths_a):
            raise ConfigError(
                f"A and B are both {path}: name two runs, or two of its targets with --models X Y"
            )
    return ChosenSides(paths_a=paths_a, paths_b=paths_b)


def _open_runs(names: str, runs_dir: Path | None) -> list[Path]:
    """The runs of a side, joined by commas; a folder that has a comma in its name is meant as it
    is."""
    refs = [names]
    if not Path(names).is_dir():
        refs = [ref.strip() for ref in names.split(",")]
    paths = [open_run(ref, runs_dir, loads=False) for ref in refs]
    for number, path in enumerate(paths):
        if _is_among(path, paths[:number]):
            raise ConfigError(f"{path} is named twice on one side: name every run once")
    return paths


def _is_among(path: Path, others: Sequence[Path]) -> bool:
    return path.resolve() in [other.resolve() for other in others]


def _find_newest_two(runs_dir: Path | None, options: ComparisonOptions) -> ChosenSides:
    """The newest run, and before it the newest of those that it can be compared with and that
    somebody answered."""
    newest = open_run(LATEST, runs_dir, loads=False)
    runs = list_runs(newest.parent)
    without_rules = options._replace(rules=())
    for path in runs[runs.index(newest) + 1 :]:
        if not has_answer(path, loads=False):
            continue
        with suppress(ClawgaugeError):
            sides = read_sides(path, newest, without_rules)
            require_comparable(sides, without_rules)
            # Its permissions decide who may read what is written.
            open_run(str(path), runs_dir, loads=False)
            return ChosenSides(paths_a=[path], paths_b=[newest], sides=sides)
    raise ConfigError(
        f"no run before {newest.name} can be compared with it: `clawgauge history` lists all"
    )


def _compare(chosen: ChosenSides, options: ComparisonOptions) -> Comparison:
    sides = chosen.sides or read_sides(chosen.paths_a, chosen.paths_b, options)
    require_comparable(sides, options)
    return compare_sides(sides, options)


def _report_differences(error: IncomparableRuns) -> None:
    sys.stderr.write(one_row(f"clawgauge: {error}, because these differ:"))
    for difference in error.differences:
        sys.stderr.write(one_row(f"  {say_difference(difference)}"))
    sys.stderr.write(one_row("compare them anyway with --force"))


def _render_comparison(comparison: Comparison, form: str) -> str:
    if form == "junit":
        return render_comparison_junit(comparison)
    return render(
        describe_comparison(comparison),
        form,
        document=comparison,
        title=f"{comparison.a.run_id} → {comparison.b.run_id}",
        width=100,
    )


def _find_loads(runs: Sequence[Run]) -> list[CapacityOptions]:
    """What the capacity runs among these were to find out."""
    loads = []
    for run in runs:
        if run.config is not None and run.config.capacity is not None:
            loads.append(run.config.capacity)
    return loads


def _compare_loads(
    arguments: argparse.Namespace, runs: Sequence[Run], loads: Sequence[CapacityOptions]
) -> int:
    """Compare two capacity runs. They must have been made under the same load, unless --force says
    that it does not matter."""
    is_two_loads = len(runs) == 2 and len(loads) == 2
    if not is_two_loads or arguments.fail_on or arguments.models or arguments.format == "junit":
        raise ConfigError(
            "a capacity run is compared with one other, without --models, --fail-on and junit"
        )
    run_a, run_b = runs
    _require_same_load(*loads, force=arguments.force)
    capacity_a = summarize_folder(run_a.path).capacity
    capacity_b = summarize_folder(run_b.path).capacity
    changes = list(compare_capacity(capacity_a, capacity_b))
    text = render(
        describe_load_changes(changes),
        arguments.format,
        document=[change._asdict() for change in changes],
        title=f"{run_a.run_id} → {run_b.run_id}",
    )
    write_output(arguments.output, text)
    return DONE


def _require_same_load(a: CapacityOptions, b: CapacityOptions, *, force: bool) -> None:
    differing = []
    if a.output_tokens != b.output_tokens:
        differing.append("--output")
    if a.shape != b.shape:
        differing.append("--shape")
    if a.shared_prefix != b.shared_prefix:
        differing.append("--shared-prefix")
    if a.slo != b.slo:
        differing.append("--slo")
    if differing and not force:
        raise ConfigError(
            f"the two capacity runs differ in {', '.join(differing)}: compare them anyway with "
            f"--force"
        )
