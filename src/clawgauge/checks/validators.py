"""The validators by name, the plain ones among them, and everything a record says of one answer: `judge_answer`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks.answer import (
    Answer,
    Verdict,
    counted_calls,
    failed,
    passed,
    quoted,
    split_thinking,
    tool_calls_of,
    tool_channel_of,
    tool_use_success,
)
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.json import check_json_keys, judge_json_keys
from clawgauge.checks.spec import (
    matches_fully,
    refuse,
    refuse_misspelt,
    refuse_unknown,
    require_limit,
    require_pattern,
    require_text,
    require_texts,
)
from clawgauge.checks.text import RULE_KEYS, check_text_rule, find_rule_fault
from clawgauge.checks.tool_call import SPEC_KEYS, check_tool_call, judge_tool_call
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.refusals import ArgumentsBudget, encoded_size

_TITLES = "Dr Mr Mrs Ms Mx Prof St Mt Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres Messrs dr mr mrs prof"
_INTRODUCTIONS = "e.g i.e eg ie vs cf viz approx E.g I.e Vs Cf Approx"
_CLIPPED = "etc al est min max avg hrs incl excl misc tel"
_PARTS_OF_NAMES = "inc ltd co corp dept jr sr ph.d u.s u.k u.n e.u u.s.a a.k.a"
_BEFORE_NUMBERS = "no nos fig figs vol ch p pp eq art jan feb mar apr jun jul aug sep sept oct nov dec ver v"
_LABELLED = "is was be option plan answer choice grade class type section part group step drive appendix vitamin"
_OPENING_WORDS = (
    "a after all also an and any as at because before both but by each for from have he hence here how however i if in "
    "it its my no not note now of on once only or our please see she so some that the their then there these they this "
    "those thus to use we what when where which while who why with yes you your"
)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow"

# As written, for `ms` is a unit and `Ms` a title; a name or an example always follows these.
_ALWAYS_GOES_ON = frozenset(f"{_TITLES} {_INTRODUCTIONS}".split())
# The rest in lower case. After these a capital opens a sentence …
_ENDS_BEFORE_CAPITAL = frozenset(_CLIPPED.split())
# … after a time of day, too, unless it is a zone or a day …
_TIMES_OF_DAY = frozenset(("a.m", "p.m"))
_DAY_NAMES = frozenset(_DAYS.split())
# … and after these, which names go on from, only a word that commonly opens one.
_ENDS_BEFORE_OPENING_WORD = frozenset(_PARTS_OF_NAMES.split())
_COMMON_OPENINGS = frozenset(_OPENING_WORDS.split())
_GOES_ON_BEFORE_FIGURE = frozenset(_BEFORE_NUMBERS.split())
# A lone capital is an initial, unless it is a label: "Option B. Restart it."
_BEFORE_LABELS = frozenset(_LABELLED.split())

_LINE_BREAK = re.compile(r"\r\n?|[\u2028\u2029\x85\v\f]")
_CJK_END = re.compile(r"([。！？｡][」』”’）)\"']*)")
_LIST_MARKER = re.compile(r"(?:[-*+•‣▪◦–—·]|[0-9]{1,3}[.)]|[A-Za-z]\)|\([0-9A-Za-z]{1,3}\)|#{1,6}|>)(?=\s|$)")
_NEW_LINE_OPENER = re.compile(r"-(?!-)|[•‣▪◦]|[-=*_]{3,}$|[-+]?[.]?[0-9]")
_MARKS = ".!?…。！？｡"
_EMPHASIS = "*_~`"
_CLOSING_QUOTES = "\"'”’»)]}」』）"
_OPENERS = "\"'“”‘’«»([{¿¡" + _EMPHASIS
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Z]")
# A dash that opens a line, unless the line is only dashes (a rule) or the dash is the sign of a number.
_BULLET = re.compile(r"^[^\S\n]*+-(?!\.?[0-9])(?!-[- \t]*$)(?![ \t]+-[- \t]*$)", re.MULTILINE)
_CARRIAGE_RETURN = re.compile(r"\r\n?")
# Goes up whenever a verdict on the same answer may change, so that old verdicts can be told apart and rescored.
VALIDATORS_VERSION = "clawgauge.checks/4"
MAX_PARSED_OUTPUT_BYTES = 65_536
MAX_INVOCATIONS = 1_000
# Validators of what was called: they look at more than one text, and are judged aside or natively.
_STAND_ALONE = ("effect", "tool_call", "world_state", "all_of")


def count_sentences(text: str) -> int:
    return sum(_count_in_block(block) for block in _blocks(_LINE_BREAK.sub("\n", text)))


def _blocks(text: str) -> list[list[str]]:
    """The words of each stretch of text that no line break splits."""
    blocks: list[list[str]] = []
    current: list[str] = []
    for line in text.split("\n"):
        line = line.strip()
        if current and (not line or _opens_something(line)):
            blocks.append(current)
            current = []
        current.extend(_CJK_END.sub(r"\1 ", line).split())
    if current:
        blocks.append(current)
    return blocks


def _opens_something(line: str) -> bool:
    if _LIST_MARKER.match(line) or _NEW_LINE_OPENER.match(line):
        return True
    first = line.lstrip(_OPENERS)[:1]
    return first.isupper() or first.isdigit()


def _count_in_block(words: list[str]) -> int:
    count = 0
    sentence: str | None = None  # the last word of the sentence under way
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if sentence is None and following and _LIST_MARKER.fullmatch(word):
            continue
        if sentence is None and not any(map(str.isalnum, word)):
            continue
        if _ends_sentence(word, following, sentence or ""):
            count += 1
            sentence = None
        else:
            sentence = word
    return count + (sentence is not None)


def _ends_sentence(word: str, following: str, previous: str) -> bool:
    unquoted = word.rstrip(_CLOSING_QUOTES + _EMPHASIS)
    stem = unquoted.rstrip(_MARKS)
    marks = unquoted[len(stem) :]
    if not marks or not following:
        return bool(marks)
    following = following.strip(_OPENERS + _CLOSING_QUOTES + _MARKS + ",;:")
    if marks == "…" or marks.startswith(".."):
        return following[:1].isupper()
    if following[:1].islower() and any(char in _CLOSING_QUOTES for char in word[len(unquoted) :]):
        return False  # `"Really?" he asked`
    return marks != "." or _stop_ends_sentence(stem.lstrip(_OPENERS), following, previous)


def _stop_ends_sentence(stem: str, following: str, previous: str) -> bool:
    """Whether the single full stop after `stem` ends a sentence, given the words around it."""
    known = stem.lower()
    capital = following[:1].isupper()
    if stem in _ALWAYS_GOES_ON:
        return False
    if known in _ENDS_BEFORE_CAPITAL:
        return capital
    if known in _TIMES_OF_DAY:
        is_zone = len(following) > 1 and following.isupper()
        return capital and not is_zone and following.lower() not in _DAY_NAMES
    if known in _ENDS_BEFORE_OPENING_WORD:
        return capital and following.lower() in _COMMON_OPENINGS
    if known in _GOES_ON_BEFORE_FIGURE and following[:1].isdigit():
        return known == "no" and not previous  # "No. 1% is safe" answers; "see no. 5" goes on
    if capital and _INITIALS.fullmatch(stem):
        return following.lower() in _COMMON_OPENINGS or previous.rstrip(":").lower() in _BEFORE_LABELS
    return True


def count_words(text: str) -> int:
    return len(text.split())


def count_bullets(text: str) -> int:
    """Lines that start with `-`; `---` and `- - -` are rules, `-5` is a number, `-` alone is an empty bullet point."""
    return sum(1 for _ in _BULLET.finditer(_CARRIAGE_RETURN.sub("\n", text)))


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


def check_contains(spec: Mapping[str, Any]) -> None:
    refuse_unknown(spec, ("type", *RULE_KEYS))
    check_text_rule(spec)


def judge_contains(spec: Mapping[str, Any], text: str) -> Verdict:
    fault = find_rule_fault(spec, text)
    return failed("wrong_content", f"the answer {fault}", None) if fault else passed(None)


def check_all_of(spec: Mapping[str, Any]) -> None:
    refuse_unknown(spec, ("type", "validators"))
    validators, wanted = spec.get("validators"), "a list of validators, all of which must pass"
    if not isinstance(validators, list) or not validators:
        raise refuse("validators", wanted, validators)
    for index, validator in enumerate(validators):
        if not isinstance(validator, Mapping):
            raise refuse(f"validators[{index}]", "a validator", validator)
        if validator.get("type") in _STAND_ALONE:
            raise SuiteError(f"key 'validators[{index}].type' is '{validator['type']}', which stands alone")
        try:
            check_spec(validator)
        except SuiteError as error:
            raise SuiteError(f"key 'validators[{index}]': {error}") from None


def judge_all_of(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    verdicts = [judge(validator, answer) for validator in spec["validators"]]
    return next((verdict for verdict in verdicts if verdict.objective_pass is False), verdicts[0])


def check_tool_invocation(spec: Mapping[str, Any]) -> None:
    expected = require_texts(spec, "expected_tools")
    if spec.get("match", "any") not in ("any", "all"):
        raise SuiteError(f"key 'match' is {spec['match']!r}; it must be 'any' or 'all'")
    if "forbidden_tools" in spec:
        forbidden = require_texts(spec, "forbidden_tools", may_be_empty=True)
        both = sorted(set(_lowered(expected)) & set(_lowered(forbidden)))
        if both:
            raise SuiteError(f"key 'forbidden_tools' names '{both[0]}', which 'expected_tools' asks for")


def judge_tool_invocation(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    called = tool_calls_of(counted_calls(answer.tool_invocations, tools_offered=answer.tools_offered))
    parsed = {"tools": called}
    forbidden = [name for name in _lowered(spec.get("forbidden_tools", [])) if name in called]
    if forbidden:
        return failed("forbidden_tool", ", ".join(forbidden), parsed)
    wanted = _lowered(spec["expected_tools"])
    if spec.get("match", "any") == "all":
        absent = [name for name in wanted if name not in called]
        fulfilled = not absent
    else:
        absent = list(dict.fromkeys([*wanted, *_lowered(answer.expected_tools)]))
        fulfilled = any(name in called for name in absent)
    if fulfilled:
        return passed(parsed)
    return failed("tool_not_invoked", f"wanted {', '.join(absent)}, got {', '.join(called) or 'none'}", parsed)


def _lowered(names: list[str]) -> list[str]:
    return [name.strip().lower() for name in names]


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


def _on_world(module: str) -> Any:
    # It brings the whole simulated world with it: only those who need one pay for that.
    return importlib.import_module(f"clawgauge.checks.{module}")


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
    "contains": _validator(_on_text(judge_contains), check_contains, *RULE_KEYS),
    "all_of": _validator(judge_all_of, check_all_of, "validators"),
    "tool_call": _validator(
        lambda spec, answer: judge_tool_call(spec, answer, judge),
        lambda spec: check_tool_call(spec, check_spec),
        *SPEC_KEYS,
    ),
    "effect": _validator(
        lambda spec, answer: _on_world("effect").judge_effect(spec, answer),
        lambda spec: _on_world("effect").check_effect_spec(spec),
    ),
    "world_state": _validator(
        lambda spec, answer: _on_world("world_state").judge_world_state(spec, answer, judge),
        lambda spec: _on_world("world_state").check_world_state(spec, check_spec),
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


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judged fields of a record, under their names in the record."""

    objective_pass: bool | None
    violation: str | None
    parsed_output: dict[str, Any] | None
    parsed_output_dropped: bool
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool
    tool_invocations: list[ToolInvocation]
    tool_channel: str


