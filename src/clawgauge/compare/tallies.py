"""A run read for comparing: one tally per target and prompt, beside what was planned."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clawgauge.journal import is_first_harness, iter_results, read_config, read_events, read_inventory, started_at_ms
from clawgauge.records import CellRow, Event, Inventory, Prompt, RunConfig, Target
from clawgauge.summary.rates import Stop, count_missing, read_stop
from clawgauge.summary.rows import Whole
from clawgauge.summary.schedule import PromptKey, Schedule, read_schedule


class CallRow(CellRow, frozen=True, kw_only=True, gc=False):
    """The part of a result that a comparison needs."""

    prompt_name: str = ""
    e2e_ms: Whole | None = None
    ttft_ms: Whole | None = None
    violation: str | None = None
    output_tokens: Whole | None = None
    expected_tools: tuple[str, ...] = ()
    cold_start: bool | None = None
    model_reported: str | None = None
    tools_offered: bool = False
    judged_by: str | None = None

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)


class PromptTally:
    """All repeats of one prompt by one target. Times are of successful calls, the cold ones only counted."""

    __slots__ = (
        "e2e_ms",
        "expects_tool",
        "failure_type",
        "n_answered",
        "n_cold",
        "n_judged",
        "n_passed",
        "n_planned",
        "n_recorded",
        "n_tool_successes",
        "name",
        "output_tokens",
        "tools_offered",
        "ttft_ms",
        "violation",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_recorded = self.n_answered = self.n_judged = self.n_passed = self.n_tool_successes = self.n_cold = 0
        self.n_planned = 0
        self.expects_tool = self.tools_offered = False
        self.failure_type: str | None = None
        self.violation: str | None = None
        self.e2e_ms, self.ttft_ms, self.output_tokens = array("q"), array("q"), array("q")

    @property
    def n_scheduled(self) -> int:
        """Cells that were to be filled and could not be done without; whatever has a record was one."""
        return max(self.n_planned, self.n_recorded)

    def add(self, row: CallRow) -> None:
        """Take in one call."""
        self.n_recorded += 1
        self.expects_tool = self.expects_tool or bool(row.expected_tools)
        self.tools_offered = self.tools_offered or row.tools_offered
        if row.availability_status == "ok":
            self.n_answered += 1
            self.n_tool_successes += row.tool_use_success
        if not (row.success and row.availability_status == "ok"):
            self.failure_type = self.failure_type or row.failure_type or row.availability_status
            return
        if row.objective_pass is not None:
            self.n_judged += 1
            self.n_passed += row.objective_pass
            self.violation = self.violation or row.violation
        self._add_measurements(row)

    def _add_measurements(self, row: CallRow) -> None:
        if row.output_tokens is not None:
            self.output_tokens.append(row.output_tokens)
        if row.cold_start:
            self.n_cold += 1
            return
        if row.e2e_ms is not None:
            self.e2e_ms.append(row.e2e_ms)
        if row.ttft_ms is not None:
            self.ttft_ms.append(row.ttft_ms)


@dataclass(frozen=True, slots=True)
class RunSide:
    """One run, read for comparing.

    `judged_by` holds the versions of the validators behind each target's verdicts (None is an unknown one), `reported`
    the models that its servers say answered.
    """

    path: Path
    run_id: str
    started_at_ms: float
    config: RunConfig | None
    inventory: Inventory | None
    first_harness: bool
    n_unreadable_lines: int
    events: list[Event] = field(repr=False)
    tallies: dict[Target, dict[PromptKey, PromptTally]] = field(repr=False)
    judged_by: dict[Target, set[str | None]] = field(repr=False)
    reported: dict[Target, set[str]] = field(repr=False)

    @property
    def targets(self) -> list[Target]:
        """The planned targets, then others that have records."""
        planned = self.config.targets if self.config else []
        return list(dict.fromkeys([*planned, *self.tallies]))


def complete_tallies(
    config: RunConfig | None, events: Sequence[Event], recorded: Mapping[Target, dict[PromptKey, PromptTally]]
) -> dict[Target, dict[PromptKey, PromptTally]]:
    """The tallies of every planned prompt and of every other recorded one, each with the cells it was to have."""
    schedule = read_schedule(config, ())
    targets = dict.fromkeys([*(config.targets if config else ()), *recorded])
    return {target: _complete(config, schedule, events, target, recorded.get(target, {})) for target in targets}


def _complete(
    config: RunConfig | None,
    schedule: Schedule,
    events: Sequence[Event],
    target: Target,
    recorded: Mapping[PromptKey, PromptTally],
) -> dict[PromptKey, PromptTally]:
    if config is None or target not in config.targets:
        return dict(recorded)
    n_missing = count_missing(schedule, target, {key: tally.n_recorded for key, tally in recorded.items()})
    stop = read_stop(events, target.label, n_missing)
    pool = _tier_pool(config.prompts, schedule) if stop.n_not_needed else frozenset()
    tallies = {}
    for prompt in config.prompts:
        key = (prompt.suite, prompt.id)
        tally = tallies[key] = recorded.get(key) or PromptTally(prompt.name)
        tally.n_planned = _needed(config.options.repeats, stop) if key in pool else config.options.repeats
    return tallies | {key: tally for key, tally in recorded.items() if key not in tallies}


def _needed(repeats: int, stop: Stop) -> int:
    """Cells of a tool prompt that are missed if they have no record: none once decided, before that only the first."""
    return 0 if stop.early else min(1, repeats)


def _tier_pool(prompts: Sequence[Prompt], schedule: Schedule) -> frozenset[PromptKey]:
    """The prompts a tier rests on, the only ones that may be left out: those that offer tools, if any of them do."""
    expecting = [p for p in prompts if p.expected_tools and (p.suite, p.id) not in schedule.apart]
    native = any(prompt.tools for prompt in expecting)
    return frozenset((p.suite, p.id) for p in expecting if bool(p.tools) == native)


def read_side(path: Path) -> RunSide:
    """Read the run in folder `path`, ours or the first harness's."""
    config = read_config(path)
    events = read_events(path)
    reader = iter_results(path, CallRow)
    tallies: dict[Target, dict[PromptKey, PromptTally]] = {}
    judged_by: dict[Target, set[str | None]] = {}
    reported: dict[Target, set[str]] = {}
    for row in reader:
        _tally_for(row, tallies).add(row)
        if row.objective_pass is not None:
            judged_by.setdefault(row.target, set()).add(row.judged_by)
        if row.model_reported is not None:
            reported.setdefault(row.target, set()).add(row.model_reported)
    return RunSide(
        path=path,
        run_id=config.run_id if config else path.resolve().name,
        started_at_ms=started_at_ms(path),
        config=config,
        # The first harness wrote an inventory of its own shape, which reads as none.
        inventory=read_inventory(path),
        first_harness=is_first_harness(path),
        n_unreadable_lines=reader.bad_lines,
        events=events,
        tallies=complete_tallies(config, events, tallies),
        judged_by=judged_by,
        reported=reported,
    )


def _tally_for(row: CallRow, tallies: dict[Target, dict[PromptKey, PromptTally]]) -> PromptTally:
    prompts = tallies.setdefault(row.target, {})
    key = (row.suite, row.prompt_id)
    if key not in prompts:
        prompts[key] = PromptTally(row.prompt_name)
    return prompts[key]
