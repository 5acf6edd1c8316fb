"""Sizes as GNU tools write them with -h, and as people write them to GNU tools.

Owns: rounding up, and units. Refuses: powers of 1000.
"""

from __future__ import annotations

UNITS = "KMGT"


def human(size: int) -> str:
    """`4.0K`, `18G`: one decimal below ten, always rounded up."""
    if size < 1024:
        return str(size)
    tenths_of_unit = 1024
    for unit in UNITS:
        tenths = -(-size * 10 // tenths_of_unit)
        if tenths < 100:
            return f"{tenths // 10}.{tenths % 10}{unit}"
        whole = -(-size // tenths_of_unit)
        if whole < 1024 or unit == UNITS[-1]:
            return f"{whole}{unit}"
        tenths_of_unit *= 1024
    return str(size)
