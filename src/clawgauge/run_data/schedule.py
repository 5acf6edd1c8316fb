"""What a run set out to do, what of it is done, and which prompts a tier rests on.

config.json says what was planned: a prompt carries a verdict unless its validator is `noop`. A folder that does not
name its prompts (the first harness wrote none) is read from its records: there a prompt carries a verdict if any record
of it in the run has one, and the scheduled cells are the recorded ones. Prompts recorded but not configured, as after a
forced resume, are treated the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from clawgauge.records import Event, Prompt, PromptKey, RunConfig, Target

T = TypeVar("T")

# A search that settled nothing still asks each prompt once only: the repeats were not needed.
_SEARCH_ENDS = ("decided", "undecided")


def prefer_native(expecting: Sequence[T], offers_tools: Callable[[T], bool]) -> list[T]:
    """Of what expects a tool, what a tier rests on: that which offers tools where any does, else all of it."""
    native = any(map(offers_tools, expecting))
    return [one for one in expecting if offers_tools(one) == native]


def tier_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    expecting = [p for p in prompts if p.expected_tools and not (asks_for_restraint(p) or is_task(p))]
    return prefer_native(expecting, lambda prompt: bool(prompt.tools))


def is_task(prompt: Prompt) -> bool:
    return prompt.world is not None or prompt.validator.get("type") == "world_state"


def asks_for_restraint(prompt: Prompt) -> bool:
    """Whether the right answer is to call nothing, or to ask first; where a call is ruled out, nobody holds back."""
    validator = prompt.validator
    wants_none = validator.get("type") == "tool_call" and bool(validator.get("no_call") or validator.get("ask"))
    return wants_none and prompt.tool_choice != "none"


def carries_verdict(prompt: Prompt) -> bool:
    return prompt.validator.get("type") != "noop"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of one run. Prompts are named by suite and id."""

    targets: tuple[Target, ...]
    suites: tuple[str, ...]
    prompts: frozenset[PromptKey]
    judged: frozenset[PromptKey]
    restraint: frozenset[PromptKey]
    tasks: frozenset[PromptKey]
    repeats: int
    families: Mapping[PromptKey, PromptKey]
    asked_in_full: frozenset[str] = frozenset()
    categories: Mapping[PromptKey, str] = field(default_factory=dict)

    def family(self, prompt: PromptKey) -> PromptKey:
        """What a prompt shares with its variants: they are alike, and count as one where independence is asked for."""
        return self.families.get(prompt, prompt)

    @property
    def apart(self) -> frozenset[PromptKey]:
        """The prompts that stand beside the tier, never in it."""
        return self.restraint | self.tasks

    def cells(
        self,
        target: Target,
        recorded: Mapping[PromptKey, int],
        *,
        judged_only: bool = False,
        suites: Collection[str] | None = None,
    ) -> int:
        """How many cells `target` was to fill, given how many it has recorded of each prompt; in `suites`, if given."""
        repeats = self.repeats if target in self.targets else 0
        prompts = (self.prompts | recorded.keys()) & self.judged if judged_only else self.prompts | recorded.keys()
        return sum(
            max(repeats if prompt in self.prompts else 0, recorded.get(prompt, 0))
            for prompt in prompts
            if suites is None or prompt[0] in suites
        )

    def without_skipped(self, events: Iterable[Event], target: Target) -> Schedule:
        """The plan without the prompts that a target was not to be asked, as the last stretch of the run tells."""
        skips = [e.detail for e in events if e.event == "skip" and e.target == target.label and "prompts" in e.detail]
        last = {str(detail.get("reason")): detail["prompts"] for detail in skips}
        names = [name for prompts in last.values() if isinstance(prompts, list) for name in prompts]
        skipped = {(suite, prompt_id) for suite, _, prompt_id in (str(name).partition("/") for name in names)}
        return replace(self, prompts=self.prompts - skipped) if skipped else self

    def missing(self, target: Target, recorded: Mapping[PromptKey, int]) -> int:
        return self.cells(target, recorded) - sum(recorded.values())


def read_schedule(config: RunConfig | None, with_verdict: Collection[PromptKey] = ()) -> Schedule:
    """The schedule in `config`, completed from the prompts that have a verdict somewhere in the run's records."""
    if config is None:
        return Schedule((), (), frozenset(), frozenset(with_verdict), frozenset(), frozenset(), 0, {})
    planned = {prompt.key for prompt in config.prompts}
    n_asked = Counter(prompt.suite for prompt in config.prompts)
    # The built-in suites, whose source is their name, of which no prompt was left out.
    in_full = [s.name for s in config.suites if s.source == s.name and n_asked[s.name] >= s.n_prompts]
    configured = {prompt.key for prompt in config.prompts if carries_verdict(prompt)}
    return Schedule(
        targets=tuple(config.targets),
        suites=tuple(dict.fromkeys(prompt.suite for prompt in config.prompts)),
        prompts=frozenset(planned),
        judged=frozenset(configured | (set(with_verdict) - planned)),
        restraint=frozenset(prompt.key for prompt in config.prompts if asks_for_restraint(prompt)),
        tasks=frozenset(prompt.key for prompt in config.prompts if is_task(prompt)),
        repeats=config.options.repeats,
        families={p.key: p.family for p in config.prompts if p.variant_of is not None},
        asked_in_full=frozenset(in_full),
        categories={p.key: p.category for p in config.prompts if p.category},
    )


class Stop(NamedTuple):
    """Cells left out because they could change nothing; whether the end of a tier's search was why; a spent budget.

    Where a tier was `searched`, how much was asked hung on the answers. `tier1` is what the search told, if it did.
    """

    n_not_needed: int = 0
    early: bool = False
    budget: str | None = None
    searched: bool = False
    tier1: str | None = None


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
    if search is None:
        return Stop(budget=spent)
    # A search of 0.1.0 ended when some tier was decided, and said which.
    told = search.detail.get("tier1", ("yes" if search.detail.get("tier") == 1 else "no") if decided else None)
    return Stop(
        n_not_needed,
        early=n_not_needed > 0 and (decided or search.detail.get("futile") is True),
        budget=spent,
        searched=True,
        tier1=told if told in ("yes", "no") else None,
    )


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cells a target was to fill (with a verdict), and how many were left out on purpose."""

    n_scheduled: int
    n_scheduled_judged: int
    n_not_needed: int

    def pass_rate(self, n_passed: int) -> float | None:
        return n_passed / self.n_scheduled_judged if self.n_scheduled_judged else None


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