def judge_answer(prompt: Prompt, text: str, native_calls: list[ToolInvocation]) -> Judgement:
    """Judge an answer that came back, from its whole text and the calls made natively. Never raises on any answer.

    `tool_invocations` holds the native calls first, then those in the text, also where they do not count. What a
    hostile answer could swell is bounded: the first 1,000 invocations are looked at; arguments of more than 64 KB
    encoded, or past 256 KB in all, become null, and so does a `parsed_output` of more than 64 KB, with its flag set.
    """
    expected = [name.lower() for name in prompt.expected_tools]
    offered = bool(prompt.tools)
    native = native_calls[:MAX_INVOCATIONS]
    invocations = [*native, *detect_tools(text, expected, limit=MAX_INVOCATIONS - len(native))]
    answer = Answer(text, invocations, expected, offered, prompt.tools, prompt.world, prompt.max_turns)
    return _judgement(judge(prompt.validator, answer), expected, invocations, tools_offered=offered)


def not_judged(prompt: Prompt, native_calls: list[ToolInvocation], violation: str) -> Judgement:
    """The judgement of an answer nobody could judge: false, where the validator gives a verdict at all.

    Its text is not searched for calls; what came as a call is known without judging, and kept.
    """
    expected = [name.lower() for name in prompt.expected_tools]
    verdict = Verdict(None) if prompt.validator["type"] == "noop" else Verdict(False, violation)
    return _judgement(verdict, expected, native_calls[:MAX_INVOCATIONS], tools_offered=bool(prompt.tools))


def _judgement(
    verdict: Verdict, expected: list[str], invocations: list[ToolInvocation], *, tools_offered: bool
) -> Judgement:
    names = tool_calls_of(counted_calls(invocations, tools_offered=tools_offered))
    size = encoded_size(verdict.parsed_output)
    dropped = size is None or size > MAX_PARSED_OUTPUT_BYTES
    return Judgement(
        objective_pass=verdict.objective_pass,
        violation=verdict.violation,
        parsed_output=None if dropped else verdict.parsed_output,
        parsed_output_dropped=dropped,
        tool_calls=names,
        tool_call_count=len(names),
        tool_use_success=tool_use_success(expected, invocations, tools_offered=tools_offered),
        tool_invocations=_bounded(invocations),
        tool_channel=tool_channel_of(invocations),
    )


def _bounded(invocations: list[ToolInvocation]) -> list[ToolInvocation]:
    """The invocations with arguments too large to keep left out: the same that a simulated world does not act on."""
    budget = ArgumentsBudget()
    return [
        call if budget.admit(call.arguments) else msgspec.structs.replace(call, arguments=None) for call in invocations
    ]
