"""The `tool_call` validator: the calls an answer must make, or that it makes none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import ge, gt, le, lt
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import (
    Answer,
    Verdict,
    failed,
    parsed_tools,
    passed,
)
from clawgauge.checks.json import is_type, same_value, shown
from clawgauge.checks.text import PartValidator, judge_text_beside
from clawgauge.checks.text_rules import (
    TEXT_RULE_SHAPE,
    as_written,
    is_text_rule,
    matches_fully,
    pattern_in,
    re2_pattern,
    read_text_rule,
)
from clawgauge.checks.tool_schema import (
    Schema,
    find_misfit,
    listed,
    parameters_by_tool,
    property_schema,
    required_arguments,
)
from clawgauge.checks.validators import Validator, part_validator
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.words import plural

ANYTHING = "*"
MAX_EXPECTED_CALLS = 100
COMPARISONS = ("exact", "loose")
# Marks that a loose comparison drops from a text.
_DROPPED_MARKS = str.maketrans("", "", " ,./-_*^")
# What a schema's bounds rule out.
_IS_OUT_OF_BOUND = {
    "minimum": lt,
    "maximum": gt,
    "exclusiveMinimum": le,
    "exclusiveMaximum": ge,
}

CallFault: TypeAlias = tuple[str, str]  # a violation's code and detail


def _check_allowed_value(value: Any, place: str) -> None:
    """A shape: one value an argument may have, with patterns and rules wherever texts may stand."""
    pattern = pattern_in(value)
    if pattern is not None:
        re2_pattern(pattern, place)
    elif is_text_rule(value):
        shape.check(TEXT_RULE_SHAPE, value, place)
    elif isinstance(value, list):
        shape.check(shape.ListOf(_check_allowed_value, "values", least=0), value, place)
    elif isinstance(value, Mapping):
        shape.check(shape.Named(_check_allowed_value, "values"), value, place)


def _check_allowed_values(allowed: Any, place: str) -> None:
    """A shape: the values of one argument, or `*`; in an object, where they are compared
    loosely."""
    if isinstance(allowed, Mapping):
        keys = shape.Fields({"values": _check_allowed_values}, {"loose": shape.true_or_false})
        shape.check(keys, allowed, place)
    elif allowed != ANYTHING:
        noun = f'allowed values (or "{ANYTHING}")'
        shape.check(shape.ListOf(_check_allowed_value, noun), allowed, place)


_arguments = shape.Named(_check_allowed_values, "allowed values")


class ExpectedCall(shape.Spec, frozen=True):
    """A call to be made, and for each argument the values it may have."""

    name: Annotated[str, shape.some_text]
    arguments: Annotated[dict[str, Any], _arguments] = {}
    optional: Annotated[dict[str, Any], _arguments] = {}

    def find_contradiction(self) -> shape.KeyFault | None:
        for name in self.optional:
            if name in self.arguments:
                reason = "is in 'arguments' too; an argument is needed or it is not"
                return (f"optional.{name}", reason)
        return None


class AllowedValues(NamedTuple):
    """The values an argument may have; None where the suite leaves it open."""

    values: list[Any] | None
    loose: bool


def read_allowed(allowed: Any) -> AllowedValues:
    loose = isinstance(allowed, Mapping) and allowed.get("loose") is True
    values = allowed.get("values") if isinstance(allowed, Mapping) else allowed
    if values == ANYTHING or (isinstance(values, list) and ANYTHING in values):
        return AllowedValues(None, loose)
    return AllowedValues(values, loose)


def is_allowed(value: Any, allowed: list[Any], *, exact: bool) -> bool:
    """Whether `value` is one of the listed values.

    Its texts are compared `exact`ly, or but for case and dropped marks.
    """
    fits_text = partial(_fits_text, exact=exact)
    return any(same_value(value, allowed_value, fits_text) for allowed_value in allowed)


def _fits_text(text: str, allowed: Any, *, exact: bool) -> bool:
    if is_text_rule(allowed):
        return read_text_rule(allowed).find_fault(text) is None
    if not isinstance(allowed, str):
        return False
    pattern = pattern_in(allowed)
    if pattern is not None:
        return matches_fully(pattern, as_written(text) if exact else text.strip())
    if exact:
        return as_written(text) == as_written(allowed)
    folded_text = text.strip().casefold()
    folded_allowed = allowed.strip().casefold()
    bare_allowed = folded_allowed.translate(_DROPPED_MARKS)
    if not bare_allowed:
        # A text of nothing but marks ("/", "*") has only its marks to be known by.
        return folded_text == folded_allowed
    return folded_text.translate(_DROPPED_MARKS) == bare_allowed


def is_listed(schema: Schema, value: Any, *, exact: bool) -> bool:
    """Whether a schema's `const` or `enum`, if it has one, holds the value."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return not isinstance(values, list) or is_allowed(value, values, exact=exact)


