"""What one pass over the rows of a run comes to, prompt by prompt."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from clawgauge.records import Event, PromptKey, RunConfig, Target
from clawgauge.run_data import Row, Run, read_schedule
from clawgauge.run_data.row import TimingsRow
from clawgauge.run_data.schedule import read_stop, tier_prompts
from clawgauge.summary import Strata


class CallPlace(NamedTuple):
    """What two calls made side by side have in common; `run` numbers the runs of a side."""

    run: int
    stretch: int
    repeat: int


class CallTimes(NamedTuple):
    e2e_ms: float | None
    ttft_ms: float | None


@dataclass(slots=True, eq=False)
class PromptTally:
    """All repeats of one prompt by one target. Times are of successful calls, the cold ones only
    counted.

    `n_planned` are those that could not be done without. The check of `n_unjudged` broke: they have
    no part in `n_answered`, nor in any rate. `first_offset_by_verdict` tells where the first line
    with each verdict begins. `side_by_side` has the warm times of calls that were made side by side
    with another target's."""

    name: str
    n_planned: int = 0
    n_recorded: int = 0
    n_answered: int = 0
    n_unjudged: int = 0
    n_judged: int = 0
    n_passed: int = 0
    n_tool_successes: int = 0
    n_cold: int = 0
    expects_tool: bool = False
    failure_type: str | None = None
    violation: str | None = None
    first_offset_by_verdict: dict[bool, int] = field(default_factory=dict)
    e2e_ms: array[int] = field(default_factory=partial(array, "q"))
    ttft_ms: array[int] = field(default_factory=partial(array, "q"))
    output_tokens: array[int] = field(default_factory=partial(array, "q"))
    side_by_side: dict[CallPlace, CallTimes] = field(default_factory=dict)

    @property
    def passes(self) -> bool:
        """Whether more than half of its verdicts are passes."""
        return 2 * self.n_passed > self.n_judged

    @property
    def has_success(self) -> bool:
        return self.n_judged > 0 or len(self.e2e_ms) > 0 or self.n_cold > 0

    def add(self, row: Row, offset: int) -> None:
        self.n_recorded += 1
        self.expects_tool = self.expects_tool or bool(row.expected_tools)
        if row.objective_pass is not None:
            self.first_offset_by_verdict.setdefault(row.objective_pass, offset)
        if row.not_judged is not None:
            self.n_unjudged += 1
        elif row.availability_status == "ok":
            self.n_answered += 1
            self.n_tool_successes += row.tool_use_success
        if row.succeeded:
            self._add_success(row)
        elif row.was_asked:
            # A cell that was never sent did not fail: it was not asked.
            self.failure_type = self.failure_type or row.failure_type or row.availability_status

    def _add_success(self, row: Row) -> None:
        if row.objective_pass is not None:
            self.n_judged += 1
            self.n_passed += row.objective_pass
            self.violation = self.violation or row.violation
        if row.output_tokens is not None:
            self.output_tokens.append(row.output_tokens)
        if row.cold_start:
            self.n_cold += 1
            return
        if row.e2e_ms is not None:
            self.e2e_ms.append(row.e2e_ms)
        if row.ttft_ms is not None:
            self.ttft_ms.append(row.ttft_ms)

    def merge(self, other: PromptTally) -> None:
        """Add the calls of another run. Where its lines begin stays out: its file is another."""
        self.n_planned += other.n_planned
        self.n_recorded += other.n_recorded
        self.n_answered += other.n_answered
        self.n_unjudged += other.n_unjudged
        self.n_judged += other.n_judged
        self.n_passed += other.n_passed
        self.n_tool_successes += other.n_tool_successes
        self.n_cold += other.n_cold
        self.expects_tool = self.expects_tool or other.expects_tool
        self.failure_type = self.failure_type or other.failure_type
        self.violation = self.violation or other.violation
        self.e2e_ms += other.e2e_ms
        self.ttft_ms += other.ttft_ms
        self.output_tokens += other.output_tokens
        self.side_by_side |= other.side_by_side


Tallies: TypeAlias = dict[Target, dict[PromptKey, PromptTally]]


