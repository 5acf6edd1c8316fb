"""The validators of text and of tool names: which answers pass, and what is said of those that do not."""

from __future__ import annotations

import json
from typing import Any

from clawgauge.checks import Answer, Verdict, check_spec, judge
from clawgauge.records import ToolInvocation
from support.rows import every_row

Spec = dict[str, Any]


def verdict_on(spec: Spec, text: str) -> Verdict:
    check_spec(spec)
    return judge(spec, Answer(text))


def code_of(verdict: Verdict) -> str | None:
    assert (verdict.violation is None) == (verdict.objective_pass is not False)
    return verdict.violation and verdict.violation.partition(": ")[0]


EXACT = {"type": "exact", "value": "HEARTBEAT_OK"}
ONE_OF = {"type": "one_of", "values": ["high", "low"]}
INTEGER = {"type": "regex_fullmatch", "pattern": "[0-9]+"}


@every_row(
    ("spec", "text", "code"),
    [
        (EXACT, "HEARTBEAT_OK", None), (EXACT, "\n HEARTBEAT_OK\t\n", None),
        (EXACT, "<think>hm</think>HEARTBEAT_OK", None), (EXACT, "heartbeat_ok", "not_exact"),
        (EXACT, "HEARTBEAT_OK.", "not_exact"), (EXACT, "It is HEARTBEAT_OK", "not_exact"),
        ({"type": "exact", "value": " padded "}, "padded", None), (ONE_OF, "high", None), (ONE_OF, " low ", None),
        (ONE_OF, "High", "not_one_of"), (ONE_OF, "high low", "not_one_of"), (ONE_OF, "highlow", "not_one_of"),
        (INTEGER, "16", None), (INTEGER, " 16\n", None), (INTEGER, "16G", "no_full_match"),
        (INTEGER, "16\n17", "no_full_match"), ({"type": "regex_fullmatch", "pattern": r"\d+"}, "١٦", "no_full_match"),
        ({"type": "regex_fullmatch", "pattern": "a|ab"}, "ab", None),
        ({"type": "regex_fullmatch", "pattern": "(?i)é+"}, "ÉÉ", None),
        ({"type": "regex_fullmatch", "pattern": "."}, "\ud800", None),
    ],
)  # fmt: skip
def test_whole_answers(spec: Spec, text: str, code: str | None) -> None:
    """The whole answer is compared, case-sensitively, without white space at its ends, and kept as it was judged."""
    verdict = verdict_on(spec, text)
    assert code_of(verdict) == code
    assert verdict.parsed_output is not None
    assert verdict.parsed_output["value"].encode().decode() in text.replace("\ud800", "\ufffd")


@every_row(
    ("spec", "text", "violation", "parsed"),
    [
        ({"type": "max_words", "value": 3}, "one two three", None, {"words": 3}),
        (
            {"type": "max_words", "value": 3},
            "1 2 3 4",
            "too_many_words: got 4, limit 3",
            {"words": 4},
        ),
        ({"type": "max_sentences", "value": 1}, "Use e.g. grep.", None, {"sentences": 1}),
        (
            {"type": "max_sentences", "value": 1},
            "A b. C d.",
            "too_many_sentences: got 2, limit 1",
            {"sentences": 2},
        ),
        ({"type": "exact_bullets", "value": 2}, "- a\n- b", None, {"bullets": 2}),
        (
            {"type": "exact_bullets", "value": 2},
            "- a",
            "wrong_bullet_count: got 1, wanted 2",
            {"bullets": 1},
        ),
        ({"type": "exact_bullets", "value": 0}, "none", None, {"bullets": 0}),
    ],
)
def test_limits(spec: Spec, text: str, violation: str | None, parsed: dict[str, int]) -> None:
    """The count is kept, and a violation says both the count and the limit."""
    verdict = verdict_on(spec, text)
    assert verdict == Verdict(violation is None, violation, parsed)


@every_row("text", ["", "  \n", "<think>all of it</think>", "<think>unfinished"])
@every_row(
    "spec",
    [
        EXACT,
        ONE_OF,
        {"type": "regex_fullmatch", "pattern": ".*"},
        {"type": "max_words", "value": 5},
        {"type": "max_sentences", "value": 5},
        {"type": "exact_bullets", "value": 0},
        {"type": "json_keys", "required_keys": []},
    ],
)
def test_an_empty_answer_passes_nothing(spec: Spec, text: str) -> None:
    """Saying nothing keeps no rule."""
    assert code_of(verdict_on(spec, text)) == "empty_answer"


