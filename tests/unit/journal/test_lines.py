"""One record, one line, whatever the text."""

from __future__ import annotations

import json
import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.characters import UNSEEN, repair_value
from clawgauge.journal import encode_line
from clawgauge.journal.lines import decode_object, encode_document
from clawgauge.records import Result
from support.rows import every_row

from .samples import make_event, make_result

ANY_TEXT = st.text(st.characters(exclude_categories=()))
HOSTILE_TEXT = st.text(
    st.sampled_from(
        'aé\\"\n\r\t\x00\x0b\x0c\x1b\x7f\x80\x85\x9f\u061c\u200e\u200f\u2028\u2029\u202e\u2066\u2069\ufeff\ufffd'
    )
    | st.sampled_from("\ud83d\ude00\ud800\udfff😀")
)
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def refuse(name: str) -> None:
    raise ValueError(name)


def join_by_hand(text: str) -> str:
    """What `well_formed` promises, one character at a time."""
    joined: list[str] = []
    position = 0
    while position < len(text):
        here, following = text[position], text[position + 1 : position + 2]
        if "\ud800" <= here <= "\udbff" and following and "\udc00" <= following <= "\udfff":
            joined.append(chr(0x10000 + ((ord(here) - 0xD800) << 10) + (ord(following) - 0xDC00)))
            position += 1
        else:
            joined.append("\ufffd" if "\ud800" <= here <= "\udfff" else here)
        position += 1
    return "".join(joined)


@given(ANY_TEXT | HOSTILE_TEXT)
def test_any_text_comes_back(text: str) -> None:
    """A result with any text in it is one line of strict JSON that reads back as the repaired text."""
    line = encode_line(make_result(raw_output=text, parsed_output={"value": text, text: [text]}))
    record = json.loads(line.decode(), parse_constant=refuse)
    assert record["raw_output"] == join_by_hand(text)
    assert record["parsed_output"]["value"] == join_by_hand(text)
    assert msgspec.json.decode(line, type=Result).raw_output == join_by_hand(text)


@given(HOSTILE_TEXT)
def test_no_raw_character_that_hurts(text: str) -> None:
    """No control, bidi or line-separating character stands raw in a line, so every tool sees exactly one line."""
    line = encode_line(make_result(raw_output=text)).decode()
    assert not UNSAFE.search(line)
    assert line.splitlines() == [line.removesuffix("\n")]


@every_row(
    ("character", "escape"),
    [
        ("\x1b", "\\u001b"),
        ("\x7f", "\\u007f"),
        ("\x85", "\\u0085"),
        ("\u2028", "\\u2028"),
        ("\u202e", "\\u202e"),
        ("\u200b", "\\u200b"),
        ("\u200d", "\\u200d"),
        ("\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_escapes_are_visible(character: str, escape: str) -> None:
    """A person looking at the file with `less` sees which character was there."""
    assert f"a{escape}b".encode() in encode_line(make_result(raw_output=f"a{character}b"))


def test_what_a_terminal_would_not_show_is_escaped() -> None:
    """Every character that is not seen is an escape in the file, between letters of any script."""
    unseen = re.findall(
        UNSEEN, "a".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x110000)))
    )
    for letter in "aé漢":
        text = letter + letter.join(unseen) + letter
        shown = encode_line(make_event(detail={"text": text})).decode()
        assert not re.search(UNSEEN, shown) and json.loads(shown)["detail"] == {"text": text}


def test_scripts_and_emoji_keep_their_joiners() -> None:
    """What a joiner is needed for stands as it was written."""
    assert "می‌خواهم 👩‍💻 ❤️".encode() in encode_line(make_result(raw_output="می‌خواهم 👩‍💻 ❤️"))


@given(ANY_TEXT | HOSTILE_TEXT)
def test_repair_joins_halves_and_flags_what_stays_alone(text: str) -> None:
    """Surrogate pairs become one character, lone halves U+FFFD, and only the latter raise the flag."""
    repaired, lost = repair_value(text)
    assert repaired == join_by_hand(text)
    assert lost == (join_by_hand(text).count("\ufffd") > text.count("\ufffd"))


def test_last_defence_sets_the_flag_in_the_record() -> None:
    """A lone surrogate nobody repaired before is recorded as repaired text, not as a lost row."""
    record = json.loads(encode_line(make_result(raw_output="a\ud800b")))
    assert record["raw_output"] == "a\ufffdb"
    assert record["text_repaired"] is True
    joined = json.loads(encode_line(make_result(raw_output="\ud83d\ude00")))
    assert (joined["raw_output"], joined["text_repaired"]) == ("😀", False)


def test_keys_stand_in_the_schema_s_order() -> None:
    """The keys of a line come in the order of the schema document, repaired or not."""
    expected = list(Result.__struct_fields__)
    assert list(json.loads(encode_line(make_result()))) == expected
    assert list(json.loads(encode_line(make_result(raw_output="\ud800")))) == expected


@every_row("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_not_are_null(number: float) -> None:
    """NaN and the infinities never reach the file."""
    line = encode_line(make_event(detail={"lag_ms": number}))
    assert json.loads(line, parse_constant=refuse)["detail"] == {"lag_ms": None}


@given(st.dictionaries(ANY_TEXT, HOSTILE_TEXT, max_size=3), st.booleans())
def test_documents_are_as_strict_as_lines(detail: dict[str, str], pretty: bool) -> None:
    """config.json and its kind hold the same text as a line would, with the same escapes."""
    document = encode_document({"detail": detail}, pretty=pretty)
    assert json.loads(document, parse_constant=refuse) == json.loads(
        encode_line({"detail": detail})
    )
    assert not UNSAFE.search(document.decode())


@every_row(
    ("line", "value"),
    [
        (b'{"a": "\\ud83d\\ude00 \\ud800"}', {"a": "😀 \ufffd"}),
        (b'{"a": NaN, "b": "\\ud800"}', None),
        (b'{"a": 1', None),
        (b"[1]", None),
        (b'{"a":' * 100_000, None),
        (b'{"\\ud800":' * 100_000, None),
        (b'{"a": "\xff"}', None),
    ],
)
def test_lenient_reading_has_limits(line: bytes, value: object) -> None:
    """Lone surrogate escapes of other writers are read; what is no JSON object is none."""
    assert decode_object(line) == value
