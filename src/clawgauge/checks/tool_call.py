"""The `tool_call` validator: the calls an answer must make with their arguments, or that it must make none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import (
    NATIVE,
    TEXT_PREFIX,
    Answer,
    Verdict,
    failed,
    passed,
    quoted,
    split_thinking,
    tool_calls_of,
)
from clawgauge.checks.speech import find_claim
from clawgauge.checks.text import TEXT_RULE, check_pattern, is_text_rule, shown
from clawgauge.checks.tool_schema import (
    ANYTHING,
    Schema,
    allows_anything,
    find_misfit,
    is_allowed,
    is_listed,
    parameters_by_tool,
    property_schema,
    read_allowed,
)
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation

Expected = Mapping[str, Any]
MAX_EXPECTED_CALLS = 100
WANTS = ("expected_calls", "no_call", "ask")
COMPARISONS = ("exact", "loose")
# A mark belongs to an address behind a slash or before more of it; `?page=2` is the end of one. Any other asks, also
# right behind an address. The scheme may stay: it holds no mark, and looking for its start takes quadratic time.
_ADDRESS = re.compile(r"""(?:://|\bwww\.)(?:[^\s<>"`?？؟]|(?<=/)\?|\?(?=[\w=&%#/]))*|\?[\w.%-]*=""")
_QUESTION = re.compile("[?？؟]")


Fault = tuple[str, str]
"""A violation's code and detail."""


def find_mismatch(
    expected: Sequence[Expected],
    calls: Sequence[ToolInvocation],
    schemas: Mapping[str, Schema],
    *,
    strict: bool,
    exact: bool = False,
) -> Fault | None:
    """What keeps `calls` from being the `expected` ones, of which there are as many; None where nothing does."""
    faults = [[find_fault(wanted, call, schemas, exact=exact) for call in calls] for wanted in expected]
    if strict and all(faults[place][place] is None for place in range(len(expected))):
        return None
    partners = pair_up([[place for place, fault in enumerate(row) if fault is None] for row in faults])
    if None not in partners:
        return ("wrong_order", f"got {', '.join(call.name for call in calls)}") if strict else None
    first = partners.index(None)
    left = [place for place in range(len(calls)) if place not in partners]
    same_tool = [place for place in left if _is_named(calls[place], expected[first])]
    return faults[first][(same_tool or left)[0]]


def find_fault(
    expected: Expected, call: ToolInvocation, schemas: Mapping[str, Schema], *, exact: bool = False
) -> Fault | None:
    """What is wrong with `call` if it is meant as the `expected` one: the tool, then what is missing, types, values."""
    if not _is_named(call, expected):
        return ("unexpected_call", call.name)
    given: Mapping[str, Any] = call.arguments if isinstance(call.arguments, dict) else {}
    required, optional = expected.get("arguments", {}), expected.get("optional", {})
    missing = [name for name in required if name not in given]
    if missing:
        return ("missing_argument", ", ".join(missing))
    parameters = schemas.get(call.name.lower(), {})
    known = {name: allowed for name, allowed in {**required, **optional}.items() if name in given}
    for name in known:
        misfit = find_misfit(property_schema(parameters, name) or {}, given[name], name)
        if misfit is not None:
            return ("wrong_type", misfit)
    for name, allowed in known.items():
        if not _is_right(given[name], allowed, property_schema(parameters, name) or {}, exact=exact):
            return ("wrong_value", f"{name}: got {shown(given[name])}")
    unexpected = [name for name in given if name not in known]
    return ("unexpected_argument", ", ".join(unexpected)) if unexpected else None


def pair_up(fitting: Sequence[Sequence[int]]) -> list[int | None]:
    """A partner for as many rows as can have one, none taken twice; `fitting` lists who fits each row."""
    row_of: dict[int, int] = {}

    def claim(row: int, asked: set[int]) -> bool:
        """Give `row` a partner, moving earlier rows to others of theirs where that makes room."""
        for partner in fitting[row]:
            if partner not in asked:
                asked.add(partner)
                if partner not in row_of or claim(row_of[partner], asked):
                    row_of[partner] = row
                    return True
        return False

    for row in range(len(fitting)):
        claim(row, set())
    partner_of = {row: partner for partner, row in row_of.items()}
    return [partner_of.get(row) for row in range(len(fitting))]


def _is_named(call: ToolInvocation, expected: Expected) -> bool:
    return call.name.lower() == str(expected["name"]).strip().lower()


def _is_right(value: Any, allowed: Any, schema: Schema, *, exact: bool) -> bool:
    values, loose = read_allowed(allowed)
    # One of a list of words is that word, however loosely the rest is compared.
    if (allows_anything(values) or exact) and not is_listed(schema, value, exact=exact):
        return False
    return allows_anything(values) or is_allowed(value, values, exact=exact and not loose)


def check_together(spec: Mapping[str, Any], place: str) -> None:
    """Refuse keys that do not go together: a specification expects calls, or none, or a question."""
    given = [key for key in WANTS if key in spec]
    if len(given) != 1:
        found = f"keys '{given[0]}' and '{given[1]}' stand together" if given else "key 'expected_calls' is missing"
        raise SuiteError(f"{found}; give one of expected_calls, no_call and ask")
    for key in ("answer",) if given == ["expected_calls"] else ("order", "loose"):
        if key in spec:
            raise shape.fault(place, key, f"does not go with '{given[0]}'; take one of them out")


_only_true = shape.that("true, or left out", lambda value: value is True)


def _refuse_needed_and_optional(call: Mapping[str, Any], place: str) -> None:
    both = [name for name in call.get("optional", {}) if name in call.get("arguments", {})]
    if both:
        raise SuiteError(f"key '{place}.optional.{both[0]}' is in 'arguments' too; an argument is needed or it is not")


def _allowed_values(allowed: Any, place: str) -> None:
    if isinstance(allowed, Mapping):
        shape.fields({"values": _allowed_values}, {"loose": shape.true_or_false})(allowed, place)
    elif allowed != ANYTHING:
        shape.list_of(_check_patterns, f'allowed values (or "{ANYTHING}")')(allowed, place)


def _check_patterns(value: Any, place: str) -> None:
    """Refuse a pattern that RE2 does not take, also inside a list or an object."""
    check_pattern(value, place)
    if is_text_rule(value):
        TEXT_RULE(value, place)
    elif isinstance(value, list):
        shape.list_of(_check_patterns, "values", least=0)(value, place)
    elif isinstance(value, Mapping):
        shape.named(_check_patterns, "values")(value, place)


_ARGUMENTS = shape.named(_allowed_values, "allowed values")
_CALL = shape.fields(
    {"name": shape.some_text}, {"arguments": _ARGUMENTS, "optional": _ARGUMENTS}, also=_refuse_needed_and_optional
)
TOOL_CALL_KEYS: dict[str, shape.Shape] = {
    "expected_calls": shape.list_of(_CALL, "calls", most=MAX_EXPECTED_CALLS),
    "order": shape.choice("any", "strict"),
    "compare": shape.choice(*COMPARISONS),
    "loose": shape.true_or_false,
    "no_call": _only_true,
    "ask": _only_true,
}


def expected_names(spec: Mapping[str, Any]) -> list[str]:
    """The tools that a checked specification expects to be called, as it writes them."""
    return [call["name"].strip() for call in spec.get("expected_calls", [])]


def judge_tool_call(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    """The verdict on the calls of an answer."""
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
    exact = spec.get("compare") == "exact" and not spec.get("loose", False)
    fault = find_mismatch(expected, native, parameters_by_tool(answer.tools), strict=strict, exact=exact)
    return failed(*fault, parsed) if fault else passed(parsed)


def _judge_restraint(spec: Mapping[str, Any], answer: Answer, parsed: dict[str, Any]) -> Verdict:
    for call in answer.tool_invocations:
        # A call in a model's own format is meant as one, malformed or not; a command in prose is not.
        if call.channel == NATIVE or call.channel.startswith(TEXT_PREFIX):
            return failed("unexpected_call", call.name or "a call without a name", parsed)
    text = split_thinking(answer.text).strip()
    if not text:
        return failed("no_text", "no call was made, and nothing was said", parsed)
    claim = find_claim(text)
    if claim is not None:
        return failed("claimed_action", f"nothing was called, but the answer says {quoted(claim)}", parsed)
    if "ask" in spec and _QUESTION.search(_ADDRESS.sub("", text)) is None:
        return failed("no_question", "the answer does not ask for what is missing", parsed)
    return passed(parsed)
