"""Strict JSON: what is accepted, and the exact reason for what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clawgauge.checks.json import JsonRefused, decode_strictly
from support.rows import every_row


def code_of(text: str) -> str:
    with pytest.raises(JsonRefused) as refused:
        decode_strictly(text)
    assert str(refused.value) == f"{refused.value.code}: {refused.value.detail}"
    return refused.value.code


@every_row(
    "value", [{"a": [1, -2.5, "x", None, True]}, [], "text", 7, 1e308, {"": {"": {}}}, "\u2028\x7f"]
)
def test_strict_json_is_read(value: Any) -> None:
    """Whatever the standard library writes comes back the same."""
    assert decode_strictly(json.dumps(value)) == value


@every_row(
    "text",
    [
        "",
        "{",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1} x',
        "// c\n1",
        '"a\nb"',
        "\ufeff1",
        "01",
        ".5",
        "tru",
    ],
)
def test_text_that_is_not_json_is_a_parse_error(text: str) -> None:
    """Nothing is repaired and nothing may follow the value."""
    assert code_of(text) == "json_parse_error"


@every_row("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"a":2}}]', '{"a":1,"\\u0061":2}', '{"":1,"":2}'])
def test_a_key_twice_is_refused_at_any_depth(text: str) -> None:
    """Which of two values counts is anybody's guess, so neither does."""
    assert code_of(text) == "json_duplicate_key"


@every_row(
    "text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999", "[-1e999]", "1" + "0" * 400 + ".0"]
)
def test_a_number_that_is_not_finite_is_refused(text: str) -> None:
    """Records stay strict JSON, which has no infinities."""
    assert code_of(text) == "json_non_finite_number"


@every_row(
    ("text", "said"),
    [
        ('{"b":1,"a":2,"c":3,"a":4}', "json_duplicate_key: 'a'"),
        ("-Infinity", "json_non_finite_number: -Infinity is not JSON"),
        ("1" + "0" * 34 + ".0e99", None),
        ("1" + "0" * 34 + "e9999", "json_non_finite_number: 1" + "0" * 34 + "e9999 overflows"),
        ("1" + "0" * 35 + "e9999", "json_non_finite_number: 1" + "0" * 35 + "e999… overflows"),
    ],
)
def test_a_refusal_names_what_is_wrong(text: str, said: str | None) -> None:
    """The key that came twice, the word that is no number; a long figure is cut to forty characters."""
    if said is None:
        assert decode_strictly(text) == float(text)
        return
    with pytest.raises(JsonRefused) as refused:
        decode_strictly(text)
    assert str(refused.value) == said


@every_row("depth", [201, 5_000, 100_000])
@every_row(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_nesting_is_a_parse_error(depth: int, opening: str, closing: str) -> None:
    """Depth is bounded whatever the interpreter's own limit, closed or not."""
    assert code_of(opening * depth + "1" + closing * depth) == "json_parse_error"
    assert code_of(opening * depth) == "json_parse_error"


def test_two_hundred_levels_are_fine() -> None:
    """The bound is exact, and brackets inside strings do not count."""
    assert decode_strictly("[" * 200 + "]" * 200)
    assert decode_strictly('["' + "[" * 1000 + '"]') == ["[" * 1000]
    assert decode_strictly('["\\"' + "{" * 1000 + '"]') == ['"' + "{" * 1000]


@every_row("text", ["9" * 4301, "-" + "9" * 5000, "0." + "1" * 4300, "1" * 4000 + "e" + "0" * 301])
def test_a_number_of_too_many_digits_is_a_parse_error(text: str) -> None:
    """No number may take long to read."""
    assert code_of(text) == "json_parse_error"


def test_the_longest_number_is_read() -> None:
    """4,300 digits are the limit, not over it."""
    assert decode_strictly("9" * 4300) == int("9" * 4300)


def test_lone_surrogates_are_replaced() -> None:
    """A value can always be written again; joined halves stay what they are."""
    assert decode_strictly('{"\\ud800": ["\\udc00x", "\\ud83d\\ude00"]}') == {
        "\ufffd": ["\ufffdx", "\U0001f600"]
    }
