"""Whether the tools a prompt offers can be called the way its `tool_call` validator expects.

Owns: the check of a specification against the offered tools, made when a suite is loaded. Refuses: judging answers. An
expectation that the offer makes impossible would fail every model, so it is refused before the first request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clawgauge.checks.spec_keys import kind_of
from clawgauge.checks.tool_call_schema import (
    Schema,
    accepts_text,
    find_misfit,
    is_listed,
    parameters_by_tool,
    property_schema,
    required_names,
)
from clawgauge.checks.tool_call_values import ANYTHING, allows_anything, is_pattern
from clawgauge.errors import SuiteError


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
        _check_arguments(call, name, schemas[name.lower()], place)


def _check_arguments(call: Mapping[str, Any], tool: str, parameters: Schema, place: str) -> None:
    listed = {key: call.get(key, {}) for key in ("arguments", "optional")}
    for key, values in listed.items():
        for name, allowed in values.items():
            here = f"{place}.{key}.{name}"
            schema = property_schema(parameters, name)
            if schema is None:
                known = ", ".join(parameters.get("properties", {})) or "none"
                raise SuiteError(f"key '{here}' is no argument of '{tool}'; its arguments are {known}")
            if not allows_anything(allowed):
                _check_values(allowed, schema, here)
    for name in required_names(parameters):
        if not any(name in values for values in listed.values()):
            raise SuiteError(
                f"key '{place}.arguments' says nothing of '{name}', which '{tool}' requires; "
                f'allow some values, or "{ANYTHING}" for any'
            )


def _check_values(allowed: list[Any], schema: Schema, place: str) -> None:
    for index, value in enumerate(allowed):
        fits = accepts_text(schema) if is_pattern(value) else find_misfit(schema, value, place) is None
        if not fits:
            wanted = schema.get("type", "another type")
            raise SuiteError(f"key '{place}[{index}]' is {kind_of(value)}, but the tool's schema asks for {wanted}")
        if not is_pattern(value) and not is_listed(schema, value):
            raise SuiteError(f"key '{place}[{index}]' is {value!r}, which is not in the schema's enum")
