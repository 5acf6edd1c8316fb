"""A key that is split, escaped or encoded is found as a reader would find it, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import clawgauge
from clawgauge.journal import lines
from clawgauge.readings import base64_marks, readings
from clawgauge.secrets import MASK, Redactor, SecretMask, mask_shapes
from support.disguises import CODES, ESCAPES, PIECE, UNSEEN, UNSEEN_IN_CODES, is_readable
from support.rows import every_row

KEY = "Canary7-0123456789-vault"


@st.composite
def drawn_keys(draw: st.DrawFn) -> str:
    """Letters and signs with a digit in every piece, so that no piece is an ordinary word."""
    letters = st.sampled_from(string.ascii_letters + string.digits + "-_.")
    parts = draw(
        st.lists(
            st.tuples(letters, letters, letters, st.sampled_from("2345679")),
            min_size=5,
            max_size=12,
        )
    )
    key = "".join(map("".join, parts))
    # A few characters again and again tell nothing, and are no piece.
    assume(all(len(set(key[at : at + PIECE].lower())) > 3 for at in range(len(key) - PIECE + 1)))
    return key


@st.composite
def disguised(draw: st.DrawFn, key: str, unseen: list[str] = UNSEEN) -> str:
    """The key with every character written in its own way, and with unseen marks between any two."""
    ways = draw(st.lists(st.sampled_from(ESCAPES), min_size=1, max_size=4))
    marks = draw(st.lists(st.sampled_from(["", "", "", *unseen]), min_size=1, max_size=4))
    written = []
    for character in key:
        written.append(draw(st.sampled_from(ways))(character))
        written.append(draw(st.sampled_from(marks)))
    return "".join(written)


AROUND = st.sampled_from(
    ["", " ", "the key is ", "x=", '{"a": "', "é", "模型 ", "\n", "(", "100 % ", "# "]
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_key_in_any_mixture_of_escapes_and_unseen_marks_cannot_be_read(
    data: st.DataObject,
) -> None:
    """Neither in what is kept nor on a screen, whatever is cut off it."""
    key = data.draw(drawn_keys())
    text = data.draw(AROUND) + data.draw(disguised(key)) + data.draw(AROUND)
    cut = data.draw(st.integers(0, len(text)))
    mask = SecretMask([key])
    redact = Redactor([key])
    for shown in (text, text[cut:], text[:cut]):
        for masked in (mask.mask(shown), redact(shown)):
            assert not is_readable(masked, key, 1), (shown, masked)
    assert mask.finds(lines.encode_line({"raw_output": text}))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_key_in_base64_or_hex_cannot_be_decoded(data: st.DataObject) -> None:
    """At any alignment, wrapped or not, escaped before or after, encoded twice; cut anywhere."""
    key = data.draw(drawn_keys())
    inner = key if data.draw(st.booleans()) else data.draw(disguised(key, UNSEEN_IN_CODES))
    code = data.draw(st.sampled_from(CODES))
    text = code(inner.encode())
    if inner == key and data.draw(st.booleans()):
        text = data.draw(st.sampled_from(CODES))(text.encode())
    text = (
        data.draw(st.sampled_from(["", "a", "ab ", "abc", "data:text/plain;base64,"]))
        + text
        + data.draw(AROUND)
    )
    cut = data.draw(st.integers(0, len(text)))
    mask = SecretMask([key])
    redact = Redactor([key])
    for shown in (text, text[cut:], text[:cut]):
        for masked in (mask.mask(shown), redact(shown)):
            assert not is_readable(masked, key), (shown, masked)
    assert mask.finds(lines.encode_line({"raw_output": text}))


@every_row(
    ("text", "shown"),
    [
        ("key \x1b[1mCan\u200bary7-0123\x004567\u00ad89-vault\x1b[0m.", "key \x1b[1m***\x1b[0m."),
        ("a title \x1b]0;Canary7-0123\u200b456789-vault\x07 b", "a title \x1b]0;***\x07 b"),
        ("k=%43%61nary7-0123456789-vault&n=1", "k=***&n=1"),
        ("\\u0043anary7-\\u0030123456789-vault!", "***!"),
        ("&#67;anary7&#x2d;0123456789-vaul&#116;;", "***;"),
        ("Ｃａｎａｒｙ７－０１２３４５６７８９-vault, 模型：好", "***, 模型：好"),
        (f"0x{KEY.encode().hex(':')} is hex", "0x*** is hex"),
        ("Basic bWU6Q2FuYXJ5Ny0wMTIzNDU2Nzg5LXZhdWx0OnlvdQ==", "Basic bWU6***OnlvdQ=="),
        ("C A N A R Y 7", "C A N A R Y 7"),
    ],
)
def test_what_is_around_a_disguised_key_stays(text: str, shown: str) -> None:
    assert SecretMask([KEY]).mask(text) == shown


@pytest.mark.parametrize("shape", ["sk-proj-abcdefgh12345678", "ghp_abcdefghijklmnopqrst"])
@pytest.mark.parametrize("mark", UNSEEN)
def test_a_key_of_nobody_is_known_by_its_shape_as_it_is_shown(shape: str, mark: str) -> None:
    split = f"{shape[:6]}{mark}{shape[6:12]}{mark}{shape[12:]}"
    assert mask_shapes(f"bad key {split}.") == "bad key ***."


def ordinary_texts() -> Iterator[str]:
    root = Path(clawgauge.__file__).parent
    for path in sorted(
        [*root.rglob("*.py"), *root.rglob("*.toml"), *root.rglob("*.json"), *root.rglob("*.js")]
    ):
        yield path.read_text("utf-8")


def test_ordinary_texts_are_left_alone() -> None:
    """Code, prompts, tables, pages and numbers hold no piece of a key that was drawn by lot."""
    secrets = [
        "sk-proj-Zq8vT2mK5xW9bN4c",
        "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "s3cr3t/pass+word=99",
        "correct horse battery",
    ]
    mask = SecretMask(secrets).mask
    for text in ordinary_texts():
        assert mask(text) == text


@given(st.text(max_size=200))
def test_a_text_without_the_key_is_left_alone(text: str) -> None:
    assert SecretMask([KEY]).mask(text) == text


@given(st.text(max_size=60), st.data())
def test_every_part_of_a_reading_has_a_place(text: str, data: st.DataObject) -> None:
    for reading in readings(text + data.draw(disguised("ab7"))):
        for start in range(len(reading.text)):
            first, last = reading.locate(start, start + 1)
            assert 0 <= first < last <= len(text) + 1000


@given(st.binary(min_size=8, max_size=8), st.binary(max_size=4), st.binary(max_size=4))
def test_base64_of_a_piece_holds_a_mark_of_it(piece: bytes, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + piece + after)
    assert any(mark in encoded for mark in base64_marks(piece))


@pytest.mark.slow
def test_hostile_texts_are_read_once() -> None:
    """Nothing but beginnings of sequences, escapes or codes: a search that goes back would not end."""
    fillers = [
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1b[0",
        "\u200b",
        "\x9b0",
        "%",
        "%25",
        "%c3",
        "&",
        "&#",
        "&amp;",
        "\\",
        "\\u",
        "\\u00",
        "&#1",
    ]
    mask = SecretMask([KEY]).mask
    for filler in (
        *fillers,
        "QUFB",
        "ab ",
        "0x41, ",
        "41:",
        "QUFB\n",
        "Ａ",
        "a\u0301",
        "\x00",
        "aQ==",
        "%41%",
        "\ud800",
    ):
        text = (filler * 200_000)[:200_000]
        assert mask(f"{text}{KEY}").endswith(MASK)


def test_a_disguised_key_is_withheld_from_a_record() -> None:
    """A line of results.jsonl keeps no key in disguise, in a value or a name, and says that one was withheld."""
    lines.withhold([KEY])
    try:
        split = "\u200b".join(KEY)
        coded = base64.b64encode(f"me:{KEY}".encode()).decode()
        record = {"raw_output": split, "parsed_output": {coded: KEY.encode().hex()}, "warnings": []}
        line = lines.clean(lines.encode_line(record), lines.KEY_WITHHELD)
    finally:
        lines.withhold([])
    kept = json.loads(line)
    assert kept["raw_output"] == MASK and list(kept["parsed_output"].values()) == [MASK]
    assert kept["warnings"] == [lines.KEY_WITHHELD]
    assert not is_readable(line.decode(), KEY)
