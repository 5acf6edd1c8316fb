"""JSON5, as OpenClaw takes its configuration. What people write of it is made into JSON, in time by its size alone."""

from __future__ import annotations

import json
import re
from typing import Any

import json5

MAX_LEVELS = 100
# The library knows all of JSON5, and takes time by the square of a list's length.
_MAX_SLOW_CHARS = 8192
_TEXT = r""""(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'"""
_COMMENT = re.compile(rf"({_TEXT})|//[^\n\r\u2028\u2029]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LOOSE = re.compile(rf"({_TEXT})|(?<=[^\s\[{{,])(\s*+,)(?=\s*+[\]}}])|([A-Za-z_$][\w$]*+)(?=\s*+:)", re.DOTALL)
_REQUOTED = {'"': '\\"', "\\'": "'"}
_QUOTE = re.compile(r'\\.|"', re.DOTALL)


def parse_json5(text: str) -> Any:
    """What `text` says. Raises `ValueError`, also for rarer forms of JSON5 in a file that is large."""
    try:
        try:
            found = json.loads(text)
        except ValueError:
            bare = _COMMENT.sub(lambda one: one[1] or " " + "\n" * one[0].count("\n"), text)
            try:
                found = json.loads(_LOOSE.sub(_as_json, bare), strict=False, object_pairs_hook=_unique)
            except json.JSONDecodeError as fault:
                if len(text) > _MAX_SLOW_CHARS:
                    raise ValueError(f"{fault.msg}, in line {fault.lineno}") from None
                found = json5.loads(text, allow_duplicate_keys=False)
        level = [found]
        for _ in range(MAX_LEVELS + 1):
            nested = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
            level = [one for values in nested for one in values]
    except RecursionError:
        level = [None]
    if level:
        raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
    return found


def _as_json(piece: re.Match[str]) -> str:
    text, comma, name = piece.groups()
    if name or comma:
        return f'"{name}"' if name else str(comma[:-1])
    if text[0] == '"':
        return str(text)
    return '"' + _QUOTE.sub(lambda one: _REQUOTED.get(one[0], one[0]), text[1:-1]) + '"'


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice in one object")
    return found
