"""What an offered tool's JSON Schema says about the types of its arguments.

Owns: the part of JSON Schema that tools are written in: `type`, `properties`, `required`, `items`, `enum`, `const`,
`anyOf`, `oneOf`, `allOf`. An integer is fine for a number; an `integer` is written without a fraction. Refuses: limits
and formats (`minimum`, `pattern`, …), which a prompt's allowed values decide better, and following references: what
stands behind a `$ref` may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clawgauge.checks.tool_call_values import is_allowed

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
    if not _has_type(schema.get("type"), value):
        return path
    for keyword in ("anyOf", "oneOf"):
        branches = _schemas(schema.get(keyword))
        if branches and all(find_misfit(branch, value, path) is not None for branch in branches):
            return path
    for part in _schemas(schema.get("allOf")):
        if (misfit := find_misfit(part, value, path)) is not None:
            return misfit
    return _find_misfit_inside(schema, value, path)


def is_listed(schema: Schema, value: Any) -> bool:
    """Whether `value` is one of those the schema lists, where it lists any."""
    if "const" in schema:
        return is_allowed(value, [schema["const"]])
    listed = schema.get("enum")
    return not isinstance(listed, list) or is_allowed(value, listed)


def accepts_text(schema: Schema) -> bool:
    """Whether some text could be right here."""
    return find_misfit(schema, "", "") is None


def _find_misfit_inside(schema: Schema, value: Any, path: str) -> str | None:
    if isinstance(value, dict):
        for name, member in value.items():
            inner = property_schema(schema, name) or {}
            if (misfit := find_misfit(inner, member, f"{path}.{name}")) is not None:
                return misfit
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for index, item in enumerate(value):
            if (misfit := find_misfit(items, item, f"{path}[{index}]")) is not None:
                return misfit
    return None


def _has_type(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, list):
        return any(_has_type(one, value) for one in wanted)
    match wanted:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
    return True


def _schemas(value: Any) -> list[Schema]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
