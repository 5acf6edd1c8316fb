"""The `tool_call` validator: the calls an answer must make, as the suite allows and the tools' schemas have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import ge, gt, le, lt
from typing import Any, TypeVar

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, passed, tool_calls_of
from clawgauge.checks.json import is_type, same_value, shown
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.words import plural

Expected = Mapping[str, Any]
Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]
ANYTHING = "*"
_DROPPED = str.maketrans("", "", " ,./-_*^")
MAX_EXPECTED_CALLS = 100
WANTS = ("expected_calls", "no_call", "ask")
COMPARISONS = ("exact", "loose")
T = TypeVar("T")
Fault = tuple[str, str]  # a violation's code and detail


def read_allowed(allowed: Any) -> tuple[Any, bool]:
    """The allowed values of an argument, "*" where they leave it open, and whether the suite compares them loosely."""
    loose = isinstance(allowed, Mapping) and allowed.get("loose") is True
    values = allowed.get("values") if isinstance(allowed, Mapping) else allowed
    return ANYTHING if isinstance(values, list) and ANYTHING in values else values, loose


def is_allowed(value: Any, allowed: list[Any], *, exact: bool) -> bool:
    """Whether `value` is one of the listed values, its texts compared `exact`ly or but for case and dropped marks."""
    return any(same_value(value, wanted, partial(_fits_text, exact=exact)) for wanted in allowed)


def _fits_text(text: str, wanted: Any, *, exact: bool) -> bool:
    if shape.is_text_rule(wanted):
        return shape.find_rule_fault(wanted, text) is None
    if not isinstance(wanted, str):
        return False
    if (pattern := shape.pattern_in(wanted)) is not None:
        return shape.matches_fully(pattern, shape.as_written(text) if exact else text.strip())
    if exact:
        return shape.as_written(text) == shape.as_written(wanted)
    folded, other = text.strip().casefold(), wanted.strip().casefold()
    bare = other.translate(_DROPPED)
    # A text of nothing but marks ("/", "*") has only its marks to be known by.
    return folded.translate(_DROPPED) == bare if bare else folded == other


def parameters_by_tool(tools: Iterable[Mapping[str, Any]]) -> dict[str, Schema]:
    functions = (tool["function"] for tool in tools)
    return {function["name"].lower(): function.get("parameters") or {} for function in functions}


def property_schema(parameters: Schema, name: str) -> Schema | None:
    """The schema of one argument, or None where the tool takes no argument of that name."""
    known = parameters.get("properties")
    if isinstance(known, Mapping) and name in known:
        return known[name] if isinstance(known[name], Mapping) else {}
    others = parameters.get("additionalProperties")
    if isinstance(others, Mapping):
        return others
    return {} if others is True else None


def listed(value: Any, kind: type[T]) -> list[T]:
    """The items of this kind, where `value` is a list at all: nobody has checked the schema."""
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def find_misfit(schema: Schema, value: Any, path: str) -> str | None:
    """The path of the first part of `value` that is of a type its schema refuses, or None; `path` is its own."""
    wanted = schema.get("type")
    if not any(is_type(value, str(one)) for one in (wanted if isinstance(wanted, list) else [wanted])):
        return path
    for keyword in ("anyOf", "oneOf"):
        branches = listed(schema.get(keyword), dict)
        if branches and all(find_misfit(branch, value, path) is not None for branch in branches):
            return path
    parts: list[tuple[Schema, Any, str]] = [(part, value, path) for part in listed(schema.get("allOf"), dict)]
    if isinstance(value, dict):
        parts += [(property_schema(schema, name) or {}, member, f"{path}.{name}") for name, member in value.items()]
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        parts += [(items, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return next((misfit for part in parts if (misfit := find_misfit(*part)) is not None), None)


def is_listed(schema: Schema, value: Any, *, exact: bool) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return not isinstance(values, list) or is_allowed(value, values, exact=exact)


def find_mismatch(spec: Mapping[str, Any], calls: Sequence[ToolInvocation], schemas: Schemas) -> Fault | None:
    """What keeps `calls` from being the expected ones, of which there are as many; None where nothing does."""
    expected, strict = spec["expected_calls"], spec.get("order") == "strict"
    exact = spec.get("compare") == "exact" and not spec.get("loose", False)
    faults = [[find_fault(wanted, call, schemas, exact=exact) for call in calls] for wanted in expected]
    if strict and all(faults[place][place] is None for place in range(len(expected))):
        return None
    in_order = ("wrong_order", f"got {', '.join(call.name for call in calls)}") if strict else None
    return find_nearest(faults) or in_order


def find_fault(expected: Expected, call: ToolInvocation, schemas: Schemas, *, exact: bool) -> Fault | None:
    """What is wrong with `call` if it is meant as the `expected` one: the tool, then what is missing, types, values."""
    if not _is_named(call, expected):
        return ("unexpected_call", call.name)
    given: Mapping[str, Any] = call.arguments if isinstance(call.arguments, dict) else {}
    required = expected.get("arguments", {})
    if missing := [name for name in required if name not in given]:
        return ("missing_argument", ", ".join(missing))
    parameters = schemas.get(call.name.lower(), {})
    known = {name: allowed for name, allowed in {**required, **expected.get("optional", {})}.items() if name in given}
    schema_of = {name: property_schema(parameters, name) or {} for name in known}
    for name in known:
        if (misfit := find_misfit(schema_of[name], given[name], name)) is not None:
            return ("wrong_type", misfit)
    for name, allowed in known.items():
        values, loose = read_allowed(allowed)
        # One of a list of words is that word, however loosely the rest is compared.
        is_one = is_listed(schema_of[name], given[name], exact=exact) if exact or values == ANYTHING else True
        if not is_one or (values != ANYTHING and not is_allowed(given[name], values, exact=exact and not loose)):
            return ("wrong_value", f"{name}: got {shown(given[name])}")
    unexpected = [name for name in given if name not in known]
    return ("unexpected_argument", ", ".join(unexpected)) if unexpected else None


def find_nearest(faults: Sequence[Sequence[Fault | None]]) -> Fault | None:
    """Of the first call that was not made (a row of faults; None: it was), what is wrong with the nearest one left."""
    partners = pair_up([[place for place, fault in enumerate(row) if fault is None] for row in faults])
    if None not in partners:
        return None
    left = [fault for place, fault in enumerate(faults[partners.index(None)]) if fault and place not in partners]
    return min(left, key=lambda fault: fault[0] == "unexpected_call", default=("wrong_call_count", "too few"))


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


def check_together(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    given = [key for key in WANTS if key in spec]
    if len(given) != 1:
        found = f"keys '{given[0]}' and '{given[1]}' stand together" if given else "key 'expected_calls' is missing"
        raise SuiteError(f"{found}; give one of expected_calls, no_call and ask")
    others = ("answer",) if given == ["expected_calls"] else ("order", "loose")
    astray = [key for key in others if key in spec]
    return (astray[0], f"does not go with '{given[0]}'; take one of them out") if astray else None


only_true = shape.Value("true, or left out", (bool,), among=(True,))


def _find_both(call: Mapping[str, Any]) -> tuple[str, str] | None:
    both = [name for name in call.get("optional", {}) if name in call.get("arguments", {})]
    return (f"optional.{both[0]}", "is in 'arguments' too; an argument is needed or it is not") if both else None


def _allowed_values(allowed: Any, place: str) -> None:
    if isinstance(allowed, Mapping):
        shape.check(shape.Fields({"values": _allowed_values}, {"loose": shape.true_or_false}), allowed, place)
    elif allowed != ANYTHING:
        shape.check(shape.ListOf(_check_patterns, f'allowed values (or "{ANYTHING}")'), allowed, place)


def _check_patterns(value: Any, place: str) -> None:
    if (pattern := shape.pattern_in(value)) is not None:
        shape.re2_pattern(pattern, place)
    elif shape.is_text_rule(value):
        shape.check(shape.TEXT_RULE, value, place)
    elif isinstance(value, list):
        shape.check(shape.ListOf(_check_patterns, "values", least=0), value, place)
    elif isinstance(value, Mapping):
        shape.check(shape.Named(_check_patterns, "values"), value, place)


_ARGUMENTS = shape.Named(_allowed_values, "allowed values")
_CALL = shape.Fields({"name": shape.some_text}, dict.fromkeys(("arguments", "optional"), _ARGUMENTS), also=_find_both)
TOOL_CALL_KEYS: dict[str, shape.Shape] = {
    "expected_calls": shape.ListOf(_CALL, "calls", most=MAX_EXPECTED_CALLS),
    "order": shape.choice("any", "strict"), "compare": shape.choice(*COMPARISONS), "loose": shape.true_or_false,
    **dict.fromkeys(("no_call", "ask"), only_true),
}  # fmt: skip
_BOUNDS = {"minimum": lt, "maximum": gt, "exclusiveMinimum": le, "exclusiveMaximum": ge}


def judge_tool_call(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    native, parsed = answer.native_calls, {"tools": tool_calls_of(answer.native_calls)}
    if malformed := [call for call in native if not call.valid]:
        name = malformed[0].name or "a call without a name"
        return failed("malformed_call", f"{name}: the arguments are not a JSON object", parsed)
    if len(native) != (n_expected := len(spec["expected_calls"])):
        return failed("wrong_call_count", f"{plural(len(native), 'native call')}, {n_expected} expected", parsed)
    fault = find_mismatch(spec, native, parameters_by_tool(answer.tools))
    return failed(*fault, parsed) if fault else passed(parsed)


def check_offer(spec: Mapping[str, Any], tools: Iterable[Mapping[str, Any]]) -> None:
    """Raise `SuiteError`, naming the key, where a checked specification expects what `tools` do not allow."""
    schemas = parameters_by_tool(tools)
    if spec["type"] == "effect" and schemas:
        from clawgauge.checks.detection.shell import load_lexicon

        if schemas.keys().isdisjoint(("read", "read_file", *load_lexicon().exec_tools)):
            raise SuiteError("key 'type' is 'effect', but none of the tools runs a command; offer 'exec'")
    if spec["type"] not in ("tool_call", "agreement"):
        return
    if not schemas:
        raise SuiteError(f"key 'type' is '{spec['type']}', but the prompt offers no tools; give it 'tools'")
    if spec["type"] == "agreement":
        return
    for index, call in enumerate(spec.get("expected_calls", [])):
        tool, place = call["name"].strip(), f"expected_calls[{index}]"
        if tool.lower() not in schemas:
            known = ", ".join(schemas)
            raise SuiteError(f"key '{place}.name' is '{tool}', which is not offered; the tools are {known}")
        parameters = schemas[tool.lower()]
        arguments = [(key, *item) for key in ("arguments", "optional") for item in call.get(key, {}).items()]
        for key, name, allowed in arguments:
            here, schema = f"{place}.{key}.{name}", property_schema(parameters, name)
            if schema is None:
                known = ", ".join(parameters.get("properties", {})) or "none"
                raise SuiteError(f"key '{here}' is no argument of '{tool}'; its arguments are {known}")
            values, _ = read_allowed(allowed)
            for number, value in enumerate([] if values == ANYTHING else values):
                _check_value(value, schema, f"{here}[{number}]", exact=spec.get("compare") == "exact")
        named = [name for _, name, _ in arguments]
        if unnamed := next((name for name in listed(parameters.get("required"), str) if name not in named), None):
            lacks = f"key '{place}.arguments' says nothing of '{unnamed}', which '{tool}' requires"
            raise SuiteError(f'{lacks}; allow some values, or "{ANYTHING}" for any')


def _check_value(value: Any, schema: Schema, place: str, *, exact: bool) -> None:
    is_rule = shape.pattern_in(value) is not None or shape.is_text_rule(value)
    if find_misfit(schema, "" if is_rule else value, "") is not None:
        wanted = schema.get("type", "another type")
        raise SuiteError(f"key '{place}' is {shape.kind_of(value)}, but the tool's schema asks for {wanted}")
    if not is_rule and not is_listed(schema, value, exact=exact):
        raise SuiteError(f"key '{place}' is {value!r}, which is not in the schema's enum")
    words = listed(schema.get("enum"), str) if is_rule else []
    if words and not any(is_allowed(one, [value], exact=exact) for one in words):
        raise SuiteError(f"key '{place}' is {value!r}, which no value of the schema's enum fits")
    for key, is_out in _BOUNDS.items() if is_type(value, "number") else ():
        if key in schema and is_type(schema[key], "number") and is_out(value, schema[key]):
            raise SuiteError(f"key '{place}' is {value!r}, but the schema's '{key}' is {schema[key]!r}")
