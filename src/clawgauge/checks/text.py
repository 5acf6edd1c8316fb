"""Validators of the text of an answer, and of the tools that are named in it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, passed, quoted, tool_calls_of
from clawgauge.checks.json_keys import JsonKeys
from clawgauge.checks.json_schema import JsonSchema
from clawgauge.checks.sentences import count_bullets, count_sentences, count_words
from clawgauge.checks.text_rules import TextRule, matches_fully, re2_pattern
from clawgauge.checks.validators import TextValidator, Validator, part_validator

_MAX_SHOWN_CHOICES = 5


class Noop(Validator, tag="noop", frozen=True):
    """No verdict: the answer is recorded, for a person to read."""

    takes_notes: ClassVar[bool] = True

    def judge(self, answer: Answer) -> Verdict:
        return Verdict(None)


class Exact(TextValidator, tag="exact", frozen=True):
    """The whole text is `value`."""

    takes_notes: ClassVar[bool] = True
    value: Annotated[str, shape.some_text]

    def judge_text(self, text: str) -> Verdict:
        value = self.value.strip()
        if text == value:
            return passed({"value": text})
        return _failed_text("not_exact", text, quoted(value))


class OneOf(TextValidator, tag="one_of", frozen=True):
    """The whole text is one of `values`."""

    takes_notes: ClassVar[bool] = True
    values: Annotated[list[str], shape.some_texts]

    def judge_text(self, text: str) -> Verdict:
        if any(text == value.strip() for value in self.values):
            return passed({"value": text})
        choices = ", ".join(quoted(value) for value in self.values[:_MAX_SHOWN_CHOICES])
        return _failed_text("not_one_of", text, f"one of {choices}")


class RegexFullmatch(TextValidator, tag="regex_fullmatch", frozen=True):
    """The pattern matches the whole text."""

    takes_notes: ClassVar[bool] = True
    pattern: Annotated[str, re2_pattern]

    def judge_text(self, text: str) -> Verdict:
        if matches_fully(self.pattern, text):
            return passed({"value": text})
        return _failed_text("no_full_match", text, quoted(self.pattern))


def _failed_text(code: str, text: str, wanted: str) -> Verdict:
    return failed(code, f"got {quoted(text)}, wanted {wanted}", {"value": text})


class _UpperLimit(TextValidator, frozen=True):
    """At most `value` of something that can be counted in a text."""

    takes_notes: ClassVar[bool] = True
    unit: ClassVar[str]
    value: Annotated[int, shape.whole_number(0)]

    def count(self, text: str) -> int:
        """How many of them the text has."""
        raise NotImplementedError

    def judge_text(self, text: str) -> Verdict:
        count = self.count(text)
        parsed = {self.unit: count}
        if count <= self.value:
            return passed(parsed)
        return failed(f"too_many_{self.unit}", f"got {count}, limit {self.value}", parsed)


class MaxWords(_UpperLimit, tag="max_words", frozen=True):
    unit: ClassVar[str] = "words"

    def count(self, text: str) -> int:
        return count_words(text)


class MaxSentences(_UpperLimit, tag="max_sentences", frozen=True):
    unit: ClassVar[str] = "sentences"

    def count(self, text: str) -> int:
        return count_sentences(text)


class ExactBullets(TextValidator, tag="exact_bullets", frozen=True):
    """As many bullet points as `value` says, no more and no less."""

    takes_notes: ClassVar[bool] = True
    value: Annotated[int, shape.whole_number(0)]

    def judge_text(self, text: str) -> Verdict:
        count = count_bullets(text)
        parsed = {"bullets": count}
        if count == self.value:
            return passed(parsed)
        return failed("wrong_bullet_count", f"got {count}, wanted {self.value}", parsed)


class Contains(TextValidator, TextRule, tag="contains", frozen=True):
    """The text holds all of some texts or patterns, and none of others."""

    def judge_text(self, text: str) -> Verdict:
        fault = self.find_fault(text)
        if fault is not None:
            return failed("wrong_content", f"the answer {fault}", None)
        return passed(None)


class ToolsNamed(Validator, tag="tool_invocation", frozen=True):
    """Tools that the answer calls, in whatever form the prompt leaves open."""

    takes_notes: ClassVar[bool] = True
    expected_tools: Annotated[list[str], shape.some_texts]
    match: Annotated[Literal["any", "all"], shape.choice("any", "all")] = "any"
    forbidden_tools: Annotated[list[str], shape.ListOf(shape.some_text, "texts", least=0)] = []

    def find_contradiction(self) -> shape.KeyFault | None:
        both = sorted({*_lowered(self.expected_tools)} & {*_lowered(self.forbidden_tools)})
        if both:
            return ("forbidden_tools", f"names '{both[0]}', which 'expected_tools' asks for")
        return None

    def judge(self, answer: Answer) -> Verdict:
        called = tool_calls_of(answer.tool_invocations, native=answer.tools_offered)
        parsed = {"tools": called}
        forbidden = [name for name in _lowered(self.forbidden_tools) if name in called]
        if forbidden:
            return failed("forbidden_tool", ", ".join(forbidden), parsed)
        absent = self._find_absent(called, answer.expected_tools)
        if not absent:
            return passed(parsed)
        detail = f"wanted {', '.join(absent)}, got {', '.join(called) or 'none'}"
        return failed("tool_not_invoked", detail, parsed)

    def _find_absent(self, called: list[str], expected_by_prompt: list[str]) -> list[str]:
        """The tools that should have been called and were not."""
        expected = _lowered(self.expected_tools)
        if self.match == "all":
            return [name for name in expected if name not in called]
        # What the prompt expects beyond the validator is as good.
        expected = list(dict.fromkeys([*expected, *_lowered(expected_by_prompt)]))
        if any(name in called for name in expected):
            return []
        return expected


def _lowered(names: list[str]) -> list[str]:
    return [name.strip().lower() for name in names]


# What may be one of several, or judge the text beside calls.
PartValidator: TypeAlias = (
    Noop
    | Exact
    | OneOf
    | RegexFullmatch
    | MaxWords
    | MaxSentences
    | ExactBullets
    | Contains
    | JsonKeys
    | JsonSchema
    | ToolsNamed
)


class AllOf(Validator, tag="all_of", frozen=True):
    """Several validators, all of which must pass."""

    is_part: ClassVar[bool] = False
    validators: Annotated[list[PartValidator], shape.ListOf(part_validator, "validators")]

    def judge(self, answer: Answer) -> Verdict:
        verdicts = [validator.judge(answer) for validator in self.validators]
        for verdict in verdicts:
            if verdict.objective_pass is False:
                return verdict
        return verdicts[0]


def judge_text_beside(
    calls_verdict: Verdict, validator: PartValidator | None, answer: Answer
) -> Verdict:
    """The verdict on an answer whose calls are judged already, once its text is judged too."""
    if validator is None or not calls_verdict.objective_pass:
        return calls_verdict
    verdict = validator.judge(answer)
    if verdict.objective_pass is False:
        return failed("answer", verdict.violation or "", calls_verdict.parsed_output)
    return calls_verdict
