"""The sides of a comparison, each read in one pass, and who stands beside whom: targets, and the prompts they share."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.errors import TargetError
from clawgauge.journal import RunReader
from clawgauge.records import GroupSummary, PromptKey, Target
from clawgauge.run_data import Row, Run, read_schedule
from clawgauge.run_data.row import TimingsRow
from clawgauge.run_data.schedule import read_stop, tier_prompts
from clawgauge.summary import Strata
from clawgauge.summary.summarize import summarize_group


@dataclass(slots=True, eq=False)
class PromptTally:
    """All repeats of one prompt by one target. Times are of successful calls, the cold ones only counted.

    `n_planned` are those that could not be done without. The check of `n_unjudged` broke: they have no part in
    `n_answered`, nor in any rate. `first_at` tells where the first line with each verdict
    begins. `moments` has the warm times (e2e, first token) of calls that were made side by side with another target's,
    by what they have in common: run, stretch and repeat."""

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
    first_at: dict[bool, int] = field(default_factory=dict)
    e2e_ms: array[int] = field(default_factory=partial(array, "q"))
    ttft_ms: array[int] = field(default_factory=partial(array, "q"))
    output_tokens: array[int] = field(default_factory=partial(array, "q"))
    moments: dict[tuple[int, int, int], list[float | None]] = field(default_factory=dict)

    @property
    def passes(self) -> bool:
        return 2 * self.n_passed > self.n_judged

    def add(self, row: Row, offset: int) -> None:
        self.n_recorded += 1
        self.expects_tool = self.expects_tool or bool(row.expected_tools)
        if row.objective_pass is not None:
            self.first_at.setdefault(row.objective_pass, offset)
        if row.not_judged is not None:
            self.n_unjudged += 1
        elif row.availability_status == "ok":
            self.n_answered += 1
            self.n_tool_successes += row.tool_use_success
        if not row.succeeded:
            # A cell that was never sent did not fail: it was not asked.
            if row.was_asked:
                self.failure_type = self.failure_type or row.failure_type or row.availability_status
            return
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

    def take_in(self, other: PromptTally) -> None:
        counts = (
            "n_planned",
            "n_recorded",
            "n_answered",
            "n_unjudged",
            "n_judged",
            "n_passed",
            "n_tool_successes",
            "n_cold",
        )
        for count in counts:
            setattr(self, count, getattr(self, count) + getattr(other, count))
        for mark in ("expects_tool", "failure_type", "violation"):
            setattr(self, mark, getattr(self, mark) or getattr(other, mark))
        self.e2e_ms += other.e2e_ms
        self.ttft_ms += other.ttft_ms
        self.output_tokens += other.output_tokens
        self.moments |= other.moments


Tallies: TypeAlias = dict[Target, dict[PromptKey, PromptTally]]
# What a prompt shares with its variants.
Family: TypeAlias = Callable[[PromptKey], PromptKey]


class RunSide(Run):
    """One side of a comparison: a run, or several of one plan (`runs`), of which this is the first.

    `tallies` are of all of them, `by_run` of each. `judged_by` holds the versions of the validators behind each
    target's verdicts (None is an unknown one), `reported` the models that its servers say answered."""

    def __init__(self, reader: RunReader[Row]) -> None:
        super().__init__(reader)
        self.n_unreadable_lines = 0
        self.tallies: Tallies = {}
        self.by_run: list[Tallies] = []
        self.runs: list[RunSide] = [self]
        self.judged_by: defaultdict[Target, set[str | None]] = defaultdict(set)
        self.reported: defaultdict[Target, set[str]] = defaultdict(set)
        self._strata, self._number = Strata(), 0

    @classmethod
    def read(cls, path: Path, *others: Path) -> RunSide:
        side = cls.open(path)
        side.runs += [cls.open(other) for other in others]
        for number, run in enumerate(side.runs):
            run._number = number
            run.n_unreadable_lines = run.feed(side._strata, run).n_unreadable_lines
            run._complete_tallies()
        side.by_run = [run.tallies for run in side.runs]
        side.tallies = {} if others else side.tallies
        for run in side.runs if others else ():
            for target, prompts in side.by_run[run._number].items():
                joint = side.tallies.setdefault(target, {})
                for key, tally in prompts.items():
                    # Answers are shown from the first run alone.
                    first_at = tally.first_at if run is side else {}
                    joint.setdefault(key, PromptTally(tally.name, first_at=first_at)).take_in(tally)
                side.judged_by[target] |= run.judged_by[target]
                side.reported[target] |= run.reported[target]
        return side

    @property
    def interleaved(self) -> bool:
        return all(run.config is not None and run.config.options.interleave for run in self.runs)

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        interleaved = self.interleaved
        for row, offset in zip(rows, offsets, strict=True):
            target = row.target
            prompts = self.tallies.setdefault(target, {})
            tally = prompts.get(row.prompt)
            if tally is None:
                tally = prompts[row.prompt] = PromptTally(row.prompt_name)
            tally.add(row, offset)
            if interleaved and row.succeeded and not row.cold_start:
                times = row.timings_us or TimingsRow()
                both = ((times.e2e, row.e2e_ms), (times.ttft, row.ttft_ms))
                # To the microsecond where the record has it.
                moment = [ms if us is None else us / 1000 for us, ms in both]
                tally.moments[self._number, row.stretch, row.repeat] = moment
            if row.objective_pass is not None:
                self.judged_by[target].add(row.judged_by)
            if row.model_reported is not None:
                self.reported[target].add(row.model_reported)

    @property
    def targets(self) -> list[Target]:
        planned = self.config.targets if self.config else []
        return list(dict.fromkeys([*planned, *self.tallies]))

    def summarize_shared(
        self, chosen: Sequence[tuple[Target, Collection[PromptKey]]]
    ) -> list[GroupSummary]:
        """The summaries of some targets, each over the prompts beside it alone: out of the one pass where these are all
        that it has records of; else the records are gone through once more, for all such targets together."""
        strata = []
        for target, prompts in chosen:
            recorded = {key for key, tally in self.tallies[target].items() if tally.n_recorded}
            strata.append(
                self._strata if recorded <= set(prompts) else Strata(only=(target, prompts))
            )
        narrowed = [own for own in strata if own is not self._strata]
        for run in self.runs if narrowed else ():
            run.feed(*narrowed)
        return [self._summarize(own, *one) for own, one in zip(strata, chosen, strict=True)]

    def _summarize(
        self, strata: Strata, target: Target, prompts: Collection[PromptKey]
    ) -> GroupSummary:
        config = self.config
        if config is not None:
            kept = [prompt for prompt in config.prompts if prompt.key in prompts]
            repeats = sum(run.config.options.repeats for run in self.runs if run.config)
            options = msgspec.structs.replace(config.options, repeats=repeats)
            targets = [t for t in config.targets if t == target]
            config = msgspec.structs.replace(config, prompts=kept, targets=targets, options=options)
        group = strata.groups([target])[target]
        schedule = read_schedule(
            config, {ending.prompt for ending in group.endings if ending.judged}
        )
        return summarize_group(
            group, schedule, [event for run in self.runs for event in run.events], {}
        )

    def _complete_tallies(self) -> None:
        """Bring in every planned prompt, in the order of the plan, and tell each how many cells it was to have."""
        config, schedule = self.config, read_schedule(self.config)
        self.tallies = {target: self.tallies.get(target, {}) for target in self.targets}
        if config is None:
            return
        for target in config.targets:
            recorded = self.tallies[target]
            n_missing = schedule.missing(
                target, {key: tally.n_recorded for key, tally in recorded.items()}
            )
            stop = read_stop(self.events, target.label, n_missing)
            # Only prompts a tier rests on may be left out: all once it is decided, before that all but the first cell.
            pool = (
                {prompt.key for prompt in tier_prompts(config.prompts)}
                if stop.n_not_needed
                else set()
            )
            needed = 0 if stop.early else min(1, config.options.repeats)
            planned = {p.key: recorded.get(p.key) or PromptTally(p.name) for p in config.prompts}
            for key, tally in planned.items():
                tally.n_planned = needed if key in pool else config.options.repeats
            self.tallies[target] = planned | recorded


