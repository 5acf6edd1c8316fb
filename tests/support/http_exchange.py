"""One HTTP/1.1 request as it arrived, and the means to answer it byte by byte.

Owns: reading a request off a socket, and the primitives from which every reply is made (head, chunk, raw bytes, reset).
Refuses: any notion of what a proper answer is; a reply may break every rule of HTTP.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from support.waiting import happening
from support.wire_frames import Frame

SOCKETS = Path("/proc/net/tcp")
# Google names the model in the path, and asks for a stream there.
GEMINI_CALL = re.compile(r"/models/([^/]+):(?:streamG|g)enerateContent\Z")


@dataclass(eq=False)
class ReceivedRequest:
    """A request, stamped with `time.perf_counter_ns()` when its last byte was read, and how answering it went."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    received_ns: int
    connection: int
    sent_bytes: int = 0
    client_left: bool = False

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    @cached_property
    def json(self) -> Any:
        """The body, parsed; None where it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def streaming(self) -> bool:
        if GEMINI_CALL.search(self.path):
            return self.path.endswith(":streamGenerateContent")
        return isinstance(self.json, dict) and self.json.get("stream") is True

    @property
    def model(self) -> str:
        in_path = GEMINI_CALL.search(self.path)
        if in_path:
            return unquote(in_path[1])
        return str(self.json.get("model", "")) if isinstance(self.json, dict) else ""

    @property
    def prompt(self) -> str:
        """The last thing the user said, whichever protocol it was said in."""
        if not isinstance(self.json, dict):
            return ""
        said = ""
        for member in ("messages", "contents", "input", "prompt"):
            said = said or self.json.get(member) or ""
        if isinstance(said, list):
            turns = [turn for turn in said if isinstance(turn, dict) and turn.get("role") == "user"]
            last = turns[-1] if turns else {}
            said = last.get("content") or last.get("parts") or ""
        if isinstance(said, list):
            said = "".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
        return str(said)


class WireFormat(Protocol):
    """What a protocol module offers: the same answer, whole or as a stream, and how it words an error."""

    def body(self, text: Any, request: ReceivedRequest, dialect: str) -> dict[str, Any]: ...

    def frames(self, text: Any, request: ReceivedRequest, dialect: str) -> list[Frame]: ...

    def error_body(self, status: int, message: str, dialect: str) -> dict[str, Any]: ...

    def stream_error(
        self, status: int, message: str, sequence_number: int, dialect: str
    ) -> bytes: ...


class Exchange:
    """A request and the socket it came on. `keep_alive` turned false closes the connection after the reply."""

    def __init__(
        self,
        request: ReceivedRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wire: WireFormat,
        dialect: str,
    ) -> None:
        self.request = request
        self.wire = wire
        self.dialect = dialect
        self.keep_alive = request.headers.get("connection", "").lower() != "close"
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Exactly these bytes."""
        self._writer.write(data)
        self.request.sent_bytes += len(data)
        await self._writer.drain()

    async def send_head(self, status: int, headers: dict[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} {_reason(status)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def send_whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """A reply with a length, in one write, as a server does that has all of it."""
        lines = [f"HTTP/1.1 {status} {_reason(status)}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        await self.send(head if self.request.method == "HEAD" else head + body)

    async def start_chunks(
        self, content_type: str = "text/event-stream", headers: dict[str, str] | None = None
    ) -> None:
        own = {"Content-Type": content_type, "Transfer-Encoding": "chunked"}
        await self.send_head(200, {**own, **(headers or {})})

    async def send_chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_chunks(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def wait_until_read(self) -> None:
        """All that was sent has been read by the client: what is sent next will be another read of its."""
        if sys.platform == "linux":
            await happening(lambda: not any(self._unread()))
        else:
            await asyncio.sleep(
                0.05
            )  # no other system shows what waits in the sockets of a process

    def _unread(self) -> list[int]:
        """The bytes on their way to the client, and those that wait for it to read them."""
        ours, theirs = (
            f":{self._writer.get_extra_info(name)[1]:04X}" for name in ("sockname", "peername")
        )
        rows = [row.split() for row in SOCKETS.read_text().splitlines()[1:]]
        sent = [
            row[4].split(":")[0]
            for row in rows
            if row[1].endswith(ours) and row[2].endswith(theirs)
        ]
        waiting = [
            row[4].split(":")[1]
            for row in rows
            if row[1].endswith(theirs) and row[2].endswith(ours)
        ]
        return [int(n_bytes, 16) for n_bytes in sent + waiting]

    async def wait_until_client_leaves(self) -> None:
        """Say nothing more; ends with the client's connection or with the server."""
        self.keep_alive = False
        while await self._reader.read(65536):
            pass
        self.request.client_left = True

    def reset(self) -> None:
        """Close with a TCP reset: lingering for zero seconds throws the connection away."""
        self.keep_alive = False
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._writer.transport.abort()


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
) -> ReceivedRequest | None:
    """The next request on a connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    request_line, *header_lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = request_line.split(" ", 2)
    pairs = (line.partition(":") for line in header_lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method, target, headers, body, time.perf_counter_ns(), connection)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"
