"""Validators that count: `max_words`, `max_sentences`, `exact_bullets`.

Owns: what a word and a bullet point are. Leaves what a sentence is to `sentences`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clawgauge.checks.answer import Verdict, failed, passed
from clawgauge.checks.sentences import count_sentences
from clawgauge.checks.spec_keys import require_limit

# A dash that opens a line, unless the line is only dashes (a rule) or the dash is the sign of a number.
_BULLET = re.compile(r"^[^\S\n]*+-(?!\.?[0-9])(?!-[- \t]*$)(?![ \t]+-[- \t]*$)", re.MULTILINE)
_LINE_BREAK = re.compile(r"\r\n?")


def count_words(text: str) -> int:
    return len(text.split())


def count_bullets(text: str) -> int:
    """Lines that start with `-`; `---` and `- - -` are rules, `-5` is a number, `-` alone is an empty bullet point."""
    return sum(1 for _ in _BULLET.finditer(_LINE_BREAK.sub("\n", text)))


def check_limit(spec: Mapping[str, Any]) -> None:
    require_limit(spec, "value")


def judge_max_words(spec: Mapping[str, Any], text: str) -> Verdict:
    return _at_most(spec["value"], count_words(text), "words")


def judge_max_sentences(spec: Mapping[str, Any], text: str) -> Verdict:
    return _at_most(spec["value"], count_sentences(text), "sentences")


def judge_exact_bullets(spec: Mapping[str, Any], text: str) -> Verdict:
    got, wanted = count_bullets(text), spec["value"]
    parsed = {"bullets": got}
    if got == wanted:
        return passed(parsed)
    return failed("wrong_bullet_count", f"got {got}, wanted {wanted}", parsed)


def _at_most(limit: int, got: int, unit: str) -> Verdict:
    parsed = {unit: got}
    if got <= limit:
        return passed(parsed)
    return failed(f"too_many_{unit}", f"got {got}, limit {limit}", parsed)
