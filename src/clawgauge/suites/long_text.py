"""Long texts to find something in (`long`). One number, one text, on every machine."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from clawgauge.checks import spec as shape
from clawgauge.suites.document import Place

_MAX_TOKENS = 200_000
_SECONDS_OF_DAY = 86_399
_MAX_STEP_S = 20.0
CHOICE_SIGN = "|"

_lines = shape.ListOf(shape.any_text, "lines")
LONG_KEYS: dict[str, shape.Shape] = {
    "tokens": shape.whole_number(1, _MAX_TOKENS),
    "of": _lines,
    "insert": replace(_lines, least=0),
}
_LONG = shape.Fields(
    {"tokens": LONG_KEYS["tokens"], "of": LONG_KEYS["of"]}, {"insert": LONG_KEYS["insert"]}
)

# What common tokenizers make one token of: a word of no great length, a digit, a blank before one,
# a mark, a new line.
_TOKEN = re.compile(r"[^\W\d_]{1,8}|\d| (?=\d)|[^\w\s]|_|\n")
# `{time}`, `{n}`, `{id}` and `{a|b|c}`.
_SLOT = re.compile(r"\{(time|n|id|[^{}|]*+(?:\|[^{}|]*+)++)\}")
_TYPICAL_BY_SLOT = {"time": "12:34:56", "n": "123", "id": "1a2b3c4d"}


def pick(seed: str, n: int) -> int:
    """One of `n`, by a hash of the seed."""
    digest = hashlib.blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % n


def estimate_tokens(line: str) -> int:
    """About how many tokens a text has with the tokenizers in use.

    What a slot will hold is counted as is typical.
    """
    sample = _SLOT.sub(_typical_in, line)
    return len(_TOKEN.findall(sample)) + 1


def _typical_in(slot: re.Match[str]) -> str:
    return _TYPICAL_BY_SLOT.get(slot[1]) or slot[1].partition(CHOICE_SIGN)[0]


def make_long_text(written: object, defaults: Mapping[str, Any], seed: str, place: Place) -> str:
    """About `tokens` of lines made from the patterns in `of`.

    Those of `insert` are among them in their order, each in a part of its own. In every line
    `{time}` is a moment a little after that of the line before, `{n}` a number, `{id}` eight hex
    digits and `{a|b|c}` one of the three.
    """
    rules: Any = written
    if isinstance(written, dict):
        rules = {**defaults}
        for key, value in written.items():
            if value is not None:
                rules[key] = value
    place.check(_LONG, rules)
    # This method alone is promised to give the same numbers in every version of Python.
    draw = random.Random(pick(seed, 2**63)).random
    inserts = rules.get("insert", [])
    n_tokens = rules["tokens"] - sum(map(estimate_tokens, inserts))
    lines = _draw_lines(rules["of"], n_tokens, draw)
    _spread(inserts, lines, draw)
    return _fill_slots("\n".join(lines), draw)


def _draw_lines(patterns: list[str], n_tokens: int, draw: Callable[[], float]) -> list[str]:
    """Patterns in any order, as many as come to `n_tokens`, and at least one."""
    costs = [estimate_tokens(pattern) for pattern in patterns]
    lines: list[str] = []
    while n_tokens > 0 or not lines:
        index = int(draw() * len(patterns))
        lines.append(patterns[index])
        n_tokens -= costs[index]
    return lines


def _spread(inserts: list[str], lines: list[str], draw: Callable[[], float]) -> None:
    """Put each of `inserts` somewhere into its own equal part of `lines`."""
    part_length = len(lines) / max(len(inserts), 1)
    positions = [int((number + draw()) * part_length) for number in range(len(inserts))]
    # From the end, so that a position is still right when its turn comes.
    for position, line in reversed(list(zip(positions, inserts, strict=True))):
        lines.insert(position, line)


def _fill_slots(text: str, draw: Callable[[], float]) -> str:
    """The text with something in every slot, from its top to its end."""
    # All moments are within a day.
    n_moments = max(text.count("{time}"), 1)
    step_s = min(_MAX_STEP_S, _SECONDS_OF_DAY / n_moments)
    now_s = 0.0

    def fill(slot: re.Match[str]) -> str:
        nonlocal now_s
        match slot[1]:
            case "n":
                return str(1 + int(draw() * 998))
            case "id":
                return f"{int(draw() * 2**32):08x}"
            case "time":
                now_s += draw() * step_s
                minutes, seconds = divmod(int(now_s), 60)
                return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
        choices = slot[1].split(CHOICE_SIGN)
        return choices[int(draw() * len(choices))]

    return _SLOT.sub(fill, text)
