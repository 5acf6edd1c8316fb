"""The `tool_call` validator: the calls an answer must make with their arguments, or that it must make none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from clawgauge.checks.spec import kind_of, refuse, require_flag, require_text
from clawgauge.checks.speech import find_claim
from clawgauge.checks.text import check_pattern, check_text_rule, is_pattern, is_text_rule
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
JudgeText = Callable[[Mapping[str, Any], Answer], Verdict]
MAX_EXPECTED_CALLS = 100
WANTS = ("expected_calls", "no_call", "ask")
SPEC_KEYS = ("type", "expected_calls", "order", "compare", "loose", "no_call", "ask", "answer")
COMPARISONS = ("exact", "loose")
_CALL_KEYS = ("name", "arguments", "optional")
_ORDERS = ("any", "strict")
# A mark belongs to an address behind a slash or before more of it; `?page=2` is the end of one. Any other asks, also
# right behind an address. The scheme may stay: it holds no mark, and looking for its start takes quadratic time.
_ADDRESS = re.compile(r"""(?:://|\bwww\.)(?:[^\s<>"`?？؟]|(?<=/)\?|\?(?=[\w=&%#/]))*|\?[\w.%-]*=""")
_QUESTION = re.compile("[?？؟]")


class Fault(NamedTuple):
    """A violation's code and detail."""

    code: str
    detail: str


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
        return Fault("wrong_order", f"got {_names(calls)}") if strict else None
    first = partners.index(None)
    left = [place for place in range(len(calls)) if place not in partners]
    same_tool = [place for place in left if _is_named(calls[place], expected[first])]
    return faults[first][(same_tool or left)[0]]


def find_fault(
    expected: Expected, call: ToolInvocation, schemas: Mapping[str, Schema], *, exact: bool = False
) -> Fault | None:
    """What is wrong with `call` if it is meant as the `expected` one: the tool, then what is missing, types, values."""
    if not _is_named(call, expected):
        return Fault("unexpected_call", call.name)
    given: Mapping[str, Any] = call.arguments if isinstance(call.arguments, dict) else {}
    required, optional = expected.get("arguments", {}), expected.get("optional", {})
    missing = [name for name in required if name not in given]
    if missing:
        return Fault("missing_argument", ", ".join(missing))
    parameters = schemas.get(call.name.lower(), {})
    known = {name: allowed for name, allowed in {**required, **optional}.items() if name in given}
    for name in known:
        misfit = find_misfit(property_schema(parameters, name) or {}, given[name], name)
        if misfit is not None:
            return Fault("wrong_type", misfit)
    for name, allowed in known.items():
        if not _is_right(given[name], allowed, property_schema(parameters, name) or {}, exact=exact):
            return Fault("wrong_value", f"{name}: got {_shown(given[name])}")
    unexpected = [name for name in given if name not in known]
    return Fault("unexpected_argument", ", ".join(unexpected)) if unexpected else None


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


def _names(calls: Sequence[ToolInvocation]) -> str:
    return ", ".join(call.name for call in calls)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return kind_of(value)
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64):
        return str(value)
    return kind_of(value)


def check_tool_call(spec: Mapping[str, Any], check_answer: Callable[[Mapping[str, Any]], None]) -> None:
    """Refuse a specification no answer can be judged by. `check_answer` checks the validator of the answer's text."""
    _refuse_other_keys(spec, SPEC_KEYS, "")
    given = [key for key in WANTS if key in spec]
    if len(given) != 1:
        found = f"keys '{given[0]}' and '{given[1]}' stand together" if given else "key 'expected_calls' is missing"
        raise SuiteError(f"{found}; give one of expected_calls, no_call and ask")
    if given != ["expected_calls"]:
        if spec[given[0]] is not True:
            raise SuiteError(f"key '{given[0]}' must be true, not {kind_of(spec[given[0]])}; or leave it out")
        for key in ("order", "loose"):
            if key in spec:
                raise SuiteError(f"key '{key}' does not go with '{given[0]}', which expects no calls")
        if "answer" in spec:
            _check_answer(spec["answer"], check_answer)
        return
    if "answer" in spec:
        raise SuiteError("key 'answer' does not go with 'expected_calls', which is judged by its calls")
    if spec.get("compare", "loose") not in COMPARISONS:
        raise SuiteError(f"key 'compare' is {spec['compare']!r}; it must be {' or '.join(map(repr, COMPARISONS))}")
    if "loose" in spec:
        require_flag(spec, "loose")
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


def _check_answer(answer: Any, check_answer: Callable[[Mapping[str, Any]], None]) -> None:
    if not isinstance(answer, Mapping):
        raise refuse("answer", "a validator such as {'type': 'contains', 'contains_all': ['60']}", answer)
    if answer.get("type") in ("effect", "tool_call", "world_state"):
        raise SuiteError(f"key 'answer.type' is '{answer['type']}'; the answer is text, so use a validator of text")
    try:
        check_answer(answer)
    except SuiteError as error:
        raise SuiteError(f"key 'answer': {error}") from None


def expected_names(spec: Mapping[str, Any]) -> list[str]:
    """The tools that a checked specification expects to be called, as it writes them."""
    return [call["name"].strip() for call in spec.get("expected_calls", [])]


def judge_tool_call(spec: Mapping[str, Any], answer: Answer, judge_text: JudgeText) -> Verdict:
    """The verdict on the calls of an answer. `judge_text` judges its text, where the specification has an `answer`."""
    native = [call for call in answer.tool_invocations if call.channel == NATIVE]
    parsed = {"tools": tool_calls_of(native)}
    if "expected_calls" not in spec:
        return _judge_restraint(spec, answer, parsed, judge_text)
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


def _judge_restraint(spec: Mapping[str, Any], answer: Answer, parsed: dict[str, Any], judge_text: JudgeText) -> Verdict:
    made = next(_meant_as_calls(answer.tool_invocations), None)
    if made is not None:
        return failed("unexpected_call", made.name or "a call without a name", parsed)
    text = split_thinking(answer.text).strip()
    if not text:
        return failed("no_text", "no call was made, and nothing was said", parsed)
    claim = find_claim(text)
    if claim is not None:
        return failed("claimed_action", f"nothing was called, but the answer says {quoted(claim)}", parsed)
    if "ask" in spec and _QUESTION.search(_ADDRESS.sub("", text)) is None:
        return failed("no_question", "the answer does not ask for what is missing", parsed)
    verdict = judge_text(spec["answer"], answer) if "answer" in spec else Verdict(None)
    if verdict.objective_pass is False:
        return failed("answer", verdict.violation or "", parsed)
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
    if isinstance(allowed, Mapping):
        _refuse_other_keys(allowed, ("values", "loose"), f"{place}.")
        if "loose" in allowed and not isinstance(allowed["loose"], bool):
            raise refuse(f"{place}.loose", "true or false", allowed["loose"])
        allowed, place = allowed.get("values"), f"{place}.values"
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
        check_pattern(value, place)
    elif is_text_rule(value):
        check_text_rule(value, place)
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