class WantsCalls(Protocol):
    """A validator that expects calls, or none: exactly one of the three."""

    @property
    def expected_calls(self) -> Any: ...

    @property
    def no_call(self) -> bool: ...

    @property
    def ask(self) -> bool: ...


def find_want(spec: WantsCalls) -> str:
    """Which of the three keys the author has given. Raises `SuiteError` if not one."""
    wants = []
    if spec.expected_calls is not None:
        wants.append("expected_calls")
    if spec.no_call:
        wants.append("no_call")
    if spec.ask:
        wants.append("ask")
    if len(wants) == 1:
        return wants[0]
    problem = "key 'expected_calls' is missing"
    if wants:
        problem = f"keys '{wants[0]}' and '{wants[1]}' stand together"
    raise SuiteError(f"{problem}; give one of expected_calls, no_call and ask")


class ToolCalls(Validator, tag="tool_call", frozen=True):
    """The calls that must be made natively, all of them and no others; or none, but words."""

    is_part: ClassVar[bool] = False
    expected_calls: Annotated[
        list[ExpectedCall] | None,
        shape.ListOf(shape.fields_of(ExpectedCall), "calls", most=MAX_EXPECTED_CALLS),
    ] = None
    order: Annotated[Literal["any", "strict"] | None, shape.choice("any", "strict")] = None
    compare: Annotated[str | None, shape.choice(*COMPARISONS)] = None
    loose: Annotated[bool | None, shape.true_or_false] = None
    no_call: Annotated[bool, shape.only_true] = False
    ask: Annotated[bool, shape.only_true] = False
    answer: Annotated[PartValidator | None, part_validator] = None

    @property
    def is_exact(self) -> bool:
        """Whether texts are compared exactly; `loose` is how suites of 0.1.0 said otherwise."""
        return self.compare == "exact" and not self.loose

    def find_contradiction(self) -> shape.KeyFault | None:
        want = find_want(self)
        if want == "expected_calls":
            astray = "answer" if self.answer is not None else None
        elif self.order is not None:
            astray = "order"
        else:
            astray = "loose" if self.loose is not None else None
        if astray is not None:
            return (astray, f"does not go with '{want}'; take one of them out")
        return None

    def check_offer(self, tools: Iterable[Mapping[str, Any]]) -> None:
        schemas = parameters_by_tool(tools)
        refuse_without_tools("tool_call", schemas)
        for index, call in enumerate(self.expected_calls or []):
            _check_call_offered(
                call, schemas, place=f"expected_calls[{index}]", exact=self.compare == "exact"
            )

    def judge(self, answer: Answer) -> Verdict:
        if self.expected_calls is None:
            # Its turns of phrase take time to load; whoever judges has done so before.
            from clawgauge.checks.speech import judge_restraint

            verdict = judge_restraint(answer, must_ask=self.ask)
        else:
            verdict = self._judge_calls(self.expected_calls, answer)
        return judge_text_beside(verdict, self.answer, answer)

    def _judge_calls(self, expected_calls: list[ExpectedCall], answer: Answer) -> Verdict:
        calls = answer.native_calls
        parsed = parsed_tools(calls)
        for call in calls:
            if not call.valid:
                name = call.name or "a call without a name"
                detail = f"{name}: the arguments are not a JSON object"
                return failed("malformed_call", detail, parsed)
        if len(calls) != len(expected_calls):
            detail = f"{plural(len(calls), 'native call')}, {len(expected_calls)} expected"
            return failed("wrong_call_count", detail, parsed)
        fault = self._find_mismatch(expected_calls, calls, parameters_by_tool(answer.tools))
        return failed(*fault, parsed) if fault else passed(parsed)

    def _find_mismatch(
        self,
        expected_calls: list[ExpectedCall],
        calls: Sequence[ToolInvocation],
        schemas: Mapping[str, Schema],
    ) -> CallFault | None:
        """What keeps `calls` from being the expected ones, of which there are as many."""
        faults = [
            [find_call_fault(expected, call, schemas, exact=self.is_exact) for call in calls]
            for expected in expected_calls
        ]
        if self.order != "strict":
            return find_nearest(faults)
        if all(faults[index][index] is None for index in range(len(expected_calls))):
            return None
        in_wrong_order = ("wrong_order", f"got {', '.join(call.name for call in calls)}")
        return find_nearest(faults) or in_wrong_order


