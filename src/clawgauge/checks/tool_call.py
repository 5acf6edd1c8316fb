"""The `tool_call` validator: the calls an answer must make with their arguments, or that it must make none.

Owns: what such a specification may say, and the verdict. Calls count where they are made natively. A call written as
text is no success; where no call is wanted it is a call all the same, for the model meant to act. Refuses: comparing
values and pairing calls, which have files of their own, and the offered tools at load time (`tool_call_offer`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clawgauge.checks.answer import Answer, Verdict, failed, passed
from clawgauge.checks.patterns import PatternRefused, compile_pattern
from clawgauge.checks.spec_keys import kind_of, refuse, require_text
from clawgauge.checks.thinking import split_thinking
from clawgauge.checks.tool_call_matching import find_mismatch
from clawgauge.checks.tool_call_schema import parameters_by_tool
from clawgauge.checks.tool_call_values import ANYTHING, PATTERN_MARK, is_pattern
from clawgauge.checks.tool_calls import NATIVE, TEXT_PREFIX, tool_calls_of
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation

MAX_EXPECTED_CALLS = 100
WANTS = ("expected_calls", "no_call", "ask")
SPEC_KEYS = ("type", "expected_calls", "order", "no_call", "ask")
_CALL_KEYS = ("name", "arguments", "optional")
_ORDERS = ("any", "strict")
# A mark belongs to an address behind a slash or before more of it; `?page=2` is the end of one. Any other asks, also
# right behind an address. The scheme may stay: it holds no mark, and looking for its start takes quadratic time.
_ADDRESS = re.compile(r"""(?:://|\bwww\.)(?:[^\s<>"`?？؟]|(?<=/)\?|\?(?=[\w=&%#/]))*|\?[\w.%-]*=""")
_QUESTION = re.compile("[?？؟]")


def check_tool_call(spec: Mapping[str, Any]) -> None:
    _refuse_other_keys(spec, SPEC_KEYS, "")
    given = [key for key in WANTS if key in spec]
    if len(given) != 1:
        found = f"keys '{given[0]}' and '{given[1]}' stand together" if given else "key 'expected_calls' is missing"
        raise SuiteError(f"{found}; give one of expected_calls, no_call and ask")
    if given != ["expected_calls"]:
        if spec[given[0]] is not True:
            raise SuiteError(f"key '{given[0]}' must be true, not {kind_of(spec[given[0]])}; or leave it out")
        if "order" in spec:
            raise SuiteError(f"key 'order' does not go with '{given[0]}', which expects no calls")
        return
    if spec.get("order", "any") not in _ORDERS:
        raise SuiteError(f"key 'order' is {spec['order']!r}; it must be 'any' or 'strict'")
    calls, wanted = spec["expected_calls"], "a list of one or more calls"
    if not isinstance(calls, list):
        raise refuse("expected_calls", wanted, calls)
    if not calls or len(calls) > MAX_EXPECTED_CALLS:
        found = f"holds {len(calls)} calls, at most {MAX_EXPECTED_CALLS} are judged" if calls else "is empty"
        raise SuiteError(f"key 'expected_calls' {found}; it must be {wanted}")
    for index, call in enumerate(calls):
        _check_call(call, f"expected_calls[{index}]")


def expected_names(spec: Mapping[str, Any]) -> list[str]:
    """The tools that a checked specification expects to be called, as it writes them."""
    return [call["name"].strip() for call in spec.get("expected_calls", [])]


def judge_tool_call(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    native = [call for call in answer.tool_invocations if call.channel == NATIVE]
    parsed = {"tools": tool_calls_of(native)}
    if "expected_calls" not in spec:
        return _judge_restraint(spec, answer, parsed)
    malformed = [call for call in native if not call.valid]
    if malformed:
        name = malformed[0].name or "a call without a name"
        return failed("malformed_call", f"{name}: the arguments are not a JSON object", parsed)
    expected = spec["expected_calls"]
    if len(native) != len(expected):
        return failed("wrong_call_count", f"got {len(native)}, expected {len(expected)}", parsed)
    strict = spec.get("order", "any") == "strict"
    fault = find_mismatch(expected, native, parameters_by_tool(answer.tools), strict=strict)
    return failed(*fault, parsed) if fault else passed(parsed)


def _judge_restraint(spec: Mapping[str, Any], answer: Answer, parsed: dict[str, Any]) -> Verdict:
    made = next(_meant_as_calls(answer.tool_invocations), None)
    if made is not None:
        return failed("unexpected_call", made.name or "a call without a name", parsed)
    text = split_thinking(answer.text).strip()
    if not text:
        return failed("no_text", "no call was made, and nothing was said", parsed)
    if "ask" in spec and _QUESTION.search(_ADDRESS.sub("", text)) is None:
        return failed("no_question", "the answer does not ask for what is missing", parsed)
    return passed(parsed)


def _meant_as_calls(invocations: Iterable[ToolInvocation]) -> Iterator[ToolInvocation]:
    """Native calls and calls written in a model's own format, malformed ones included; not commands in prose."""
    return (call for call in invocations if call.channel == NATIVE or call.channel.startswith(TEXT_PREFIX))


def _check_call(call: Any, place: str) -> None:
    if not isinstance(call, Mapping):
        raise refuse(place, "an object with a name and arguments", call)
    _refuse_other_keys(call, _CALL_KEYS, f"{place}.")
    try:
        require_text(call, "name")
    except SuiteError as error:
        raise SuiteError(f"key '{place}': {error}") from None
    for key in ("arguments", "optional"):
        values = call.get(key, {})
        if not isinstance(values, Mapping):
            raise refuse(f"{place}.{key}", "an object of allowed values", values)
        for name, allowed in values.items():
            _check_allowed(allowed, f"{place}.{key}.{name}")
    both = [name for name in call.get("optional", {}) if name in call.get("arguments", {})]
    if both:
        raise SuiteError(f"key '{place}.optional.{both[0]}' is in 'arguments' too; an argument is needed or it is not")


def _check_allowed(allowed: Any, place: str) -> None:
    if allowed == ANYTHING:
        return
    wanted = f'a list of one or more allowed values, or "{ANYTHING}"'
    if not isinstance(allowed, list):
        raise refuse(place, wanted, allowed)
    if not allowed:
        raise SuiteError(f"key '{place}' is empty; it must be {wanted}")
    for index, value in enumerate(allowed):
        _check_patterns(value, f"{place}[{index}]")


def _check_patterns(value: Any, place: str) -> None:
    """Refuse a pattern that RE2 does not take, also inside a list or an object."""
    if is_pattern(value):
        try:
            compile_pattern(value.removeprefix(PATTERN_MARK))
        except PatternRefused as error:
            raise SuiteError(f"key '{place}' {error}; write the pattern another way") from None
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_patterns(item, f"{place}[{index}]")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _check_patterns(item, f"{place}.{name}")


def _refuse_other_keys(fields: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for key in fields:
        if key not in known:
            raise SuiteError(f"key '{prefix}{key}' is not known here; the keys are {', '.join(known)}")
