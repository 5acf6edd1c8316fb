"""Memory notes: what the agent wrote down for later.

Owns: storing, finding and forgetting. Refuses: meaning; a search looks for words.

    notes = ["The backup host is called heron."]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.refusals import Refusal

MAX_NOTE_CHARS = 16_384
_MAX_NOTES = 1_000
_WORD = re.compile(r"\w+")
_SMALL_WORDS = {
    "a", "an", "and", "are", "at", "by", "do", "does", "for", "from", "how", "i", "in", "is", "it", "me", "my", "of",
    "on", "or", "our", "s", "that", "the", "to", "was", "we", "what", "when", "where", "which", "who", "with", "you",
    "your",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    text: str


class Notes:
    """The notes in the order they were stored."""

    def __init__(self, effects: EffectLog) -> None:
        self._effects = effects
        self._last_id = 0
        self.notes: list[Note] = []

    def store(self, text: str) -> Note:
        if not text.strip():
            raise Refusal("the note is empty; nothing was stored")
        if len(text) > MAX_NOTE_CHARS or len(self.notes) >= _MAX_NOTES:
            raise Refusal("the note is too long or there are too many; nothing was stored")
        self._last_id += 1
        note = Note(f"note-{self._last_id}", text)
        self.notes.append(note)
        self._effects.note("remembered", text)
        return note

    def search(self, query: str, limit: int = 5) -> list[Note]:
        """The notes that share words with the query, those that share most first."""
        wanted = _words(query)
        scored = [(len(wanted & _words(note.text)), note) for note in self.notes]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [note for _, note in found[:limit]]

    def delete(self, note_id: str) -> Note:
        for note in self.notes:
            if note.id == note_id.strip():
                self.notes.remove(note)
                self._effects.note("forgotten", note.text)
                return note
        raise Refusal(f"no note has the id '{note_id[:100]}'")


def _words(text: str) -> set[str]:
    # A plural and its singular are one word here: that is as near to meaning as a search for words comes.
    words = {word.casefold() for word in _WORD.findall(text)}
    return {word.removesuffix("s") if len(word) > 3 else word for word in words - _SMALL_WORDS}


def fill_notes(notes: Notes, spec: Fields) -> None:
    for text in spec.texts("notes"):
        notes.store(text)
