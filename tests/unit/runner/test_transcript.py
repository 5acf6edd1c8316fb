"""What of a task's conversation is kept in its record."""

from __future__ import annotations

import msgspec
import pytest

from clawgauge.records import ToolInvocation, TranscriptTurn
from clawgauge.runner.record import STRING_CAP_BYTES, TRANSCRIPT_CAP_BYTES, bounded_transcript


def bounded(*turns: TranscriptTurn) -> tuple[list[TranscriptTurn], bool]:
    return bounded_transcript(list(turns))


def turn(text: str = "", arguments: object = None, answer: str = "ok") -> TranscriptTurn:
    return TranscriptTurn(
        text=text, calls=[ToolInvocation(name="exec", arguments=arguments)], answers=[answer]
    )


def test_a_short_conversation_is_kept_whole() -> None:
    """Nothing is changed, and nothing is said to be cut."""
    turns = [turn("a", {"command": "ls"}), turn("b", {"command": "df"}, "é" * 100)]
    assert bounded(*turns) == (turns, False)


def test_a_long_conversation_keeps_its_beginning() -> None:
    """The record stays within its bound, turns are whole, and the cut is told."""
    turns = [turn(f"{number} " + "x" * 10_000) for number in range(100)]
    kept, cut = bounded(*turns)
    assert cut and kept == turns[: len(kept)] and len(kept) >= 12
    assert len(msgspec.json.encode(kept)) <= TRANSCRIPT_CAP_BYTES + len(kept) + 1


@pytest.mark.parametrize("size", [STRING_CAP_BYTES + 1, 1_000_000])
def test_no_single_text_takes_all_the_room(size: int) -> None:
    """A huge text, answer or argument is cut on a code point, and the turns after it are still there."""
    kept, cut = bounded(
        turn("é" * size), turn("b", {"c": "x" * size}), turn("c", {}, "x" * size), turn("d")
    )
    assert cut and len(kept) == 4
    assert len(kept[0].text.encode()) == STRING_CAP_BYTES
    assert kept[1].calls[0].arguments is None and len(kept[2].answers[0]) == STRING_CAP_BYTES
    assert kept[3] == turn("d")


def test_what_cannot_be_written_is_left_out() -> None:
    """Half a surrogate pair does not cost the record."""
    kept, cut = bounded(turn("\ud800", {"n": 10**400}), turn("", {"s": "\udc00"}))
    assert cut and (kept[0].text, kept[1].calls[0].arguments) == ("\ufffd", None)
