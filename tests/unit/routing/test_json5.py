"""What a person may write into openclaw.json: all of JSON5, read in time that its size alone decides."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.errors import ConfigError
from clawgauge.routing.json5 import MAX_LEVELS, parse_json5
from clawgauge.routing.openclaw import read_openclaw
from support.rows import every_row

WORDS = [
    *"{}[]:,+-\\'ae1 \n",
    "'b'",
    '"c"',
    ".5",
    "0x1",
    "//q\n",
    "/*z*/",
    "true",
    "\\u00",
    "Infinity",
    "5.",
    "\\x41",
    "$_",
]


REFERENCE = partial(json5.loads, allow_duplicate_keys=False)


def told(parse: object, text: str) -> str:
    try:
        return repr(parse(text))  # type: ignore[operator]
    except (ValueError, RecursionError):
        return "refused"


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_any_text_is_read_as_the_reference_reads_it(text: str) -> None:
    assert told(parse_json5, text) == told(REFERENCE, text)


@every_row(
    "text",
    [
        "{a: 1, 'b': \"c\", $d_: [1, 2,], /* e */ f: null,} // g",
        "[.5, 5., +1, -0x1F, +Infinity, -Infinity, 1e5, 5.e3, .5e-2, -0.]",
        r"""['it\'s', "\x41\u0042\v\0\z", 'over \\
        lines']""",
        *(
            "[,]",
            "[1,,]",
            "{,}",
            "{a b: 1}",
            "[1 2]",
            "{1: 2}",
            "[01]",
            "[+]",
            "[+ 1]",
            "'\\1'",
            "['\\x4']",
            "/*",
            "'a\nb'",
            "",
        ),
    ],
)
def test_each_form_is_read_as_the_reference_reads_it(text: str) -> None:
    assert told(parse_json5, text) == told(REFERENCE, text)


def test_halves_of_a_character_written_as_escapes_are_one_character() -> None:
    assert parse_json5("{emoji: '\\ud83d\\ude00'}") == {"emoji": "\U0001f600"}


@every_row(
    "text",
    [
        "// a list\n[" + "1," * 400_000 + "]",
        "//\n" + "'" * 800_000,
        "[\n" + "/**/" * 200_000 + "1]",
        "//\n{" + "a:1," * 200_000 + "}",
        "/*" * 400_000,
        "// \n" + "[" * 100_000,
    ],
)
@pytest.mark.timeout(60)
def test_a_large_file_is_read_or_refused_at_once(text: str) -> None:
    """Lists took a general parser quadratic time: minutes over what one pass does in a second."""
    told(parse_json5, text)


def test_more_levels_than_anyone_writes_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    for opening, closing in (('{"a":', "}"), ("{a:", "}")):
        path.write_text(opening * MAX_LEVELS + "1" + closing * MAX_LEVELS)
        assert read_openclaw(path)
        for levels in (MAX_LEVELS + 1, 900, 100_000):
            path.write_text(opening * levels + "1" + closing * levels)
            with pytest.raises(ConfigError, match=r"nested more than 100 levels deep"):
                read_openclaw(path)


def test_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{ // one\n  a: 1,\n  b: = 2,\n}")
    with pytest.raises(ConfigError, match=r"not JSON5: .*:3 "):
        read_openclaw(path)
    path.write_text(json.dumps({"a": "x" * (1 << 20)}))
    assert read_openclaw(path)
    path.write_text("{\na: '" + "x" * (1 << 20) + "',\n b: 0x1}")
    with pytest.raises(ConfigError, match=r"in line 3"):
        read_openclaw(path)
