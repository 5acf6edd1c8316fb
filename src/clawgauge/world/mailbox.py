"""Messages: those that came in, those that were sent, and who can be written to.

Owns: recipients and their spellings. Refuses: delivering anything.

    contacts = ["dana", "#ops"]
    messages = [{ from = "dana", text = "How full is the disk?", minutes_ago = 12 }]
"""

from __future__ import annotations

from dataclasses import dataclass

from clawgauge.world.clock import Clock
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.refusals import Refusal

MAX_MESSAGE_CHARS = 16_384
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
