"""A run read for comparing: one tally per target and prompt, beside what was planned, all in one pass."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from clawgauge.records import GroupSummary, PromptKey, Target
from clawgauge.run_data import Row, Run, Schedule, read_schedule
from clawgauge.run_data.schedule import read_stop, tier_prompts
from clawgauge.summary import Strata
from clawgauge.summary.figures import summarize_group


@dataclass(slots=True, eq=False)
class PromptTally:
    """All repeats of one prompt by one target. Times are of successful calls, the cold ones only counted.

    `first_at` tells where the first line with each verdict begins. `moments` has the warm times (e2e, first token) of
    calls that were made side by side with another target's, by what they have in common: run, stretch and repeat.
    """

    name: str
    n_planned: int = 0
    n_recorded: int = 0
    n_answered: int = 0
    n_judged: int = 0
    n_passed: int = 0
    n_tool_successes: int = 0
    n_cold: int = 0
    expects_tool: bool = False
    tools_offered: bool = False
    failure_type: str | None = None
    violation: str | None = None
    first_at: dict[bool, int] = field(default_factory=dict)
    e2e_ms: array[int] = field(default_factory=partial(array, "q"))
    ttft_ms: array[int] = field(default_factory=partial(array, "q"))
    output_tokens: array[int] = field(default_factory=partial(array, "q"))
    moments: dict[tuple[int, int, int], tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def n_scheduled(self) -> int:
        """Cells that were to be filled and could not be done without; whatever has a record was one."""
        return max(self.n_planned, self.n_recorded)

    def add(self, row: Row, offset: int) -> None:
        """Take in one call."""
        self.n_recorded += 1
        self.expects_tool = self.expects_tool or bool(row.expected_tools)
        self.tools_offered = self.tools_offered or row.tools_offered
        if row.objective_pass is not None:
            self.first_at.setdefault(row.objective_pass, offset)
        if row.availability_status == "ok":
            self.n_answered += 1
            self.n_tool_successes += row.tool_use_success
        if not row.succeeded:
            self.failure_type = self.failure_type or row.failure_type or row.availability_status
            return
        if row.objective_pass is not None:
            self.n_judged += 1
            self.n_passed += row.objective_pass
            self.violation = self.violation or row.violation
        self._add_measurements(row)

    def _add_measurements(self, row: Row) -> None:
        if row.output_tokens is not None:
            self.output_tokens.append(row.output_tokens)
        if row.cold_start:
            self.n_cold += 1
            return
        if row.e2e_ms is not None:
            self.e2e_ms.append(row.e2e_ms)
        if row.ttft_ms is not None:
            self.ttft_ms.append(row.ttft_ms)

    def take_in(self, other: PromptTally) -> None:
        """Add the calls of another run. Answers are shown from the first run alone."""
        for count in ("n_planned", "n_recorded", "n_answered", "n_judged", "n_passed", "n_tool_successes", "n_cold"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.expects_tool = self.expects_tool or other.expects_tool
        self.tools_offered = self.tools_offered or other.tools_offered
        self.failure_type = self.failure_type or other.failure_type
        self.violation = self.violation or other.violation
        self.e2e_ms += other.e2e_ms
        self.ttft_ms += other.ttft_ms
        self.output_tokens += other.output_tokens
        self.moments |= other.moments


def _precise(row: Row) -> tuple[float | None, float | None]:
    """The milliseconds of a call and of its first token, to the microsecond where the record has it."""
    times = row.timings_us
    e2e_us, ttft_us = (times.e2e, times.ttft) if times is not None else (None, None)
    return (row.e2e_ms if e2e_us is None else e2e_us / 1000), (row.ttft_ms if ttft_us is None else ttft_us / 1000)


Tallies: TypeAlias = dict[Target, dict[PromptKey, PromptTally]]


class RunSide(Run):
    """One side of a comparison: a run, or several of one plan (`runs`), of which this is the first.

    `tallies` are of all of them, `by_run` of each. `judged_by` holds the versions of the validators behind each
    target's verdicts (None is an unknown one), `reported` the models that its servers say answered.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tallies: Tallies = {}
        self.by_run: list[Tallies] = []
        self.runs: list[RunSide] = [self]
        self.judged_by: dict[Target, set[str | None]] = {}
        self.reported: dict[Target, set[str]] = {}
        self._strata = Strata()
        self._number = 0

    @classmethod
    def read(cls, path: Path, *others: Path) -> RunSide:
        """The runs in these folders, each gone through once."""
        side = cls.open(path)
        side.runs += [cls.open(other) for other in others]
        for number, run in enumerate(side.runs):
            run._number = number
            run.feed(side._strata, run)._complete_tallies()
        side.by_run = [run.tallies for run in side.runs]
        if others:
            side._join()
        return side

    def _join(self) -> None:
        """Put the tallies of all runs together."""
        self.tallies = {}
        for number, run in enumerate(self.runs):
            for target, prompts in self.by_run[number].items():
                joint = self.tallies.setdefault(target, {})
                for key, tally in prompts.items():
                    if key not in joint:
                        joint[key] = PromptTally(tally.name, first_at=tally.first_at if run is self else {})
                    joint[key].take_in(tally)
            for target, judges in run.judged_by.items():
                self.judged_by.setdefault(target, set()).update(judges)
            for target, models in run.reported.items():
                self.reported.setdefault(target, set()).update(models)

    @property
    def interleaved(self) -> bool:
        """Whether all of its targets were asked each prompt before the next."""
        return all(run.config is not None and run.config.options.interleave for run in self.runs)

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        """Take in some rows."""
        interleaved = self.config is not None and self.config.options.interleave
        for row, offset in zip(rows, offsets, strict=True):
            target = row.target
            prompts = self.tallies.setdefault(target, {})
            tally = prompts.get(row.prompt)
            if tally is None:
                tally = prompts[row.prompt] = PromptTally(row.prompt_name)
            tally.add(row, offset)
            if interleaved and row.succeeded and not row.cold_start:
                tally.moments[self._number, row.stretch, row.repeat] = _precise(row)
            if row.objective_pass is not None:
                self.judged_by.setdefault(target, set()).add(row.judged_by)
            if row.model_reported is not None:
                self.reported.setdefault(target, set()).add(row.model_reported)

    @property
    def targets(self) -> list[Target]:
        """The planned targets, then others that have records."""
        planned = self.config.targets if self.config else []
        return list(dict.fromkeys([*planned, *self.tallies]))

    def summarize_shared(self, chosen: Sequence[tuple[Target, Collection[PromptKey]]]) -> list[GroupSummary]:
        """The summaries of some targets, each over the prompts beside it alone.

        What was collected in the one pass serves where these are all that a target has records of; where they are not,
        the records are gone through once more, for all such targets together.
        """
        strata = [self._strata if self._recorded(one[0]) <= set(one[1]) else Strata(only=one) for one in chosen]
        narrowed = [own for own in strata if own is not self._strata]
        for run in self.runs if narrowed else ():
            run.feed(*narrowed)
        return [self._summarize(own, *one) for own, one in zip(strata, chosen, strict=True)]

    def _recorded(self, target: Target) -> set[PromptKey]:
        return {key for key, tally in self.tallies[target].items() if tally.n_recorded}

    def _summarize(self, strata: Strata, target: Target, prompts: Collection[PromptKey]) -> GroupSummary:
        config = self.config
        if config is not None:
            kept = [prompt for prompt in config.prompts if prompt.key in prompts]
            repeats = sum(run.config.options.repeats for run in self.runs if run.config)
            options = msgspec.structs.replace(config.options, repeats=repeats)
            targets = [t for t in config.targets if t == target]
            config = msgspec.structs.replace(config, prompts=kept, targets=targets, options=options)
        group = strata.groups([target])[target]
        schedule = read_schedule(config, {ending.prompt for ending in group.endings if ending.judged})
        return summarize_group(group, schedule, [event for run in self.runs for event in run.events], {})

    def _complete_tallies(self) -> None:
        """Bring in every planned prompt, in the order of the plan, and tell each how many cells it was to have."""
        schedule = read_schedule(self.config)
        self.tallies = {
            target: self._planned_tallies(schedule, target, self.tallies.get(target, {})) for target in self.targets
        }

    def _planned_tallies(
        self, schedule: Schedule, target: Target, recorded: Mapping[PromptKey, PromptTally]
    ) -> dict[PromptKey, PromptTally]:
        config = self.config
        if config is None or target not in config.targets:
            return dict(recorded)
        n_missing = schedule.missing(target, {key: tally.n_recorded for key, tally in recorded.items()})
        stop = read_stop(self.events, target.label, n_missing)
        # Only the prompts a tier rests on may be left out: all once it is decided, before that all but the first cell.
        pool = {prompt.key for prompt in tier_prompts(config.prompts)} if stop.n_not_needed else set()
        needed = 0 if stop.early else min(1, config.options.repeats)
        tallies = {}
        for prompt in config.prompts:
            tally = tallies[prompt.key] = recorded.get(prompt.key) or PromptTally(prompt.name)
            tally.n_planned = needed if prompt.key in pool else config.options.repeats
        return tallies | {key: tally for key, tally in recorded.items() if key not in tallies}
