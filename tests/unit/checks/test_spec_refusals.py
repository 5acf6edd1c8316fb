"""Specifications that are refused before the first request, by themselves or because of the tools on offer, and how."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import check_offer, check_spec
from clawgauge.errors import SuiteError
from support.rows import every_row

Spec = dict[str, Any]

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}}},
    },
    "required": ["city"],
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "ping"}},
    {
        "type": "function",
        "function": {"name": "log", "parameters": {"additionalProperties": {"type": "string"}}},
    },
]


def refusal_of(spec: Spec) -> str:
    with pytest.raises(SuiteError) as refused:
        check_spec(spec)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def calls(**fields: Any) -> Spec:
    return {"type": "tool_call", **fields}


def expecting(**call: Any) -> Spec:
    return calls(expected_calls=[{"name": "get_weather", **call}])


@every_row(
    "spec",
    [
        {"type": "noop", "why": "read by a person"},
        {"type": "exact", "value": "OK"},
        {"type": "one_of", "values": ["a"]},
        {"type": "regex_fullmatch", "pattern": r"(?i)\d+ \p{Greek}"},
        {"type": "max_words", "value": 0},
        {"type": "json_keys", "required_keys": []},
        {"type": "json_keys", "required_keys": ["a"], "key_rules": {}, "strict": True},
        {
            "type": "json_keys",
            "required_keys": ["a"],
            "key_rules": {"a": "null", "b": {"type": "integer", "min": -1}},
        },
        {"type": "tool_invocation", "expected_tools": ["a"], "match": "all", "forbidden_tools": []},
        calls(no_call=True),
        calls(ask=True),
        calls(expected_calls=[{"name": "ping"}]),
        calls(expected_calls=[{"name": "log", "arguments": {"line": ["x"]}}]),
        calls(expected_calls=[{"name": "GET_weather", "arguments": {"city": "*"}}], order="strict"),
        expecting(
            arguments={"city": ["Paris", "re:Rom[ae]"], "days": [3]}, optional={"unit": ["celsius"]}
        ),
        expecting(optional={"city": ["Paris"], "place": [{"lat": 1.5}]}),
    ],
)
def test_good_specifications_are_taken(spec: Spec) -> None:
    """All that is documented is accepted, with its tools on offer, and an author's own notes are left alone."""
    check_spec(spec)
    check_offer(spec, TOOLS)


