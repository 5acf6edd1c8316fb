"""A plain client for looking at a scripted server: `http.client` and raw sockets, none of our own code."""

from __future__ import annotations

import http.client
import json
import re
import socket
from typing import Any

from support.scripted_server import ScriptedServer
from support.waiting import PATIENCE_S

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def ask(
    server: ScriptedServer, path: str = CHAT, *, stream: bool = False, **extra: Any
) -> tuple[int, bytes]:
    """One request on a connection of its own; (status, body)."""
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": stream,
        **extra,
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, json.dumps(request))
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def open_raw(server: ScriptedServer, path: str = CHAT, *, stream: bool = True) -> socket.socket:
    """A socket on which the request has been sent and nothing read."""
    body = json.dumps({"model": "m", "stream": stream}).encode()
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    raw.sendall(
        b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)
    )
    return raw


def read_until_closed(raw: socket.socket, limit: int = 1 << 20) -> bytes:
    """What comes until the server closes, or until more than `limit` bytes have come."""
    received = bytearray()
    while len(received) < limit and (data := raw.recv(65536)):
        received += data
    return bytes(received)


def events(raw: bytes) -> list[Any]:
    """The payloads of a stream, parsed; `[DONE]` as it stands."""
    payloads = re.findall(rb"^data: (.*)$", raw, re.MULTILINE)
    return [
        payload.decode() if payload == b"[DONE]" else json.loads(payload) for payload in payloads
    ]
