"""Who stands beside whom: targets, the prompts that two of them share, and what those tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from clawgauge.compare.sides import Side
from clawgauge.compare.tallies import PromptTally
from clawgauge.errors import TargetError
from clawgauge.records import PromptKey, RunConfig, Target
from clawgauge.run_data import read_schedule
from clawgauge.run_data.schedule import tier_prompts

AGREEMENT = "agreement"
# What a prompt shares with its variants, or with turns of its session.
Family: TypeAlias = Callable[[PromptKey], PromptKey]


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
    """One target of A beside one of B, the prompts that are compared, and those that only one of
    them has."""

    a: Target
    b: Target
    shared: list[SharedPrompt]
    only_a: list[PromptKey]
    only_b: list[PromptKey]


def label_prompt(key: PromptKey) -> str:
    """`core/P3`; `P3` where the suite has no name."""
    suite, prompt_id = key
    return f"{suite}/{prompt_id}" if suite else prompt_id


def find_target(side: Side, name: str) -> Target:
    """The target a user means: its whole label, or a model's name where only one target has it."""
    matches = [target for target in side.targets if target.label == name]
    if not matches:
        for target in side.targets:
            _, _, without_provider = target.label.partition(":")
            if name in (target.model, without_provider):
                matches.append(target)
    if len(matches) == 1:
        return matches[0]
    choices = ", ".join(target.label for target in matches or side.targets) or "none"
    problem = f"has several targets named {name!r}" if matches else f"has no target {name!r}"
    raise TargetError(f"run {side.run_id} {problem}: name one of {choices}")


def pair_targets(a: Side, b: Side, maps: Sequence[str] = ()) -> list[tuple[Target, Target]]:
    """Targets of the same label, and those that `maps` (`X=Y`: X of A beside Y of B) puts
    together."""
    pairs = [_read_map(a, b, text) for text in maps]
    mapped = {target for pair in pairs for target in pair}
    for target in a.targets:
        if target in b.targets and target not in mapped:
            pairs.append((target, target))
    if not a.targets or not b.targets:
        empty = b if a.targets else a
        raise TargetError(
            f"run {empty.run_id} has no target and no record: there is nothing to compare"
        )
    if not pairs:
        raise TargetError(_describe_no_pair(a, b))
    return pairs


def _describe_no_pair(a: Side, b: Side) -> str:
    names_a = ", ".join(target.label for target in a.targets)
    names_b = ", ".join(target.label for target in b.targets)
    advice = f"say which belong together with --map '{a.targets[0].label}={b.targets[0].label}'"
    return f"{a.run_id} ({names_a}) and {b.run_id} ({names_b}) have no target in common: {advice}"


def _read_map(a: Side, b: Side, text: str) -> tuple[Target, Target]:
    """`X=Y`. A model's name may hold a `=` of its own, so every place to cut is tried."""
    cuts = [index for index, character in enumerate(text) if character == "="]
    if not cuts:
        raise TargetError(f"--map {text!r} has no '=': write TARGET_OF_A=TARGET_OF_B")
    *earlier_cuts, last_cut = cuts
    for cut in earlier_cuts:
        with suppress(TargetError):
            return find_target(a, text[:cut]), find_target(b, text[cut + 1 :])
    return find_target(a, text[:last_cut]), find_target(b, text[last_cut + 1 :])


def pair_prompts(a: Side, target_a: Target, b: Side, target_b: Target) -> Pair:
    tallies_a = a.tallies.get(target_a, {})
    tallies_b = b.tallies.get(target_b, {})
    partners = {key: key for key in tallies_a if key in tallies_b}
    if a.first_run.first_harness != b.first_run.first_harness:
        partners |= _find_partners_by_name(tallies_a, tallies_b)
    shared = []
    for key_a, key_b in partners.items():
        shared.append(SharedPrompt(key_a, key_b, tallies_a[key_a], tallies_b[key_b]))
    paired_in_b = set(partners.values())
    return Pair(
        a=target_a,
        b=target_b,
        shared=shared,
        only_a=[key for key in tallies_a if key not in partners],
        only_b=[key for key in tallies_b if key not in paired_in_b],
    )


