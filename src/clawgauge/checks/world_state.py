"""The `world_state` validator: what a task must have done, must not have done, and must say in the end.

Owns: judging a task by making its native calls again, in order, on a fresh world; the verdict is a pure function of the
record. Refuses: calls written as text, which were never made, and partial credit.

A task passes when no forbidden effect happened, the calls stayed below what a world takes, an answer was given within
the turns allowed, every expectation holds, and the answer passes its own validator. The violation names the first of
these, in this order, that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from clawgauge.checks.answer import Answer, Verdict, failed, passed
from clawgauge.checks.spec_keys import kind_of, refuse, refuse_misspelt
from clawgauge.checks.thinking import answer_start
from clawgauge.checks.tool_calls import NATIVE, tool_calls_of
from clawgauge.checks.world_effects import EFFECTS, check_effect, find_effect
from clawgauge.checks.world_expectations import KINDS
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.world import World
from clawgauge.world.world import MAX_CALLS

_MAX_CONDITIONS = 64
_MAX_STATE_CHARS = 200
_FORBID_KEYS = ("except", "contains", "with")

Spec = Mapping[str, Any]


def check_world_state(spec: Spec, check_answer: Callable[[Spec], None]) -> None:
    """Refuse a specification no task can be judged by. `check_answer` checks the validator of the answer."""
    expectations = list(_conditions(spec, "expect", tuple(KINDS)))
    for place, kind, condition in expectations:
        _check_at(place, partial(_check_expectation, kind, condition))
    forbidden = list(_conditions(spec, "forbid", (*EFFECTS, "called")))
    for place, kind, condition in forbidden:
        _check_at(place, partial(_check_forbidden, kind, condition))
    if not expectations and not forbidden:
        raise SuiteError("key 'expect' is empty; give at least one condition in 'expect' or 'forbid'")
    if "answer" not in spec:
        return
    answer = spec["answer"]
    if not isinstance(answer, Mapping):
        raise refuse("answer", "a validator such as {'type': 'max_words', 'value': 50}", answer)
    if answer.get("type") == "world_state":
        raise SuiteError("key 'answer.type' is 'world_state'; the answer is text, so use a validator of text")
    _check_at("answer", partial(check_answer, answer))


def judge_world_state(spec: Spec, answer: Answer, judge_text: Callable[[Spec, Answer], Verdict]) -> Verdict:
    """The verdict on a task. `judge_text` judges the final text by the validator of the answer."""
    native = [call for call in answer.tool_invocations if call.channel == NATIVE]
    parsed: dict[str, Any] = {"tools": tool_calls_of(native)}
    if answer.world is None:
        return failed("no_world", "the prompt has none, so there is nothing to look at", parsed)
    world = _replayed(answer.world, native)
    faults = [
        KINDS[kind].find_fault(condition, world) for _, kind, condition in _conditions(spec, "expect", tuple(KINDS))
    ]
    parsed["state"] = [{"holds": fault is None} | _detail(fault) for fault in faults]
    for _, kind, condition in _conditions(spec, "forbid", (*EFFECTS, "called")):
        effect = find_effect(kind, condition, world)
        if effect is not None:
            return failed("forbidden_effect", effect, parsed)
    missing = _no_answer_in_time(answer, native)
    if missing is not None:
        return failed(*missing, parsed)
    for fault in faults:
        if fault is not None:
            return failed("state_not_reached", fault, parsed)
    verdict = judge_text(spec["answer"], answer) if "answer" in spec else Verdict(None)
    if verdict.objective_pass is False:
        return failed("answer", verdict.violation or "", parsed)
    return passed(parsed)


def _no_answer_in_time(answer: Answer, native: list[ToolInvocation]) -> tuple[str, str] | None:
    """Why a task did not come to an answer within its calls and turns, as a violation and its detail."""
    if len(native) >= MAX_CALLS:
        return "too_many_calls", str(len(native))
    if answer.max_turns is not None and native and (native[-1].turn or 0) >= answer.max_turns:
        return "turn_budget_spent", f"{answer.max_turns} turns"
    if answer_start(answer.text) is None:
        return "no_text", "the task ended without an answer"
    return None


def _replayed(spec: Mapping[str, Any], calls: list[ToolInvocation]) -> World:
    world = World(spec)
    for call in calls:
        world.call(call.name, call.arguments)
    return world


def _detail(fault: str | None) -> dict[str, str]:
    return {} if fault is None else {"fault": fault[:_MAX_STATE_CHARS]}


def _conditions(spec: Spec, key: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each condition under `key` with its place and its kind: the key among `kinds` that it has."""
    conditions = spec.get(key, [])
    if not isinstance(conditions, list):
        raise refuse(key, "a list of conditions", conditions)
    if len(conditions) > _MAX_CONDITIONS:
        raise SuiteError(f"key '{key}' has {len(conditions)} conditions; at most {_MAX_CONDITIONS}")
    for index, condition in enumerate(conditions):
        place = f"{key}[{index}]"
        if not isinstance(condition, Mapping):
            raise SuiteError(f"key '{place}' must be an object, not {kind_of(condition)}")
        named = [kind for kind in kinds if kind in condition]
        if len(named) != 1:
            raise SuiteError(f"key '{place}' must have exactly one of {', '.join(kinds)}")
        yield place, named[0], condition


def _check_expectation(kind: str, condition: Mapping[str, Any]) -> None:
    _refuse_unknown(condition, KINDS[kind].keys)
    KINDS[kind].check(condition)


def _check_forbidden(kind: str, condition: Mapping[str, Any]) -> None:
    _refuse_unknown(condition, (kind, *_FORBID_KEYS))
    check_effect(kind, condition)


def _refuse_unknown(condition: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    refuse_misspelt(condition, keys)
    for key in condition:
        if key not in keys:
            raise SuiteError(f"key '{key}' does not go with '{keys[0]}', which takes {', '.join(keys)}")


def _check_at(place: str, check: Callable[[], None]) -> None:
    """Run a check, with the place of what it checks in front of what it refuses."""
    try:
        check()
    except SuiteError as error:
        raise SuiteError(f"key '{place}': {error}") from None
