"""What a run set out to do, what of it is done, and which prompts a tier rests on.

config.json says what was planned: a prompt carries a verdict unless its validator is `noop`.
Prompts that it does not name (the first harness named none, a forced resume may add some) are read
from the records: there a prompt carries a verdict if any record of it has one, and the scheduled
cells are the recorded ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from clawgauge.records import RULE, Event, Prompt, PromptKey, RunConfig, Target

T = TypeVar("T")

# A search that settled nothing still asks each prompt once only: the repeats were not needed.
_SEARCH_ENDS = ("decided", "undecided")
# What the asking of a target ended with where the answers decided what was asked.
_DECISION_ENDS = ("jobs_decided", "jobs_undecided")


def prefer_native(expecting: Sequence[T], offers_tools: Callable[[T], bool]) -> list[T]:
    """Of what expects a tool, what a tier rests on: that which offers tools where any does, else
    all of it."""
    offering = [item for item in expecting if offers_tools(item)]
    return offering or list(expecting)


def tier_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts a tier rests on: those that expect a tool, but for tasks and what is told apart
    from a tier."""
    return prefer_native(expecting_prompts(prompts), lambda prompt: bool(prompt.tools))


def expecting_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts that expect a tool, but for tasks and what is told apart from a tier."""
    candidates = list(prompts)
    pairs = paired_keys(candidates)
    expecting = []
    for prompt in candidates:
        is_apart = asks_for_restraint(prompt) or is_task(prompt) or is_own_work(prompt)
        is_apart = is_apart or prompt.key in pairs
        if prompt.expected_tools and not prompt.in_context and not is_apart:
            expecting.append(prompt)
    return expecting


def is_task(prompt: Prompt) -> bool:
    return prompt.world is not None or prompt.validator.get("type") == "world_state"


def asks_for_restraint(prompt: Prompt) -> bool:
    """Whether the right answer is to call nothing, or to ask first; where a call is ruled out,
    nobody holds back."""
    validator = prompt.validator
    if validator.get("type") != "tool_call" or prompt.tool_choice == "none":
        return False
    return bool(validator.get("no_call") or validator.get("ask"))


def paired_keys(prompts: Iterable[Prompt]) -> frozenset[PromptKey]:
    """Both prompts of every pair. Alone neither tells much: who always asks gets half of them
    right."""
    keys = set()
    for prompt in prompts:
        if prompt.pair is not None:
            keys.add(prompt.key)
            keys.add((prompt.suite, prompt.pair))
    return frozenset(keys)


def is_own_work(prompt: Prompt) -> bool:
    """Whether a prompt asks what the reference model did: agreement with it is no evidence for a
    tier."""
    return prompt.validator.get("type") == "agreement"


def carries_verdict(prompt: Prompt) -> bool:
    return prompt.validator.get("type") != "noop"


def _session_of(prompt: Prompt) -> PromptKey:
    """The session a turn of the user's history is from, which a suite of an earlier version does
    not say: turns that begin alike are of one session then."""
    if prompt.session is not None:
        return prompt.suite, f"session {prompt.session}"
    if prompt.context is not None:
        return prompt.suite, f"context {prompt.context}"
    return prompt.family


class Coverage(NamedTuple):
    """Cells a target was to fill (with a verdict), how many were left out on purpose, and how many
    it was asked."""

    n_scheduled: int
    n_scheduled_judged: int
    n_not_needed: int
    n_asked_judged: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of one run. Prompts are named by suite and id; `bare_of` has those in a context, and
    each one's twin. `sessions` has the session of every turn of the user's history; it is empty
    where the run was made by the rule of earlier versions."""

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
    pairs: frozenset[PromptKey] = frozenset()
    sessions: Mapping[PromptKey, PromptKey] = field(default_factory=dict)

    def family(self, prompt: PromptKey) -> PromptKey:
        """What a prompt shares with its variants: they are alike, and count as one where
        independence is asked for."""
        return self.families.get(prompt, prompt)

    def session(self, prompt: PromptKey) -> PromptKey:
        """What a turn of the user's history shares with the others of its session."""
        return self.sessions.get(prompt, self.family(prompt))

    @property
    def apart(self) -> frozenset[PromptKey]:
        return self.restraint | self.tasks | self.own_work | self.pairs

    def _cells(
        self, target: Target, recorded: Mapping[PromptKey, int], prompts: Iterable[PromptKey]
    ) -> int:
        """How many cells of these prompts `target` was to fill, given how many it has recorded of
        each."""
        repeats = self.repeats if target in self.targets else 0
        n_cells = 0
        for prompt in prompts:
            n_planned = repeats if prompt in self.prompts else 0
            # A forced resume may have recorded what the plan does not hold.
            n_cells += max(n_planned, recorded.get(prompt, 0))
        return n_cells

    def missing(self, target: Target, recorded: Mapping[PromptKey, int]) -> int:
        return self._cells(target, recorded, self.prompts | recorded.keys()) - sum(
            recorded.values()
        )

    def cover(
        self,
        target: Target,
        recorded: Mapping[PromptKey, int],
        asked: Mapping[PromptKey, int],
        n_spared: int,
        suite: str | None = None,
    ) -> Coverage:
        """The cells of `target`, in `suite` if given. Cells not needed are missing ones, and are
        not scheduled. Of the `recorded` cells some may not have been `asked`: those are scheduled
        all the same."""
        prompts = {
            prompt for prompt in self.prompts | recorded.keys() if suite in (None, prompt[0])
        }
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
        """The plan without the prompts that a target was not to be asked, as the last stretch of
        the run tells."""
        # The last event of each reason counts: a resumed run tells it anew.
        names_by_reason: dict[str, Any] = {}
        for event in events:
            is_skip = event.event == "skip" and event.target == target.label
            if is_skip and "prompts" in event.detail:
                names_by_reason[str(event.detail.get("reason"))] = event.detail["prompts"]
        skipped: set[PromptKey] = set()
        for names in names_by_reason.values():
            if not isinstance(names, list):
                continue
            for name in names:
                suite, _, prompt_id = str(name).partition("/")
                skipped.add((suite, prompt_id))
        if not skipped:
            return self
        return replace(self, prompts=self.prompts - skipped)


