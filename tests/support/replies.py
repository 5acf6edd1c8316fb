"""Replies that follow the protocol: an answer, an error status, an error inside a stream.

Each reply is a value; `play` performs it on one exchange. What breaks the protocol is in `faulty_replies`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

from support.http_exchange import Exchange
from support.waiting import happening
from support.wire_frames import Frame, dump_json, opening

JSON_TYPE = {"Content-Type": "application/json; charset=utf-8"}


class Reply(Protocol):
    """Anything that can answer a request."""

    async def play(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True)
class Text:
    """A whole, proper answer in the protocol of the request, streamed or not as the request asks.

    `text`: None sends null content; `chunks`: the pieces, or how many to make (by default one per word).
    `head_delay_s` passes before the first byte, `first_delay_s` between the opening events and the first piece,
    `gap_s` between pieces; with `apart` each piece waits until the client has read the one before. `usage`: (input,
    output), "auto" (12, one per piece), None to leave it out, or a dict that is sent as it stands. `tool_calls`: (name,
    *argument fragments) each. `finish`: None never says why it stopped. `model`: what the server says answered, by
    default what was asked for. `done` is the chat protocol's `[DONE]`.
    """

    text: str | None = "Hello from the scripted server."
    chunks: int | Sequence[str] | None = None
    head_delay_s: float = 0.0
    first_delay_s: float = 0.0
    gap_s: float = 0.0
    apart: bool = False
    usage: tuple[int, int] | dict[str, Any] | Literal["auto"] | None = "auto"
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    reasoning: str = ""
    reasoning_key: str | None = None
    refusal: str | None = None
    finish: str | None = "stop"
    tool_calls: Sequence[tuple[str, ...]] = ()
    model: str | None = None
    done: bool = True
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str]:
        if isinstance(self.chunks, int):
            return split_evenly(self.text or "", self.chunks)
        return list(self.chunks) if self.chunks is not None else split_words(self.text or "")

    @property
    def whole_text(self) -> str | None:
        return "".join(self.pieces) if self.text is not None else None

    @property
    def finish_reason(self) -> str | None:
        return "tool_calls" if self.tool_calls and self.finish == "stop" else self.finish

    def token_counts(self) -> tuple[int, int] | None:
        """(input, output) as a server would report them; None where `usage` is absent or sent as it stands."""
        if self.usage == "auto":
            fragments = sum(len(call) - 1 for call in self.tool_calls)
            return 12, len(self.pieces) + len(split_words(self.reasoning)) + fragments
        return self.usage if isinstance(self.usage, tuple) else None

    async def play(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.head_delay_s)
        if not exchange.request.streaming:
            await asyncio.sleep(self.first_delay_s + self.gap_s * max(len(self.pieces) - 1, 0))
            body = dump_json(exchange.wire.body(self, exchange.request, exchange.dialect))
            await exchange.send_whole(200, body, {**JSON_TYPE, **self.headers})
            return
        await exchange.start_chunks(headers=self.headers)
        await send_frames(
            exchange, exchange.wire.frames(self, exchange.request, exchange.dialect), self
        )
        await exchange.end_chunks()


@dataclass(frozen=True)
class Held:
    """Answers once something has happened: for what a test must see, or do, while a call is in flight."""

    reply: Reply
    until: Callable[[], object]

    async def play(self, exchange: Exchange) -> None:
        await happening(self.until)
        await self.reply.play(exchange)


@dataclass(frozen=True)
class Status:
    """An HTTP status. Without `json` or `body` it comes with the protocol's own error object."""

    code: int
    json: Any = None
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "scripted failure"

    async def play(self, exchange: Exchange) -> None:
        body = self.body
        if body is None:
            own_words = self.json is None
            error = (
                exchange.wire.error_body(self.code, self.message, exchange.dialect)
                if own_words
                else self.json
            )
            body = dump_json(error)
        await exchange.send_whole(self.code, body, {**JSON_TYPE, **self.headers})


@dataclass(frozen=True)
class StreamError:
    """An error event inside a stream that began with 200, before (`after_text=""`) or after some text.

    Without streaming it is a plain HTTP error. `failed` sends the Responses protocol's `response.failed` instead of
    its `error` event; the other protocols have the one form only.
    """

    code: int = 500
    after_text: str = ""
    message: str = "scripted stream failure"
    failed: bool = False

    async def play(self, exchange: Exchange) -> None:
        if not exchange.request.streaming:
            await Status(self.code, message=self.message).play(exchange)
            return
        text = Text(self.after_text, finish="failed" if self.failed else "stop")
        frames = exchange.wire.frames(text, exchange.request, exchange.dialect)
        begun = list(opening(frames, len(text.pieces)))
        await exchange.start_chunks()
        await send_frames(exchange, begun, text)
        if self.failed and b"response.failed" in frames[-1].data:
            await exchange.send_chunk(frames[-1].data)
        else:
            error = exchange.wire.stream_error(
                self.code, self.message, len(begun), exchange.dialect
            )
            await exchange.send_chunk(error)
        await exchange.end_chunks()


@dataclass(frozen=True)
class Redirect:
    """Sends the client elsewhere."""

    to: str
    code: int = 307

    async def play(self, exchange: Exchange) -> None:
        await exchange.send_whole(self.code, b"", {"Location": self.to})


@dataclass(frozen=True)
class SseBytes:
    """A stream of exactly these bytes, cut at the given offsets, or every `every` bytes, each piece its own chunk."""

    data: bytes
    splits: Sequence[int] = ()
    every: int = 0
    gap_s: float = 0.0

    async def play(self, exchange: Exchange) -> None:
        inner = (
            range(self.every, len(self.data), self.every)
            if self.every
            else sorted(set(self.splits))
        )
        cuts = [0, *(cut for cut in inner if 0 < cut < len(self.data)), len(self.data)]
        await exchange.start_chunks()
        for start, end in pairwise(cuts):
            if end > start:
                await exchange.send_chunk(self.data[start:end])
                await asyncio.sleep(self.gap_s)
        await exchange.end_chunks()


async def send_frames(exchange: Exchange, frames: Iterable[Frame], pace: Text) -> None:
    """Frames as they are due: the opening at once, then the tokens at the pace of the answer."""
    tokens_sent = 0
    for frame in frames:
        if frame.token:
            delay_s = pace.gap_s if tokens_sent else pace.first_delay_s
            if pace.apart and tokens_sent:
                await exchange.wait_until_read()
            if delay_s:
                await asyncio.sleep(delay_s)
            tokens_sent += 1
        await exchange.send_chunk(frame.data)


def split_words(text: str) -> list[str]:
    """Pieces as a tokenizer makes them: each word with the white space before it."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def split_evenly(text: str, count: int) -> list[str]:
    """As many pieces as asked for, or one per character where there are fewer."""
    count = min(count, len(text))
    cuts = [len(text) * index // count for index in range(count + 1)] if count else []
    return [text[start:end] for start, end in pairwise(cuts)]
