"""What is kept of a run for comparing it: one tally per target and prompt.

Owns: the few numbers of each call that pairing needs. Refuses: reading folders, the answers' text, which is read later
and only for the prompts that are shown, and every judgement of what the numbers mean.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path

from clawgauge.records import CellRow, Event, Inventory, RunConfig, Target
from clawgauge.summary.rows import Whole
from clawgauge.summary.schedule import PromptKey


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