@every_row(
    ("spec", "said"),
    [
        ({}, "key 'type' is missing; it must be one of noop, exact"),
        ({"type": None}, "key 'type' must be one of noop"),
        ({"type": "exakt"}, "not 'exakt'"),
        ({"type": "exact"}, "key 'value' is missing; it must be text that is not blank"),
        ({"type": "exact", "value": 5}, "key 'value' must be text that is not blank, not 5"),
        ({"type": "exact", "value": " "}, "key 'value' must be text that is not blank"),
        (
            {"type": "exact", "value": "x", "valeu": "x"},
            "key 'valeu' is not known here; did you mean 'value'",
        ),
        ({"type": "one_of", "values": []}, "key 'values' is empty"),
        (
            {"type": "one_of", "values": "ab"},
            "key 'values' must be a list of one or more texts, not 'ab'",
        ),
        (
            {"type": "one_of", "values": ["a", True]},
            "key 'values[1]' must be text that is not blank, not true",
        ),
        (
            {"type": "regex_fullmatch", "pattern": 5},
            "key 'pattern' must be an RE2 pattern, as text",
        ),
        ({"type": "max_words"}, "key 'value' is missing"),
        (
            {"type": "max_words", "value": -1},
            "key 'value' must be a whole number, 0 or more, not -1",
        ),
        (
            {"type": "max_words", "value": True},
            "key 'value' must be a whole number, 0 or more, not true",
        ),
        ({"type": "max_sentences", "value": 2.0}, "not 2.0"),
        ({"type": "exact_bullets", "value": "3"}, "not '3'"),
        ({"type": "json_keys"}, "key 'required_keys' is missing"),
        ({"type": "json_keys", "required_keys": [1]}, "key 'required_keys[0]'"),
        (
            {"type": "json_keys", "required_keys": [], "key_rules": ["a"]},
            "key 'key_rules' must be an object of rules",
        ),
        (
            {"type": "json_keys", "required_keys": [], "strict": 1},
            "key 'strict' must be true or false, not 1",
        ),
        ({"type": "tool_invocation", "expected_tools": []}, "key 'expected_tools' is empty"),
        (
            {"type": "tool_invocation", "expected_tools": ["a"], "match": "some"},
            "key 'match' must be 'any' or 'all'",
        ),
        (
            {"type": "tool_invocation", "expected_tools": ["a"], "forbidden_tools": ["A"]},
            "'forbidden_tools' names 'a'",
        ),
        ({"type": "contains"}, "key 'contains_all' is missing or empty"),
        (
            {"type": "contains", "contains_all": ["re:["]},
            "key 'contains_all[0]' cannot be read by RE2",
        ),
        ({"type": "contains", "contains_all": "x"}, "key 'contains_all' must be a list of texts"),
        ({"type": "contains", "contains": ["x"]}, "key 'contains'"),
        ({"type": "all_of", "validators": []}, "key 'validators' is empty"),
        (
            {"type": "all_of", "validators": [{"type": "exact"}]},
            "key 'validators[0].value' is missing",
        ),
        ({"type": "all_of", "validators": [{"type": "effect"}]}, "which stands alone"),
        (calls(), "key 'expected_calls' is missing"),
        (calls(note="mine", no_call=True), "key 'note' is not known here"),
        (calls(no_call=True, ask=True), "keys 'no_call' and 'ask' stand together"),
        (
            calls(no_call=True, expected_calls=[{"name": "f"}]),
            "keys 'expected_calls' and 'no_call' stand together",
        ),
        (calls(no_call=False), "key 'no_call' must be true, or left out, not false"),
        (calls(ask=True, order="any"), "key 'order' does not go with 'ask'"),
        (calls(ask=True, loose=True), "key 'loose' does not go with 'ask'"),
        (calls(no_call=True, answer={"type": "nop"}), "key 'answer.type' must be one of noop"),
        (calls(no_call=True, answer={"type": "tool_call"}), "use a validator of text"),
        (
            calls(expected_calls=[{"name": "f"}], answer={"type": "noop"}),
            "key 'answer' does not go with",
        ),
        (
            calls(expected_calls=[{"name": "f"}], compare="near"),
            "key 'compare' must be 'exact' or 'loose', not 'near'",
        ),
        (
            calls(expected_calls=[{"name": "f"}], order="sorted"),
            "key 'order' must be 'any' or 'strict', not 'sorted'",
        ),
        (calls(expected_calls=[{"name": "f"}] * 101), "key 'expected_calls' holds 101 calls"),
        (calls(expected_calls=["f"]), "key 'expected_calls[0]' must be an object with name"),
        (calls(expected_calls=[{}]), "key 'expected_calls[0].name' is missing"),
        (expecting(args={}), "key 'expected_calls[0].args' is not known here"),
        (expecting(arguments=["city"]), "key 'expected_calls[0].arguments' must be an object"),
        (
            expecting(arguments={"city": "Paris"}),
            "key 'expected_calls[0].arguments.city' must be a list",
        ),
        (expecting(arguments={"city": []}), "key 'expected_calls[0].arguments.city' is empty"),
        (
            expecting(arguments={"a": {"value": [1]}}),
            "key 'expected_calls[0].arguments.a.value' is not known here",
        ),
        (
            expecting(arguments={"city": ["re:("]}),
            "key 'expected_calls[0].arguments.city[0]' cannot be read",
        ),
        (
            expecting(optional={"city": [{"a": ["re:(?=x)"]}]}),
            "key 'expected_calls[0].optional.city[0].a[0]' cannot",
        ),
        (
            expecting(arguments={"city": "*"}, optional={"city": "*"}),
            "key 'expected_calls[0].optional.city' is in",
        ),
    ],
)
def test_bad_specifications_are_refused(spec: Spec, said: str) -> None:
    """In one line, with the key, down to the value, and what is wrong with it."""
    assert said in refusal_of(spec)


