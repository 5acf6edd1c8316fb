"""Which cells have an answer in any run, and how the missing ones could be filled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from clawgauge.history.findings import Cell, Coverage, RunEntry
from clawgauge.records import PromptKey, RunConfig, Target


@dataclass(frozen=True, slots=True)
class Grid:
    """All targets by all prompts. `prompts` gives each prompt's newest fingerprint, None where no folder holds it.

    A prompt that no folder holds can be asked of nobody else: it is on the grid only of the targets in `asked`.
    """

    targets: list[Target]
    prompts: dict[PromptKey, str | None] = field(default_factory=dict)
    suite_sizes: dict[str, int] = field(default_factory=dict)
    answered: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))
    outdated: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))
    asked: defaultdict[Target, set[PromptKey]] = field(default_factory=partial(defaultdict, set))

    def prompts_of(self, target: Target) -> list[PromptKey]:
        """The prompts that `target` has answered or could be asked."""
        asked = self.asked[target]
        return [key for key, fingerprint in self.prompts.items() if fingerprint is not None or key in asked]

    def missing(self, target: Target) -> list[PromptKey]:
        """The prompts that `target` has not answered in their newest content."""
        return [key for key in self.prompts_of(target) if key not in self.answered[target]]


def make_grid(entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None) -> Grid:
    """The grid over all runs, the newest first."""
    targets = dict.fromkeys(g.target for entry in entries for g in entry.summary.models if wanted(g.target))
    grid = Grid(list(targets))
    for entry in entries:
        for info in entry.config.suites if entry.config else ():
            grid.suite_sizes.setdefault(info.name, info.n_prompts)
        for key, fingerprint in entry.fingerprints.items():
            if suite in (None, key[0]):
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


def _cells(entry: RunEntry, targets: Collection[Target]) -> Iterator[tuple[Target, PromptKey, bool]]:
    """Which prompts of a run each target has a record of, and whether one is an answer.

    Of a target that answered all it was asked the summary says enough: its records need not be gone through.
    """
    unclear = set()
    for group in entry.summary.models:
        complete = group.n_ok == group.n_total == group.n_scheduled and not group.n_not_needed
        if group.target in targets and complete and entry.config is not None:
            yield from ((group.target, key, True) for key in entry.fingerprints)
        elif group.target in targets:
            unclear.add(group.target)
    for (target, key), answered in entry.cells.items() if unclear else ():
        if target in unclear:
            yield target, key, answered


def describe_coverage(grid: Grid) -> list[Coverage]:
    """The grid by target and suite."""
    found = []
    for target in grid.targets:
        missing = grid.missing(target)
        for suite, n_prompts in Counter(suite for suite, _ in grid.prompts_of(target)).items():
            lacking = [key for key in missing if key[0] == suite]
            found.append(
                Coverage(
                    target=target.label,
                    suite=suite,
                    n_prompts=n_prompts,
                    n_answered=n_prompts - len(lacking),
                    n_outdated=sum(key in grid.outdated[target] for key in lacking),
                    n_in_suite=grid.suite_sizes.get(suite),
                    missing=[prompt_id for _, prompt_id in lacking],
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class FillStep:
    """Cells that one command fills. With `resume` it goes on with that run; else it starts one set up like `like`."""

    resume: RunEntry | None
    like: RunConfig
    targets: list[Target]
    prompts: list[PromptKey]
    cells: list[Cell]
    whole_suites: bool = False


def plan_filling(entries: Sequence[RunEntry], grid: Grid) -> tuple[list[FillStep], int]:
    """The steps that fill every missing cell, and how many cells no step can fill."""
    plans = [(entry, entry.config) for entry in entries if entry.config is not None]
    # Which runs asked a prompt in the content that counts, the newest first.
    holders: defaultdict[PromptKey, list[int]] = defaultdict(list)
    for number, (entry, _) in enumerate(plans):
        for key, fingerprint in entry.fingerprints.items():
            if grid.prompts.get(key) == fingerprint:
                holders[key].append(number)
    resumed: defaultdict[int, list[Cell]] = defaultdict(list)
    fresh: defaultdict[tuple[Target, int], list[PromptKey]] = defaultdict(list)
    n_not_fillable = 0
    for target in grid.targets:
        for key in grid.missing(target):
            if key not in holders:
                n_not_fillable += 1
            elif (run := next((n for n in holders[key] if _goes_on_with(*plans[n], target)), None)) is not None:
                resumed[run].append((target, key))
            else:
                fresh[target, holders[key][0]].append(key)
    steps = []
    for run, cells in resumed.items():
        targets, keys = (list(dict.fromkeys(parts)) for parts in zip(*cells, strict=True))
        steps.append(FillStep(*plans[run], targets, keys, cells))
    # One new run for all targets that miss the same prompts.
    alike: defaultdict[tuple[int, tuple[PromptKey, ...]], list[Target]] = defaultdict(list)
    for (target, holder), missing in fresh.items():
        alike[holder, tuple(missing)].append(target)
    for (holder, same), members in alike.items():
        cells = [(target, key) for target in members for key in same]
        sizes = Counter(suite for suite, _ in same)
        whole = all(grid.suite_sizes.get(suite) == n for suite, n in sizes.items())
        steps.append(FillStep(None, plans[holder][1], members, list(same), cells, whole_suites=whole))
    return steps, n_not_fillable


def _goes_on_with(entry: RunEntry, config: RunConfig, target: Target) -> bool:
    """Whether the run, resumed, asks a target what it lacks: not where it could do without."""
    return target in config.targets and not any(g.n_not_needed for g in entry.summary.models if g.target == target)
