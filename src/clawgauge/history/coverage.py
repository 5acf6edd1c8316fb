"""Which cells have an answer in any run, and how the missing ones could be filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clawgauge.history.findings import Cell, Coverage, RunEntry
from clawgauge.records import GroupSummary, PromptKey, RunConfig, Target


@dataclass(frozen=True, slots=True)
class Grid:
    """All targets by all prompts. `prompts` gives each prompt's newest fingerprint, None where no folder holds it.

    A prompt that no folder holds can be asked of nobody else: it is on the grid only of the targets in `asked`.
    """

    targets: list[Target]
    prompts: dict[PromptKey, str | None]
    suite_sizes: dict[str, int]
    answered: dict[Target, set[PromptKey]]
    outdated: dict[Target, set[PromptKey]]
    asked: dict[Target, set[PromptKey]]

    def prompts_of(self, target: Target) -> list[PromptKey]:
        """The prompts that `target` has answered or could be asked."""
        asked = self.asked.get(target, set())
        return [key for key, fingerprint in self.prompts.items() if fingerprint is not None or key in asked]

    def missing(self, target: Target) -> list[PromptKey]:
        """The prompts that `target` has not answered in their newest content."""
        answered = self.answered.get(target, set())
        return [key for key in self.prompts_of(target) if key not in answered]


def make_grid(entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None) -> Grid:
    """The grid over all runs, the newest first."""
    targets = list(dict.fromkeys(g.target for entry in entries for g in entry.summary.models))
    grid = Grid([target for target in targets if wanted(target)], {}, {}, {}, {}, {})
    for entry in entries:
        for info in entry.config.suites if entry.config else ():
            grid.suite_sizes.setdefault(info.name, info.n_prompts)
        for key, fingerprint in entry.fingerprints.items():
            if suite in (None, key[0]):
                grid.prompts.setdefault(key, fingerprint)
    for entry in entries:
        _add_answers(grid, entry, suite)
    return grid


def _add_answers(grid: Grid, entry: RunEntry, suite: str | None) -> None:
    groups = [group for group in entry.summary.models if group.target in grid.targets]
    open_targets = set()
    for group in groups:
        target = group.target
        if entry.config is not None and _is_complete(group):
            for key, fingerprint in entry.fingerprints.items():
                _add_answer(grid, target, key, fingerprint)
        else:
            open_targets.add(target)
    if not open_targets:
        return
    for (target, key), answered in entry.cells.items():
        if target not in open_targets or suite not in (None, key[0]):
            continue
        if entry.config is None:
            grid.prompts.setdefault(key, None)
            grid.asked.setdefault(target, set()).add(key)
        if answered:
            _add_answer(grid, target, key, entry.fingerprints.get(key))


def _add_answer(grid: Grid, target: Target, key: PromptKey, fingerprint: str | None) -> None:
    if key in grid.prompts:
        share = grid.answered if grid.prompts[key] == fingerprint else grid.outdated
        share.setdefault(target, set()).add(key)


def _is_complete(group: GroupSummary) -> bool:
    return group.n_ok == group.n_total == group.n_scheduled and not group.n_not_needed


def _goes_on_with(entry: RunEntry, config: RunConfig, target: Target) -> bool:
    """Whether the run, resumed, asks a target what it lacks: not where it could do without."""
    return target in config.targets and not any(g.n_not_needed for g in entry.summary.models if g.target == target)


def describe_coverage(grid: Grid) -> list[Coverage]:
    """The grid by target and suite."""
    return [
        _describe(grid, target, suite)
        for target in grid.targets
        for suite in dict.fromkeys(suite for suite, _ in grid.prompts_of(target))
    ]


def _describe(grid: Grid, target: Target, suite: str) -> Coverage:
    keys = [key for key in grid.prompts_of(target) if key[0] == suite]
    missing = [key for key in grid.missing(target) if key[0] == suite]
    outdated = [key for key in missing if key in grid.outdated.get(target, set())]
    return Coverage(
        target=target.label,
        suite=suite,
        n_prompts=len(keys),
        n_answered=len(keys) - len(missing),
        n_outdated=len(outdated),
        n_in_suite=grid.suite_sizes.get(suite),
        missing=[prompt_id for _, prompt_id in missing],
    )


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
    holders = _find_holders(plans, grid)
    resumed: dict[int, list[Cell]] = {}
    fresh: dict[tuple[Target, int], list[PromptKey]] = {}
    n_not_fillable = 0
    for target in grid.targets:
        for key in grid.missing(target):
            if key not in holders:
                n_not_fillable += 1
            elif (run := next((n for n in holders[key] if _goes_on_with(*plans[n], target)), None)) is not None:
                resumed.setdefault(run, []).append((target, key))
            else:
                fresh.setdefault((target, holders[key][0]), []).append(key)
    steps = [_resume(*plans[run], cells) for run, cells in resumed.items()]
    return steps + _start([config for _, config in plans], grid, fresh), n_not_fillable


def _find_holders(plans: Sequence[tuple[RunEntry, RunConfig]], grid: Grid) -> dict[PromptKey, list[int]]:
    """Which runs asked a prompt in the content that counts, the newest first."""
    holders: dict[PromptKey, list[int]] = {}
    for number, (entry, _) in enumerate(plans):
        for key, fingerprint in entry.fingerprints.items():
            if grid.prompts.get(key) == fingerprint:
                holders.setdefault(key, []).append(number)
    return holders


def _resume(entry: RunEntry, config: RunConfig, cells: list[Cell]) -> FillStep:
    targets = list(dict.fromkeys(target for target, _ in cells))
    prompts = list(dict.fromkeys(key for _, key in cells))
    return FillStep(entry, config, targets, prompts, cells)


def _start(
    configs: Sequence[RunConfig], grid: Grid, fresh: dict[tuple[Target, int], list[PromptKey]]
) -> list[FillStep]:
    """One new run for all targets that miss the same prompts."""
    alike: dict[tuple[int, tuple[PromptKey, ...]], list[Target]] = {}
    for (target, holder), keys in fresh.items():
        alike.setdefault((holder, tuple(keys)), []).append(target)
    return [
        FillStep(
            None,
            configs[holder],
            targets,
            list(keys),
            [(target, key) for target in targets for key in keys],
            whole_suites=_are_whole_suites(keys, grid),
        )
        for (holder, keys), targets in alike.items()
    ]


def _are_whole_suites(keys: Sequence[PromptKey], grid: Grid) -> bool:
    sizes: dict[str, int] = {}
    for suite, _ in keys:
        sizes[suite] = sizes.get(suite, 0) + 1
    return all(grid.suite_sizes.get(suite) == n for suite, n in sizes.items())