class SharedPrompt(NamedTuple):
    """One prompt on both sides. The keys differ only where a side does not name its suites."""

    key_a: PromptKey
    key_b: PromptKey
    a: PromptTally
    b: PromptTally

    @property
    def key(self) -> PromptKey:
        return self.key_a if self.key_a[0] else self.key_b

    @property
    def label(self) -> str:
        return label_prompt(self.key)


class Pair(NamedTuple):
    """One target of A beside one of B, the prompts that are compared, and those that only one of them has."""

    a: Target
    b: Target
    shared: list[SharedPrompt]
    only_a: list[PromptKey]
    only_b: list[PromptKey]


def label_prompt(key: PromptKey) -> str:
    """`core/P3`; `P3` where the suite has no name."""
    return f"{key[0]}/{key[1]}" if key[0] else key[1]


def find_target(side: RunSide, name: str) -> Target:
    """The target a user means: its whole label, or a model's name where only one target has it."""
    fitting = [target for target in side.targets if target.label == name]
    fitting = fitting or [
        target for target in side.targets if name in (target.model, target.label.partition(":")[2])
    ]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(target.label for target in fitting or side.targets) or "none"
    problem = f"has several targets named {name!r}" if fitting else f"has no target {name!r}"
    raise TargetError(f"run {side.run_id} {problem}: name one of {known}")


