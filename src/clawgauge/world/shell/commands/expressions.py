"""Regular expressions a model writes for grep and sed, matched in linear time.

Owns: the difference between basic and extended syntax. Refuses: back-references inside a pattern, which no linear
engine has.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from clawgauge.world.shell.call import UsageFault

_BASIC = re.compile(r"\\(.)|([+?|(){}])|(\[\^?\]?[^\]]*\])", re.DOTALL)


@lru_cache(maxsize=256)
def compile_expression(pattern: str, *, extended: bool, ignore_case: bool = False) -> Any:
    """The compiled pattern; raises `UsageFault` for what cannot be compiled."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = 8 * 1024**2
    try:
        return re2.compile(pattern if extended else _extended(pattern), options)
    except (re2.error, UnicodeEncodeError):
        raise UsageFault(f"Invalid regular expression: '{pattern[:80]}'") from None


def _extended(basic: str) -> str:
    """A basic expression as an extended one: there `\\|` means what `|` means here, and the reverse."""

    def swap(found: re.Match[str]) -> str:
        if found[3] is not None:
            return found[3]
        if found[2] is not None:
            return f"\\{found[2]}"
        return found[1] if found[1] in "+?|(){}" else f"\\{found[1]}"

    swapped = _BASIC.sub(swap, basic)
    # A star with nothing before it is a star.
    return re.sub(r"^(\^?)\*", r"\1\\*", swapped).replace("\\<", r"\b").replace("\\>", r"\b")
