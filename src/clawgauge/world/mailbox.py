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
from fnmatch import fnmatchcase

import msgspec

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Clock, EffectLog
from clawgauge.world.refusals import Refusal
from clawgauge.world.spec import Amount, Noun, Seconds, Word

MAX_MESSAGE_CHARS = 16_384
_MAX_NOTES = 1_000
_WORD = re.compile(r"\w+")
_SMALL_WORDS = {
    "a", "an", "and", "are", "at", "by", "do", "does", "for", "from", "how", "i", "in", "is", "it", "me", "my", "of",
    "on", "or", "our", "s", "that", "the", "to", "was", "we", "what", "when", "where", "which", "who", "with", "you",
    "your",
}  # fmt: skip
USER = "user"
_NO_REPLY = "I have nothing to add to what I wrote."


class MessageSpec(Noun):
    who: Word = msgspec.field(name="from")
    text: str
    minutes_ago: Amount = 5


class Reply(Noun):
    """What somebody says to a message that holds all of one list and nothing of the other, and how much later."""

    who: Word = msgspec.field(name="from")
    text: Word
    # Not `Word | list[Word]`: msgspec 0.22 crashes on it when Python ends.
    contains: str | list[Word] = []
    lacks: str | list[Word] = []
    after_s: Seconds = 0

    def fits(self, message: Message) -> bool:
        text = message.text.casefold()
        contains, lacks = ([one] if isinstance(one, str) else one for one in (self.contains, self.lacks))
        return (
            plain_name(self.who) == plain_name(message.who)
            and all(word.casefold() in text for word in contains)
            and not any(word.casefold() in text for word in lacks)
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One message, in or out; `who` is the sender of one that came in and the recipient of one that was sent."""

    who: str
    text: str
    at_s: int


def plain_name(name: str) -> str:
    """A name without the marks and the case it is written with: `@Dana` and `dana` are one."""
    return name.strip().lstrip("@#").strip().casefold()


def is_heard(wanted: str, who: str, text: str) -> bool:
    """Whether what somebody said is what is waited for: `dana: yes*`."""
    return fnmatchcase(f"{who}: {text}".casefold(), wanted.casefold())


class Mailbox:
    """Incoming and outgoing messages, oldest first. Who has written can be written to."""

    def __init__(
        self, clock: Clock, effects: EffectLog, contacts: list[str], messages: list[MessageSpec], replies: list[Reply]
    ) -> None:
        self._clock = clock
        self._effects = effects
        names = [*contacts, *(one.who for one in messages), *(one.who for one in replies)]
        self.contacts: dict[str, str] = {}
        for name in names:
            self.contacts.setdefault(plain_name(name), name)
        self.received = [Message(one.who, one.text, clock.start_s - int(one.minutes_ago * 60)) for one in messages]
        self.sent: list[Message] = []
        self.replies = replies
        self._unread: list[Message] = []
        for index, reply in enumerate(replies):
            if any(one.who == reply.who and not (one.contains or one.lacks) for one in replies[:index]):
                raise SuiteError(
                    f"key 'replies[{index}].from': an earlier reply of '{reply.who}' fits every message, so this one "
                    "is never given; put it before that one"
                )

    def send(self, to: str, text: str) -> Message:
        name = self.contacts.get(plain_name(to))
        if name is None:
            known = ", ".join(self.contacts.values()) or "nobody"
            raise Refusal(f"unknown recipient '{to[:100]}'; you can write to: {known}")
        if not text.strip() or len(text) > MAX_MESSAGE_CHARS:
            raise Refusal(f"the text is empty, or longer than {MAX_MESSAGE_CHARS} characters; nothing was sent")
        message = Message(name, text, self._clock.now_s)
        self.sent.append(message)
        self._effects.note("sent", name, text)
        reply = next((reply for reply in self.replies if reply.fits(message)), None)
        if reply is not None:
            answer = Message(name, reply.text, message.at_s + reply.after_s)
            self.received.append(answer)
            self._unread.append(answer)
        return message

    def ask(self, question: str) -> str:
        """Put a question to the user and wait for the answer, which is heard."""
        self.contacts.setdefault(USER, USER)
        n_received = len(self.received)
        self.send(USER, question)
        if len(self.received) == n_received:
            return _NO_REPLY
        answer = self.received[-1]
        self._clock.advance(answer.at_s - self._clock.now_s)
        self._hear(answer)
        return answer.text

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


class Notes:
    """The notes by their ids, in the order they were stored."""

    def __init__(self, effects: EffectLog, texts: list[str]) -> None:
        self._effects = effects
        self._last_id = 0
        self.notes: dict[str, str] = {}
        for text in texts:
            self.store(text)

    def store(self, text: str) -> str:
        """Keep a note; its id."""
        if not text.strip() or len(text) > MAX_MESSAGE_CHARS or len(self.notes) >= _MAX_NOTES:
            raise Refusal("the note is empty or too long, or there are too many; nothing was stored")
        self._last_id += 1
        self.notes[f"note-{self._last_id}"] = text
        self._effects.note("remembered", text)
        return f"note-{self._last_id}"

    def search(self, query: str, limit: int = 5) -> dict[str, str]:
        """The notes that share words with the query, those that share most first."""
        wanted = _words(query)
        shared = {note_id: len(wanted & _words(text)) for note_id, text in self.notes.items()}
        found = sorted(filter(shared.get, shared), key=lambda note_id: -shared[note_id])
        return {note_id: self.notes[note_id] for note_id in found[:limit]}

    def delete(self, note_id: str) -> str:
        note_id = note_id.strip()
        if note_id not in self.notes:
            raise Refusal(f"no note has the id '{note_id[:100]}'")
        self._effects.note("forgotten", self.notes.pop(note_id))
        return note_id


def _words(text: str) -> set[str]:
    # A plural and its singular are one word here: that is as near to meaning as a search for words comes.
    words = {word.casefold() for word in _WORD.findall(text)}
    return {word.removesuffix("s") if len(word) > 3 else word for word in words - _SMALL_WORDS}
