"""JSON5, as OpenClaw takes its configuration: comments, trailing commas, bare keys. Made into JSON in one pass, so that
a file takes time by its size and by nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_LEVELS, _MAX_CHARS = 100, 1 << 20
_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*(?s:.*?)\*/)
    |(?P<text>"(?:[^"\\\n\r]|\\(?s:.))*+"|'(?:[^'\\\n\r]|\\(?s:.))*+')
    |(?P<mark>[][{}:,])
    |(?P<word>[^]\s[{}:,"'/]++)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(\r\n|[^xu1-9])|)")
_MEANINGS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_MEANINGS |= dict.fromkeys(("\n", "\r", "\r\n", "\u2028", "\u2029"), "")
_NAME = re.compile(r"(?!\d)[\w$\u200c\u200d]++")
_DECIMAL = r"(?:0|[1-9][0-9]*+)?(?:(?<=[0-9])\.|\.(?=[0-9]))[0-9]*+(?:[eE][+-]?[0-9]++)?"
_NUMBER = re.compile(rf"[+-]?(?:0[xX](?P<hex>[0-9a-fA-F]++)|(?P<decimal>{_DECIMAL})|[0-9IN].*)")


def parse_json5(text: str) -> Any:
    """What `text` says. Raises `ValueError`, also for what is no JSON and too large to have been written by hand."""
    try:
        try:
            found = json.loads(text)
        except ValueError:
            if len(text) > _MAX_CHARS:
                raise
            found = json.loads("".join(_as_json(text)), object_pairs_hook=_unique)
    except json.JSONDecodeError as fault:
        raise ValueError(f"{fault.msg}, in line {fault.lineno}") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep") from None
    level = [found]
    for _ in range(MAX_LEVELS + 1):
        nested = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for values in nested for one in values]
    if level:
        raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice in one object")
    return found


def _as_json(text: str) -> list[str]:
    """The same in JSON, piece by piece and line by line."""
    parts, place, before, last = list[str](), 0, ("", ""), 0
    while place < len(text):
        if (found := _TOKEN.match(text, place)) is None:
            raise ValueError(f"{text[place]!r} cannot stand there, in line {text.count(chr(10), 0, place) + 1}")
        piece, place = found[0], found.end()
        if found.lastgroup == "space":
            parts.append("\n" * piece.count("\n") or " ")
            continue
        if piece in ("]", "}") and before[1] == "," and before[0] not in ("[", "{", ","):
            parts[last] = ""
        elif piece == ":" and _NAME.fullmatch(before[1]):
            parts[last] = json.dumps(before[1])
        before, last = (before[1], piece), len(parts)
        parts.append(_as_json_text(piece) if found["text"] else _as_json_word(piece) if found["word"] else piece)
    return parts


def _as_json_text(token: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        code = escape[1] or escape[2]
        if not code and escape[3] is None:
            raise ValueError(f"{token[:40]} has an escape that says nothing")
        return chr(int(code, 16)) if code else _MEANINGS.get(escape[3], escape[3])

    return json.dumps(_ESCAPE.sub(meaning, token[1:-1]))


def _as_json_word(token: str) -> str:
    if (number := _NUMBER.fullmatch(token)) is None:
        return token
    if number["decimal"]:
        return repr(float(token))
    return str(int(token, 16)) if number["hex"] else token.removeprefix("+")
