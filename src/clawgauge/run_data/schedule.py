"""What a run set out to do, what of it is done, and which prompts a tier rests on.

config.json says what was planned: a prompt carries a verdict unless its validator is `noop`. Prompts that it does not
name (the first harness named none, a forced resume may add some) are read from the records: there a prompt carries a
verdict if any record of it has one, and the scheduled cells are the recorded ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from clawgauge.records import Event, Prompt, PromptKey, RunConfig, Target

T = TypeVar("T")

# A search that settled nothing still asks each prompt once only: the repeats were not needed.
_SEARCH_ENDS = {"decided": "searched", "undecided": "searched"}


def prefer_native(expecting: Sequence[T], offers_tools: Callable[[T], bool]) -> list[T]:
    """Of what expects a tool, what a tier rests on: that which offers tools where any does, else all of it."""
    native = any(map(offers_tools, expecting))
    return [one for one in expecting if offers_tools(one) == native]


def tier_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    beside = (asks_for_restraint, is_task, is_own_work)
    expecting = [p for p in prompts if p.expected_tools and not (p.in_context or any(is_so(p) for is_so in beside))]
    return prefer_native(expecting, lambda prompt: bool(prompt.tools))


def is_task(prompt: Prompt) -> bool:
    return prompt.world is not None or prompt.validator.get("type") == "world_state"


def asks_for_restraint(prompt: Prompt) -> bool:
    """Whether the right answer is to call nothing, or to ask first; where a call is ruled out, nobody holds back."""
    validator = prompt.validator
    wants_none = validator.get("type") == "tool_call" and bool(validator.get("no_call") or validator.get("ask"))
    return wants_none and prompt.tool_choice != "none"


def is_own_work(prompt: Prompt) -> bool:
    """Whether a prompt asks what the incumbent did: agreement with it is no evidence for a tier."""
    return prompt.validator.get("type") == "agreement"


def carries_verdict(prompt: Prompt) -> bool:
    return prompt.validator.get("type") != "noop"


class Coverage(NamedTuple):
    """Cells a target was to fill (with a verdict), how many were left out on purpose, and how many it was asked."""

    n_scheduled: int
    n_scheduled_judged: int
    n_not_needed: int
    n_asked_judged: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of one run. Prompts are named by suite and id; `bare_of` has those in a context, and each one's twin."""

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
    bare_of: Mapping[PromptKey, PromptKey] = field(default_factory=dict)
    own_work: frozenset[PromptKey] = frozenset()

    def family(self, prompt: PromptKey) -> PromptKey:
        """What a prompt shares with its variants: they are alike, and count as one where independence is asked for."""
        return self.families.get(prompt, prompt)

    @property
    def apart(self) -> frozenset[PromptKey]:
        return self.restraint | self.tasks | self.own_work

    def _cells(self, target: Target, recorded: Mapping[PromptKey, int], prompts: Iterable[PromptKey]) -> int:
        """How many cells of these prompts `target` was to fill, given how many it has recorded of each."""
        repeats = self.repeats if target in self.targets else 0
        return sum(max(repeats if prompt in self.prompts else 0, recorded.get(prompt, 0)) for prompt in prompts)

    def missing(self, target: Target, recorded: Mapping[PromptKey, int]) -> int:
        return self._cells(target, recorded, self.prompts | recorded.keys()) - sum(recorded.values())

    def cover(
        self,
        target: Target,
        recorded: Mapping[PromptKey, int],
        asked: Mapping[PromptKey, int],
        n_spared: int,
        suite: str | None = None,
    ) -> Coverage:
        """The cells of `target`, in `suite` if given. Cells not needed are missing ones, and are not scheduled. Of the
        `recorded` cells some may not have been `asked`: those are scheduled all the same."""
        prompts = {prompt for prompt in self.prompts | recorded.keys() if suite in (None, prompt[0])}
        judged = prompts & self.judged
        n_planned = self._cells(target, recorded, prompts)
        n_planned_judged = self._cells(target, recorded, judged)
        n_recorded = sum(recorded.get(prompt, 0) for prompt in prompts)
        n_recorded_judged = sum(recorded.get(prompt, 0) for prompt in judged)
        n_left_out = min(n_spared, n_planned - n_recorded)
        n_left_out_judged = min(n_left_out, n_planned_judged - n_recorded_judged)
        return Coverage(
            n_scheduled=n_planned - n_left_out,
            n_scheduled_judged=n_planned_judged - n_left_out_judged,
            n_not_needed=n_left_out,
            n_asked_judged=sum(asked.get(prompt, 0) for prompt in judged),
        )

    def without_skipped(self, events: Iterable[Event], target: Target) -> Schedule:
        """The plan without the prompts that a target was not to be asked, as the last stretch of the run tells."""
        skips = [e.detail for e in events if e.event == "skip" and e.target == target.label and "prompts" in e.detail]
        last = {str(detail.get("reason")): detail["prompts"] for detail in skips}
        names = [name for prompts in last.values() if isinstance(prompts, list) for name in prompts]
        skipped = {(suite, prompt_id) for suite, _, prompt_id in (str(name).partition("/") for name in names)}
        return replace(self, prompts=self.prompts - skipped) if skipped else self