def read_schedule(config: RunConfig | None, with_verdict: Collection[PromptKey] = ()) -> Schedule:
    """The schedule in `config`, completed from the prompts that have a verdict somewhere in the
    run's records."""
    if config is None:
        return Schedule(
            targets=(),
            suites=(),
            prompts=frozenset(),
            judged=frozenset(with_verdict),
            restraint=frozenset(),
            tasks=frozenset(),
            repeats=0,
            families={},
        )
    prompts = config.prompts
    n_asked = Counter(prompt.suite for prompt in prompts)
    planned = {prompt.key for prompt in prompts}
    judged = {prompt.key for prompt in prompts if carries_verdict(prompt)}
    sessions = {}
    if config.rule >= RULE:
        sessions = {prompt.key: _session_of(prompt) for prompt in prompts if is_own_work(prompt)}
    asked_in_full = set()
    for suite in config.suites:
        # A built-in suite has its name for its source.
        is_built_in = suite.source == suite.name
        if is_built_in and n_asked[suite.name] >= suite.n_prompts:
            asked_in_full.add(suite.name)
    return Schedule(
        targets=tuple(config.targets),
        suites=tuple(n_asked),
        # Where the answers decided what was asked, nothing was planned, and nothing is missing.
        prompts=frozenset(planned) if config.decision is None else frozenset(),
        judged=frozenset(judged | (set(with_verdict) - planned)),
        restraint=frozenset(prompt.key for prompt in prompts if asks_for_restraint(prompt)),
        tasks=frozenset(prompt.key for prompt in prompts if is_task(prompt)),
        repeats=config.options.repeats,
        families={prompt.key: prompt.family for prompt in prompts if prompt.variant_of is not None},
        asked_in_full=frozenset(asked_in_full),
        categories={prompt.key: prompt.category for prompt in prompts if prompt.category},
        bare_of={prompt.key: prompt.bare_key for prompt in prompts if prompt.in_context},
        own_work=frozenset(prompt.key for prompt in prompts if is_own_work(prompt)),
        pairs=paired_keys(prompts),
        sessions=sessions,
    )


