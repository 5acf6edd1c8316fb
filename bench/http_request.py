"""Cuts the bytes of a connection into requests. Knows just enough HTTP/1.1 for clients that behave."""

from __future__ import annotations

from typing import NamedTuple

HEAD_CAP_BYTES = 64 * 1024
_MARK, _MARK_END, _MARK_CAP_BYTES = b"[[id:", b"]]", 64


class Request(NamedTuple):
    """One whole request. `id` is its `x-request-id`, else the `[[id:…]]` in its body, else empty."""

    method: bytes
    path: bytes
    body: bytes
    id: str
    closes: bool


class NotHttp(ValueError):
    """The bytes are no request this server can serve; the connection is of no further use."""


def take_request(held: bytearray) -> Request | None:
    """Take the first whole request out of `held`; None while it is not all there."""
    end = held.find(b"\r\n\r\n")
    if end < 0:
        if len(held) > HEAD_CAP_BYTES:
            raise NotHttp("no end of the headers")
        return None
    head = bytes(held[:end])
    fields = head.lower() + b"\r\n"
    if b"\r\ntransfer-encoding:" in fields:
        raise NotHttp("a request body must have a content-length")
    size = _field(fields, b"content-length") or b"0"
    words = head.split(b" ", 2)
    if len(words) < 3 or not size.isdigit():
        raise NotHttp("not a request line")
    body_at, body_end = end + 4, end + 4 + int(size)
    if len(held) < body_end:
        return None
    body = bytes(held[body_at:body_end])
    del held[:body_end]
    request_id = _field(fields, b"x-request-id") or _marker(body)
    closes = _field(fields, b"connection") == b"close"
    return Request(
        words[0], words[1].partition(b"?")[0], body, request_id.decode("latin-1"), closes
    )


def _field(fields: bytes, name: bytes) -> bytes:
    at = fields.find(b"\r\n%s:" % name)
    if at < 0:
        return b""
    start = at + len(name) + 3
    return fields[start : fields.index(b"\r\n", start)].strip()


def _marker(body: bytes) -> bytes:
    at = body.find(_MARK)
    if at < 0:
        return b""
    start = at + len(_MARK)
    end = body.find(_MARK_END, start, start + _MARK_CAP_BYTES)
    return body[start:end] if end >= 0 else b""
