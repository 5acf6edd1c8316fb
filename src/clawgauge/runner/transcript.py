"""A task's conversation as it is kept in its record: whole where it fits, and bounded in any case. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.journal import repair_text
from clawgauge.records import ToolInvocation, TranscriptTurn

TRANSCRIPT_CAP_BYTES = 131_072
STRING_CAP_BYTES = 16_384


def bounded_transcript(turns: list[TranscriptTurn]) -> tuple[list[TranscriptTurn], bool]:
    """The turns from the first on that fit, each text within its own cap; whether anything was left out."""
    room = TRANSCRIPT_CAP_BYTES
    kept: list[TranscriptTurn] = []
    cut = False
    for turn in turns:
        slim = _slim(turn)
        room -= len(msgspec.json.encode(slim))
        if room < 0:
            return kept, True
        cut = cut or slim != turn
        kept.append(slim)
    return kept, cut


def _slim(turn: TranscriptTurn) -> TranscriptTurn:
    return msgspec.structs.replace(
        turn,
        text=_cut(turn.text),
        calls=[_slim_call(call) for call in turn.calls],
        answers=[_cut(answer) for answer in turn.answers],
    )


def _slim_call(call: ToolInvocation) -> ToolInvocation:
    return call if _fits(call.arguments) else msgspec.structs.replace(call, arguments=None)


def _fits(arguments: Any) -> bool:
    try:
        return len(msgspec.json.encode(arguments)) <= STRING_CAP_BYTES
    except ValueError:  # half a surrogate pair cannot be written
        return False


def _cut(text: str) -> str:
    text = repair_text(text)[0]
    return text.encode()[:STRING_CAP_BYTES].decode("utf-8", "ignore")
