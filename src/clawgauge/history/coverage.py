"""Which cells (target × prompt) have an answer in any run.

Owns: the prompts there are, each in its newest content, and who has answered them. Refuses: opening results.jsonl where
the summary already says that every scheduled cell was answered; that is what keeps hundreds of runs fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clawgauge.history.entries import RunEntry, target_of
from clawgauge.history.findings import Coverage
from clawgauge.journal import iter_results
from clawgauge.records import CellRow, GroupSummary, Target
from clawgauge.summary.schedule import PromptKey


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
    targets = list(dict.fromkeys(target_of(g) for entry in entries for g in entry.summary.models))
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
    groups = [group for group in entry.summary.models if target_of(group) in grid.targets]
    open_targets = set()
    for group in groups:
        target = target_of(group)
        if entry.config is not None and _is_complete(group):
            for key, fingerprint in entry.fingerprints.items():
                _add_answer(grid, target, key, fingerprint)
        else:
            open_targets.add(target)
    if not open_targets:
        return
    for row in iter_results(entry.path, CellRow):
        target, key = Target(row.provider, row.model, row.thinking_level), (row.suite, row.prompt_id)
        if target not in open_targets or suite not in (None, row.suite):
            continue
        if entry.config is None:
            grid.prompts.setdefault(key, None)
            grid.asked.setdefault(target, set()).add(key)
        if row.availability_status == "ok":
            _add_answer(grid, target, key, entry.fingerprints.get(key))


def _add_answer(grid: Grid, target: Target, key: PromptKey, fingerprint: str | None) -> None:
    if key in grid.prompts:
        share = grid.answered if grid.prompts[key] == fingerprint else grid.outdated
        share.setdefault(target, set()).add(key)


def _is_complete(group: GroupSummary) -> bool:
    return group.n_ok == group.n_total == group.n_scheduled


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
