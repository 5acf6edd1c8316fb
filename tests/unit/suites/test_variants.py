"""One prompt in several forms: what is filled in, what the forms are called, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.rows import every_row

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of {city}",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
ENTRY: dict[str, Any] = {
    "id": "P3",
    "name": "weather",
    "prompt": "Weather in {city} for {days} days? Write {{city}} or {} or { city } as you like.",
    "system": "You know {city}.",
    "tools": [TOOL],
    "validator": {
        "type": "tool_call",
        "expected_calls": [
            {
                "name": "get_weather",
                "arguments": {"city": [r"re:(?i)\p{L}*|{city}, .{1,9}"], "days": ["{days}"]},
            }
        ],
    },
    "variants": [{"city": "Paris", "days": 3}, {"city": "Rome", "days": 5}],
}
ECHO: dict[str, Any] = {
    "id": "P0",
    "name": "n",
    "prompt": "Say {word}",
    "validator": {"type": "one_of", "values": ["{word}", "{word}!"]},
    "variants": [{"word": "red"}],
}


def load(tmp_path: Path, *entries: dict[str, Any]) -> list[Prompt]:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(list(entries)), encoding="utf-8")
    return load_suite(str(path)).prompts


def refusal(tmp_path: Path, *entries: dict[str, Any]) -> str:
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, *entries)
    return str(caught.value).removeprefix(f"{tmp_path / 's.json'}: ")


def test_each_form_is_a_prompt_of_its_own(tmp_path: Path) -> None:
    """The first form keeps the id, the others are numbered, and all say which prompt they are forms of."""
    forms = load(tmp_path, ENTRY, {**ECHO, "variants": [{"word": "red"}]})
    assert [(form.id, form.variant_of) for form in forms] == [
        ("P3", "P3"),
        ("P3#2", "P3"),
        ("P0", "P0"),
    ]
    assert [form.name for form in forms] == ["weather", "weather", "n"]


def test_fields_are_filled_where_they_mean_something(tmp_path: Path) -> None:
    """Prompt, system text and validator take the values; a lone field keeps the value's type; other braces stay."""
    second = load(tmp_path, ENTRY)[1]
    assert (
        second.prompt == "Weather in Rome for 5 days? Write {Rome} or {} or { city } as you like."
    )
    assert second.system == "You know Rome."
    arguments = second.validator["expected_calls"][0]["arguments"]
    assert arguments == {"city": [r"re:(?i)\p{L}*|Rome, .{1,9}"], "days": [5]}
    assert second.tools == [TOOL]
    assert second.expected_tools == ["get_weather"]


def test_a_value_may_be_of_any_kind_where_it_stands_alone(tmp_path: Path) -> None:
    """Lists, flags and numbers go into the expectation as they are."""
    entry = ECHO | {
        "validator": {"type": "one_of", "values": "{words}"},
        "prompt": "{n}",
        "system": "Say {n}",
    }
    (form,) = load(tmp_path, entry | {"variants": [{"words": ["a", "b"], "n": 0.5}]})
    assert (form.validator["values"], form.prompt, form.system) == (["a", "b"], "0.5", "Say 0.5")


def test_braces_mean_nothing_without_variants(tmp_path: Path) -> None:
    """A prompt about templates is sent as it is written."""
    plain = {**ECHO, "variants": None}
    (prompt,) = load(tmp_path, plain)
    assert (prompt.prompt, prompt.variant_of) == ("Say {word}", None)
    assert prompt.validator["values"] == ["{word}", "{word}!"]


def test_a_form_hashes_like_the_prompt_it_becomes(tmp_path: Path) -> None:
    """Variants are a way to write prompts: what is asked is the same as when each is written out."""
    written = [
        {
            **ECHO,
            "id": id_,
            "prompt": f"Say {w}",
            "validator": {"type": "one_of", "values": [w, f"{w}!"]},
            "variants": None,
        }
        for id_, w in (("P0", "red"), ("P0#2", "blue"))
    ]
    load(tmp_path, *written)
    by_hand = load_suite(str(tmp_path / "s.json")).sha256
    load(tmp_path, {**ECHO, "variants": [{"word": "red"}, {"word": "blue"}]})
    assert load_suite(str(tmp_path / "s.json")).sha256 == by_hand


@every_row(
    ("change", "said"),
    [
        ({"id": "P3#1"}, "prompt 1 ('P3#1'), key 'id': 'P3#1' holds a '#'"),
        (
            {"variants": []},
            "prompt 1 ('P0'), key 'variants' is empty; it must be a list of one or more objects, one for each form",
        ),
        ({"variants": {"word": "red"}}, "key 'variants' must be a list of one or more objects"),
        (
            {"variants": ["red"]},
            "key 'variants[0]' is text; give an object with a value for each field",
        ),
        (
            {"variants": [{}]},
            "key 'variants[0]' is empty; give an object with a value for each field",
        ),
        ({"variants": [{"word": "red"}, {}]}, "key 'variants[1]' is empty"),
        ({"variants": [{"word": None}]}, "key 'variants[0].word' has no value"),
        (
            {"variants": [{"word": "a", "two words": 1}]},
            "key 'variants[0].two words' is no name for a field",
        ),
        (
            {"variants": [{"word": "a", "hue": 1}]},
            "key 'variants[0].hue': fills nothing; write {hue} in",
        ),
        (
            {"variants": [{"word": "a"}, {"hue": "b"}]},
            "key 'variants[1]': has no value for the field {word}",
        ),
        (
            {"prompt": "Say {word} to {name}"},
            "key 'variants[0]': has no value for the field {name}; give one",
        ),
        (
            {"variants": [{"word": True}]},
            "key 'variants[0].word': stands in a text and must be text",
        ),
        (
            {"variants": [{"word": " "}]},
            "prompt 1 ('P0'): validator: key 'values[0]' must be text that is not blank",
        ),
        (
            {"prompt": "{word}", "variants": [{"word": [3]}]},
            "key 'variants[0].word': stands in a text and must be text",
        ),
        ({"variants": [{"word": "a"}] * 10_001}, "key 'prompts': 10001 prompts; at most 10000"),
        ({"varaints": []}, "key 'varaints' is not known here; did you mean 'variants'?"),
    ],
)
def test_a_slip_in_variants_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """A value without a field, a field without a value and an id that could be a form's are named with their place."""
    assert said in refusal(tmp_path, {**ECHO, **change})


def test_a_bad_form_is_named_by_its_own_id(tmp_path: Path) -> None:
    """A fault that only one form has names that form, and a form's id may not be taken by another prompt."""
    entry = {**ECHO, "validator": {"type": "regex_fullmatch", "pattern": "{word}"}}
    said = refusal(tmp_path, entry | {"variants": [{"word": "a"}, {"word": "("}]})
    assert said.startswith("prompt 1 ('P0#2'): validator: key 'pattern'")
    taken = {**ECHO, "id": "P0#2", "variants": None}
    said = refusal(tmp_path, {**ECHO, "variants": [{"word": "a"}, {"word": "b"}]}, taken)
    assert said.startswith("prompt 2 ('P0#2'), key 'id': 'P0#2' is already the id of prompt 1")