@dataclass(frozen=True, eq=False)
class TalliedRun:
    """A run and what one pass over its rows came to.

    `judged_by` holds the versions of the validators behind each target's verdicts (None is an
    unknown one), `reported` the models that its servers say answered."""

    run: Run
    tallies: Tallies
    judged_by: Mapping[Target, set[str | None]]
    reported: Mapping[Target, set[str]]
    n_unreadable_lines: int

    @property
    def is_interleaved(self) -> bool:
        return is_interleaved(self.run.config)


def is_interleaved(config: RunConfig | None) -> bool:
    """Whether the targets of a run were asked in turns."""
    return config is not None and config.options.interleave


def tally_run(path: Path, number: int, strata: Strata) -> TalliedRun:
    """Go once through the run that has this `number` on its side, and feed `strata` as well."""
    run = Run.open(path)
    collector = _TallyCollector(number, with_side_by_side=is_interleaved(run.config))
    rows_read = run.feed(strata, collector)
    return TalliedRun(
        run=run,
        tallies=_complete_tallies(run.config, run.events, collector.tallies),
        judged_by=collector.judged_by,
        reported=collector.reported,
        n_unreadable_lines=rows_read.n_unreadable_lines,
    )


class _TallyCollector:
    """Counts the rows of one run by target and prompt."""

    def __init__(self, run_number: int, *, with_side_by_side: bool) -> None:
        self.tallies: Tallies = {}
        self.judged_by: defaultdict[Target, set[str | None]] = defaultdict(set)
        self.reported: defaultdict[Target, set[str]] = defaultdict(set)
        self._run_number = run_number
        self._with_side_by_side = with_side_by_side

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        for row, offset in zip(rows, offsets, strict=True):
            target = row.target
            tallies = self.tallies.setdefault(target, {})
            tally = tallies.get(row.prompt)
            if tally is None:
                tally = PromptTally(row.prompt_name)
                tallies[row.prompt] = tally
            tally.add(row, offset)
            if self._with_side_by_side and row.succeeded and not row.cold_start:
                call_place = CallPlace(run=self._run_number, stretch=row.stretch, repeat=row.repeat)
                tally.side_by_side[call_place] = _exact_times(row)
            if row.objective_pass is not None:
                self.judged_by[target].add(row.judged_by)
            if row.model_reported is not None:
                self.reported[target].add(row.model_reported)


def _exact_times(row: Row) -> CallTimes:
    """The times of a call, to the microsecond where the record has it."""
    timings_us = row.timings_us or TimingsRow()
    return CallTimes(
        e2e_ms=row.e2e_ms if timings_us.e2e is None else timings_us.e2e / 1000,
        ttft_ms=row.ttft_ms if timings_us.ttft is None else timings_us.ttft / 1000,
    )


def _complete_tallies(
    config: RunConfig | None, events: Sequence[Event], recorded: Tallies
) -> Tallies:
    """The tallies with every planned prompt, in the order of the plan, each with how many cells it
    was to have. Where answers decided what was asked, nothing was planned but what was asked."""
    if config is None:
        return recorded
    if config.decision is not None:
        return {target: recorded.get(target, {}) for target in [*config.targets, *recorded]}
    schedule = read_schedule(config)
    completed: Tallies = {}
    for target in config.targets:
        tallies = recorded.get(target, {})
        n_recorded = {key: tally.n_recorded for key, tally in tallies.items()}
        n_missing = schedule.missing(target, n_recorded)
        stop = read_stop(events, target.label, n_missing)
        # Only prompts a tier rests on may be left out: all once it is decided, before that all but
        # the first cell.
        dispensable: set[PromptKey] = set()
        if stop.n_not_needed:
            dispensable = {prompt.key for prompt in tier_prompts(config.prompts)}
        n_indispensable = 0 if stop.early else min(1, config.options.repeats)
        planned = {}
        for prompt in config.prompts:
            tally = tallies.get(prompt.key) or PromptTally(prompt.name)
            is_dispensable = prompt.key in dispensable
            tally.n_planned = n_indispensable if is_dispensable else config.options.repeats
            planned[prompt.key] = tally
        completed[target] = planned | tallies
    for target, tallies in recorded.items():
        completed.setdefault(target, tallies)
    return completed
