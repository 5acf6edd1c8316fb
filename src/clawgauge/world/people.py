"""The people an agent writes to and hears from, and its own notes."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Ledger, Refusal
from clawgauge.world.spec import SERVER, Amount, Seconds, SpecObject, Word, at_key

USER = "user"  # who gave the job, and is asked with the tool `ask_user`
_MAX_MESSAGE_CHARS = 16_384
_MAX_NOTES = 1_000
_MAX_NOTES_FOUND = 5
# Words that say nothing of what a text is about.
_SMALL_WORDS = frozenset(SERVER["small_words"])


class Message(NamedTuple):
    """A message; `person` is who wrote it or, of one that was sent, to whom it went."""

    person: str
    text: str
    at_s: int


class MessageSpec(SpecObject):
    sender: Word = msgspec.field(name="from")
    text: str
    minutes_ago: Amount = 5


class Reply(SpecObject):
    """What somebody answers, and how much later.

    The message must hold all texts of `contains` and none of `lacks`, in any case.
    """

    sender: Word = msgspec.field(name="from")
    text: Word
    # Not `Word | list[Word]`: msgspec 0.22 crashes on it when Python ends.
    contains: str | list[Word] = []
    lacks: str | list[Word] = []
    after_s: Seconds = 0

    def fits(self, message: Message) -> bool:
        """Whether this is the answer to a message that was sent."""
        if plain_name(self.sender) != plain_name(message.person):
            return False
        text = message.text.casefold()
        has_all = all(wanted.casefold() in text for wanted in _as_list(self.contains))
        has_unwanted = any(unwanted.casefold() in text for unwanted in _as_list(self.lacks))
        return has_all and not has_unwanted


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def plain_name(name: str) -> str:
    """A name without the marks and the case it is written with: `@Dana` and `dana` are one."""
    return name.strip().lstrip("@#").strip().casefold()


def is_heard(pattern: str, sender: str, text: str) -> bool:
    """Whether a message is what `until` waits for: `dana: *go ahead*`."""
    return fnmatchcase(f"{sender}: {text}".casefold(), pattern.casefold())


class Mailbox:
    """Messages received and sent, and what is answered to which."""

    def __init__(
        self, ledger: Ledger, contacts: list[str], messages: list[MessageSpec], replies: list[Reply]
    ) -> None:
        self._ledger = ledger
        self._clock = ledger.clock
        self._replies = replies
        self.contacts: dict[str, str] = {}
        for name in _names_in(contacts, messages, replies):
            self.contacts.setdefault(plain_name(name), name)
        self._received: list[Message] = []
        for spec in messages:
            at_s = ledger.clock.start_s - int(spec.minutes_ago * 60)
            self._received.append(Message(spec.sender, spec.text, at_s))
        self._unread: list[Message] = []
        self.sent: list[Message] = []
        _refuse_unreachable(replies)

    def send(self, to: str, text: str) -> tuple[str, Message | None]:
        """The name of whom the message went to, and the answer that will come, if any."""
        name = self.contacts.get(plain_name(to))
        if name is None:
            names = ", ".join(self.contacts.values()) or "nobody"
            raise Refusal(f"unknown recipient '{to[:100]}'; you can write to: {names}")
        if not text.strip() or len(text) > _MAX_MESSAGE_CHARS:
            raise Refusal(
                f"the text is empty, or longer than {_MAX_MESSAGE_CHARS} characters; "
                "nothing was sent"
            )
        message = Message(name, text, self._clock.now_s)
        self.sent.append(message)
        self._ledger.note("sent", name, text)
        for reply in self._replies:
            if reply.fits(message):
                answer = Message(name, reply.text, message.at_s + reply.after_s)
                self._received.append(answer)
                self._unread.append(answer)
                return name, answer
        return name, None

    def ask(self, question: str) -> str:
        """Ask the user, and wait for the answer."""
        self.contacts.setdefault(USER, USER)
        _, answer = self.send(USER, question)
        if answer is None:
            return "I have nothing to add to what I wrote."
        self._clock.advance(answer.at_s - self._clock.now_s)
        self._hear(answer)
        return answer.text

    def incoming(self, sender: str = "") -> list[Message]:
        """What has come in by now, from one sender or from all; replies among it are heard."""
        wanted = plain_name(sender)
        arrived = []
        for message in self._received:
            is_wanted = wanted in ("", plain_name(message.person))
            if is_wanted and message.at_s <= self._clock.now_s:
                arrived.append(message)
        arrived.sort(key=lambda message: message.at_s)
        for message in arrived:
            self._hear(message)
        return arrived

    def _hear(self, message: Message) -> None:
        if message in self._unread:
            self._unread.remove(message)
            self._ledger.note("heard", message.person, message.text)


def _names_in(
    contacts: list[str], messages: list[MessageSpec], replies: list[Reply]
) -> Iterator[str]:
    yield from contacts
    for message in messages:
        yield message.sender
    for reply in replies:
        yield reply.sender


def _refuse_unreachable(replies: list[Reply]) -> None:
    """Refuse a reply behind one of the same person that fits every message."""
    fit_every_message: set[str] = set()
    for index, reply in enumerate(replies):
        if reply.sender in fit_every_message:
            problem = (
                f"an earlier reply of '{reply.sender}' fits every message, "
                "so this one is never given"
            )
            raise SuiteError(f"key 'replies[{index}].from': {problem}; put it before that one")
        if not reply.contains and not reply.lacks:
            fit_every_message.add(reply.sender)


class Notes:
    """What the agent has kept for itself, by the id of each note."""

    def __init__(self, ledger: Ledger, texts: list[str]) -> None:
        self._ledger = ledger
        self._last_number = 0
        self.notes: dict[str, str] = {}
        for index, text in enumerate(texts):
            with at_key(f"notes[{index}]"):
                self.store(text)

    def store(self, text: str) -> str:
        if not text.strip() or len(text) > _MAX_MESSAGE_CHARS or len(self.notes) >= _MAX_NOTES:
            raise Refusal(
                "the note is empty or too long, or there are too many; nothing was stored"
            )
        self._last_number += 1
        note_id = f"note-{self._last_number}"
        self.notes[note_id] = text
        self._ledger.note("remembered", text)
        return note_id

    def search(self, query: str) -> dict[str, str]:
        """The notes that share most words with a query, best first."""
        wanted = _words_of(query)
        n_shared_by_id = {}
        for note_id, text in self.notes.items():
            n_shared = len(wanted & _words_of(text))
            if n_shared:
                n_shared_by_id[note_id] = n_shared
        best_first = sorted(n_shared_by_id, key=lambda note_id: -n_shared_by_id[note_id])
        return {note_id: self.notes[note_id] for note_id in best_first[:_MAX_NOTES_FOUND]}

    def delete(self, note_id: str) -> str:
        note_id = note_id.strip()
        if note_id not in self.notes:
            raise Refusal(f"no note has the id '{note_id[:100]}'")
        self._ledger.note("forgotten", self.notes.pop(note_id))
        return note_id


def _words_of(text: str) -> set[str]:
    """The words that say what a text is about.

    A plural and its singular are one here: as near to meaning as a search for words comes.
    """
    words = set()
    for word in re.findall(r"\w+", text):
        word = word.casefold()
        if word in _SMALL_WORDS:
            continue
        words.add(word.removesuffix("s") if len(word) > 3 else word)
    return words
