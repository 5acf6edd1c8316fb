"""Prose is told from text that may hold calls at one look. The look must not miss any."""

from __future__ import annotations

import re
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from clawgauge.checks import detection
from clawgauge.checks.detection import detect_tools
from support.rows import every_row
from unit.checks.format_samples import SAMPLES, VARIANTS

EXPECTED = ["free"]
MENTIONS = [
    "run `free -h` now",
    "~~~\nfree -h\n~~~",
    "$ free -h",
    "# free -h | head",
    'try "free -h" first',
    "try 'free -h' first",
    "try “free -h” first",
    "try ‘free -h’ first",
    "it's ('free -h') then",
    "<tool>free -h</tool>",
    "[tool: free -h]",
]
PIECES = ["free -h", "ls", "don't", " ", "\n", "\r", ":", "’", "“", "‘", "”", *"'\"`~$#<>[]{}=,(_"]


def assert_no_step_finds_more(text: str) -> None:
    found = detect_tools(text, EXPECTED)
    with mock.patch.object(detection, "_MARK", re.compile("")):  # every text is looked at
        assert detect_tools(text, EXPECTED) == found


@every_row("text", [*MENTIONS, *SAMPLES.values(), *VARIANTS])
def test_every_way_to_write_a_call_is_looked_at(text: str) -> None:
    """A call written in any one way alone is found."""
    assert detect_tools(text, EXPECTED)
    assert_no_step_finds_more(text)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_is_not_looked_at_holds_no_call(text: str) -> None:
    """Skipping the search changes nothing that is found."""
    assert_no_step_finds_more(text)


def test_prose_with_apostrophes_holds_no_call() -> None:
    """An apostrophe opens no quotation, so that prose stays cheap to judge and free of calls."""
    assert detect_tools("It's free -h that you'd run, and it isn't ls -la'd.", EXPECTED) == []