def _find_partners_by_name(
    tallies_a: Mapping[PromptKey, PromptTally], tallies_b: Mapping[PromptKey, PromptTally]
) -> dict[PromptKey, PromptKey]:
    """Which prompts belong together where one side is of the first harness: that named no suites,
    and an id stands for the one prompt of that id and name."""
    partners = {}
    for key_a, tally_a in tallies_a.items():
        matches = []
        for key_b, tally_b in tallies_b.items():
            if key_b[1] == key_a[1] and tally_b.name == tally_a.name:
                matches.append(key_b)
        if len(matches) == 1:
            partners[key_a] = matches[0]
    return partners


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """The plan that says what the prompts of both sides are: B's, or A's where B has none."""

    config: RunConfig | None
    is_of_b: bool

    def key(self, shared: SharedPrompt) -> PromptKey:
        """The name of a prompt in this plan."""
        return shared.key_b if self.is_of_b else shared.key_a


def find_plan(a: Side, b: Side) -> SharedPlan:
    return SharedPlan(config=b.config or a.config, is_of_b=b.config is not None)


def split_context(
    plan: SharedPlan, prompts: Sequence[SharedPrompt]
) -> tuple[list[SharedPrompt], list[SharedPrompt]]:
    """The prompts that were asked bare, and those inside the user's own context. The bare ones
    judge a model, here as in every summary."""
    keys_in_context = set()
    if plan.config is not None:
        keys_in_context = {prompt.key for prompt in plan.config.prompts if prompt.in_context}
    bare = []
    inside = []
    for shared in prompts:
        if plan.key(shared) in keys_in_context:
            inside.append(shared)
        else:
            bare.append(shared)
    return bare, inside


@dataclass(frozen=True, slots=True)
class RatePrompts:
    """Which of the shared prompts tell of each rate, and which of these are alike: variants of one
    prompt, or turns of one session."""

    by_rate: Mapping[str, Sequence[SharedPrompt]]
    _family: Family
    _session: Family

    def family_of(self, rate: str) -> Family:
        """What says which prompts count as one for this rate."""
        return self._session if rate == AGREEMENT else self._family

    @staticmethod
    def unit_of(rate: str) -> str:
        """What those that count as one are called."""
        return "session" if rate == AGREEMENT else "independent prompt"


def find_rate_prompts(a: Side, b: Side, pair: Pair) -> RatePrompts:
    plan = find_plan(a, b)
    schedule = read_schedule(plan.config)
    bare, inside = split_context(plan, pair.shared)
    judged = set(schedule.judged)
    for shared in bare:
        if shared.a.n_judged or shared.b.n_judged:
            judged.add(plan.key(shared))

    def choose(keys: Set[PromptKey]) -> list[SharedPrompt]:
        return [shared for shared in bare if plan.key(shared) in keys]

    by_rate = {
        "objective_pass_rate": bare,
        "pass_rate_scheduled": choose(judged),
        "tool_use_rate": choose(_find_tool_prompts(plan, bare) - schedule.apart),
        "restraint": choose(schedule.restraint),
        "tasks": choose(schedule.tasks),
        AGREEMENT: choose(schedule.own_work),
        "in_context": inside,
    }
    return RatePrompts(by_rate=by_rate, _family=schedule.family, _session=schedule.session)


def _find_tool_prompts(plan: SharedPlan, prompts: Sequence[SharedPrompt]) -> set[PromptKey]:
    """The prompts that a tier rests on; where no plan tells, those whose records expect a tool."""
    keys = {plan.key(shared) for shared in prompts}
    planned: set[PromptKey] = set()
    if plan.config is not None:
        shared_prompts = [prompt for prompt in plan.config.prompts if prompt.key in keys]
        planned = {prompt.key for prompt in tier_prompts(shared_prompts)}
    if planned:
        return planned
    expecting = set()
    for shared in prompts:
        if shared.a.expects_tool or shared.b.expects_tool:
            expecting.add(plan.key(shared))
    return expecting
