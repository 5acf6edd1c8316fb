"""Specifications that are refused before the first request, and how."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import check_spec
from clawgauge.errors import SuiteError


def refusal_of(spec: dict[str, Any]) -> str:
    with pytest.raises(SuiteError) as refused:
        check_spec(spec)
    return str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "noop"},
        {"type": "noop", "why": "read by a person"},
        {"type": "exact", "value": "OK"},
        {"type": "one_of", "values": ["a"]},
        {"type": "regex_fullmatch", "pattern": r"(?i)\d+ \p{Greek}"},
        {"type": "max_words", "value": 0},
        {"type": "max_sentences", "value": 3},
        {"type": "exact_bullets", "value": 3},
        {"type": "json_keys", "required_keys": []},
        {"type": "json_keys", "required_keys": ["a"], "key_rules": {}, "strict": True},
        {"type": "json_keys", "required_keys": ["a"], "key_rules": {"a": "null", "b": {"type": "integer", "min": -1}}},
        {"type": "tool_invocation", "expected_tools": ["a"], "match": "all", "forbidden_tools": []},
    ],
)
def test_good_specifications_are_taken(spec: dict[str, Any]) -> None:
    """All that is documented is accepted, and an author's own notes are left alone."""
    check_spec(spec)


@pytest.mark.parametrize(
    ("spec", "key", "problem"),
    [
        ({}, "type", "missing"),
        ({"type": None}, "type", "null"),
        ({"type": "exakt"}, "type", "'exakt'"),
        ({"type": "exact"}, "value", "missing"),
        ({"type": "exact", "value": 5}, "value", "text that is not blank, not 5"),
        ({"type": "exact", "value": " "}, "value", "blank"),
        ({"type": "exact", "valeu": "x"}, "valeu", "did you mean 'value'"),
        ({"type": "one_of"}, "values", "missing"),
        ({"type": "one_of", "values": []}, "values", "empty"),
        ({"type": "one_of", "values": "ab"}, "values", "a list of one or more texts, not 'ab'"),
        ({"type": "one_of", "values": ["a", True]}, "values[1]", "true"),
        ({"type": "regex_fullmatch"}, "pattern", "missing"),
        ({"type": "regex_fullmatch", "pattern": 5}, "pattern", "as text, not 5"),
        ({"type": "max_words"}, "value", "missing"),
        ({"type": "max_words", "value": -1}, "value", "-1"),
        ({"type": "max_words", "value": True}, "value", "true"),
        ({"type": "max_sentences", "value": 2.0}, "value", "a whole number, 0 or more, not 2.0"),
        ({"type": "exact_bullets", "value": "3"}, "value", "not '3'"),
        ({"type": "json_keys"}, "required_keys", "missing"),
        ({"type": "json_keys", "required_keys": "a"}, "required_keys", "a list of texts"),
        ({"type": "json_keys", "required_keys": [1]}, "required_keys[0]", "not 1"),
        ({"type": "json_keys", "required_keys": [], "key_rules": ["a"]}, "key_rules", "a list"),
        ({"type": "json_keys", "required_keys": [], "strict": 1}, "strict", "true or false"),
        ({"type": "json_keys", "required_keys": [], "strcit": True}, "strcit", "did you mean 'strict'"),
        ({"type": "tool_invocation"}, "expected_tools", "missing"),
        ({"type": "tool_invocation", "expected_tools": []}, "expected_tools", "empty"),
        ({"type": "tool_invocation", "expected_tools": "free"}, "expected_tools", "text"),
        ({"type": "tool_invocation", "expected_tools": ["a"], "match": "some"}, "match", "'some'"),
        ({"type": "tool_invocation", "expected_tools": ["a"], "match": ["any"]}, "match", "a list"),
        ({"type": "tool_invocation", "expected_tools": ["a"], "forbidden_tools": {}}, "forbidden_tools", "an object"),
        ({"type": "tool_invocation", "expected_tools": ["a"], "forbidden_tools": ["A"]}, "forbidden_tools", "'a'"),
    ],
)
def test_bad_specifications_are_refused(spec: dict[str, Any], key: str, problem: str) -> None:
    """The refusal names the key and what is wrong with it."""
    refusal = refusal_of(spec)
    assert f"key '{key}'" in refusal
    assert problem in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize(
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
def test_a_refused_pattern_names_what_is_wrong(pattern: str, piece: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The author reads what to change in the refusal, and nothing is printed behind our back."""
    refusal = refusal_of({"type": "regex_fullmatch", "pattern": pattern})
    assert "key 'pattern'" in refusal
    assert piece in refusal
    assert capfd.readouterr() == ("", "")
