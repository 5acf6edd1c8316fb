"""Validators by name: the table, the check of what an author writes, and what every one of them
is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, split_thinking

# Each type as suites write it, and the class of its validators. A class is imported when its type
# is first met: the simulated machine, and a library for schemas, are only for who needs them.
VALIDATORS: Mapping[str, str] = {
    "noop": "clawgauge.checks.text:Noop",
    "exact": "clawgauge.checks.text:Exact",
    "one_of": "clawgauge.checks.text:OneOf",
    "regex_fullmatch": "clawgauge.checks.text:RegexFullmatch",
    "max_words": "clawgauge.checks.text:MaxWords",
    "max_sentences": "clawgauge.checks.text:MaxSentences",
    "exact_bullets": "clawgauge.checks.text:ExactBullets",
    "json_keys": "clawgauge.checks.json_keys:JsonKeys",
    "json_schema": "clawgauge.checks.json_schema:JsonSchema",
    "tool_invocation": "clawgauge.checks.text:ToolsNamed",
    "contains": "clawgauge.checks.text:Contains",
    "all_of": "clawgauge.checks.text:AllOf",
    "tool_call": "clawgauge.checks.tool_call:ToolCalls",
    "agreement": "clawgauge.checks.agreement:Agreement",
    "effect": "clawgauge.checks.effect:CommandEffect",
    "world_state": "clawgauge.checks.world_state:WorldState",
}


class Validator(shape.Spec, tag_field="type", frozen=True):
    """What says when an answer is right. A subclass is tagged with its type in suite files."""

    # Whether an object of this type may hold other keys, as an author's notes.
    takes_notes: ClassVar[bool] = False
    # Whether it may be one of several, in `all_of` or beside the calls of `tool_call`.
    is_part: ClassVar[bool] = True

    def judge(self, answer: Answer) -> Verdict:
        """The verdict on an answer. Never raises, whatever the answer is."""
        raise NotImplementedError

    def check_offer(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """Raise `SuiteError`, naming the key, where this expects what `tools` do not allow."""


class TextValidator(Validator, frozen=True):
    """A validator that looks at the text alone, without its thinking. Nothing empty passes it."""

    def judge(self, answer: Answer) -> Verdict:
        text = well_formed(split_thinking(answer.text).strip())
        if not text:
            return failed("empty_answer", "no text outside thinking", None)
        return self.judge_text(text)

    def judge_text(self, text: str) -> Verdict:
        """The verdict on a text with no thinking in it and no white space around it, but not
        empty."""
        raise NotImplementedError


@cache
def validator_type(name: str) -> type[Validator]:
    """The class for a type in the table."""
    module, _, class_name = VALIDATORS[name].partition(":")
    loaded: type[Validator] = getattr(import_module(module), class_name)
    return loaded


def _shape_of(name: str) -> shape.Shape:
    loaded = validator_type(name)
    return shape.fields_of(loaded, closed=not loaded.takes_notes)


_ANY_VALIDATOR = shape.ByType(VALIDATORS, _shape_of, "a validator")


def check_spec(spec: Any, place: str = "") -> None:
    """Raise `SuiteError`, naming the key and the problem, where no answer can be judged by
    `spec`."""
    shape.check(_ANY_VALIDATOR, spec, place)


def check_offer(spec: Mapping[str, Any], tools: Iterable[Mapping[str, Any]]) -> None:
    """Raise `SuiteError` where `spec`, which is sound by itself, expects what `tools` do not
    allow."""
    read_validator(spec).check_offer(tools)


def part_validator(value: Any, place: str) -> None:
    """A shape: a validator that may be one of several, or judge the text beside calls."""
    if isinstance(value, Mapping):
        name = value.get("type")
        if isinstance(name, str) and name in VALIDATORS and not validator_type(name).is_part:
            reason = f"is '{name}', which stands alone; use a validator of text"
            raise shape.fault(place, "type", reason)
    check_spec(value, place)


def read_validator(spec: Mapping[str, Any]) -> Validator:
    """The validator that `spec` stands for, which must have passed `check_spec`."""
    return msgspec.convert(spec, validator_type(spec["type"]))


def judge(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    """The verdict on `answer`; `spec` must have passed `check_spec`."""
    return read_validator(spec).judge(answer)
