"""How commands lay out what they print: sizes, directives and columns."""

import re
from collections.abc import Mapping, Sequence

from clawgauge.world.commands.call import NotSimulated

UNITS = " KMGTP"


def human(size: int) -> str:
    """`4.0K`, `18G`: as GNU tools write sizes with -h, one decimal below ten, always rounded up."""
    if size < 1024:
        return str(size)
    power = 1
    while power < len(UNITS) - 1 and _ceil_div(size, 1024**power) >= 1024:
        power += 1
    tenths = _ceil_div(size * 10, 1024**power)
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10}{UNITS[power]}"
    return f"{_ceil_div(size, 1024**power)}{UNITS[power]}"


def _ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit)


def in_units(size: int, unit: int) -> int:
    """How many units a size takes, the last one begun counted in full."""
    return _ceil_div(size, unit)


def fill(pattern: str, form: str, values: Mapping[str, str], noun: str) -> str:
    """`form` with each directive written out.

    `pattern` finds its width (`10`, `-10`, `04`) and its name. Raises `NotSimulated` for one that
    has no value; `noun` is what it is called then.
    """

    def write_out(directive: re.Match[str]) -> str:
        width = directive[1]
        name = directive[2]
        if name not in values:
            raise NotSimulated(f"{noun} '{directive[0][:40]}' is not supported here")
        n_chars = int(width.lstrip("-0") or 0)
        if width.startswith("-"):
            return values[name].ljust(n_chars)
        return values[name].rjust(n_chars, "0" if width.startswith("0") else " ")

    return re.sub(pattern, write_out, form, flags=re.DOTALL)


def unescape(form: str) -> str:
    return form.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (), gap: str = " ") -> str:
    """Rows as columns, each as wide as its widest cell; those numbered in `left` begin left."""
    forms = []
    for number, column in enumerate(zip(*rows, strict=True)):
        alignment = "<" if number in left else ">"
        forms.append(f"{alignment}{max(map(len, column))}")
    lines = []
    for row in rows:
        cells = gap.join(map(format, row, forms))
        lines.append(f"{cells.rstrip()}\n")
    return "".join(lines)
