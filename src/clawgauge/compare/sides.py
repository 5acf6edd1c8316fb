"""The sides of a comparison: a run, or several that count as one, each read in one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clawgauge.compare.tallies import PromptTally, TalliedRun, Tallies, tally_run
from clawgauge.records import Event, GroupSummary, Inventory, PromptKey, RunConfig, Target
from clawgauge.run_data import Run, read_schedule
from clawgauge.summary import Strata
from clawgauge.summary.summarize import summarize_group


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison. Its plan and its machine are those of the first of its `runs`;
    `tallies`, `judged_by` and `reported` are of all of them.

    `strata` holds what the pass over all runs came to; without it, rows are gone through again
    where a summary is asked for."""

    runs: Sequence[TalliedRun]
    tallies: Tallies
    judged_by: Mapping[Target, set[str | None]]
    reported: Mapping[Target, set[str]]
    strata: Strata | None = None

    @property
    def first_run(self) -> Run:
        return self.runs[0].run

    @property
    def path(self) -> Path:
        return self.first_run.path

    @property
    def run_id(self) -> str:
        return self.first_run.run_id

    @property
    def config(self) -> RunConfig | None:
        """config.json; None where there is none, or where the first harness made it."""
        return self.first_run.config

    @property
    def inventory(self) -> Inventory | None:
        return self.first_run.inventory

    @property
    def n_unreadable_lines(self) -> int:
        return sum(run.n_unreadable_lines for run in self.runs)

    @property
    def is_interleaved(self) -> bool:
        return all(run.is_interleaved for run in self.runs)

    @property
    def is_decision(self) -> bool:
        """Whether answers decided what was asked, in any of the runs."""
        configs = [tallied.run.config for tallied in self.runs]
        return any(config is not None and config.decision is not None for config in configs)

    @property
    def targets(self) -> list[Target]:
        """The planned targets, in their order, then others that have records."""
        planned = self.config.targets if self.config else []
        return list(dict.fromkeys([*planned, *self.tallies]))

    def others_alone(self) -> list[Side]:
        """Every run but the first as a side of its own."""
        return [_make_side([run]) for run in self.runs[1:]]

    def summarize_shared(
        self, chosen: Sequence[tuple[Target, Collection[PromptKey]]]
    ) -> list[GroupSummary]:
        """The summaries of some targets, each over the prompts beside it alone.

        They come out of the one pass where these are all that it has records of; else the records
        are gone through once more, for all such targets together."""
        strata_of_chosen = []
        narrowed = []
        for target, prompts in chosen:
            strata = self.strata
            if strata is None or not self._recorded_prompts(target) <= set(prompts):
                strata = Strata(only=(target, prompts))
                narrowed.append(strata)
            strata_of_chosen.append(strata)
        if narrowed:
            for tallied in self.runs:
                tallied.run.feed(*narrowed)
        summaries = []
        for strata, (target, prompts) in zip(strata_of_chosen, chosen, strict=True):
            summaries.append(self._summarize(strata, target, prompts))
        return summaries

    def _recorded_prompts(self, target: Target) -> set[PromptKey]:
        return {key for key, tally in self.tallies[target].items() if tally.n_recorded}

    def _summarize(
        self, strata: Strata, target: Target, prompts: Collection[PromptKey]
    ) -> GroupSummary:
        config = self._narrow_config(target, prompts)
        group = strata.groups([target])[target]
        with_verdict = {ending.prompt for ending in group.endings if ending.judged}
        events: list[Event] = []
        for tallied in self.runs:
            events += tallied.run.events
        return summarize_group(group, read_schedule(config, with_verdict), events, {})

    def _narrow_config(self, target: Target, prompts: Collection[PromptKey]) -> RunConfig | None:
        """The plan of all runs together, for these prompts and this target alone."""
        config = self.config
        if config is None:
            return None
        repeats = 0
        for tallied in self.runs:
            if tallied.run.config is not None:
                repeats += tallied.run.config.options.repeats
        return msgspec.structs.replace(
            config,
            prompts=[prompt for prompt in config.prompts if prompt.key in prompts],
            planned_targets=[
                planned for planned in config.planned_targets if planned.target == target
            ],
            options=msgspec.structs.replace(config.options, repeats=repeats),
        )


def read_side(paths: Sequence[Path]) -> Side:
    """Go once through every run of a side."""
    strata = Strata()
    runs = [tally_run(path, number, strata) for number, path in enumerate(paths)]
    return _make_side(runs, strata)


def _make_side(runs: Sequence[TalliedRun], strata: Strata | None = None) -> Side:
    if len(runs) == 1:
        (run,) = runs
        return Side(
            runs=runs,
            tallies=run.tallies,
            judged_by=run.judged_by,
            reported=run.reported,
            strata=strata,
        )
    judged_by: defaultdict[Target, set[str | None]] = defaultdict(set)
    reported: defaultdict[Target, set[str]] = defaultdict(set)
    for run in runs:
        for target in run.tallies:
            judged_by[target] |= run.judged_by.get(target, set())
            reported[target] |= run.reported.get(target, set())
    return Side(
        runs=runs,
        tallies=_join_tallies(runs),
        judged_by=judged_by,
        reported=reported,
        strata=strata,
    )


def _join_tallies(runs: Sequence[TalliedRun]) -> Tallies:
    """The calls of all runs together. Answers are shown from the first run alone: only there do
    the offsets lead to a line."""
    joined: Tallies = {}
    for run in runs:
        is_first = run is runs[0]
        for target, tallies in run.tallies.items():
            joined_tallies = joined.setdefault(target, {})
            for key, tally in tallies.items():
                if key not in joined_tallies:
                    offsets = tally.first_offset_by_verdict if is_first else {}
                    joined_tallies[key] = PromptTally(tally.name, first_offset_by_verdict=offsets)
                joined_tallies[key].merge(tally)
    return joined
