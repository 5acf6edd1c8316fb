"""The runs of a folder, what they amount to as frozen structs, and how the prompts nobody answered could be asked."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import msgspec

from clawgauge.compare.comparability import prompt_fingerprint
from clawgauge.errors import RunFolderError
from clawgauge.journal import is_run_folder, list_runs
from clawgauge.prices import settings_of
from clawgauge.records import JobVerdict, PromptKey, RunConfig, Target
from clawgauge.records.run import IN_CONTEXT
from clawgauge.run_data import RowsRead, Run
from clawgauge.stats.proportions import wilson_interval
from clawgauge.summary import Strata, summarize
from clawgauge.summary.stored import read_summary


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the table of runs. `passes` has what each target passed of what it was asked, the best one first.
    `load` is what a capacity run says, a line each target and length of prompt; nothing else of it counts here."""

    run_id: str
    path: str
    started_at_ms: float
    targets: list[str]
    suites: list[str]
    n_ok: int
    n_scheduled: int
    n_passed: int
    n_judged: int
    n_unreadable_lines: int
    source: str
    passes: dict[str, tuple[int, int]] = {}
    load: list[str] = []
    n_attempted: int = 0


class UnreadableRun(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One target's figures in one run: `n_passed` of `n_asked` prompts with a verdict, `n_judged` of
    them answered. `pass_rate` and its interval are of the answers. The percentiles named in `beyond`
    are longer than the deadline given; those named in `indicative` rest on too few calls."""

    run_id: str
    started_at_ms: float
    n_ok: int
    n_scheduled: int
    n_passed: int
    n_judged: int
    pass_rate: float | None
    pass_ci95: tuple[float, float] | None
    p50_ms: float | None
    p50_ci95: tuple[float, float] | None
    p95_ms: float | None
    n_timed: int
    tier: int | None
    tier_label: str
    stopped_early: bool
    beyond: list[str] = []
    decided: bool = False
    n_asked: int = 0
    n_attempted: int = 0
    indicative: list[str] = []

    @property
    def asked_ci95(self) -> tuple[float, float] | None:
        """The interval of what is shown: what was asked and not answered is no pass."""
        return (
            self.pass_ci95
            if self.n_judged == self.n_asked
            else wilson_interval(self.n_passed, self.n_asked)
        )


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One target over all runs that asked it the same prompts in the same way (its `form`), oldest first."""

    target: str
    suites: list[str]
    n_prompts: int
    form: str
    points: list[Point]
    latest: Point
    best: Point
    drift: list[str]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which prompts of a suite a target has answered in any run; `n_outdated` missing ones, in an earlier content."""

    target: str
    suite: str
    n_prompts: int
    n_answered: int
    n_outdated: int
    n_in_suite: int | None
    missing: list[str]


class FillCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and the cells (target, suite, prompt) it would fill."""

    command: str
    cells: list[tuple[str, str, str]]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `history` says. `jobs` judges each target by the newest run that can tell; its `why` names it.
    `no_key` has the targets that no command of `fill` asks, as a key is not set here: which, and how many prompts."""

    schema_version: int
    runs_dir: str
    runs: list[RunLine]
    unreadable: list[UnreadableRun]
    trends: list[Trend]
    coverage: list[Coverage]
    fill: list[FillCommand] | None = None
    n_not_fillable: int = 0
    jobs: list[JobVerdict] = []
    no_key: dict[str, tuple[str, int]] = {}


Cell: TypeAlias = tuple[Target, PromptKey]


class RunEntry:
    """One run that could be read. `fingerprints` tells the content of every prompt it holds."""

    def __init__(self, run: Run) -> None:
        self.path, self.config, self.started_at_ms = run.path, run.config, run.started_at_ms
        self.fingerprints = (
            {p.key: prompt_fingerprint(p) for p in run.config.prompts} if run.config else {}
        )
        self.is_load, self._run = run.config is not None and run.config.capacity is not None, run
        self.summary = read_summary(run) or summarize(run, *self._counted)

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @cached_property
    def cells(self) -> dict[Cell, bool]:
        """Which prompts have a record of which target, and whether one of these is an answer."""
        endings = [
            (t, ending) for t, group in self._strata.groups().items() for ending in group.endings
        ]
        answered = {(target, ending.prompt) for target, ending in endings if ending.answered}
        return {
            (target, ending.prompt): (target, ending.prompt) in answered
            for target, ending in endings
        }

    def prompt_medians_ms(self, target: Target, suite: str | None) -> dict[PromptKey, float]:
        """How long a whole call of each prompt took in the middle; with `suite`, of its prompts alone."""
        group = self._strata.groups().get(target)
        times = group.prompt_times_ms() if group else {}
        return {key: median(values) for key, values in times.items() if suite in (None, key[0])}

    @property
    def _strata(self) -> Strata:
        strata, _ = self._counted
        return strata

    @cached_property
    def _counted(self) -> tuple[Strata, RowsRead]:
        # A summary that holds spares most runs this pass over their records.
        strata = Strata()
        rows_read = self._run.feed(strata)
        return strata, rows_read


def read_entries(runs_dir: Path) -> tuple[list[RunEntry], list[UnreadableRun]]:
    """Every run in `runs_dir`, the newest first, and what could not be read."""
    entries: list[RunEntry] = []
    try:
        # Folders nobody may look into: there may be a run in them.
        folders = [
            path for path in sorted(runs_dir.iterdir()) if path.is_dir() and not is_run_folder(path)
        ]
        closed = [path for path in folders if not os.access(path, os.R_OK | os.X_OK)]
    except (FileNotFoundError, NotADirectoryError):
        words = f"There is no folder {runs_dir}; make a run with `clawgauge run`, or name its --runs-dir."
        raise RunFolderError(words) from None
    except OSError as error:
        raise RunFolderError(
            f"Cannot read {runs_dir} ({error.strerror or error}); check its permissions."
        ) from error
    unreadable = [
        UnreadableRun(path=str(p), reason=f"Cannot read {p}; check its permissions.")
        for p in closed
    ]
    for path in list_runs(runs_dir):
        try:
            entries.append(RunEntry(Run.open(path)))
        except RunFolderError as error:
            unreadable.append(UnreadableRun(path=str(path), reason=str(error)))
    return entries, unreadable


def find_missing(
    entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None
) -> tuple[list[Coverage], list[FillStep], int]:
    """What of all prompts each target has answered, the steps that ask the rest, and how many no step can ask."""
    grid = _make_grid(entries, wanted, suite)
    return _describe_coverage(grid), *_plan_filling(entries, grid)


@dataclass(frozen=True, slots=True)
class Grid:
    """All targets by all prompts, each with its newest fingerprint; None where it can be asked of nobody else."""

    targets: list[Target]
    prompts: dict[PromptKey, str | None] = field(default_factory=dict)
    suite_sizes: dict[str, int] = field(default_factory=dict)
    answered: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))
    outdated: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))
    asked: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))

    def prompts_of(self, target: Target) -> list[PromptKey]:
        """The prompts that `target` has answered or could be asked."""
        asked = self.asked[target]
        return [
            key
            for key, fingerprint in self.prompts.items()
            if fingerprint is not None or key in asked
        ]

    def missing(self, target: Target) -> list[PromptKey]:
        return [key for key in self.prompts_of(target) if key not in self.answered[target]]


def _make_grid(
    entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None
) -> Grid:
    targets = dict.fromkeys(
        g.target for entry in entries for g in entry.summary.models if wanted(g.target)
    )
    grid = Grid(list(targets))
    for entry in entries:
        for info in entry.config.suites if entry.config else ():
            grid.suite_sizes.setdefault(info.name, info.n_prompts)
        for key, fingerprint in entry.fingerprints.items():
            # What was asked in a user's own context needs that to be asked again.
            if suite in (None, key[0]) and not key[0].endswith(IN_CONTEXT):
                grid.prompts.setdefault(key, fingerprint)
    for entry in entries:
        for target, key, answered in _cells(entry, targets):
            if suite not in (None, key[0]):
                continue
            if entry.config is None:
                grid.prompts.setdefault(key, None)
                grid.asked[target].add(key)
            if answered and key in grid.prompts:
                is_newest = grid.prompts[key] == entry.fingerprints.get(key)
                (grid.answered if is_newest else grid.outdated)[target].add(key)
    return grid


def _cells(
    entry: RunEntry, targets: Collection[Target]
) -> Iterator[tuple[Target, PromptKey, bool]]:
    """Which prompts of a run each target has a record of, and whether one is an answer."""
    groups = [group for group in entry.summary.models if group.target in targets]
    whole = {
        g.target
        for g in groups
        if g.n_ok == g.n_total == g.n_scheduled and not g.n_not_needed and entry.config
    }
    yield from ((target, key, True) for target in whole for key in entry.fingerprints)
    unclear = {group.target for group in groups} - whole
    yield from (
        (*cell, answered)
        for cell, answered in (entry.cells if unclear else {}).items()
        if cell[0] in unclear
    )


def _describe_coverage(grid: Grid) -> list[Coverage]:
    found = []
    for target in grid.targets:
        missing = grid.missing(target)
        for suite, n in Counter(suite for suite, _ in grid.prompts_of(target)).items():
            lacking = [key for key in missing if key[0] == suite]
            found.append(Coverage(
                target=target.label, suite=suite, n_prompts=n, n_answered=n - len(lacking),
                n_outdated=sum(key in grid.outdated[target] for key in lacking),
                n_in_suite=grid.suite_sizes.get(suite), missing=[prompt_id for _, prompt_id in lacking],
            ))  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class FillStep:
    """Cells that one command fills: it goes on with the run `resume`, else it starts one set up like `like`."""

    resume: RunEntry | None
    like: RunConfig
    targets: list[Target]
    prompts: list[PromptKey]
    cells: list[Cell]
    settings: dict[Target, Mapping[str, Any]]
    whole_suites: bool = False


def _plan_filling(entries: Sequence[RunEntry], grid: Grid) -> tuple[list[FillStep], int]:
    """The steps that fill every missing cell, and how many cells no step can fill."""
    plans = [(entry, entry.config) for entry in entries if entry.config is not None]
    settings = {
        target: settings_of(config, target)
        for _, config in reversed(plans)
        for target in config.targets
    }
    # Which runs asked a prompt in the content that counts, the newest first.
    holders: defaultdict[PromptKey, list[int]] = defaultdict(list)
    for number, (entry, _) in enumerate(plans):
        for key, fingerprint in entry.fingerprints.items():
            if grid.prompts.get(key) == fingerprint:
                holders[key].append(number)
    # What a target could do without, its run does not ask when it is resumed.
    skipping = [
        {group.target for group in entry.summary.models if group.n_not_needed} for entry, _ in plans
    ]
    resumed: defaultdict[int, list[Cell]] = defaultdict(list)
    fresh: defaultdict[tuple[Target, int], list[PromptKey]] = defaultdict(list)
    n_not_fillable = 0
    for target in grid.targets:
        for key in grid.missing(target):
            planned = [
                n
                for n in holders[key]
                if target in plans[n][1].targets and target not in skipping[n]
            ]
            if planned:
                resumed[planned[0]].append((target, key))
            elif holders[key]:
                fresh[target, holders[key][0]].append(key)
            else:
                n_not_fillable += 1
    steps = []
    for run, cells in resumed.items():
        targets, keys = (list(dict.fromkeys(parts)) for parts in zip(*cells, strict=True))
        steps.append(FillStep(*plans[run], targets, keys, cells, settings))
    # One new run for all targets that miss the same prompts.
    alike: defaultdict[tuple[int, tuple[PromptKey, ...]], list[Target]] = defaultdict(list)
    for (target, holder), missing in fresh.items():
        alike[holder, tuple(missing)].append(target)
    for (holder, same), members in alike.items():
        cells = [(target, key) for target in members for key in same]
        sizes = Counter(suite for suite, _ in same)
        whole = all(grid.suite_sizes.get(suite) == n for suite, n in sizes.items())
        steps.append(
            FillStep(
                None, plans[holder][1], members, list(same), cells, settings, whole_suites=whole
            )
        )
    return steps, n_not_fillable