def find_call_fault(
    expected: ExpectedCall, call: ToolInvocation, schemas: Mapping[str, Schema], *, exact: bool
) -> CallFault | None:
    """What is wrong with `call` if it is meant as the `expected` one, or None.

    First the tool is looked at, then what is missing, then types, then values.
    """
    if call.name.lower() != expected.name.strip().lower():
        return ("unexpected_call", call.name)
    arguments: Mapping[str, Any] = call.arguments if isinstance(call.arguments, dict) else {}
    missing = [name for name in expected.arguments if name not in arguments]
    if missing:
        return ("missing_argument", ", ".join(missing))
    parameters = schemas.get(call.name.lower(), {})
    allowed_by_name = {}
    for name, allowed in {**expected.arguments, **expected.optional}.items():
        if name in arguments:
            allowed_by_name[name] = allowed
    schema_by_name = {name: property_schema(parameters, name) or {} for name in allowed_by_name}
    for name, schema in schema_by_name.items():
        misfit = find_misfit(schema, arguments[name], name)
        if misfit is not None:
            return ("wrong_type", misfit)
    for name, allowed in allowed_by_name.items():
        if not _is_value_right(arguments[name], allowed, schema_by_name[name], exact=exact):
            return ("wrong_value", f"{name}: got {shown(arguments[name])}")
    unexpected = [name for name in arguments if name not in allowed_by_name]
    if unexpected:
        return ("unexpected_argument", ", ".join(unexpected))
    return None


def _is_value_right(value: Any, allowed: Any, schema: Schema, *, exact: bool) -> bool:
    values, loose = read_allowed(allowed)
    # One of a schema's list of words is that word, however loosely the rest is compared.
    must_be_listed = exact or values is None
    if must_be_listed and not is_listed(schema, value, exact=exact):
        return False
    return values is None or is_allowed(value, values, exact=exact and not loose)


def find_nearest(faults: Sequence[Sequence[CallFault | None]]) -> CallFault | None:
    """What is wrong with the first expected call that was not made, or None where all were.

    `faults` has a row for each expected call, and in it for each call made what keeps it from being
    that one. The fault told is that of the nearest call that is no other expected one.
    """
    fitting = []
    for row in faults:
        fitting.append([index for index, fault in enumerate(row) if fault is None])
    partners = pair_up(fitting)
    if None not in partners:
        return None
    faults_left = []
    for index, fault in enumerate(faults[partners.index(None)]):
        if fault and index not in partners:
            faults_left.append(fault)
    if not faults_left:
        return ("wrong_call_count", "too few")
    return min(faults_left, key=lambda fault: fault[0] == "unexpected_call")


