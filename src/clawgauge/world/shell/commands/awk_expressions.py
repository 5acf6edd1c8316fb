"""What the expressions of an awk program do, as functions of the record at hand.

Owns: arithmetic, comparison, matching, fields, arrays and the functions awk brings along. Refuses: reading programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from clawgauge.world.shell.call import UsageFault
from clawgauge.world.shell.commands.awk_values import Record, Value, compare, is_true, to_number, to_text
from clawgauge.world.shell.commands.expressions import compile_expression
from clawgauge.world.shell.commands.formatting import format_values

Expression = Callable[[Record], Value]

_HOLDS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression; with `set`, one that can be assigned to."""

    get: Expression
    set: Callable[[Record, Value], None] | None = None


def constant(value: Value) -> Operand:
    return Operand(lambda record: value)


def variable(name: str) -> Operand:
    def assign(record: Record, value: Value) -> None:
        record.variables[name] = value

    return Operand(lambda record: record.variables.get(name, ""), assign)


def field_of(number: Operand) -> Operand:
    return Operand(
        lambda record: record.get_field(int(to_number(number.get(record)))),
        lambda record, value: record.set_field(int(to_number(number.get(record))), to_text(value)),
    )


def element_of(array: str, keys: list[Operand]) -> Operand:
    def key(record: Record) -> str:
        return "\x1c".join(to_text(part.get(record)) for part in keys)

    def assign(record: Record, value: Value) -> None:
        record.fuel.spend(64)
        record.arrays.setdefault(array, {})[key(record)] = value

    return Operand(lambda record: record.arrays.get(array, {}).get(key(record), ""), assign)


def assigned(place: Operand, operator: str, value: Operand) -> Operand:
    store = place.set
    if store is None:
        raise UsageFault("syntax error: only a variable, a field or an element can be assigned to")

    def assign(record: Record) -> Value:
        result = value.get(record)
        if operator != "=":
            result = _calculate(to_number(place.get(record)), operator[0], to_number(result))
        store(record, result)
        return result

    return Operand(assign)


def counted(place: Operand, operator: str) -> Operand:
    """`x++` or `x--`: the value before."""
    store = place.set
    if store is None:
        raise UsageFault(f"syntax error near '{operator}'")

    def count(record: Record) -> Value:
        before = to_number(place.get(record))
        store(record, before + (1 if operator == "++" else -1))
        return before

    return Operand(count)


def either(left: Operand, right: Operand) -> Operand:
    return Operand(lambda record: float(is_true(left.get(record)) or is_true(right.get(record))))


def both(left: Operand, right: Operand) -> Operand:
    return Operand(lambda record: float(is_true(left.get(record)) and is_true(right.get(record))))


def chosen(condition: Operand, yes: Operand, no: Operand) -> Operand:
    return Operand(lambda record: yes.get(record) if is_true(condition.get(record)) else no.get(record))


def negated(operand: Operand) -> Operand:
    return Operand(lambda record: float(not is_true(operand.get(record))))


def joined(left: Operand, right: Operand) -> Operand:
    def join(record: Record) -> Value:
        text = to_text(left.get(record)) + to_text(right.get(record))
        record.fuel.spend(len(text))
        return text

    return Operand(join)


def matching(subject: Operand, pattern: Operand, *, wanted: bool) -> Operand:
    def match(record: Record) -> Value:
        text = to_text(subject.get(record))
        record.fuel.spend(len(text))
        expression = compile_expression(to_text(pattern.get(record)), extended=True)
        return float((expression.search(text) is not None) == wanted)

    return Operand(match)


def compared(left: Operand, operator: str, right: Operand) -> Operand:
    return Operand(lambda record: float(_HOLDS[operator](compare(left.get(record), right.get(record)))))


def arithmetic(left: Operand, operator: str, right: Operand) -> Operand:
    return Operand(lambda record: _calculate(to_number(left.get(record)), operator, to_number(right.get(record))))


def _calculate(left: float, operator: str, right: float) -> float:
    if operator in "/%" and right == 0:
        raise UsageFault("division by zero")
    match operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case "/":
            result = left / right
        case _:
            result = math.fmod(left, right)
    return result if math.isfinite(result) else 0.0


def _substring(texts: list[str]) -> str:
    start = int(to_number(texts[1])) if len(texts) > 1 else 1
    length = int(to_number(texts[2])) if len(texts) > 2 else len(texts[0])
    return texts[0][max(0, start - 1) : max(0, start - 1 + length)]


_FUNCTIONS: dict[str, Callable[[list[str]], Value]] = {
    "length": lambda texts: float(len(texts[0])),
    "substr": _substring,
    "tolower": lambda texts: texts[0].lower(),
    "toupper": lambda texts: texts[0].upper(),
    "int": lambda texts: float(math.trunc(to_number(texts[0]))),
    "index": lambda texts: float(texts[0].find(texts[1]) + 1 if len(texts) > 1 else 0),
    "sprintf": format_values,
}


def called(name: str, given: list[Operand]) -> Operand | None:
    """A call of a function awk brings along, or None where it has none of that name."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return None

    def call(record: Record) -> Value:
        texts = [to_text(value.get(record)) for value in given] or [record.line]
        record.fuel.spend(sum(map(len, texts)) + 16)
        return function(texts)

    return Operand(call)
