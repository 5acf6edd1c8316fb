"""What an agent reads and writes beyond the server: messages, its own notes, and the web."""

import http
import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Ledger, Refusal
from clawgauge.world.spec import Amount, Noun, Seconds, Word, at_key, read

_MAX_URL_CHARS, _MAX_MESSAGE_CHARS, _MAX_NOTES = 2_048, 16_384, 1_000
_URL = re.compile(r"(https?)://([^/?#\s:@]+)(:\d{1,5})?([^#\s]*)(?:#\S*)?", re.I)
_SMALL_WORDS = """a an and are at by do does for from how i in is it me my of on or our s that the to was we what when
    where which who with you your"""
USER = "user"  # who gave the job, and is asked with the tool `ask_user`


class Message(NamedTuple):
    who: str
    text: str
    at_s: int


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
        is_theirs, text = plain_name(self.who) == plain_name(message.who), message.text.casefold()
        given = ([one] if isinstance(one, str) else one for one in (self.contains, self.lacks))
        held, barred = ([word.casefold() in text for word in words] for words in given)
        return is_theirs and all(held) and not any(barred)


def plain_name(name: str) -> str:
    """A name without the marks and the case it is written with: `@Dana` and `dana` are one."""
    return name.strip().lstrip("@#").strip().casefold()


def is_heard(wanted: str, who: str, text: str) -> bool:
    return fnmatchcase(f"{who}: {text}".casefold(), wanted.casefold())


class Mailbox:
    def __init__(
        self, ledger: Ledger, contacts: list[str], messages: list[MessageSpec], replies: list[Reply]
    ) -> None:
        self._ledger, self._clock, self._replies = ledger, ledger.clock, replies
        self.contacts: dict[str, str] = {}
        for name in [*contacts, *(one.who for one in messages), *(one.who for one in replies)]:
            self.contacts.setdefault(plain_name(name), name)
        start_s = ledger.clock.start_s
        self._received = [
            Message(one.who, one.text, start_s - int(one.minutes_ago * 60)) for one in messages
        ]
        self._unread: list[Message] = []
        self.sent: list[Message] = []
        for index, reply in enumerate(replies):
            if any(
                one.who == reply.who and not (one.contains or one.lacks) for one in replies[:index]
            ):
                why = f"an earlier reply of '{reply.who}' fits every message, so this one is never given"
                raise SuiteError(f"key 'replies[{index}].from': {why}; put it before that one")

    def send(self, to: str, text: str) -> tuple[str, Message | None]:
        if (name := self.contacts.get(plain_name(to))) is None:
            known = ", ".join(self.contacts.values()) or "nobody"
            raise Refusal(f"unknown recipient '{to[:100]}'; you can write to: {known}")
        if not text.strip() or len(text) > _MAX_MESSAGE_CHARS:
            raise Refusal(
                f"the text is empty, or longer than {_MAX_MESSAGE_CHARS} characters; nothing was sent"
            )
        message = Message(name, text, self._clock.now_s)
        self.sent.append(message)
        self._ledger.note("sent", name, text)
        if (reply := next((reply for reply in self._replies if reply.fits(message)), None)) is None:
            return name, None
        answer = Message(name, reply.text, message.at_s + reply.after_s)
        self._received.append(answer)
        self._unread.append(answer)
        return name, answer

    def ask(self, question: str) -> str:
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
        so_far = sorted(
            (one for one in self._received if one.at_s <= self._clock.now_s),
            key=lambda one: one.at_s,
        )
        arrived = [message for message in so_far if wanted in ("", plain_name(message.who))]
        for message in arrived:
            self._hear(message)
        return arrived

    def _hear(self, message: Message) -> None:
        if message in self._unread:
            self._unread.remove(message)
            self._ledger.note("heard", message.who, message.text)


class Notes:
    def __init__(self, ledger: Ledger, texts: list[str]) -> None:
        self._ledger, self._last_id = ledger, 0
        self.notes: dict[str, str] = {}
        for index, text in enumerate(texts):
            with at_key(f"notes[{index}]"):
                self.store(text)

    def store(self, text: str) -> str:
        if not text.strip() or len(text) > _MAX_MESSAGE_CHARS or len(self.notes) >= _MAX_NOTES:
            raise Refusal(
                "the note is empty or too long, or there are too many; nothing was stored"
            )
        self._last_id += 1
        self.notes[f"note-{self._last_id}"] = text
        self._ledger.note("remembered", text)
        return f"note-{self._last_id}"

    def search(self, query: str) -> dict[str, str]:
        wanted = _words(query)
        shared = {note_id: len(wanted & _words(text)) for note_id, text in self.notes.items()}
        found = sorted(filter(shared.get, shared), key=lambda note_id: -shared[note_id])
        return {note_id: self.notes[note_id] for note_id in found[:5]}

    def delete(self, note_id: str) -> str:
        if (note_id := note_id.strip()) not in self.notes:
            raise Refusal(f"no note has the id '{note_id[:100]}'")
        self._ledger.note("forgotten", self.notes.pop(note_id))
        return note_id


def _words(text: str) -> set[str]:
    # A plural and its singular are one word here: that is as near to meaning as a search for words comes.
    words = {word.casefold() for word in re.findall(r"\w+", text)}
    return {
        word.removesuffix("s") if len(word) > 3 else word
        for word in words - {*_SMALL_WORDS.split()}
    }


class Page(Noun):
    status: Annotated[int, Meta(ge=100, le=599)] = 200
    body: str = ""
    content_type: Word = msgspec.field(name="type", default="text/html")
    retry_after_s: Seconds = 0

    @property
    def reason(self) -> str:
        return next(
            (status.phrase for status in http.HTTPStatus if status == self.status), "Unknown"
        )


def read_url(url: str) -> tuple[str, str]:
    """The host, and the address in a plain form: lower-case host, no fragment, a slash where the path is empty."""
    found = _URL.fullmatch(url.strip()) if len(url) <= _MAX_URL_CHARS else None
    if found is None:
        raise Refusal("Invalid URL: it must start with http:// or https:// and hold no spaces")
    host, rest = found[2].lower(), found[4]
    return (
        host,
        f"{found[1].lower()}://{host}{found[3] or ''}{rest if rest.startswith('/') else f'/{rest}'}",
    )


class Web:
    def __init__(self, ledger: Ledger, spec: dict[str, Any]) -> None:
        self._ledger = ledger
        self._before: dict[str, list[Page]] = {}
        self._pages: dict[str, Page] = {}
        for url, value in spec.items():
            key = f'web."{url}"'
            page = read(Page, {"body": value} if isinstance(value, str) else value, key)
            with at_key(key):
                self._pages[read_url(url)[1]] = page

    def add_fault(self, url: str, key: str, status: int, times: int) -> None:
        page = Page(
            status=status, content_type="text/plain", retry_after_s=2 if status in (429, 503) else 0
        )
        with at_key(key):
            self._before.setdefault(read_url(url)[1], []).extend([page] * times)

    def fetch(self, url: str) -> Page:
        host, address = read_url(url)
        self._ledger.note("fetched", address)
        if self._before.get(address):
            return self._before[address].pop(0)
        if address in self._pages:
            return self._pages[address]
        if any(read_url(page)[0] == host for page in self._pages):
            return Page(status=404, body="<html><body><h1>404 Not Found</h1></body></html>\n")
        raise Refusal(f"Could not resolve host: {host}")
