"""Paths of the simulated file system as text, and the shell patterns (`*`, `?`, `[a-z]`) they are matched with.

Owns: making a path absolute and plain, and taking it apart. Refuses: knowing which paths exist. Patterns become regular
expressions that match in linear time; braces and extended globs are none, as in `sh`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from posixpath import basename as basename
from posixpath import dirname as dirname
from posixpath import join as join
from typing import Any

import re2

_MAX_PATTERN_CHARS = 1_024


def resolve(path: str, workdir: str = "/") -> str:
    """`path` made absolute from `workdir`, without `.`, `..`, double or trailing slashes."""
    joined = path if path.startswith("/") else f"{workdir}/{path}"
    parts: list[str] = []
    for part in joined.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def prefix_of(directory: str) -> str:
    """What the paths inside `directory` begin with."""
    return f"{directory.rstrip('/')}/"


def ancestors(path: str) -> list[str]:
    """The directories above `path`, the root first."""
    parts = path.split("/")[1:-1]
    return ["/", *("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))]


def matches_glob(pattern: str, text: str, *, across: bool = False, ignore_case: bool = False) -> bool:
    """Whether all of `text` matches; `across` lets `*` and `?` match a slash too."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        return pattern == text
    compiled = _compile(pattern, across, ignore_case)
    return pattern == text if compiled is None else compiled.fullmatch(text) is not None


@lru_cache(maxsize=512)
def _compile(pattern: str, across: bool, ignore_case: bool) -> Any:
    """The compiled pattern, or None where it has no reading as one."""
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(_translate(pattern, "." if across else "[^/]"), options)
    except (re2.error, UnicodeEncodeError):
        return None


def _translate(pattern: str, any_character: str) -> str:
    pieces = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            pieces.append(f"{any_character}*")
        elif char == "?":
            pieces.append(any_character)
        elif char == "\\" and position < len(pattern):
            pieces.append(re.escape(pattern[position]))
            position += 1
        elif char == "[" and (end := pattern.find("]", position + 1)) > 0:
            members = pattern[position:end].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"[^{members[1:]}]" if members[0] in "!^" else f"[{members}]")
            position = end + 1
        else:
            pieces.append(re.escape(char))
    return "".join(pieces)
