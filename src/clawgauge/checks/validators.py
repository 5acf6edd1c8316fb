"""The validators by name, the plain ones among them, and everything a record says of one answer: `judge_answer`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, channel_of, failed, passed, quoted, split_thinking, tool_calls_of
from clawgauge.checks.json import JSON_KEYS, judge_json_keys
from clawgauge.checks.tool_call import TOOL_CALL_KEYS, check_together, judge_tool_call
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.effects import ArgumentsBudget, encoded_size

# A module with much in it: only who needs it pays for it, by `check_spec` or `load_judges`, before any call.
_later: Callable[[str], Any] = cache(partial(import_module, package="clawgauge.checks"))
_LINE_BREAK = re.compile(r"\r\n?|[\u2028\u2029\x85\v\f]")
_CJK_END = re.compile(r"([。！？｡][」』”’）)\"']*)")
_LIST_MARKER = re.compile(r"(?:[-*+•‣▪◦–—·]|[0-9]{1,3}[.)]|[A-Za-z]\)|\([0-9A-Za-z]{1,3}\)|#{1,6}|>)(?=\s|$)")
_NEW_LINE_OPENER = re.compile(r"-(?!-)|[•‣▪◦]|[-=*_]{3,}$|[-+]?[.]?[0-9]")
_MARKS, _EMPHASIS = ".!?…。！？｡", "*_~`"
_CLOSING_QUOTES = "\"'”’»)]}」』）"
_OPENERS = "\"'“”‘’«»([{¿¡" + _EMPHASIS
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Z]")
# A dash that opens a line, unless the line is only dashes (a rule) or the dash is the sign of a number.
_BULLET = re.compile(r"^[^\S\n]*+-(?!\.?[0-9])(?!-[- \t]*$)(?![ \t]+-[- \t]*$)", re.MULTILINE)
# Goes up whenever a verdict on the same answer may change, so that old verdicts can be told apart and rescored.
VALIDATORS_VERSION = "clawgauge.checks/8"
MAX_PARSED_OUTPUT_BYTES, MAX_INVOCATIONS = 65_536, 1_000
# A fifth of a second for the worst text there is, and as much as a record keeps of any.
LONG_CHARS = 65_536
# Validators of what was called: they look at more than one text, and are judged aside or natively.
_STAND_ALONE = ("agreement", "effect", "tool_call", "world_state", "all_of")
_OF_WHOLE_ANSWER = (*_STAND_ALONE, "noop", "tool_invocation")
Spec = Mapping[str, Any]
Judge = Callable[[Spec, Any], Verdict]  # of the text, or, where it looks at more, of the answer


def count_sentences(text: str) -> int:
    count, block = 0, list[str]()  # the words of a stretch of text that no line break splits
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
    count, sentence = 0, None  # the last word of the sentence under way
    for word, following in pairwise([*words, ""]):
        if sentence is None and ((following and _LIST_MARKER.fullmatch(word)) or not any(map(str.isalnum, word))):
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
    words, opening = _later(".speech").WORDS, following.lower()
    known, capital = stem.lower(), following[:1].isupper()
    if stem in words["goes_on"]:
        return False
    if known in words["ends_before_capital"]:
        return capital
    if known in ("a.m", "p.m"):
        is_zone = len(following) > 1 and following.isupper()
        return capital and not is_zone and opening not in words["days"]
    if known in words["ends_before_opening"]:
        return capital and opening in words["opens"]
    if known in words["before_figure"] and following[:1].isdigit():
        return known == "no" and not previous  # "No. 1% is safe" answers; "see no. 5" goes on
    if capital and _INITIALS.fullmatch(stem):
        return opening in words["opens"] or previous.rstrip(":").lower() in words["before_label"]
    return True


def count_bullets(text: str) -> int:
    """Lines that start with `-`; `---` and `- - -` are rules, `-5` is a number, `-` alone is an empty bullet point."""
    return len(_BULLET.findall(text.replace("\r\n", "\n").replace("\r", "\n")))


_COUNTED: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "max_words": ("words", lambda text: len(text.split())),
    "max_sentences": ("sentences", count_sentences),
    "exact_bullets": ("bullets", count_bullets),
}


def judge_text(spec: Spec, text: str) -> Verdict:
    match spec["type"]:
        case "exact":
            code, fits, wanted = "not_exact", text == spec["value"].strip(), quoted(spec["value"].strip())
        case "one_of":
            code, fits = "not_one_of", any(text == value.strip() for value in spec["values"])
            wanted = f"one of {', '.join(quoted(value) for value in spec['values'][:5])}"
        case "regex_fullmatch":
            code, fits, wanted = "no_full_match", shape.matches_fully(spec["pattern"], text), quoted(spec["pattern"])
        case "contains":
            fault = shape.find_rule_fault(spec, text)
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
    parsed = {"tools": (called := tool_calls_of(answer.tool_invocations, native=answer.tools_offered))}
    if forbidden := [name for name in _lowered(spec.get("forbidden_tools", [])) if name in called]:
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


def load_judges() -> None:
    """Before the first call: the loop that judges an answer also stamps bytes."""
    _later(".speech")
    _later(".detection.shell").load_lexicon()


def _aside(name: str) -> tuple[shape.Shape, Judge]:

    def check(spec: Any, place: str) -> None:
        shape.check(getattr(_later(f".{name}"), name.upper()), spec, place)
        if "answer" in spec:
            _text_validator(spec["answer"], shape.at(place, "answer"))

    def judge(spec: Spec, answer: Answer) -> Verdict:
        verdict: Verdict = getattr(_later(f".{name}"), f"judge_{name}")(spec, answer)
        return verdict

    return check, judge


def _judge_tool_call(spec: Spec, answer: Answer) -> Verdict:
    judge_calls: Judge = judge_tool_call if "expected_calls" in spec else _later(".speech").judge_restraint
    return judge_calls(spec, answer)


_TOOL_CALL = shape.Fields({}, TOOL_CALL_KEYS | {"answer": _text_validator}, also=check_together)
_TOOL_INVOCATION = shape.Fields(
    {"expected_tools": shape.some_texts},
    {"match": shape.choice("any", "all"), "forbidden_tools": shape.ListOf(shape.some_text, "texts", least=0)},
    closed=False,
    also=_find_wanted_and_forbidden,
)
_LIMIT = shape.Fields({"value": shape.whole_number(0)}, closed=False)
VALIDATORS: Mapping[str, tuple[shape.Shape, Judge]] = {
    "noop": (shape.Fields({}, closed=False), lambda spec, answer: Verdict(None)),
    "exact": (shape.Fields({"value": shape.some_text}, closed=False), judge_text),
    "one_of": (shape.Fields({"values": shape.some_texts}, closed=False), judge_text),
    "regex_fullmatch": (shape.Fields({"pattern": shape.re2_pattern}, closed=False), judge_text),
    **dict.fromkeys(_COUNTED, (_LIMIT, judge_text)),
    "json_keys": (JSON_KEYS, judge_json_keys),
    "tool_invocation": (_TOOL_INVOCATION, judge_tool_invocation),
    "contains": (shape.TEXT_RULE, judge_text),
    "all_of": (shape.Fields({"validators": shape.ListOf(_text_validator, "validators")}), judge_all_of),
    "tool_call": (_TOOL_CALL, _judge_tool_call),
    **{name: _aside(name) for name in ("agreement", "effect", "world_state")},
}
_SPEC = shape.ByType({name: checked for name, (checked, _) in VALIDATORS.items()}, "a validator")


def check_spec(spec: Any, place: str = "") -> None:
    """Raise `SuiteError`, naming the key and the problem, for a specification that no answer can be judged by."""
    shape.check(_SPEC, spec, place)


def judge(spec: Spec, answer: Answer) -> Verdict:
    """The verdict on `answer`; `spec` must have passed `check_spec`. No empty answer passes a validator of text."""
    kind = spec["type"]
    if kind not in _OF_WHOLE_ANSWER:
        text = well_formed(split_thinking(answer.text).strip())
        return VALIDATORS[kind][1](spec, text) if text else failed("empty_answer", "no text outside thinking", None)
    verdict = VALIDATORS[kind][1](spec, answer)
    if verdict.objective_pass and kind in ("tool_call", "world_state") and "answer" in spec:
        # The calls are right; the text beside them is judged by a validator of its own.
        said = judge(spec["answer"], answer)
        if said.objective_pass is False:
            return failed("answer", said.violation or "", verdict.parsed_output)
    return verdict


def needs_shell(prompt: Prompt) -> bool:
    return prompt.world is not None or prompt.validator.get("type") == "effect"


def takes_long(prompt: Prompt, text: str, calls: Sequence[ToolInvocation]) -> bool:
    """Whether an answer may take long to judge: one that the simulated shell has to run, or of many characters."""
    is_effect = prompt.validator["type"] == "effect"
    if (calls and (needs_shell(prompt) or "effect" in prompt.validator)) or (text and is_effect):
        return True
    # About the size of the JSON values; given up as soon as they do not fit, however large they are.
    room = LONG_CHARS - len(text)
    left = [call.arguments for call in calls]
    while left and room >= 0:
        part = left.pop()
        room -= len(part) if isinstance(part, str) else 1
        if isinstance(part, dict):
            room -= sum(map(len, part))
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return room < 0


class Judgement(Verdict, frozen=True, kw_only=True):
    parsed_output_dropped: bool
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool
    tool_invocations: list[ToolInvocation]
    tool_channel: str


def judge_answer(prompt: Prompt, text: str, native_calls: list[ToolInvocation]) -> Judgement:
    """Judge an answer from its whole text and the calls made natively, which come first. Never raises on any answer.

    What a hostile answer could swell is bounded: the number of invocations, their arguments, `parsed_output`."""
    expected = [name.lower() for name in prompt.expected_tools]
    native = native_calls[:MAX_INVOCATIONS]
    detected = _later(".detection").detect_tools(text, expected, limit=MAX_INVOCATIONS - len(native))
    invocations: list[ToolInvocation] = [*native, *detected]
    answer = Answer(text, invocations, expected, bool(prompt.tools), prompt.tools, prompt.world, prompt.max_turns)
    return _judgement(judge(prompt.validator, answer), prompt, invocations)


def unjudged(prompt: Prompt, native_calls: list[ToolInvocation]) -> Judgement:
    """No verdict: what is known of an answer without its check, the calls that were made natively."""
    return _judgement(Verdict(None), prompt, native_calls[:MAX_INVOCATIONS])


def not_judged(prompt: Prompt, native_calls: list[ToolInvocation], violation: str) -> Judgement:
    """The judgement of an answer nobody could judge: false, where the validator gives a verdict at all."""
    verdict = Verdict(None) if prompt.validator["type"] == "noop" else Verdict(False, violation)
    return _judgement(verdict, prompt, native_calls[:MAX_INVOCATIONS])


def _judgement(verdict: Verdict, prompt: Prompt, invocations: list[ToolInvocation]) -> Judgement:
    names = tool_calls_of(invocations, native=bool(prompt.tools)) if invocations else []
    # Arguments too large to keep are left out: the same that a simulated world does not act on.
    budget = ArgumentsBudget()
    kept = [call if budget.admit(call.arguments) else replace(call, arguments=None) for call in invocations]
    size = encoded_size(verdict.parsed_output) if verdict.parsed_output is not None else 0
    dropped = size is None or size > MAX_PARSED_OUTPUT_BYTES
    return Judgement(
        *(verdict.objective_pass, verdict.violation, None if dropped else verdict.parsed_output),
        parsed_output_dropped=dropped, tool_calls=names, tool_call_count=len(names), tool_invocations=kept,
        tool_use_success=any(name.lower() in names for name in prompt.expected_tools),
        tool_channel=channel_of(invocations) if invocations else "none",
    )  # fmt: skip
