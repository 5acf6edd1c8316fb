"""Counting sentences, words and bullet points as a reader would."""

from __future__ import annotations

from clawgauge.checks import Answer, judge
from clawgauge.checks.sentences import count_bullets, count_sentences
from support.rows import every_row


@every_row(
    ("text", "count"),
    [
        ("", 0), ("---", 0), ("...", 0), ("OK", 1), ("One.", 1), ("No stop at the end", 1), ("One. Two.", 2),
        ("One! Two? Three.", 3), ("Really?! Yes!!!", 2), ("It is fine. it works.", 2), ("**Done.** Next.", 2),
        ("Done. ✅", 1), ("这是。那是！好吗？", 3), ("He said “Stop.” Then he left.", 2), ('"Really?" he asked.', 1),
        ("(It is fine.) and more.", 1),
    ],
)  # fmt: skip
def test_plain_sentences(text: str, count: int) -> None:
    """Stops, exclamations and questions end sentences; a text without any is one."""
    assert count_sentences(text) == count


@every_row(
    ("text", "count"),
    [
        ("Use a tool, e.g. grep, i.e. a search.", 1), ("Use (e.g. grep) or ripgrep vs. awk.", 1),
        ("CPU, RAM, etc. are fine.", 1), ("CPU, RAM, etc. The rest is fine.", 2),
        ("Dr. Smith, Mr. Jones, Mrs. Lee, Ms. Wu and Prof. Xu met.", 1),
        ("At 9 a.m. we start, at 5 p.m. we stop.", 1), ("It starts at 9 a.m. UTC.", 1),
        ("It starts at 9 a.m. Monday.", 1), ("It starts at 9 a.m. Be there.", 2),
        ("It took 12 ms. The disk is fine.", 2),
        ("The U.S. Navy and Acme Inc. Ltd met J. Smith and George W. Bush.", 1),
        ("It grew in the U.S. The rest fell.", 2), ("The answer is B. The reason is cost.", 2),
        ("Option B. Restart it.", 2), ("See no. 5, fig. 3 and vol. 2.", 1), ("No. 1% is safe.", 2),
        ("The answer is no. The disk is fine.", 2),
    ],
)  # fmt: skip
def test_abbreviations_do_not_end_sentences(text: str, count: int) -> None:
    """A full stop after an abbreviation, a title or an initial ends a sentence only where one follows."""
    assert count_sentences(text) == count


@every_row(
    ("text", "count"),
    [
        ("RAM 7.6/62 GiB, disk 16G/2.8T, load avg 1.05.", 1), ("Load is 1.05. Memory is 7.6.", 2),
        ("Ping 192.168.1.1 now.", 1), ("Ping 192.168.1.1. Then stop.", 2),
        ("Open config.yaml and app.log with Node.js.", 1), ("Open config.yaml. Then stop.", 2),
        ("Version 2.0.1 is at https://example.com/a.b?c=d.", 1), ("Wait... it works.", 1), ("Wait… it works.", 1),
        ("Well... It works.", 2),
    ],
)  # fmt: skip
def test_stops_inside_words_do_not_end_sentences(text: str, count: int) -> None:
    """Decimals, addresses, file names and ellipses are not ends."""
    assert count_sentences(text) == count


@every_row(
    ("text", "count"),
    [
        ("first line\nwrapped line", 1), ("First line\nSecond line", 2), ("First line\r\nSecond line", 2),
        ("first\n\nsecond", 2), ("first\n \t\nsecond", 2), ("Items:\n- one\n- two", 3), ("Items:\n* one\n• two", 3),
        ("Items:\n-one\n-two", 3), ("1. Check the disk\n2. Check the load", 2),
        ("1. Check the disk. 2. Check the load.", 2), ("load is\n5 now", 2), ("load is\n-5 now", 2),
        ("# Title\nText follows.", 2), ("one\n**Two**", 2), ("One.\n---\nTwo.", 2), ("use the\n--flag option", 1),
    ],
)  # fmt: skip
def test_line_breaks(text: str, count: int) -> None:
    """A line break ends a sentence before a capital, a bullet, a number or a blank line, not in wrapped text."""
    assert count_sentences(text) == count


@every_row(
    ("text", "count"),
    [
        ("- a\n- b\n- c", 3), ("  - a\n\t- b\n-c", 3), ("- a\r\n- b\r- c", 3), ("-", 1), ("---", 0), ("-----  ", 0),
        ("- - -", 0), ("-5\n-5.2 degrees\n-.5", 0), ("- 5 items", 1), ("--flag", 1), ("* a\n+ b\n• c\n– d\n1. e", 0),
        ("a - b\nc -", 0), ("Here:\n- a\n\n---\n\n- b", 2), ("", 0),
    ],
)  # fmt: skip
def test_bullet_points(text: str, count: int) -> None:
    """A bullet point is a line that opens with a dash, unless it is a rule or a negative number."""
    assert count_bullets(text) == count


def test_words_are_what_white_space_separates() -> None:
    """Any white space separates, punctuation does not."""
    verdict = judge({"type": "max_words", "value": 4}, Answer(" one, two\n\tthree\u00a0four-five "))
    assert verdict.parsed_output == {"words": 4}
