"""The validators by name: what each takes and how each judges.

Owns: the table, the checks every specification goes through, and what every answer goes through before it is judged:
thinking removed, text repaired, white space at the ends cut off, empty text failed. Refuses: raising on any answer
whatever; only `check_spec` raises, and only about the specification.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clawgauge.checks.answer import Answer, Verdict, failed
from clawgauge.checks.json_keys import check_json_keys, judge_json_keys
from clawgauge.checks.spec_keys import refuse, refuse_misspelt
from clawgauge.checks.text_limits import check_limit, judge_exact_bullets, judge_max_sentences, judge_max_words
from clawgauge.checks.thinking import split_thinking
from clawgauge.checks.tool_call import SPEC_KEYS, check_tool_call, judge_tool_call
from clawgauge.checks.tool_invocation import check_tool_invocation, judge_tool_invocation
from clawgauge.checks.well_formed import well_formed
from clawgauge.checks.whole_answer import (
    check_exact,
    check_one_of,
    check_regex_fullmatch,
    judge_exact,
    judge_one_of,
    judge_regex_fullmatch,
)
from clawgauge.errors import SuiteError

# Goes up whenever a verdict on the same answer may change, so that old verdicts can be told apart and rescored.
VALIDATORS_VERSION = "clawgauge.checks/3"

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Validator:
    """One validator: the keys it knows, the check of its specification, the judgement of an answer."""

    keys: frozenset[str]
    check: Callable[[Spec], None]
    judge: Callable[[Spec, Answer], Verdict]


def _on_text(judge: Callable[[Spec, str], Verdict]) -> Callable[[Spec, Answer], Verdict]:
    """A judgement of text alone, which no empty answer passes."""

    def judge_text(spec: Spec, answer: Answer) -> Verdict:
        text = well_formed(split_thinking(answer.text)).strip()
        if not text:
            return failed("empty_answer", "no text outside thinking", None)
        return judge(spec, text)

    return judge_text


def _validator(judge: Callable[[Spec, Answer], Verdict], check: Callable[[Spec], None], *keys: str) -> Validator:
    return Validator(frozenset({"type", *keys}), check, judge)


def _world_state() -> Any:
    # It brings the whole simulated world with it: only those who run tasks pay for that.
    return importlib.import_module("clawgauge.checks.world_state")


VALIDATORS: Mapping[str, Validator] = {
    "noop": _validator(lambda spec, answer: Verdict(None), lambda spec: None),
    "exact": _validator(_on_text(judge_exact), check_exact, "value"),
    "one_of": _validator(_on_text(judge_one_of), check_one_of, "values"),
    "regex_fullmatch": _validator(_on_text(judge_regex_fullmatch), check_regex_fullmatch, "pattern"),
    "max_words": _validator(_on_text(judge_max_words), check_limit, "value"),
    "max_sentences": _validator(_on_text(judge_max_sentences), check_limit, "value"),
    "exact_bullets": _validator(_on_text(judge_exact_bullets), check_limit, "value"),
    "json_keys": _validator(_on_text(judge_json_keys), check_json_keys, "required_keys", "key_rules", "strict"),
    "tool_invocation": _validator(
        judge_tool_invocation, check_tool_invocation, "expected_tools", "match", "forbidden_tools"
    ),
    "tool_call": _validator(judge_tool_call, check_tool_call, *SPEC_KEYS),
    "world_state": _validator(
        lambda spec, answer: _world_state().judge_world_state(spec, answer, judge),
        lambda spec: _world_state().check_world_state(spec, check_spec),
        "expect",
        "forbid",
        "answer",
    ),
}


def check_spec(spec: Spec) -> None:
    """Raise `SuiteError`, naming the key and the problem, for a specification that no answer can be judged by."""
    known = ", ".join(VALIDATORS)
    if "type" not in spec:
        raise SuiteError(f"key 'type' is missing; it must be one of {known}")
    name = spec["type"]
    if not isinstance(name, str):
        raise refuse("type", f"one of {known}", name)
    if name not in VALIDATORS:
        raise SuiteError(f"key 'type' is '{name}', which is no validator; it must be one of {known}")
    validator = VALIDATORS[name]
    refuse_misspelt(spec, validator.keys)
    validator.check(spec)


def judge(spec: Spec, answer: Answer) -> Verdict:
    """The verdict on `answer`; `spec` must have passed `check_spec`."""
    return VALIDATORS[spec["type"]].judge(spec, answer)
