"""Which of the calls made are the calls expected, and what is wrong with the first that is not.

Owns: the pairing, one to one. In any order it is a maximum matching: where one call fits two expectations and another
only one of them, both are paired, whichever came first. Refuses: malformed calls and wrong numbers of calls; they are
told before anything is paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clawgauge.checks.answer import quoted
from clawgauge.checks.spec_keys import kind_of
from clawgauge.checks.tool_call_schema import Schema, find_misfit, is_listed, property_schema
from clawgauge.checks.tool_call_values import allows_anything, is_allowed
from clawgauge.records import ToolInvocation

Expected = Mapping[str, Any]


class Fault(NamedTuple):
    """A violation's code and detail."""

    code: str
    detail: str


def find_mismatch(
    expected: Sequence[Expected], calls: Sequence[ToolInvocation], schemas: Mapping[str, Schema], *, strict: bool
) -> Fault | None:
    """What keeps `calls` from being the `expected` ones, of which there are as many; None where nothing does."""
    faults = [[find_fault(wanted, call, schemas) for call in calls] for wanted in expected]
    if strict and all(faults[place][place] is None for place in range(len(expected))):
        return None
    partners = pair_up([[place for place, fault in enumerate(row) if fault is None] for row in faults])
    if None not in partners:
        return Fault("wrong_order", f"got {_names(calls)}") if strict else None
    first = partners.index(None)
    left = [place for place in range(len(calls)) if place not in partners]
    same_tool = [place for place in left if _is_named(calls[place], expected[first])]
    return faults[first][(same_tool or left)[0]]


def find_fault(expected: Expected, call: ToolInvocation, schemas: Mapping[str, Schema]) -> Fault | None:
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
        if not _is_right(given[name], allowed, property_schema(parameters, name) or {}):
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


def _is_right(value: Any, allowed: Any, schema: Schema) -> bool:
    return is_listed(schema, value) if allows_anything(allowed) else is_allowed(value, allowed)


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
