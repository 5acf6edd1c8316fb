"""Regular expressions that are compiled when they are first needed, or all at once before timing starts.

Compiling those of this room takes longer than all else that `--dry-run` does; a run compiles them before its first
call, for the loop that judges an answer also stamps bytes.
"""

from __future__ import annotations

import re
from typing import Any, cast

_uncompiled: list[_LazyPattern] = []


class _LazyPattern:
    """Stands for a compiled pattern: once that is made, its attributes are attributes of this."""

    def __init__(self, *source_and_flags: Any) -> None:
        self._given = source_and_flags

    def compile(self) -> re.Pattern[str]:
        compiled: re.Pattern[str] = re.compile(*self._given)
        vars(self).update((name, getattr(compiled, name)) for name in dir(compiled) if not name.startswith("_"))
        return compiled

    def __getattr__(self, name: str) -> Any:
        # Reached only before it is compiled, or for what no pattern has.
        return getattr(self.compile(), name)


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """What `re.compile` would return, not compiled yet."""
    _uncompiled.append(_LazyPattern(source, flags))
    return cast("re.Pattern[str]", _uncompiled[-1])


def compile_patterns() -> None:
    while _uncompiled:
        _uncompiled.pop().compile()
