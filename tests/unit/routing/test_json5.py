"""What a person may write into openclaw.json: all of JSON5, read in time that its size alone decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import ConfigError
from clawgauge.routing.openclaw_file import MAX_LEVELS, read_openclaw
from support.rows import every_row


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    return read_openclaw(path)


@every_row(
    "text, found",
    [
        (
            "{a: 1, 'b': \"c\", $d_: [1, 2,], /* e */ f: null,} // g",
            {"a": 1, "b": "c", "$d_": [1, 2], "f": None},
        ),
        ('{"a": 1, "a": 2,}', {"a": 2}),  # as OpenClaw reads it
        ("{a: [.5, 5., +1, -0x1F, 1e5, 5.e3]}", {"a": [0.5, 5.0, 1, -31, 1e5, 5e3]}),
        ("\ufeff{a: 'it\\'s \\x41\\u0042, over \\\nlines'}", {"a": "it's AB, over lines"}),
        ("{emoji: '\\ud83d\\ude00'}", {"emoji": "\U0001f600"}),
    ],
)
def test_what_people_write_is_read(tmp_path: Path, text: str, found: object) -> None:
    assert read(tmp_path, text) == found


@every_row(
    "text",
    [
        "",
        "[,]",
        "{a b: 1}",
        "{a: 01}",
        "{a: '",
        "{a: 1} x",
        "{a: 'x\ny'}",
        "/*",
        "[1]",
        "{a: \x00}",
    ],
)
def test_what_is_no_configuration_is_refused_in_words(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not JSON5: [A-Z]|does not hold an object"):
        read(tmp_path, text)


@every_row(
    "text, is_read",
    [
        ("// a list\n{a: [" + "1," * 400_000 + "]}", True),
        ("{a: [\n" + "/**/" * 200_000 + "1]}", True),
        ("//\n{" + "a:1," * 200_000 + "}", True),
        ("//\n" + "'" * 800_000, False),
        ("/*" * 400_000, False),
        ("// \n" + "[" * 100_000, False),
    ],
)
@pytest.mark.timeout(60)
def test_a_large_file_is_read_or_refused_at_once(tmp_path: Path, text: str, is_read: bool) -> None:
    """Lists take some parsers quadratic time: minutes over what one pass does in a second."""
    if is_read:
        assert read(tmp_path, text)
    else:
        with pytest.raises(ConfigError):
            read(tmp_path, text)


def test_more_levels_than_anyone_writes_are_refused_in_words(tmp_path: Path) -> None:
    for opening, closing in (('{"a":', "}"), ("{a:", "}")):
        assert read(tmp_path, opening * MAX_LEVELS + "1" + closing * MAX_LEVELS)
        for levels in (MAX_LEVELS + 1, 900, 100_000):
            with pytest.raises(ConfigError, match=r"nested more than 100 levels deep"):
                read(tmp_path, opening * levels + "1" + closing * levels)
