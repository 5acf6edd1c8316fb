"""What is written to others and to oneself: messages, and the notes an agent keeps.

contacts = ["dana", "#ops"]
messages = [{ from = "dana", text = "How full is the disk?", minutes_ago = 12 }]
replies = [{ from = "dana", contains = "a.img", lacks = "b.img", text = "Yes, delete it.", after_s = 40 }]
notes = ["The backup host is called heron."]

`user` is the person who gave the job: the one who is asked with the tool `ask_user`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Clock, EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.paths import matches_glob
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
USER = "user"
_NO_REPLY = "I have nothing to add to what I wrote."


@dataclass(frozen=True, slots=True)
class Message:
    """One message, in or out; `who` is the sender of one that came in and the recipient of one that was sent."""

    who: str
    text: str
    at_s: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What somebody says to a message that holds all of one list and nothing of the other, and how much later."""

    who: str
    contains: list[str]
    lacks: list[str]
    text: str
    after_s: int

    def fits(self, message: Message) -> bool:
        text = message.text.casefold()
        return (
            plain_name(self.who) == plain_name(message.who)
            and all(word.casefold() in text for word in self.contains)
            and not any(word.casefold() in text for word in self.lacks)
        )


def plain_name(name: str) -> str:
    """A name without the marks and the case it is written with: `@Dana` and `dana` are one."""
    return name.strip().lstrip("@#").strip().casefold()


def is_heard(wanted: str, who: str, text: str) -> bool:
    """Whether what somebody said is what is waited for: `dana: yes*`."""
    return matches_glob(wanted, f"{who}: {text}", across=True, ignore_case=True)


class Mailbox:
    """Incoming and outgoing messages, oldest first. Who has written can be written to."""

    def __init__(self, clock: Clock, effects: EffectLog, spec: Fields) -> None:
        self._clock = clock
        self._effects = effects
        self.contacts: dict[str, str] = {}
        self.received: list[Message] = []
        self.sent: list[Message] = []
        self.replies: list[Reply] = []
        self._unread: list[Message] = []
        for contact in spec.texts("contacts"):
            self.know(contact)
        for fields in spec.objects("messages", ("from", "text", "minutes_ago")):
            at_s = clock.start_s - int(fields.number("minutes_ago", 5) * 60)
            self.know(fields.word("from"))
            self.received.append(Message(fields.word("from"), fields.text("text"), at_s))
        for fields in spec.objects("replies", ("from", "contains", "lacks", "text", "after_s")):
            self._read_reply(fields)

    def _read_reply(self, fields: Fields) -> None:
        reply = Reply(
            who=fields.word("from"),
            contains=fields.text_or_texts("contains"),
            lacks=fields.text_or_texts("lacks"),
            text=fields.word("text"),
            after_s=fields.whole("after_s", 0, most=86_400),
        )
        if any(earlier.who == reply.who and not (earlier.contains or earlier.lacks) for earlier in self.replies):
            raise SuiteError(
                f"key '{fields.at('from')}': an earlier reply of '{reply.who}' fits every message, so this one is "
                "never given; put it before that one"
            )
        self.know(reply.who)
        self.replies.append(reply)

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
        reply = next((reply for reply in self.replies if reply.fits(message)), None)
        if reply is not None:
            answer = Message(name, reply.text, message.at_s + reply.after_s)
            self.received.append(answer)
            self._unread.append(answer)
        return message

    def ask(self, question: str) -> Message:
        """Put a question to the user and wait for the answer, which is heard."""
        self.know(USER)
        n_received = len(self.received)
        asked = self.send(USER, question)
        if len(self.received) == n_received:
            return Message(asked.who, _NO_REPLY, self._clock.now_s)
        answer = self.received[-1]
        self._clock.advance(answer.at_s - self._clock.now_s)
        self._hear(answer)
        return answer

    def incoming(self, sender: str = "") -> list[Message]:
        """What has come in by now, from one sender or from all; replies among it are heard."""
        wanted = plain_name(sender)
        arrived = [
            message
            for message in sorted(self.received, key=lambda message: message.at_s)
            if message.at_s <= self._clock.now_s and (not wanted or plain_name(message.who) == wanted)
        ]
        for message in arrived:
            self._hear(message)
        return arrived

    def _hear(self, message: Message) -> None:
        if message in self._unread:
            self._unread.remove(message)
            self._effects.note("heard", message.who, message.text)


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    text: str


class Notes:
    """The notes in the order they were stored."""

    def __init__(self, effects: EffectLog, spec: Fields) -> None:
        self._effects = effects
        self._last_id = 0
        self.notes: list[Note] = []
        for text in spec.texts("notes"):
            self.store(text)

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
