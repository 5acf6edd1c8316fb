"""What was scheduled of a group, less what was left out because its tier was already decided.

Owns: the denominators that count unanswered cells too, for the group and for each suite; reading the events that tell
why cells were left out. Refuses: outcomes, and judging whether stopping was right; the runner decided that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from clawgauge.records import Event, Target
from clawgauge.summary.schedule import PromptKey, Schedule

# A search that settled nothing still asks each prompt once only: the repeats were not needed.
_SEARCH_ENDS = ("decided", "undecided")


class Stop(NamedTuple):
    """Cells left out because they could change nothing; whether a decided tier was why; a budget that ran out."""

    n_not_needed: int = 0
    early: bool = False
    budget: str | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cells a target was to fill (with a verdict), and how many were left out on purpose."""

    n_scheduled: int
    n_scheduled_judged: int
    n_not_needed: int

    def pass_rate(self, n_passed: int) -> float | None:
        return n_passed / self.n_scheduled_judged if self.n_scheduled_judged else None


def count_missing(schedule: Schedule, target: Target, recorded: Mapping[PromptKey, int]) -> int:
    """Cells planned and not recorded."""
    return schedule.cells(target, recorded) - sum(recorded.values())


def read_stop(events: Iterable[Event], target_label: str, n_missing: int) -> Stop:
    """Why some of a target's `n_missing` cells were left out on purpose, if they were.

    The last event of each kind counts: a resumed run tells it anew. Cells that were asked after all are not missing.
    """
    search: Event | None = None
    budget: Event | None = None
    for event in events:
        if event.target == target_label:
            search = event if event.event in _SEARCH_ENDS else search
            budget = event if event.event == "budget_spent" else budget
    decided = search is not None and search.event == "decided"
    claimed = 0 if search is None else search.detail.get("not_needed", search.detail.get("not_asked") if decided else 0)
    n_not_needed = max(0, min(claimed, n_missing)) if isinstance(claimed, int) else 0
    spent = None
    if budget is not None and n_missing > n_not_needed:
        spent = f"{budget.detail.get('budget')} {budget.detail.get('limit')}"
    return Stop(n_not_needed, decided and n_not_needed > 0, spent)


def cover(
    schedule: Schedule,
    target: Target,
    recorded: Mapping[PromptKey, int],
    n_not_needed: int,
    suites: Collection[str] | None = None,
) -> Coverage:
    """The scheduled cells of `target`, in `suites` if given; cells not needed are missing ones, and are not counted."""
    planned = schedule.cells(target, recorded, suites=suites)
    judged = schedule.cells(target, recorded, suites=suites, judged_only=True)
    mine = {prompt: n for prompt, n in recorded.items() if suites is None or prompt[0] in suites}
    left_out = min(n_not_needed, planned - sum(mine.values()))
    missing_judged = judged - sum(n for prompt, n in mine.items() if prompt in schedule.judged)
    return Coverage(planned - left_out, judged - min(left_out, missing_judged), left_out)
