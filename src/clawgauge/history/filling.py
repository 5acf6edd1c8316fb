"""How the missing cells could be filled: which runs to go on with, which to start.

Owns: the plan, cell by cell. Refuses: running it, and the words of a command line; a step names the run or the targets,
prompts and settings, and whoever prints it knows the options. Cells of the first harness cannot be planned: nobody kept
their prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clawgauge.history.coverage import Grid
from clawgauge.history.entries import RunEntry
from clawgauge.records import RunConfig, Target
from clawgauge.summary.schedule import PromptKey

Cell: TypeAlias = tuple[Target, PromptKey]


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
            elif (run := next((n for n in holders[key] if target in plans[n][1].targets), None)) is not None:
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