def pair_targets(a: RunSide, b: RunSide, maps: Sequence[str] = ()) -> list[tuple[Target, Target]]:
    """Targets of the same label, and those that `maps` (`X=Y`: X of A beside Y of B) puts together."""
    mapped = [_read_map(a, b, text) for text in maps]
    taken = {target for pair in mapped for target in pair}
    pairs = [*mapped, *((t, t) for t in a.targets if t in b.targets and t not in taken)]
    if not a.targets or not b.targets:
        empty = b if a.targets else a
        raise TargetError(
            f"run {empty.run_id} has no target and no record: there is nothing to compare"
        )
    if not pairs:
        names_a, names_b = (", ".join(t.label for t in side.targets) for side in (a, b))
        advice = f"say which belong together with --map '{a.targets[0].label}={b.targets[0].label}'"
        raise TargetError(
            f"{a.run_id} ({names_a}) and {b.run_id} ({names_b}) have no target in common: {advice}"
        )
    return pairs


def _read_map(a: RunSide, b: RunSide, text: str) -> tuple[Target, Target]:
    """`X=Y`. A model's name may hold a `=` of its own, so every place to cut is tried."""
    cuts = [place for place, character in enumerate(text) if character == "="]
    if not cuts:
        raise TargetError(f"--map {text!r} has no '=': write TARGET_OF_A=TARGET_OF_B")
    for cut in cuts[:-1]:
        with suppress(TargetError):
            return find_target(a, text[:cut]), find_target(b, text[cut + 1 :])
    return find_target(a, text[: cuts[-1]]), find_target(b, text[cuts[-1] + 1 :])


def pair_prompts(a: RunSide, target_a: Target, b: RunSide, target_b: Target) -> Pair:
    prompts_a, prompts_b = a.tallies.get(target_a, {}), b.tallies.get(target_b, {})
    partners = {key: key for key in prompts_a if key in prompts_b}
    if a.first_harness != b.first_harness:
        # The first harness named no suites: there an id stands for the one prompt of that id and name.
        for key, tally in prompts_a.items():
            fitting = [
                other
                for other in prompts_b
                if other[1] == key[1] and prompts_b[other].name == tally.name
            ]
            if len(fitting) == 1:
                partners[key] = fitting[0]
    shared = [
        SharedPrompt(key, other, prompts_a[key], prompts_b[other])
        for key, other in partners.items()
    ]
    taken, alone_a = set(partners.values()), [key for key in prompts_a if key not in partners]
    return Pair(target_a, target_b, shared, alone_a, [key for key in prompts_b if key not in taken])


def split_context(
    a: RunSide, b: RunSide, pair: Pair
) -> tuple[list[SharedPrompt], list[SharedPrompt]]:
    """The shared prompts that were asked bare, and those inside the user's own context. The bare ones judge a model,
    here as in every summary."""
    config = b.config or a.config
    in_context = {prompt.key for prompt in config.prompts if prompt.in_context} if config else set()
    bare: list[SharedPrompt] = []
    inside: list[SharedPrompt] = []
    for shared in pair.shared:
        key = shared.key_b if b.config else shared.key_a
        (inside if key in in_context else bare).append(shared)
    return bare, inside


def find_telling(
    a: RunSide, b: RunSide, pair: Pair
) -> tuple[dict[str, Sequence[SharedPrompt]], Family]:
    """Which of the shared prompts tell of each rate, and what says which prompts are variants of one."""
    config = b.config or a.config
    schedule = read_schedule(config)
    bare, inside = split_context(a, b, pair)
    keyed = [(shared, shared.key_b if b.config else shared.key_a) for shared in bare]
    both = {key for _, key in keyed}
    tools = (
        {one.key for one in tier_prompts(p for p in config.prompts if p.key in both)}
        if config
        else set()
    )
    tools = tools or {
        key for shared, key in keyed if shared.a.expects_tool or shared.b.expects_tool
    }
    judged = schedule.judged | {
        key for shared, key in keyed if shared.a.n_judged or shared.b.n_judged
    }
    rates: dict[str, Set[PromptKey]] = {
        "pass_rate_scheduled": judged,
        "tool_use_rate": tools - schedule.apart,
    }
    rates |= {
        "restraint": schedule.restraint,
        "tasks": schedule.tasks,
        "agreement": schedule.own_work,
    }
    telling = {
        name: [shared for shared, key in keyed if key in keys] for name, keys in rates.items()
    }
    return {"objective_pass_rate": bare, **telling, "in_context": inside}, schedule.family
