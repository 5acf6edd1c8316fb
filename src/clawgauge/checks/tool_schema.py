"""What the JSON Schemas of offered tools say of arguments. Nobody has checked that they are
schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from clawgauge.checks.json import is_type

Schema: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def parameters_by_tool(tools: Iterable[Mapping[str, Any]]) -> dict[str, Schema]:
    """The schema of each tool's arguments, by its name in lower case."""
    functions = (tool["function"] for tool in tools)
    return {function["name"].lower(): function.get("parameters") or {} for function in functions}


def property_schema(parameters: Schema, name: str) -> Schema | None:
    """The schema of one argument, or None where the tool takes no argument of that name."""
    properties = parameters.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name] if isinstance(properties[name], Mapping) else {}
    others = parameters.get("additionalProperties")
    if isinstance(others, Mapping):
        return others
    return {} if others is True else None


def listed(value: Any, kind: type[T]) -> list[T]:
    """The items of this kind, where `value` is a list at all."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, kind)]


def required_arguments(parameters: Schema) -> list[str]:
    return listed(parameters.get("required"), str)


def find_misfit(schema: Schema, value: Any, path: str) -> str | None:
    """The path of the first part of `value` that is of a type its schema refuses, or None.

    `path` is that of `value` itself.
    """
    types = schema.get("type")
    if not isinstance(types, list):
        types = [types]
    if not any(is_type(value, str(name)) for name in types):
        return path
    for keyword in ("anyOf", "oneOf"):
        branches = listed(schema.get(keyword), dict)
        if branches and all(find_misfit(branch, value, path) is not None for branch in branches):
            return path
    for part in listed(schema.get("allOf"), dict):
        misfit = find_misfit(part, value, path)
        if misfit is not None:
            return misfit
    if isinstance(value, dict):
        for name, member in value.items():
            misfit = find_misfit(property_schema(schema, name) or {}, member, f"{path}.{name}")
            if misfit is not None:
                return misfit
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, Mapping):
        for index, item in enumerate(value):
            misfit = find_misfit(items, item, f"{path}[{index}]")
            if misfit is not None:
                return misfit
    return None
