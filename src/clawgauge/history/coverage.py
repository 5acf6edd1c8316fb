"""Which prompts have an answer in any run, and what each target lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from clawgauge.history.entries import RunEntry
from clawgauge.history.findings import Coverage
from clawgauge.records import GroupSummary, PromptKey, Target
from clawgauge.records.run import IN_CONTEXT

IsWanted: TypeAlias = Callable[[Target], bool]


@dataclass(frozen=True, slots=True)
class TargetCoverage:
    """What one target was asked in all runs.

    `prompts` are those that it has answered or could be asked, in the order of all prompts;
    `missing` those without an answer in their newest content, `outdated` those with an answer in an
    earlier one."""

    target: Target
    prompts: list[PromptKey]
    missing: list[PromptKey]
    outdated: set[PromptKey]


@dataclass(frozen=True, slots=True)
class AllPrompts:
    """The prompts of all runs, each with the fingerprint of its newest content, and how many
    prompts each suite has."""

    fingerprints: Mapping[PromptKey, str]
    suite_sizes: Mapping[str, int]


def find_prompts(entries: Sequence[RunEntry], suite: str | None) -> AllPrompts:
    """The prompts that anybody could be asked; with `suite`, those of that suite alone.

    What was asked in a user's own context needs that to be asked again, and is left out. So is what
    a run could have asked until jobs were decided: nobody lacks it."""
    fingerprints: dict[PromptKey, str] = {}
    suite_sizes: dict[str, int] = {}
    for entry in entries:
        if entry.decides_jobs:
            continue
        if entry.config is not None:
            for info in entry.config.suites:
                suite_sizes.setdefault(info.name, info.n_prompts)
        for key, fingerprint in entry.fingerprints.items():
            if suite in (None, key[0]) and not key[0].endswith(IN_CONTEXT):
                fingerprints.setdefault(key, fingerprint)
    return AllPrompts(fingerprints=fingerprints, suite_sizes=suite_sizes)


def cover_targets(
    entries: Sequence[RunEntry], prompts: AllPrompts, is_wanted: IsWanted, suite: str | None
) -> list[TargetCoverage]:
    """What every wanted target was asked and has answered. `entries` are the newest first."""
    targets: dict[Target, None] = {}
    for entry in entries:
        for group in entry.summary.models:
            if is_wanted(group.target):
                targets[group.target] = None
    covered = []
    old_prompts = _find_old_prompts(entries, targets, suite)
    for target in targets:
        covered.append(_cover_target(entries, prompts, old_prompts, target))
    return covered


def _find_old_prompts(
    entries: Sequence[RunEntry], targets: Mapping[Target, None], suite: str | None
) -> dict[PromptKey, set[Target]]:
    """The prompts of the first harness, which kept none, and which targets were asked them: nobody
    else can be."""
    asked_by: dict[PromptKey, set[Target]] = {}
    for entry in entries:
        if entry.config is None:
            for group in entry.summary.models:
                if group.target in targets:
                    for key in entry.cells(group.target):
                        if suite in (None, key[0]):
                            asked_by.setdefault(key, set()).add(group.target)
    return asked_by


@dataclass(slots=True)
class _Answers:
    """What one target has answered, while its runs are gone through."""

    unanswered: set[PromptKey]
    outdated: set[PromptKey] = field(default_factory=set)


def _cover_target(
    entries: Sequence[RunEntry],
    prompts: AllPrompts,
    old_prompts: Mapping[PromptKey, set[Target]],
    target: Target,
) -> TargetCoverage:
    keys = list(prompts.fingerprints)
    for key, asked_targets in old_prompts.items():
        if key not in prompts.fingerprints and target in asked_targets:
            keys.append(key)
    answers = _Answers(unanswered=set(keys))
    for entry in entries:
        if not answers.unanswered:
            # Nothing that an earlier run holds could change this.
            break
        for key in _find_answered(entry, target):
            if entry.fingerprints.get(key) == prompts.fingerprints.get(key):
                answers.unanswered.discard(key)
            else:
                answers.outdated.add(key)
    return TargetCoverage(
        target=target,
        prompts=keys,
        missing=[key for key in keys if key in answers.unanswered],
        outdated=answers.outdated,
    )


def _find_answered(entry: RunEntry, target: Target) -> list[PromptKey]:
    """The prompts of a run that a target has answered. Its records are read only where its summary
    does not tell."""
    group = _find_group(entry, target)
    if group is None or not group.n_ok:
        return []
    is_whole = group.n_ok == group.n_total == group.n_scheduled and not group.n_not_needed
    if is_whole and entry.config is not None and not entry.decides_jobs:
        return list(entry.fingerprints)
    return [key for key, is_answered in entry.cells(target).items() if is_answered]


def _find_group(entry: RunEntry, target: Target) -> GroupSummary | None:
    for group in entry.summary.models:
        if group.target == target:
            return group
    return None


def describe_coverage(covered: Sequence[TargetCoverage], prompts: AllPrompts) -> list[Coverage]:
    """Each target's coverage suite by suite."""
    described = []
    for target_coverage in covered:
        missing_ids: dict[str, list[str]] = {}
        n_outdated: Counter[str] = Counter()
        for suite, prompt_id in target_coverage.missing:
            missing_ids.setdefault(suite, []).append(prompt_id)
            n_outdated[suite] += (suite, prompt_id) in target_coverage.outdated
        n_prompts = Counter(suite for suite, _ in target_coverage.prompts)
        for suite, n in n_prompts.items():
            missing = missing_ids.get(suite, [])
            described.append(
                Coverage(
                    target=target_coverage.target.label,
                    suite=suite,
                    n_prompts=n,
                    n_answered=n - len(missing),
                    n_outdated=n_outdated[suite],
                    n_in_suite=prompts.suite_sizes.get(suite),
                    missing=missing,
                )
            )
    return described