@dataclass(frozen=True, slots=True)
class Stop:
    """Why some cells of a target were left out on purpose.

    `n_not_needed` of them could have changed nothing; `early` where the end of a tier's search was
    why. `budget` is the one that was spent. `searched` says whether how much was asked hung on the
    answers, and `tier1` (`yes` or `no`) what that search told, if it did.
    """

    n_not_needed: int = 0
    early: bool = False
    budget: str | None = None
    searched: bool = False
    tier1: str | None = None


def read_stop(events: Iterable[Event], target_label: str, n_missing: int) -> Stop:
    """Why some of a target's `n_missing` cells were left out on purpose, if they were."""
    search: Event | None = None
    budget_spent: Event | None = None
    for event in events:
        if event.target != target_label:
            continue
        # The last event of each kind counts: a resumed run tells it anew.
        if event.event in _SEARCH_ENDS:
            search = event
        elif event.event == "budget_spent":
            budget_spent = event
    n_not_needed = _count_not_needed(search, n_missing) if search is not None else 0
    budget = None
    if budget_spent is not None and n_missing > n_not_needed:
        budget = f"{budget_spent.detail.get('budget')} {budget_spent.detail.get('limit')}"
    if search is None:
        return Stop(budget=budget)
    is_end_of_search = search.event == "decided" or search.detail.get("futile") is True
    return Stop(
        n_not_needed=n_not_needed,
        early=n_not_needed > 0 and is_end_of_search,
        budget=budget,
        searched=True,
        tier1=_read_tier_1(search),
    )


def read_decided(events: Iterable[Event], target_label: str) -> dict[str, str]:
    """What a run decided of a target, by question: `yes` or `no`. The last word counts."""
    decided: dict[str, str] = {}
    for event in events:
        questions = event.detail.get("questions")
        if event.target != target_label or not isinstance(questions, dict):
            continue
        if event.event not in _DECISION_ENDS:
            continue
        decided = {}
        for question, decision in questions.items():
            if decision in ("yes", "no"):
                decided[str(question)] = decision
    return decided


def read_no_tools(events: Iterable[Event], target_label: str) -> str | None:
    """Why a target was asked nothing with tools any more, as a code; None where it takes them."""
    why: str | None = None
    for event in events:
        if event.event == "takes_no_tools" and event.target == target_label:
            why = str(event.detail.get("why"))
    return why


def read_asking_end(events: Iterable[Event], target_label: str) -> str | None:
    """Why a target is asked no more where the answers decide that; None where it may go on."""
    ended: str | None = None
    for event in events:
        if event.event == "stretch_started":
            ended = None
        elif event.target != target_label:
            continue
        elif event.event == "jobs_decided":
            ended = "decided"
        elif event.event == "jobs_undecided" and event.detail.get("all_asked") is True:
            ended = "all_asked"
        elif event.event == "target_given_up":
            ended = "given_up"
        elif event.event == "budget_spent" and ended is None:
            ended = "budget_spent"
    return ended


def _count_not_needed(search: Event, n_missing: int) -> int:
    """How many of the missing cells the end of a search made needless: never more than are
    missing."""
    claimed = search.detail.get("not_needed")
    if "not_needed" not in search.detail:
        # As 0.1.0 called it.
        claimed = search.detail.get("not_asked") if search.event == "decided" else 0
    if not isinstance(claimed, int):
        return 0
    return max(0, min(claimed, n_missing))


def _read_tier_1(search: Event) -> str | None:
    """Whether a search told that the target is Tier 1: `yes`, `no`, or None where it did not
    tell."""
    tier_1 = search.detail.get("tier1")
    if "tier1" not in search.detail and search.event == "decided":
        # A search of 0.1.0 ended when some tier was decided, and said which.
        tier_1 = "yes" if search.detail.get("tier") == 1 else "no"
    return tier_1 if tier_1 in ("yes", "no") else None


def convert_detail(detail: Any, kind: type[T]) -> T | None:
    """What an event tells as `kind`; None where it tells nothing, or something else."""
    try:
        return msgspec.convert(detail, kind)
    except msgspec.ValidationError:
        return None