def pair_up(fitting: Sequence[Sequence[int]]) -> list[int | None]:
    """A partner for as many rows as can have one, none taken twice; `fitting` lists who fits."""
    row_by_partner: dict[int, int] = {}

    def claim(row: int, tried: set[int]) -> bool:
        """Give `row` a partner, moving earlier rows to others of theirs where that makes room."""
        for partner in fitting[row]:
            if partner in tried:
                continue
            tried.add(partner)
            if partner not in row_by_partner or claim(row_by_partner[partner], tried):
                row_by_partner[partner] = row
                return True
        return False

    for row in range(len(fitting)):
        claim(row, set())
    partner_by_row = {row: partner for partner, row in row_by_partner.items()}
    return [partner_by_row.get(row) for row in range(len(fitting))]


def refuse_without_tools(type_name: str, schemas: Mapping[str, Schema]) -> None:
    if not schemas:
        raise SuiteError(
            f"key 'type' is '{type_name}', but the prompt offers no tools; give it 'tools'"
        )


def _check_call_offered(
    call: ExpectedCall, schemas: Mapping[str, Schema], *, place: str, exact: bool
) -> None:
    tool = call.name.strip()
    if tool.lower() not in schemas:
        offered = ", ".join(schemas)
        problem = f"is '{tool}', which is not offered; the tools are {offered}"
        raise SuiteError(f"key '{place}.name' {problem}")
    parameters = schemas[tool.lower()]
    for key, name, allowed in _allowed_in(call):
        argument_place = f"{place}.{key}.{name}"
        schema = property_schema(parameters, name)
        if schema is None:
            names = ", ".join(parameters.get("properties", {})) or "none"
            problem = f"is no argument of '{tool}'; its arguments are {names}"
            raise SuiteError(f"key '{argument_place}' {problem}")
        for index, value in enumerate(read_allowed(allowed).values or []):
            _check_value_possible(value, schema, f"{argument_place}[{index}]", exact=exact)
    for name in required_arguments(parameters):
        if name not in call.arguments and name not in call.optional:
            problem = f"says nothing of '{name}', which '{tool}' requires"
            advice = f'allow some values, or "{ANYTHING}" for any'
            raise SuiteError(f"key '{place}.arguments' {problem}; {advice}")


def _allowed_in(call: ExpectedCall) -> Iterator[tuple[str, str, Any]]:
    """Each argument's key in the call, its name, and what the suite allows for it."""
    for name, allowed in call.arguments.items():
        yield "arguments", name, allowed
    for name, allowed in call.optional.items():
        yield "optional", name, allowed


def _check_value_possible(value: Any, schema: Schema, place: str, *, exact: bool) -> None:
    """Refuse a value that the tool's schema rules out."""
    is_rule = pattern_in(value) is not None or is_text_rule(value)
    if find_misfit(schema, "" if is_rule else value, "") is not None:
        wanted = schema.get("type", "another type")
        problem = f"is {shape.kind_of(value)}, but the tool's schema asks for {wanted}"
        raise SuiteError(f"key '{place}' {problem}")
    if is_rule:
        enum = listed(schema.get("enum"), str)
        if enum and not any(is_allowed(word, [value], exact=exact) for word in enum):
            problem = f"is {value!r}, which no value of the schema's enum fits"
            raise SuiteError(f"key '{place}' {problem}")
    elif not is_listed(schema, value, exact=exact):
        raise SuiteError(f"key '{place}' is {value!r}, which is not in the schema's enum")
    if not is_type(value, "number"):
        return
    for keyword, is_out in _IS_OUT_OF_BOUND.items():
        bound: Any = schema.get(keyword)
        if keyword in schema and is_type(bound, "number") and is_out(value, bound):
            problem = f"is {value!r}, but the schema's '{keyword}' is {bound!r}"
            raise SuiteError(f"key '{place}' {problem}")
