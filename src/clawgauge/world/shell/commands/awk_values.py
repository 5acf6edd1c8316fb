"""What awk computes with: texts and numbers that turn into each other, fields, variables, arrays.

Owns: conversions and comparison as POSIX has them. Refuses: the language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from clawgauge.world.fuel import Fuel
from clawgauge.world.shell.commands.expressions import compile_expression

Value = str | float
_NUMBER = re.compile(r"\s*[+-]?(?:\d{1,15}\.?\d{0,15}|\.\d{1,15})(?:[eE][+-]?\d{1,2})?")


def to_number(value: Value) -> float:
    """The number a text begins with, 0 where there is none."""
    if isinstance(value, float):
        return value
    found = _NUMBER.match(value)
    return float(found[0]) if found else 0.0


def to_text(value: Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.6g}"


def is_true(value: Value) -> bool:
    return value != 0.0 if isinstance(value, float) else value != ""


def compare(left: Value, right: Value) -> int:
    """Negative, zero or positive; as numbers where both look like one."""
    numeric = all(isinstance(value, float) or _NUMBER.fullmatch(value.strip()) for value in (left, right))
    if numeric:
        return (to_number(left) > to_number(right)) - (to_number(left) < to_number(right))
    return (to_text(left) > to_text(right)) - (to_text(left) < to_text(right))


@dataclass(slots=True)
class Record:
    """The state of a running program: the line at hand and what was computed so far."""

    fuel: Fuel
    print: Callable[[str], None]
    separator: str = " "
    fields: list[str] = field(default_factory=list)
    line: str = ""
    variables: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, dict[str, Value]] = field(default_factory=dict)

    def read(self, line: str) -> None:
        """Take the next line."""
        self.fuel.spend(len(line) + 64)
        self.variables["NR"] = to_number(self.variables.get("NR", 0.0)) + 1
        self._split(line)

    def get_field(self, number: int) -> str:
        if number == 0:
            return self.line
        return self.fields[number - 1] if 0 < number <= len(self.fields) else ""

    def set_field(self, number: int, text: str) -> None:
        self.fuel.spend(len(self.line) + len(text) + 1)
        if number == 0:
            self._split(text)
            return
        self.fields.extend([""] * (min(number, 1_000) - len(self.fields)))
        if 0 < number <= len(self.fields):
            self.fields[number - 1] = text
        self.line = to_text(self.variables.get("OFS", " ")).join(self.fields)
        self.variables["NF"] = float(len(self.fields))

    def _split(self, line: str) -> None:
        self.line = line
        separator = to_text(self.variables.get("FS", self.separator))
        if separator == " ":
            self.fields = line.split()
        elif len(separator) == 1 and separator != "|":
            self.fields = line.split(separator) if line else []
        else:
            self.fields = split_by(separator, line)
        self.variables["NF"] = float(len(self.fields))


def split_by(pattern: str, text: str) -> list[str]:
    """The parts of a text between the matches of a pattern."""
    if not text:
        return []
    parts, at = [], 0
    for hit in compile_expression(re.escape(pattern) if pattern == "|" else pattern, extended=True).finditer(text):
        if hit.end() > hit.start():
            parts.append(text[at : hit.start()])
            at = hit.end()
    return [*parts, text[at:]]
