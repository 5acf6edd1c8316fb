"""aiohttp's parser of HTTP replies, for whoever reads a connection without aiohttp's client.

Owns: how that parser is set up, and getting a reply out of bytes that stop being HTTP after it. Refuses: connections,
clocks, and what a reply means.
"""

from __future__ import annotations

import asyncio
import io
from typing import NamedTuple, cast

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

# Never reached: what a read brings is taken out at once, and the loop reads a fraction of this.
_PARSER_BUFFER_BYTES = 1 << 26


class ReplyHead(NamedTuple):
    """The head of a reply, and the payload that fills as more is parsed."""

    message: RawResponseMessage
    payload: StreamReader
    upgraded: bool

    @property
    def is_interim(self) -> bool:
        """Whether the reply itself is yet to come."""
        return 100 <= self.message.code < 200 and not self.upgraded


def new_parser(loop: asyncio.AbstractEventLoop) -> HttpResponseParser:
    """A parser for the replies of one connection. Decompressing is left to whoever counts the bytes."""
    return HttpResponseParser(
        _UNPAUSED,
        loop,
        _PARSER_BUFFER_BYTES,
        payload_exception=aiohttp.ClientPayloadError,
        read_until_eof=True,
        auto_decompress=False,
    )


def salvage_reply(loop: asyncio.AbstractEventLoop, data: bytes) -> ReplyHead | None:
    """The reply at the beginning of `data`, which goes wrong further on; None where it goes wrong in the head.

    A parser gives out nothing of what it is fed together with the fault. So it is fed line by line up to the end of the
    head, which is the end of a line; a payload that was given out keeps what is parsed before the fault.
    """
    parser = new_parser(loop)
    lines = io.BytesIO(data)
    reply = None
    try:
        while reply is None and (line := lines.readline()):
            messages, upgraded, _ = parser.feed_data(line)
            heads = (ReplyHead(message, payload, upgraded) for message, payload in messages)
            reply = next((head for head in heads if not head.is_interim), None)
        parser.feed_data(lines.read())
    except HttpProcessingError:
        pass  # the fault, again
    return reply


class _Unpaused:
    """What aiohttp's parser asks of its protocol. Nothing waits in its buffers here, so there is nothing to pause."""

    _reading_paused = False

    def pause_reading(self) -> None:
        return

    def resume_reading(self, resume_parser: bool = True) -> None:
        return


_UNPAUSED = cast(BaseProtocol, _Unpaused())