def test_noop_has_no_verdict() -> None:
    """An answer that nothing is asked of is neither right nor wrong."""
    assert verdict_on({"type": "noop"}, "anything") == Verdict(None, None, None)
    assert verdict_on({"type": "noop"}, "") == Verdict(None, None, None)


def json_spec(required: list[str], rules: dict[str, Any] | None = None, **more: Any) -> Spec:
    return {
        "type": "json_keys",
        "required_keys": required,
        **({"key_rules": rules} if rules else {}),
        **more,
    }


@every_row(
    ("text", "code"),
    [
        ('{"a": 1}', None),
        ('\n {"a": 1, "extra": [1]} \n', None),
        ('<think>hm</think>{"a": 1}', None),
        ('```json\n{"a": 1}\n```', None),
        ('```\n{\n "a": 1\n}\n```', None),
        ('~~~json\r\n{"a": 1}\r\n~~~', None),
        ('```json\n{"a": 1}```', None),
        ('Here it is: {"a": 1}', "json_parse_error"),
        ('```json\n{"a": 1}\n```\nHope it helps.', "json_parse_error"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 1}\n```', "json_parse_error"),
        ('{"a": 1} {"a": 1}', "json_parse_error"),
        ("{'a': 1}", "json_parse_error"),
        ("[1]", "json_not_object"),
        ('"a"', "json_not_object"),
        ("null", "json_not_object"),
        ('{"b": 1}', "missing_key"),
        ('{"a": 1, "a": 2}', "json_duplicate_key"),
        ('{"a": NaN}', "json_non_finite_number"),
        ('{"a": 1e999}', "json_non_finite_number"),
        ('{"a": ' + "[" * 100_000, "json_parse_error"),
        ('{"a": ' + "9" * 5_000 + "}", "json_parse_error"),
    ],
)
def test_json_answers(text: str, code: str | None) -> None:
    """The whole answer, or one fenced block around it, must be one strict JSON object with the keys asked for."""
    verdict = verdict_on(json_spec(["a"]), text)
    assert code_of(verdict) == code
    assert (verdict.parsed_output is not None) == (code in (None, "missing_key"))


def test_strict_json_takes_no_fence() -> None:
    """With `strict` the fence is prose like any other."""
    fenced = '```json\n{"a": 1}\n```'
    assert code_of(verdict_on(json_spec(["a"], strict=True), fenced)) == "json_parse_error"
    assert code_of(verdict_on(json_spec(["a"], strict=True), '{"a": 1}')) is None
    assert code_of(verdict_on(json_spec(["a"], strict=False), fenced)) is None


def test_closed_json_takes_no_other_keys() -> None:
    """With `closed` a key that is neither required nor ruled on is one too many."""
    spec = json_spec(["a"], {"b": "number"}, closed=True)
    assert [
        code_of(verdict_on(spec, text))
        for text in ('{"a": 1}', '{"a": 1, "b": 2}', '{"a": 1, "c": 2}')
    ] == [
        None,
        None,
        "unexpected_key",
    ]


@every_row(
    ("rule", "value", "code"),
    [
        ("number", 7.6, None), ("number", 16, None), ({"type": "number"}, -1e300, None),
        ("number", "16", "wrong_type"), ("number", True, "wrong_type"), ("number", None, "wrong_type"),
        ("integer", 16, None), ("integer", 16.5, "wrong_type"), ("integer", 16.0, "wrong_type"),
        ("integer", True, "wrong_type"), ("string", "", None), ("string", 1, "wrong_type"), ("boolean", False, None),
        ("boolean", 1, "wrong_type"), ("boolean", "true", "wrong_type"), ("array", [], None),
        ("array", {}, "wrong_type"), ("object", {}, None), ("object", [], "wrong_type"), ("null", None, None),
        ("null", 0, "wrong_type"), ({"type": "one_of", "values": ["a", "b"]}, "a", None),
        ({"type": "one_of", "values": ["a", "b"]}, "A", "value_not_allowed"),
        ({"type": "one_of", "values": [1]}, 1.0, None),
        ({"type": "one_of", "values": [1]}, True, "value_not_allowed"),
        ({"type": "one_of", "values": [True]}, 1, "value_not_allowed"),
        ({"type": "one_of", "values": [[1, {"k": 2}]]}, [1, {"k": 2}], None),
        ({"type": "one_of", "values": [[1]]}, [True], "value_not_allowed"),
        ({"type": "one_of", "values": [None]}, None, None),
        ({"type": "one_of", "values": [[], "x", 0]}, {}, "value_not_allowed"),
        ({"type": "one_of", "values": [{}]}, [], "value_not_allowed"),
        ({"type": "one_of", "values": [{"k": 1}]}, {"k": 1, "l": 2}, "value_not_allowed"),
        ({"type": "one_of", "values": [{"k": 1, "l": 2}]}, {"k": 1, "m": 2}, "value_not_allowed"),
        ({"type": "one_of", "values": [[1, 2]]}, [1], "value_not_allowed"),
        ({"type": "number", "min": 0, "max": 10}, 0, None), ({"type": "number", "min": 0, "max": 10}, 10.0, None),
        ({"type": "number", "min": 7, "max": 7}, 7, None), ({"type": "number", "min": 0}, -0.1, "below_min"),
        ({"type": "integer", "max": 10}, 11, "above_max"), ({"type": "number", "min": 0}, "5", "wrong_type"),
        ({"type": "string", "pattern": "[a-z]+"}, "abc", None),
        ({"type": "string", "pattern": "[a-z]+"}, "abc1", "pattern_mismatch"),
    ],
)  # fmt: skip
def test_key_rules(rule: Any, value: Any, code: str | None) -> None:
    """Kinds are kept apart: `true` is no number, 1 is not `true`, `1.0` is no integer; patterns match in full."""
    verdict = verdict_on(json_spec(["k"], {"k": rule}), json.dumps({"k": value}))
    assert code_of(verdict) == code
    assert verdict.parsed_output == {"k": value}
    assert verdict.violation is None or verdict.violation.startswith(f"{code}: k: ")


def test_rules_apply_to_keys_that_are_there() -> None:
    """A rule on a key that is not required leaves its absence alone."""
    assert code_of(verdict_on(json_spec([], {"k": "number"}), "{}")) is None
    assert code_of(verdict_on(json_spec([], {"k": "number"}), '{"k": "x"}')) == "wrong_type"


def called(*names: str, channel: str = "mention", valid: bool = True) -> list[ToolInvocation]:
    return [ToolInvocation(name=name, channel=channel, valid=valid) for name in names]


@every_row(
    ("more", "calls", "code"),
    [
        ({}, called("free"), None), ({}, called("du", "Free"), None), ({}, called("df"), None),
        ({}, called("ps"), "tool_not_invoked"), ({}, [], "tool_not_invoked"),
        ({}, called("free", valid=False), "tool_not_invoked"),
        ({}, called("free", channel="native"), "tool_not_invoked"),
        ({"match": "all"}, called("free", "df", "ps"), None), ({"match": "all"}, called("free"), "tool_not_invoked"),
        ({"forbidden_tools": ["RM"]}, called("free", "rm"), "forbidden_tool"),
        ({"forbidden_tools": ["rm"]}, called("free"), None),
    ],
)  # fmt: skip
def test_tool_invocation(more: Spec, calls: list[ToolInvocation], code: str | None) -> None:
    """One expected tool is enough, or all of them, and none that is forbidden; only calls count, never text."""
    spec = {"type": "tool_invocation", "expected_tools": ["FREE", "df"], **more}
    check_spec(spec)
    verdict = judge(spec, Answer("", calls))
    assert code_of(verdict) == code
    assert verdict.parsed_output is not None
    assert set(verdict.parsed_output) == {"tools"}


def test_where_tools_are_offered_only_native_calls_count() -> None:
    """A call written as text is not a call made."""
    spec = {"type": "tool_invocation", "expected_tools": ["free"]}
    assert (
        judge(spec, Answer("", called("free", channel="native"), tools_offered=True)).objective_pass
        is True
    )
    for channel in ("mention", "text:marker"):
        assert (
            judge(
                spec, Answer("", called("free", channel=channel), tools_offered=True)
            ).objective_pass
            is False
        )


def test_what_the_prompt_expects_beyond_the_validator_passes() -> None:
    """Tools a prompt lists of its own are as good as the validator's."""
    spec = {"type": "tool_invocation", "expected_tools": ["free"]}
    assert (
        judge(spec, Answer("", called("vmstat"), expected_tools=["free", "vmstat"])).objective_pass
        is True
    )


@every_row("text", ["x" * 10_000, "a\nb\r\x1b[31m\u202e" * 50, "\ud800" * 300])
@every_row(
    "spec", [EXACT, ONE_OF, INTEGER, json_spec(["k" * 5_000]), {"type": "max_words", "value": 0}]
)
def test_a_violation_is_one_short_printable_line(spec: Spec, text: str) -> None:
    """Whatever the answer, its violation fits a table cell."""
    for answer in (text, json.dumps({text: text})):
        violation = verdict_on(spec, answer).violation
        assert violation is not None
        assert len(violation) <= 240
        assert violation.isprintable()
