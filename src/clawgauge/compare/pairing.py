"""Who stands beside whom: targets of A and B, the prompts they share, and whether those are the same prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from clawgauge.compare.tallies import PromptTally, RunSide
from clawgauge.errors import TargetError
from clawgauge.records import Prompt, PromptKey, Target

_HASH_CHARS = 12


def question_fingerprint(prompt: Prompt) -> str:
    """Everything that is sent to the model. The order of keys in `tools` counts: it is sent as written."""
    asked = (
        prompt.prompt,
        prompt.system,
        prompt.temperature,
        prompt.max_tokens,
        prompt.tools,
        prompt.tool_choice,
        prompt.response_format,
        prompt.world,
        prompt.max_turns,
    )
    return _digest(msgspec.json.encode(asked))


def verdict_fingerprint(prompt: Prompt) -> str:
    """Everything that decides the verdict on an answer. The order of a validator's keys does not count."""
    return _digest(msgspec.json.encode((prompt.validator, sorted(prompt.expected_tools)), order="sorted"))


def prompt_fingerprint(prompt: Prompt) -> str:
    """Question and verdict in one: the same prompt in every respect that matters."""
    return _digest(f"{question_fingerprint(prompt)} {verdict_fingerprint(prompt)}".encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_CHARS]


@dataclass(frozen=True, slots=True)
class TargetPairs:
    """Which targets are compared, and which have no partner."""

    pairs: list[tuple[Target, Target]]
    only_a: list[Target]
    only_b: list[Target]


@dataclass(frozen=True, slots=True)
class SharedPrompt:
    """One prompt on both sides. The keys differ only where a side does not name its suites."""

    key_a: PromptKey
    key_b: PromptKey
    a: PromptTally
    b: PromptTally

    @property
    def label(self) -> str:
        return label_prompt(self.key_a if self.key_a[0] else self.key_b)


@dataclass(frozen=True, slots=True)
class Pair:
    """One target of A beside one of B, the prompts that are compared, and those that only one of them has."""

    a: Target
    b: Target
    shared: list[SharedPrompt]
    only_a: list[PromptKey]
    only_b: list[PromptKey]


def label_prompt(key: PromptKey) -> str:
    """`core/P3`; `P3` where the suite has no name."""
    suite, prompt_id = key
    return f"{suite}/{prompt_id}" if suite else prompt_id


def find_target(side: RunSide, name: str) -> Target:
    """The target a user means: its whole label, or a model's name where only one target has it."""
    for target in side.targets:
        if target.label == name:
            return target
    fitting = [target for target in side.targets if name in (target.model, target.label.partition(":")[2])]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(target.label for target in fitting or side.targets) or "none"
    problem = f"has several targets named {name!r}" if fitting else f"has no target {name!r}"
    raise TargetError(f"run {side.run_id} {problem}: name one of {known}")


def pair_targets(a: RunSide, b: RunSide, maps: Sequence[str] = ()) -> TargetPairs:
    """Targets of the same label, and those that `maps` (`X=Y`: X of A beside Y of B) puts together."""
    mapped = [_read_map(a, b, text) for text in maps]
    taken_a, taken_b = {x for x, _ in mapped}, {y for _, y in mapped}
    same = [(t, t) for t in a.targets if t in set(b.targets) and t not in taken_a and t not in taken_b]
    pairs = [*mapped, *same]
    if not pairs:
        raise TargetError(_describe_no_pair(a, b))
    taken_a, taken_b = {x for x, _ in pairs}, {y for _, y in pairs}
    return TargetPairs(pairs, [t for t in a.targets if t not in taken_a], [t for t in b.targets if t not in taken_b])


def _read_map(a: RunSide, b: RunSide, text: str) -> tuple[Target, Target]:
    """`X=Y`. A model's name may hold a `=` of its own, so every place to cut is tried."""
    cuts = [place for place, character in enumerate(text) if character == "="]
    if not cuts:
        raise TargetError(f"--map {text!r} has no '=': write TARGET_OF_A=TARGET_OF_B")
    for cut in cuts[:-1]:
        try:
            return find_target(a, text[:cut]), find_target(b, text[cut + 1 :])
        except TargetError:
            continue
    return find_target(a, text[: cuts[-1]]), find_target(b, text[cuts[-1] + 1 :])


def _describe_no_pair(a: RunSide, b: RunSide) -> str:
    if not a.targets or not b.targets:
        return f"run {(b if a.targets else a).run_id} has no target and no record: there is nothing to compare"
    names_a, names_b = (", ".join(t.label for t in side.targets) for side in (a, b))
    return (
        f"{a.run_id} ({names_a}) and {b.run_id} ({names_b}) have no target in common: "
        f"say which belong together with --map '{a.targets[0].label}={b.targets[0].label}'"
    )


def pair_prompts(a: RunSide, target_a: Target, b: RunSide, target_b: Target) -> Pair:
    """Two targets by the prompts both were to answer, in the order of A."""
    prompts_a, prompts_b = a.tallies.get(target_a, {}), b.tallies.get(target_b, {})
    partners = {key: key for key in prompts_a if key in prompts_b}
    if a.first_harness != b.first_harness:
        partners |= _match_by_id(prompts_a, prompts_b)
    taken = set(partners.values())
    return Pair(
        target_a,
        target_b,
        [SharedPrompt(key, partners[key], prompts_a[key], prompts_b[partners[key]]) for key in partners],
        [key for key in prompts_a if key not in partners],
        [key for key in prompts_b if key not in taken],
    )


def _match_by_id(
    prompts_a: dict[PromptKey, PromptTally], prompts_b: dict[PromptKey, PromptTally]
) -> dict[PromptKey, PromptKey]:
    """The first harness named no suites: there an id stands for the one prompt of that id and name."""
    matches = {}
    for key, tally in prompts_a.items():
        fitting = [other for other in prompts_b if other[1] == key[1] and prompts_b[other].name == tally.name]
        if len(fitting) == 1:
            matches[key] = fitting[0]
    return matches
