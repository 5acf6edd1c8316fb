"""Validators that compare the whole answer: `exact`, `one_of`, `regex_fullmatch`.

Owns: comparing, case-sensitively, with white space at either end left out. Refuses: partial credit and finding an
answer inside a longer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawgauge.checks.answer import Verdict, failed, passed, quoted
from clawgauge.checks.patterns import matches_fully
from clawgauge.checks.spec_keys import require_pattern, require_text, require_texts


def check_exact(spec: Mapping[str, Any]) -> None:
    require_text(spec, "value")


def judge_exact(spec: Mapping[str, Any], text: str) -> Verdict:
    wanted = spec["value"].strip()
    if text == wanted:
        return passed({"value": text})
    return failed("not_exact", f"got {quoted(text)}, wanted {quoted(wanted)}", {"value": text})


def check_one_of(spec: Mapping[str, Any]) -> None:
    require_texts(spec, "values")


def judge_one_of(spec: Mapping[str, Any], text: str) -> Verdict:
    if any(text == value.strip() for value in spec["values"]):
        return passed({"value": text})
    offered = ", ".join(quoted(value) for value in spec["values"][:5])
    return failed("not_one_of", f"got {quoted(text)}, wanted one of {offered}", {"value": text})


def check_regex_fullmatch(spec: Mapping[str, Any]) -> None:
    require_pattern(spec, "pattern")


def judge_regex_fullmatch(spec: Mapping[str, Any], text: str) -> Verdict:
    if matches_fully(spec["pattern"], text):
        return passed({"value": text})
    return failed("no_full_match", f"got {quoted(text)}, wanted {quoted(spec['pattern'])}", {"value": text})
