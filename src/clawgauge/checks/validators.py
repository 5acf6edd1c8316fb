"""The validators by name, the plain ones among them, and everything a record says of one answer: `judge_answer`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, passed, quoted, tool_calls_of, tool_channel_of
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.json import JSON_KEYS, judge_json_keys
from clawgauge.checks.speech import TEXT_RULE, find_rule_fault
from clawgauge.checks.tool_call import TOOL_CALL_KEYS, check_together, judge_tool_call
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.effects import ArgumentsBudget, encoded_size


def _words(written: str) -> frozenset[str]:
    return frozenset(written.split())


# As written, for `ms` is a unit and `Ms` a title; a name or an example always follows these.
_ALWAYS_GOES_ON = _words(
    "Dr Mr Mrs Ms Mx Prof St Mt Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres Messrs dr mr mrs prof "
    "e.g i.e eg ie vs cf viz approx E.g I.e Vs Cf Approx"
)
# The rest in lower case. After these a capital opens a sentence …
_ENDS_BEFORE_CAPITAL = _words("etc al est min max avg hrs incl excl misc tel")
# … after a time of day, too, unless it is a zone or a day …
_TIMES_OF_DAY = frozenset(("a.m", "p.m"))
_DAY_NAMES = _words("monday tuesday wednesday thursday friday saturday sunday today tomorrow")
# … and after these, which names go on from, only a word that commonly opens one.
_ENDS_BEFORE_OPENING_WORD = _words("inc ltd co corp dept jr sr ph.d u.s u.k u.n e.u u.s.a a.k.a")
_COMMON_OPENINGS = _words(
    "a after all also an and any as at because before both but by each for from have he hence here how however i if in "
    "it its my no not note now of on once only or our please see she so some that the their then there these they this "
    "those thus to use we what when where which while who why with yes you your"
)
_BEFORE_FIGURE = _words("no nos fig figs vol ch p pp eq art jan feb mar apr jun jul aug sep sept oct nov dec ver v")
# A lone capital is an initial, unless it is a label: "Option B. Restart it."
_BEFORE_LABELS = _words(
    "is was be option plan answer choice grade class type section part group step drive appendix vitamin"
)

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
# Goes up whenever a verdict on the same answer may change, so that old verdicts can be told apart and rescored.
VALIDATORS_VERSION = "clawgauge.checks/4"
MAX_PARSED_OUTPUT_BYTES = 65_536
MAX_INVOCATIONS = 1_000
# Validators of what was called: they look at more than one text, and are judged aside or natively.
_STAND_ALONE = ("effect", "tool_call", "world_state", "all_of")
_OF_WHOLE_ANSWER = (*_STAND_ALONE, "noop", "tool_invocation")


Spec = Mapping[str, Any]


def count_sentences(text: str) -> int:
    """Block by block: the words of each stretch of text that no line break splits."""
    count = 0
    block: list[str] = []
    for line in _LINE_BREAK.sub("\n", text).split("\n"):
        line = line.strip()
        first = line.lstrip(_OPENERS)[:1]
        opens_something = _LIST_MARKER.match(line) or _NEW_LINE_OPENER.match(line) or first.isupper() or first.isdigit()
        if not line or opens_something:
            count += _count_in_block(block)
            block = []
        block += _CJK_END.sub(r"\1 ", line).split()
    return count + _count_in_block(block)


def _count_in_block(words: list[str]) -> int:
    count = 0
    sentence: str | None = None  # the last word of the sentence under way
    for word, following in pairwise([*words, ""]):
        if sentence is None and following and _LIST_MARKER.fullmatch(word):
            continue
        if sentence is None and not any(map(str.isalnum, word)):
            continue
        ends = _ends_sentence(word, following, sentence or "")
        count += ends
        sentence = None if ends else word
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
    if known in _BEFORE_FIGURE and following[:1].isdigit():
        return known == "no" and not previous  # "No. 1% is safe" answers; "see no. 5" goes on
    if capital and _INITIALS.fullmatch(stem):
        return following.lower() in _COMMON_OPENINGS or previous.rstrip(":").lower() in _BEFORE_LABELS
    return True


def count_words(text: str) -> int:
    return len(text.split())


def count_bullets(text: str) -> int:
    """Lines that start with `-`; `---` and `- - -` are rules, `-5` is a number, `-` alone is an empty bullet point."""
    return sum(1 for _ in _BULLET.finditer(text.replace("\r\n", "\n").replace("\r", "\n")))


_COUNTED: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "max_words": ("words", count_words),
    "max_sentences": ("sentences", count_sentences),
    "exact_bullets": ("bullets", count_bullets),
}


def judge_text(spec: Spec, text: str) -> Verdict:
    """The validators of the text as a whole."""
    match spec["type"]:
        case "exact":
            code, fits, wanted = "not_exact", text == spec["value"].strip(), quoted(spec["value"].strip())
        case "one_of":
            code, fits = "not_one_of", any(text == value.strip() for value in spec["values"])
            wanted = f"one of {', '.join(quoted(value) for value in spec['values'][:5])}"
        case "regex_fullmatch":
            code, fits, wanted = "no_full_match", shape.matches_fully(spec["pattern"], text), quoted(spec["pattern"])
        case "contains":
            fault = find_rule_fault(spec, text)
            return failed("wrong_content", f"the answer {fault}", None) if fault else passed(None)
        case kind:
            unit, count = _COUNTED[kind]
            got, limit = count(text), spec["value"]
            if got == limit or (got < limit and kind != "exact_bullets"):
                return passed({unit: got})
            if kind == "exact_bullets":
                return failed("wrong_bullet_count", f"got {got}, wanted {limit}", {unit: got})
            return failed(f"too_many_{unit}", f"got {got}, limit {limit}", {unit: got})
    return passed({"value": text}) if fits else failed(code, f"got {quoted(text)}, wanted {wanted}", {"value": text})


def judge_all_of(spec: Spec, answer: Answer) -> Verdict:
    verdicts = [judge(validator, answer) for validator in spec["validators"]]
    return next((verdict for verdict in verdicts if verdict.objective_pass is False), verdicts[0])


def _find_wanted_and_forbidden(spec: Spec) -> tuple[str, str] | None:
    both = sorted({*_lowered(spec["expected_tools"])} & {*_lowered(spec.get("forbidden_tools", []))})
    return ("forbidden_tools", f"names '{both[0]}', which 'expected_tools' asks for") if both else None


def judge_tool_invocation(spec: Spec, answer: Answer) -> Verdict:
    called = tool_calls_of(answer.tool_invocations, native=answer.tools_offered)
    parsed = {"tools": called}
    forbidden = [name for name in _lowered(spec.get("forbidden_tools", [])) if name in called]
    if forbidden:
        return failed("forbidden_tool", ", ".join(forbidden), parsed)
    wanted = _lowered(spec["expected_tools"])
    if spec.get("match", "any") == "any":
        wanted = list(dict.fromkeys([*wanted, *_lowered(answer.expected_tools)]))
        absent = [] if any(name in called for name in wanted) else wanted
    else:
        absent = [name for name in wanted if name not in called]
    if not absent:
        return passed(parsed)
    return failed("tool_not_invoked", f"wanted {', '.join(absent)}, got {', '.join(called) or 'none'}", parsed)


def _lowered(names: list[str]) -> list[str]:
    return [name.strip().lower() for name in names]


def _text_validator(value: Any, place: str) -> None:
    if isinstance(value, Mapping) and value.get("type") in _STAND_ALONE:
        raise shape.fault(place, "type", f"is '{value['type']}', which stands alone; use a validator of text")
    check_spec(value, place)


def _on_world(module: str) -> Any:
    """A module that brings the whole simulated world with it: only those who need it pay for that."""
    return importlib.import_module(f"clawgauge.checks.{module}")


def _world_state(spec: Any, place: str) -> None:
    shape.check(_on_world("world_state").WORLD_STATE, spec, place)
    if "answer" in spec:
        _text_validator(spec["answer"], shape.at(place, "answer"))


_LIMIT = shape.Fields({"value": shape.whole_number(0)}, closed=False)
# Each with what judges the text, or, of those that look at more, the answer.
VALIDATORS: Mapping[str, tuple[shape.Shape, Callable[[Spec, Any], Verdict]]] = {
    "noop": (shape.Fields({}, closed=False), lambda spec, answer: Verdict(None)),
    "exact": (shape.Fields({"value": shape.some_text}, closed=False), judge_text),
    "one_of": (shape.Fields({"values": shape.some_texts}, closed=False), judge_text),
    "regex_fullmatch": (shape.Fields({"pattern": shape.re2_pattern}, closed=False), judge_text),
    **dict.fromkeys(_COUNTED, (_LIMIT, judge_text)),
    "json_keys": (JSON_KEYS, judge_json_keys),
    "tool_invocation": (
        shape.Fields(
            {"expected_tools": shape.some_texts},
            {"match": shape.choice("any", "all"), "forbidden_tools": shape.ListOf(shape.some_text, "texts", least=0)},
            closed=False,
            also=_find_wanted_and_forbidden,
        ),
        judge_tool_invocation,
    ),
    "contains": (TEXT_RULE, judge_text),
    "all_of": (shape.Fields({"validators": shape.ListOf(_text_validator, "validators")}), judge_all_of),
    "tool_call": (shape.Fields({}, TOOL_CALL_KEYS | {"answer": _text_validator}, also=check_together), judge_tool_call),
    "effect": (
        lambda spec, place: shape.check(_on_world("effect").EFFECT, spec, place),
        lambda spec, answer: _on_world("effect").judge_effect(spec, answer),
    ),
    "world_state": (_world_state, lambda spec, answer: _on_world("world_state").judge_world_state(spec, answer)),
}
_SPEC = shape.ByType({name: checked for name, (checked, _) in VALIDATORS.items()}, "a validator")


def check_spec(spec: Any, place: str = "") -> None:
    """Raise `SuiteError`, naming the key and the problem, for a specification that no answer can be judged by."""
    shape.check(_SPEC, spec, place)


def judge(spec: Spec, answer: Answer) -> Verdict:
    """The verdict on `answer`; `spec` must have passed `check_spec`. No empty answer passes a validator of text."""
    kind = spec["type"]
    if kind not in _OF_WHOLE_ANSWER:
        text = well_formed(answer.said)
        return VALIDATORS[kind][1](spec, text) if text else failed("empty_answer", "no text outside thinking", None)
    verdict = VALIDATORS[kind][1](spec, answer)
    if verdict.objective_pass and kind in ("tool_call", "world_state") and "answer" in spec:
        # The calls are right; the text beside them is judged by a validator of its own.
        said = judge(spec["answer"], answer)
        if said.objective_pass is False:
            return failed("answer", said.violation or "", verdict.parsed_output)
    return verdict


class Judgement(Verdict, frozen=True, kw_only=True):
    """The judged fields of a record, under their names in the record."""

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
    native = native_calls[:MAX_INVOCATIONS]
    invocations = [*native, *detect_tools(text, expected, limit=MAX_INVOCATIONS - len(native))]
    answer = Answer(text, invocations, expected, bool(prompt.tools), prompt.tools, prompt.world, prompt.max_turns)
    return _judgement(judge(prompt.validator, answer), prompt, invocations)


def not_judged(prompt: Prompt, native_calls: list[ToolInvocation], violation: str) -> Judgement:
    """The judgement of an answer nobody could judge: false, where the validator gives a verdict at all.

    Its text is not searched for calls; what came as a call is known without judging, and kept.
    """
    verdict = Verdict(None) if prompt.validator["type"] == "noop" else Verdict(False, violation)
    return _judgement(verdict, prompt, native_calls[:MAX_INVOCATIONS])


def _judgement(verdict: Verdict, prompt: Prompt, invocations: list[ToolInvocation]) -> Judgement:
    names = tool_calls_of(invocations, native=bool(prompt.tools))
    # Arguments too large to keep are left out: the same that a simulated world does not act on.
    budget = ArgumentsBudget()
    kept = [call if budget.admit(call.arguments) else replace(call, arguments=None) for call in invocations]
    size = encoded_size(verdict.parsed_output)
    dropped = size is None or size > MAX_PARSED_OUTPUT_BYTES
    return Judgement(
        objective_pass=verdict.objective_pass,
        violation=verdict.violation,
        parsed_output=None if dropped else verdict.parsed_output,
        parsed_output_dropped=dropped,
        tool_calls=names,
        tool_call_count=len(names),
        tool_use_success=any(name.lower() in names for name in prompt.expected_tools),
        tool_invocations=kept,
        tool_channel=tool_channel_of(invocations),
    )
