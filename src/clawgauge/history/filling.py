"""How the prompts nobody answered could be asked: by going on with a run, else in a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clawgauge.history.coverage import AllPrompts, TargetCoverage
from clawgauge.history.entries import RunEntry
from clawgauge.prices import missing_key, settings_of
from clawgauge.records import PromptKey, RunConfig, Target

Cell: TypeAlias = tuple[Target, PromptKey]


@dataclass(frozen=True, slots=True)
class FillStep:
    """Cells that one command fills: it goes on with the run `resume`, else it starts one set up
    like `like`."""

    cells: list[Cell]
    like: RunConfig
    resume: RunEntry | None = None
    whole_suites: bool = False

    @property
    def targets(self) -> list[Target]:
        return list(dict.fromkeys(target for target, _ in self.cells))

    @property
    def prompts(self) -> list[PromptKey]:
        return list(dict.fromkeys(key for _, key in self.cells))


@dataclass(frozen=True, slots=True)
class MissingKey:
    """A target that cannot be asked here: the variable that holds its key is not set."""

    variable: str
    n_prompts: int


@dataclass(frozen=True, slots=True)
class Filling:
    """The steps that fill what is missing. `missing_keys` has the targets that no step asks for
    want of a key."""

    steps: list[FillStep]
    missing_keys: dict[Target, MissingKey]


@dataclass(frozen=True, slots=True)
class MissingPrompts:
    """The missing cells of all targets, by the run that would ask them.

    `by_resumed` has those that a run had planned, `by_copied` those of one target that a new run
    like an earlier one has to ask. `n_without_run` cells are in no run whose prompts are known."""

    runs: Sequence[tuple[RunEntry, RunConfig]]
    by_resumed: Mapping[int, list[Cell]]
    by_copied: Mapping[tuple[Target, int], list[Cell]]
    n_without_run: int
    suite_sizes: Mapping[str, int]


def find_missing(
    entries: Sequence[RunEntry], covered: Sequence[TargetCoverage], prompts: AllPrompts
) -> MissingPrompts:
    """Which run would ask each missing cell: of those that hold the prompt in its newest content,
    the newest that planned it, else the newest to take as a model."""
    runs = [(entry, entry.config) for entry in entries if entry.config is not None]
    holders = _find_holders(runs, prompts)
    by_resumed: dict[int, list[Cell]] = {}
    by_copied: dict[tuple[Target, int], list[Cell]] = {}
    n_without_run = 0
    for coverage in covered:
        target = coverage.target
        for key in coverage.missing:
            numbers = holders.get(key, [])
            resumable = [number for number in numbers if _would_ask(*runs[number], target)]
            if resumable:
                by_resumed.setdefault(resumable[0], []).append((target, key))
            elif numbers:
                by_copied.setdefault((target, numbers[0]), []).append((target, key))
            else:
                n_without_run += 1
    return MissingPrompts(
        runs=runs,
        by_resumed=by_resumed,
        by_copied=by_copied,
        n_without_run=n_without_run,
        suite_sizes=prompts.suite_sizes,
    )


def _find_holders(
    runs: Sequence[tuple[RunEntry, RunConfig]], prompts: AllPrompts
) -> dict[PromptKey, list[int]]:
    """Which runs have each prompt in the content that counts, the newest first."""
    holders: dict[PromptKey, list[int]] = {}
    for number, (entry, _) in enumerate(runs):
        for key, fingerprint in entry.fingerprints.items():
            if prompts.fingerprints.get(key) == fingerprint:
                holders.setdefault(key, []).append(number)
    return holders


def _would_ask(entry: RunEntry, config: RunConfig, target: Target) -> bool:
    """Whether a run asks a target what it lacks when it is resumed: not what the target could do
    without."""
    skipping = {group.target for group in entry.summary.models if group.n_not_needed}
    return target in config.targets and target not in skipping


def plan_filling(missing: MissingPrompts, environ: Mapping[str, str]) -> Filling:
    """The steps that fill what is missing, without the targets whose key is not set in `environ`:
    nobody could ask them."""
    variables = _find_missing_keys(missing, environ)
    steps = []
    for number, cells in missing.by_resumed.items():
        entry, config = missing.runs[number]
        askable = [cell for cell in cells if cell[0] not in variables]
        if len(askable) == len(cells):
            steps.append(FillStep(cells=cells, like=config, resume=entry))
            continue
        # A run that goes on asks all its targets: beside one that cannot be asked, each other one
        # gets a new run.
        for target in dict.fromkeys(target for target, _ in askable):
            own_cells = [cell for cell in askable if cell[0] == target]
            steps.append(FillStep(cells=own_cells, like=config))
    for (target, number), cells in missing.by_copied.items():
        if target not in variables:
            _, config = missing.runs[number]
            is_whole = _are_whole_suites(cells, missing.suite_sizes)
            steps.append(FillStep(cells=cells, like=config, whole_suites=is_whole))
    n_prompts: Counter[Target] = Counter()
    for cells in [*missing.by_resumed.values(), *missing.by_copied.values()]:
        n_prompts.update(target for target, _ in cells if target in variables)
    missing_keys = {}
    for target, n in n_prompts.items():
        missing_keys[target] = MissingKey(variable=variables[target], n_prompts=n)
    return Filling(steps=steps, missing_keys=missing_keys)


def _find_missing_keys(missing: MissingPrompts, environ: Mapping[str, str]) -> dict[Target, str]:
    """The targets whose key is not set, each with the variable that would hold it. Their newest
    run says which provider they have."""
    variables: dict[Target, str | None] = {}
    for _, config in missing.runs:
        for target in config.targets:
            if target not in variables:
                variables[target] = missing_key(settings_of(config, target), environ)
    return {target: variable for target, variable in variables.items() if variable is not None}


def _are_whole_suites(cells: Sequence[Cell], suite_sizes: Mapping[str, int]) -> bool:
    """Whether these cells of one target are all that their suites have."""
    n_by_suite = Counter(suite for _, (suite, _) in cells)
    return all(suite_sizes.get(suite) == n for suite, n in n_by_suite.items())
