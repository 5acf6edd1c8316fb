"""What an offered tool's JSON Schema says of its arguments, and whether a prompt's expectation can be met by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from clawgauge.checks.json import TYPES
from clawgauge.checks.spec import kind_of, matches_fully
from clawgauge.checks.text import PATTERN_MARK, as_written, find_rule_fault, is_pattern, is_text_rule, same_value
from clawgauge.errors import SuiteError

ANYTHING = "*"

_DROPPED = str.maketrans("", "", " ,./-_*^")


def allows_anything(allowed: Any) -> bool:
    """Whether the allowed values, as the suite writes them, leave the value open."""
    return allowed == ANYTHING or (isinstance(allowed, list) and ANYTHING in allowed)


def read_allowed(allowed: Any) -> tuple[Any, bool]:
    """The allowed values of an argument, and whether the suite has them compared loosely."""
    if isinstance(allowed, Mapping):
        return allowed.get("values"), allowed.get("loose") is True
    return allowed, False


def is_allowed(value: Any, allowed: list[Any], *, exact: bool = False) -> bool:
    """Whether `value` is one of the listed values, its texts compared `exact`ly or as `same_text` does."""
    return any(same_value(value, wanted, partial(_fits_text, exact=exact)) for wanted in allowed)


def same_text(text: str, wanted: str) -> bool:
    """Whether two texts are the same but for case, outer white space and dropped marks."""
    text, wanted = text.strip().casefold(), wanted.strip().casefold()
    bare = wanted.translate(_DROPPED)
    # A text of nothing but marks ("/", "*") has only its marks to be known by.
    return text.translate(_DROPPED) == bare if bare else text == wanted


def _fits_text(text: str, wanted: Any, *, exact: bool) -> bool:
    if is_text_rule(wanted):
        return find_rule_fault(wanted, text) is None
    if not isinstance(wanted, str):
        return False
    if is_pattern(wanted):
        return matches_fully(wanted.removeprefix(PATTERN_MARK), as_written(text) if exact else text.strip())
    return as_written(text) == as_written(wanted) if exact else same_text(text, wanted)


Schema = Mapping[str, Any]


def parameters_by_tool(tools: Iterable[Mapping[str, Any]]) -> dict[str, Schema]:
    """The schema of each offered tool's arguments, under its name in lower case."""
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


def required_names(parameters: Schema) -> list[str]:
    required = parameters.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def find_misfit(schema: Schema, value: Any, path: str) -> str | None:
    """The path of the first part of `value` that is of a type its schema refuses, or None; `path` is its own."""
    wanted = schema.get("type")
    if not any(
        TYPES.get(str(one), lambda _: True)(value) for one in (wanted if isinstance(wanted, list) else [wanted])
    ):
        return path
    for keyword in ("anyOf", "oneOf"):
        branches = _schemas(schema.get(keyword))
        if branches and all(find_misfit(branch, value, path) is not None for branch in branches):
            return path
    parts = [(part, value, path) for part in _schemas(schema.get("allOf"))]
    if isinstance(value, dict):
        parts += [(property_schema(schema, name) or {}, member, f"{path}.{name}") for name, member in value.items()]
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        parts += [(items, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return next((misfit for part in parts if (misfit := find_misfit(*part)) is not None), None)


def is_listed(schema: Schema, value: Any, *, exact: bool = False) -> bool:
    """Whether `value` is one of those the schema lists, where it lists any."""
    if "const" in schema:
        return is_allowed(value, [schema["const"]], exact=exact)
    listed = schema.get("enum")
    return not isinstance(listed, list) or is_allowed(value, listed, exact=exact)


def _schemas(value: Any) -> list[Schema]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def check_offer(spec: Mapping[str, Any], tools: Iterable[Mapping[str, Any]]) -> None:
    """Raise `SuiteError`, naming the key, where a checked specification expects what `tools` do not allow."""
    if spec["type"] != "tool_call":
        return
    schemas = parameters_by_tool(tools)
    if not schemas:
        raise SuiteError("key 'type' is 'tool_call', but the prompt offers no tools; give it 'tools'")
    for index, call in enumerate(spec.get("expected_calls", [])):
        name, place = call["name"].strip(), f"expected_calls[{index}]"
        if name.lower() not in schemas:
            raise SuiteError(
                f"key '{place}.name' is '{name}', which is not offered; the tools are {', '.join(schemas)}"
            )
        _check_arguments(call, name, schemas[name.lower()], place, exact=spec.get("compare") == "exact")


def _check_arguments(call: Mapping[str, Any], tool: str, parameters: Schema, place: str, *, exact: bool) -> None:
    listed = {key: call.get(key, {}) for key in ("arguments", "optional")}
    for key, values in listed.items():
        for name, allowed in values.items():
            here = f"{place}.{key}.{name}"
            schema = property_schema(parameters, name)
            if schema is None:
                known = ", ".join(parameters.get("properties", {})) or "none"
                raise SuiteError(f"key '{here}' is no argument of '{tool}'; its arguments are {known}")
            listed_values, _ = read_allowed(allowed)
            if not allows_anything(listed_values):
                for index, value in enumerate(listed_values):
                    _check_value(value, schema, f"{here}[{index}]", exact=exact)
    for name in required_names(parameters):
        if not any(name in values for values in listed.values()):
            raise SuiteError(
                f"key '{place}.arguments' says nothing of '{name}', which '{tool}' requires; "
                f'allow some values, or "{ANYTHING}" for any'
            )


def _check_value(value: Any, schema: Schema, place: str, *, exact: bool) -> None:
    is_rule = is_pattern(value) or is_text_rule(value)
    if find_misfit(schema, "" if is_rule else value, "") is not None:
        wanted = schema.get("type", "another type")
        raise SuiteError(f"key '{place}' is {kind_of(value)}, but the tool's schema asks for {wanted}")
    if not is_rule and not is_listed(schema, value, exact=exact):
        raise SuiteError(f"key '{place}' is {value!r}, which is not in the schema's enum")
