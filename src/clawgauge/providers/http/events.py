"""What the readers of all wire formats share: odd events, token counts, arguments of calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.conversation import PastCall
from clawgauge.providers.http.errors import (
    MAX_VALUES,
    decode_lenient,
    fit,
    refuse_crowded,
    stream_failure,
)
from clawgauge.records import MAX_TOKENS

_QUOTED_BYTES = 200


@dataclass(slots=True)
class EventReader:
    """A `Reader` of one protocol's events: a subclass says with `_take` what they mean.

    Odd events are read as far as they can be, and a stream without any of the protocol is refused.
    """

    by_line: ClassVar[bool] = False
    _decoder: ClassVar[msgspec.json.Decoder[Any]]
    """Decodes an event. It has a field `error`."""
    _protocol: ClassVar[str]
    """What the protocol is called in messages: "the reply is not …"."""
    _last_word: ClassVar[str]
    """What a stream has not come to that broke off: "the stream ended before …"."""
    _done_ends: ClassVar[bool] = False
    """Whether `[DONE]` ends a stream that has not said why it stopped."""

    sink: Sink
    model: str
    # Whether the stream has said why it stopped.
    _ended: bool = field(init=False, default=False)
    _has_read_any: bool = field(init=False, default=False)
    # The first event that is none of the protocol.
    _unread: bytes = field(init=False, default=b"")

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            # The stream says that it is over: it must have held something of the protocol.
            if self._unread and not self._has_read_any:
                raise self._not_the_protocol(self._unread)
            return self._ended or self._done_ends
        if len(data) > MAX_VALUES:
            refuse_crowded(data)
        try:
            event = self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            fields = decode_lenient(data)
            if fields is None and name != b"error":
                self._unread = self._unread or data
                return False
            event = fit(self._decoder.type, fields or {})
        if event.error is not None or name == b"error":
            error = event.error or decode_lenient(data) or data.decode("utf-8", "replace")
            raise stream_failure(error)
        self._has_read_any = True
        return self._take(at_ns, name, event, data)

    def _take(self, at_ns: int, name: bytes, event: Any, data: bytes) -> bool:
        """Report one event. Returns whether it was the last.

        `name` is that of the server-sent event, `data` the bytes that `event` was decoded from.
        """
        raise NotImplementedError

    def body(self, at_ns: int, data: bytes) -> None:
        raise self._not_the_protocol(data)

    def close(self) -> None:
        if not self._ended:
            message = f"the stream ended before {self._last_word}"
            raise CallFailure("error", "stream_interrupted", message)

    def _not_the_protocol(self, data: bytes) -> CallFailure:
        """The failure of a 200 whose body is something else: a proxy's page, another API."""
        beginning = data[:_QUOTED_BYTES].decode("utf-8", "replace").strip()
        message = f"the reply is not {self._protocol}: {beginning!r}"
        return CallFailure("error", "invalid_response", message)


class TokenCounts(NamedTuple):
    """The token counts of a reply; None is what the server did not say, or said as no count."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def report_counts(sink: Sink, usage: Any, input_name: str, output_name: str) -> TokenCounts:
    """Report the token counts of a reply, by a protocol's names for those of input and output."""
    if not isinstance(usage, dict):
        return TokenCounts()
    sent = {
        "input_tokens": usage.get(input_name),
        "output_tokens": usage.get(output_name),
        "cached_tokens": _find_detail(usage, input_name, "cached_tokens"),
        "reasoning_tokens": _find_detail(usage, output_name, "reasoning_tokens"),
    }
    counts: dict[str, int] = {}
    unusable = []
    for name, value in sent.items():
        if type(value) is int and 0 <= value < MAX_TOKENS:
            counts[name] = value
        elif value is not None:
            unusable.append(name)
    if unusable:
        names = ", ".join(unusable)
        sink.note(warning=f"usage: what the server sent as {names} is no count of tokens")
    sink.usage(**counts)
    return TokenCounts(**counts)


def _find_detail(usage: dict[str, Any], name: str, detail: str) -> Any:
    details = usage.get(f"{name}_details")
    return details.get(detail) if isinstance(details, dict) else None


def arguments_text(arguments: Any) -> str | None:
    """The text of a call's arguments, which some servers send as an object.

    Those nested too deeply to be written become a text that is no arguments.
    """
    if arguments is None or isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments)
    except RecursionError:
        return "nested too deeply"


def sent_arguments(call: PastCall) -> str:
    """The arguments of an earlier call as the text that goes back to the server."""
    return json.dumps(call.arguments, ensure_ascii=False)