@every_row(
    ("rule", "problem"),
    [
        (5, "a rule such as"),
        ("nmber", "'nmber'"),
        ({}, "type' is missing"),
        ({"type": 3}, "not 3"),
        ({"type": "number", "minimum": 3}, "minimum'"),
        ({"type": "string", "min": 3}, "min' is not known here; the keys here are pattern"),
        ({"type": "number", "min": "3"}, "a finite number, not '3'"),
        ({"type": "number", "max": True}, "true"),
        ({"type": "number", "max": float("nan")}, "nan"),
        ({"type": "number", "min": 5, "max": 3}, "above"),
        ({"type": "one_of"}, "values' is missing"),
        ({"type": "one_of", "values": []}, "empty"),
        ({"type": "one_of", "values": "ab"}, "a list of one or more values"),
        ({"type": "string", "pattern": "(?!x)"}, "(?!"),
    ],
)
def test_bad_key_rules_are_refused(rule: Any, problem: str) -> None:
    """The refusal names the rule's place, and a member that does not go with its type is no slip to let pass."""
    refusal = refusal_of({"type": "json_keys", "required_keys": [], "key_rules": {"load": rule}})
    assert "key 'key_rules.load" in refusal
    assert problem in refusal


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        ("(?=a)", "(?="),
        ("(?<!a)b", "(?<!"),
        (r"(a)\1", r"\1"),
        (r"a\Z", r"\Z"),
        ("a++", "++"),
        ("a{2000}", "{2000}"),
        ("(", "missing )"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_refused_pattern_names_what_is_wrong(
    pattern: str, piece: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The author reads what to change in the refusal, and nothing is printed behind our back."""
    refusal = refusal_of({"type": "regex_fullmatch", "pattern": pattern})
    assert "key 'pattern'" in refusal
    assert piece in refusal
    assert capfd.readouterr() == ("", "")


@every_row(
    ("bad", "key", "problem"),
    [
        (calls(expected_calls=[{"name": "get_wether"}]), "expected_calls[0].name", "not offered"),
        (
            expecting(arguments={"city": "*", "town": "*"}),
            "expected_calls[0].arguments.town",
            "its arguments are city,",
        ),
        (
            expecting(arguments={"city": [3]}),
            "expected_calls[0].arguments.city[0]",
            "asks for string",
        ),
        (
            expecting(arguments={"city": "*", "days": ["3"]}),
            "expected_calls[0].arguments.days[0]",
            "asks for integer",
        ),
        (
            expecting(arguments={"city": "*", "days": [True]}),
            "expected_calls[0].arguments.days[0]",
            "is true",
        ),
        (
            expecting(arguments={"city": "*", "days": ["re:3"]}),
            "expected_calls[0].arguments.days[0]",
            "integer",
        ),
        (
            expecting(arguments={"city": "*"}, optional={"unit": ["kelvin"]}),
            "expected_calls[0].optional.unit[0]",
            "enum",
        ),
        (
            expecting(arguments={"city": "*", "place": [{"lat": "1"}]}),
            "expected_calls[0].arguments.place[0]",
            "object",
        ),
        (
            expecting(arguments={"days": [3]}),
            "expected_calls[0].arguments",
            "says nothing of 'city'",
        ),
        (
            calls(expected_calls=[{"name": "ping", "arguments": {"a": "*"}}]),
            "expected_calls[0].arguments.a",
            "none",
        ),
        (
            calls(expected_calls=[{"name": "log", "arguments": {"a": [1]}}]),
            "expected_calls[0].arguments.a[0]",
            "asks",
        ),
    ],
)
def test_an_expectation_the_offer_makes_impossible_is_refused(
    bad: Spec, key: str, problem: str
) -> None:
    """A tool that is not offered, an argument it does not have, a value its schema refuses: no model could pass."""
    check_spec(bad)
    with pytest.raises(SuiteError) as refused:
        check_offer(bad, TOOLS)
    assert f"key '{key}'" in str(refused.value)
    assert problem in str(refused.value)


def test_a_prompt_without_tools_cannot_expect_native_calls() -> None:
    """Even restraint needs something to be restrained from."""
    with pytest.raises(SuiteError, match="offers no tools"):
        check_offer(calls(no_call=True), [])
    check_offer({"type": "noop"}, [])
