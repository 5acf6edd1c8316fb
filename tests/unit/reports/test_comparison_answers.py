"""Two answers side by side: each in its column, whatever characters they are made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clawgauge.reports.clean import clean_terminal, display_width
from clawgauge.reports.terminal import side_by_side


def test_lines_stand_beside_each_other() -> None:
    """Line by line, the shorter side padded."""
    assert side_by_side("one\ntwo", "1", 43).splitlines() == [
        "one" + " " * 17 + " │ 1",
        "two" + " " * 17 + " │",
    ]


@given(st.text(max_size=300), st.text(max_size=300), st.integers(43, 160))
def test_no_line_is_wider_than_the_terminal(left: str, right: str, width: int) -> None:
    """East Asian and combining characters count as wide as they are shown; nothing steers the terminal."""
    shown = side_by_side(left, right, width)
    assert all(display_width(line) <= width for line in shown.split("\n"))
    assert clean_terminal(shown) == shown


def test_a_long_answer_is_cut_and_says_so() -> None:
    """Forty lines a side, then how many more there are."""
    shown = side_by_side("\n".join(map(str, range(100))), "short", 80).splitlines()
    assert len(shown) == 41 and shown[-1].startswith("… 60 more lines")
