"""What is written to others and to oneself: messages, and the notes an agent keeps.

contacts = ["dana", "#ops"]
messages = [{ from = "dana", text = "How full is the disk?", minutes_ago = 12 }]
notes = ["The backup host is called heron."]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clawgauge.world.clock import Clock
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.refusals import Refusal

MAX_MESSAGE_CHARS = 16_384
MAX_NOTE_CHARS = 16_384
_MAX_NOTES = 1_000
_WORD = re.compile(r"\w+")
_SMALL_WORDS = {
    "a", "an", "and", "are", "at", "by", "do", "does", "for", "from", "how", "i", "in", "is", "it", "me", "my", "of",
    "on", "or", "our", "s", "that", "the", "to", "was", "we", "what", "when", "where", "which", "who", "with", "you",
    "your",
}  # fmt: skip
_KEYS = ("from", "text", "minutes_ago")


@dataclass(frozen=True, slots=True)
class Message:
    """One message, in or out; `who` is the sender of one that came in and the recipient of one that was sent."""

    who: str
    text: str
    at_s: int


def plain_name(name: str) -> str:
    """A name without the marks and the case it is written with: `@Dana` and `dana` are one."""
    return name.strip().lstrip("@#").strip().casefold()


class Mailbox:
    """Incoming and outgoing messages, oldest first."""

    def __init__(self, clock: Clock, effects: EffectLog) -> None:
        self._clock = clock
        self._effects = effects
        self.contacts: dict[str, str] = {}
        self.received: list[Message] = []
        self.sent: list[Message] = []

    def know(self, name: str) -> None:
        self.contacts.setdefault(plain_name(name), name)

    def send(self, to: str, text: str) -> Message:
        name = self.contacts.get(plain_name(to))
        if name is None:
            known = ", ".join(self.contacts.values()) or "nobody"
            raise Refusal(f"unknown recipient '{to[:100]}'; you can write to: {known}")
        if not text.strip():
            raise Refusal("the text is empty; nothing was sent")
        if len(text) > MAX_MESSAGE_CHARS:
            raise Refusal(f"the text is longer than {MAX_MESSAGE_CHARS} characters; nothing was sent")
        message = Message(name, text, self._clock.now_s)
        self.sent.append(message)
        self._effects.note("sent", name, text)
        return message

    def incoming(self, sender: str = "") -> list[Message]:
        wanted = plain_name(sender)
        return [message for message in self.received if not wanted or plain_name(message.who) == wanted]


def fill_mailbox(mailbox: Mailbox, spec: Fields, start_s: int) -> None:
    """The contacts and messages of a specification; who has written can be written to."""
    for contact in spec.texts("contacts"):
        mailbox.know(contact)
    for fields in spec.objects("messages", _KEYS):
        minutes_ago = fields.number("minutes_ago", 5)
        mailbox.know(fields.word("from"))
        mailbox.received.append(Message(fields.word("from"), fields.text("text"), start_s - int(minutes_ago * 60)))
    mailbox.received.sort(key=lambda message: message.at_s)


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