def read_schedule(config: RunConfig | None, with_verdict: Collection[PromptKey] = ()) -> Schedule:
    """The schedule in `config`, completed from the prompts that have a verdict somewhere in the run's records."""
    if config is None:
        return Schedule((), (), frozenset(), frozenset(with_verdict), frozenset(), frozenset(), 0, {})
    prompts, asked = config.prompts, Counter(prompt.suite for prompt in config.prompts)
    planned = {prompt.key for prompt in prompts}
    configured = {prompt.key for prompt in prompts if carries_verdict(prompt)}
    return Schedule(
        targets=tuple(config.targets), suites=tuple(asked), prompts=frozenset(planned), repeats=config.options.repeats,
        judged=frozenset(configured | (set(with_verdict) - planned)),
        restraint=frozenset(p.key for p in prompts if asks_for_restraint(p)),
        tasks=frozenset(p.key for p in prompts if is_task(p)),
        families={p.key: p.family for p in prompts if p.variant_of is not None},
        # The built-in suites, whose source is their name, of which no prompt was left out.
        asked_in_full=frozenset(s.name for s in config.suites if s.source == s.name and asked[s.name] >= s.n_prompts),
        categories={p.key: p.category for p in prompts if p.category},
        bare_of={p.key: p.bare_key for p in prompts if p.in_context},
        own_work=frozenset(p.key for p in prompts if is_own_work(p)),
    )  # fmt: skip


class Stop(NamedTuple):
    """Cells left out because they could change nothing; whether the end of a tier's search was why; a spent budget;
    whether how much was asked hung on the answers; and what the search told, if it did."""

    n_not_needed: int = 0
    early: bool = False
    budget: str | None = None
    searched: bool = False
    tier1: str | None = None


def read_stop(events: Iterable[Event], target_label: str, n_missing: int) -> Stop:
    """Why some of a target's `n_missing` cells were left out on purpose, if they were. The last event of each kind
    counts: a resumed run tells it anew."""
    last = {_SEARCH_ENDS.get(event.event, event.event): event for event in events if event.target == target_label}
    search, budget = last.get("searched"), last.get("budget_spent")
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
    early = n_not_needed > 0 and (decided or search.detail.get("futile") is True)
    return Stop(n_not_needed, early, spent, searched=True, tier1=told if told in ("yes", "no") else None)


def convert_detail(detail: Any, kind: type[T]) -> T | None:
    """What an event tells as `kind`; None where it tells nothing, or something else."""
    try:
        return msgspec.convert(detail, kind)
    except msgspec.ValidationError:
        return None
