"""`tool_call` specifications that are refused: by themselves, or because of the tools on offer."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import check_offer, check_spec, expected_names
from clawgauge.errors import SuiteError

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
    {"type": "function", "function": {"name": "log", "parameters": {"additionalProperties": {"type": "string"}}}},
]


def spec(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_call", **fields}


def expecting(**call: Any) -> dict[str, Any]:
    return spec(expected_calls=[{"name": "get_weather", **call}])


@pytest.mark.parametrize(
    "good",
    [
        spec(no_call=True),
        spec(ask=True),
        spec(expected_calls=[{"name": "ping"}]),
        spec(expected_calls=[{"name": "log", "arguments": {"line": ["x"]}}]),
        spec(expected_calls=[{"name": "GET_weather", "arguments": {"city": "*"}}], order="strict"),
        expecting(arguments={"city": ["Paris", "re:Rom[ae]"], "days": [3]}, optional={"unit": ["celsius"]}),
        expecting(optional={"city": ["Paris"], "place": [{"lat": 1.5}]}),
    ],
)
def test_good_specifications_are_taken(good: dict[str, Any]) -> None:
    """All that is documented is accepted, with the tools it names on offer."""
    check_spec(good)
    check_offer(good, TOOLS)


@pytest.mark.parametrize(
    ("bad", "key", "problem"),
    [
        (spec(), "expected_calls", "missing"),
        (spec(note="mine", no_call=True), "note", "not known here"),
        (spec(no_call=True, ask=True), "no_call", "and 'ask' stand together"),
        (spec(no_call=True, expected_calls=[{"name": "f"}]), "expected_calls", "and 'no_call' stand together"),
        (spec(no_call=False), "no_call", "must be true, or left out, not false"),
        (spec(ask="yes"), "ask", "must be true, or left out, not 'yes'"),
        (spec(ask=True, order="any"), "order", "does not go with 'ask'"),
        (spec(expected_calls=[]), "expected_calls", "empty"),
        (spec(expected_calls={"name": "f"}), "expected_calls", "an object"),
        (spec(expected_calls=[{"name": "f"}] * 101), "expected_calls", "101 calls"),
        (spec(expected_calls=["f"]), "expected_calls[0]", "an object with name"),
        (spec(expected_calls=[{}]), "expected_calls[0].name", "missing"),
        (spec(expected_calls=[{"name": " "}]), "expected_calls[0].name", "blank"),
        (spec(expected_calls=[{"name": "f"}], order="sorted"), "order", "'sorted'"),
        (expecting(args={}), "expected_calls[0].args", "not known here"),
        (expecting(arguments=["city"]), "expected_calls[0].arguments", "a list"),
        (
            expecting(arguments={"city": "Paris"}),
            "expected_calls[0].arguments.city",
            "a list of one or more allowed values",
        ),
        (expecting(arguments={"city": []}), "expected_calls[0].arguments.city", "empty"),
        (expecting(arguments={"city": ["re:("]}), "expected_calls[0].arguments.city[0]", "missing )"),
        (expecting(optional={"city": [{"a": ["re:(?=x)"]}]}), "expected_calls[0].optional.city[0].a[0]", "(?="),
        (expecting(arguments={"city": "*"}, optional={"city": "*"}), "expected_calls[0].optional.city", "too"),
    ],
)
def test_bad_specifications_are_refused(bad: dict[str, Any], key: str, problem: str) -> None:
    """The refusal names the key, down to the value, and what is wrong with it."""
    with pytest.raises(SuiteError) as refused:
        check_spec(bad)
    assert f"'{key}'" in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("bad", "key", "problem"),
    [
        (spec(expected_calls=[{"name": "get_wether"}]), "expected_calls[0].name", "not offered"),
        (
            expecting(arguments={"city": "*", "town": "*"}),
            "expected_calls[0].arguments.town",
            "its arguments are city,",
        ),
        (expecting(arguments={"city": [3]}), "expected_calls[0].arguments.city[0]", "asks for string"),
        (expecting(arguments={"city": "*", "days": ["3"]}), "expected_calls[0].arguments.days[0]", "asks for integer"),
        (expecting(arguments={"city": "*", "days": [True]}), "expected_calls[0].arguments.days[0]", "is true"),
        (expecting(arguments={"city": "*", "days": ["re:3"]}), "expected_calls[0].arguments.days[0]", "integer"),
        (
            expecting(arguments={"city": "*"}, optional={"unit": ["kelvin"]}),
            "expected_calls[0].optional.unit[0]",
            "enum",
        ),
        (expecting(arguments={"city": "*", "place": [{"lat": "1"}]}), "expected_calls[0].arguments.place[0]", "object"),
        (expecting(arguments={"days": [3]}), "expected_calls[0].arguments", "says nothing of 'city'"),
        (spec(expected_calls=[{"name": "ping", "arguments": {"a": "*"}}]), "expected_calls[0].arguments.a", "none"),
        (spec(expected_calls=[{"name": "log", "arguments": {"a": [1]}}]), "expected_calls[0].arguments.a[0]", "string"),
    ],
)
def test_an_expectation_the_offer_makes_impossible_is_refused(bad: dict[str, Any], key: str, problem: str) -> None:
    """A tool that is not offered, an argument it does not have, a value its schema refuses: no model could pass."""
    check_spec(bad)
    with pytest.raises(SuiteError) as refused:
        check_offer(bad, TOOLS)
    assert f"key '{key}'" in str(refused.value)
    assert problem in str(refused.value)


def test_a_prompt_without_tools_cannot_expect_native_calls() -> None:
    """Even restraint needs something to be restrained from."""
    with pytest.raises(SuiteError, match="offers no tools"):
        check_offer(spec(no_call=True), [])
    check_offer({"type": "noop"}, [])


def test_the_expected_tools_are_those_of_the_expected_calls() -> None:
    """Restraint expects none."""
    assert expected_names(spec(expected_calls=[{"name": "a"}, {"name": " b "}, {"name": "a"}])) == ["a", "b", "a"]
    assert expected_names(spec(ask=True)) == []
