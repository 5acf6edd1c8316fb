"""Foreign text on a terminal and in a table cell."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from clawgauge.reports.clean import clean_terminal, escape_cell
from support.growth import grows_linearly
from support.rows import every_row

HOSTILE = st.text(
    st.sampled_from(
        "\x00\x07\x08\t\n\r\x1b\x7f\x85\x90\x9b\x9c\x9d[]()<>|`\\*_~$&;0m52cHA é漢\u202e\u2066\u2028\ufeff\ud800"
    ),
    max_size=60,
)
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@every_row(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;cm0gLXJm\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("\x1bc reset", " reset"),
        ("over\rwritten", "overwritten"),
        ("one\r\ntwo\u2028three\x85four", "one\ntwo\nthree\nfour"),
        ("a\u202eb\u2066c\u200ed\u061ce\ufefff", "abcdef"),
        ("col\tumn\nline", "col\tumn\nline"),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ("日本語 é 👩‍💻", "日本語 é 👩‍💻"),
    ],
)
def test_terminal_text_keeps_the_words_and_loses_the_controls(text, shown):
    """Colours, clipboard writes, cursor moves and reordering marks go; words, line ends and tabs stay."""
    assert clean_terminal(text) == shown


def test_an_unfinished_sequence_cannot_hide_what_follows():
    """A clipboard sequence without an end loses its introducer only: the next lines are still shown."""
    assert (
        clean_terminal("\x1b]52;c;payload\nsecond line\nthird \x07 line")
        == "52;c;payload\nsecond line\nthird  line"
    )


@given(HOSTILE | st.text(max_size=60))
def test_nothing_that_steers_a_terminal_is_left(text):
    """Whatever goes in, only printable characters, line ends and tabs come out, and they can be encoded."""
    shown = clean_terminal(text)
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\ufeff\u2028\u2029"
    )
    shown.encode()


@given(HOSTILE | st.text(max_size=60))
def test_a_cell_is_one_cell_and_reads_as_the_text(text):
    """Any text in a cell leaves a Markdown parser with two columns, no markup, and the words as they were."""
    table = f"| a | b |\n| --- | --- |\n| x{escape_cell(text)}x | y |\n"
    tokens = RENDERER.parse(table)
    cells = [token for token in tokens if token.type == "td_open"]
    contents = [token for token in tokens if token.type == "inline"][2:]
    assert len(cells) == len(contents) == 2
    assert {child.type for child in contents[0].children} <= {"text", "text_special"}
    words = "".join(child.content for child in contents[0].children)
    assert words == f"x{' '.join(clean_terminal(text).split())}x"


def test_html_in_a_cell_stays_text():
    """A script tag in a model name is shown, not run."""
    assert (
        escape_cell("<script>alert(1)</script> & co")
        == "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co"
    )


def test_model_names_stay_readable():
    """Underscores, colons, slashes and dots of real model names are not littered with backslashes."""
    assert (
        escape_cell("hf.co/bartowski/Llama_3.2_3B:Q4_K_M@high")
        == "hf.co/bartowski/Llama_3.2_3B:Q4_K_M@high"
    )


def test_long_text_is_cut_before_it_is_escaped():
    """A limit counts the reader's characters and never cuts through an escape."""
    assert escape_cell("|" * 10, limit=4) == "\\|\\|\\|…"


def test_hostile_text_takes_linear_time():
    """Twice the unterminated sequences take at most about three times as long."""
    assert grows_linearly(lambda n: clean_terminal("\x1b]0;" * n + "\x1b[" + "0" * n), 40_000)
