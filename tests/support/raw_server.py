"""A server that speaks no protocol: a test gets the bare socket of every connection, in a thread of its own.

    with RawServer(lambda connection, number: connection.sendall(b"...")) as server:
        ...  # point a client at server.url

For what a scripted server cannot do: speak before it is asked, or flood for as long as somebody listens.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Self

Converse = Callable[[socket.socket, int], None]
# struct linger: on, for 0 seconds.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class RawServer:
    """Calls `converse` for every connection, counted from 1; a peer that leaves in the middle is no fault."""

    def __init__(self, converse: Converse, *, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._converse = converse
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._threads.append(threading.Thread(target=self._accept, daemon=True))
        self._threads[0].start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                thread = threading.Thread(
                    target=self._serve, args=(connection, self.connections), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self._tls is not None:
                connection = stack.enter_context(
                    self._tls.wrap_socket(connection, server_side=True)
                )
            self._converse(connection, number)


def read_request(connection: socket.socket) -> bytes:
    """One request up to the end of its body; empty where the client has left."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].split(b":")[1]):
        part = connection.recv(65536)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body


def linger(connection: socket.socket) -> None:
    """Say nothing more until the client leaves."""
    while connection.recv(65536):
        pass


class Flood:
    """Answers every request with `head` and then `block` again and again, for as long as somebody takes it.

    `max_bytes` ends it, so that a client without bounds fails its test and not the machine; `was_cut` tells that the
    client left before.
    """

    def __init__(self, head: bytes, block: bytes, *, max_bytes: int = 256 << 20) -> None:
        self._head = head
        self._block = block * max(1, 65536 // max(1, len(block)))
        self._max_bytes = max_bytes
        self.sent_bytes = 0
        self.was_cut = threading.Event()

    def __call__(self, connection: socket.socket, number: int) -> None:
        while read_request(connection):
            try:
                connection.sendall(self._head)
                while self.sent_bytes < self._max_bytes:
                    connection.sendall(self._block)
                    self.sent_bytes += len(self._block)
            except OSError:
                self.was_cut.set()
                raise


def tunnel_to(port: int) -> Converse:
    """A proxy that opens a tunnel to this port, whatever name it is asked for."""

    def converse(connection: socket.socket, number: int) -> None:
        if not read_request(connection).startswith(b"CONNECT "):
            return
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            # Closing resets the connection. A server that floods a connection closed in good order, with its window
            # full, may otherwise be kept waiting by the kernel for a minute (FIN-WAIT-2 answers its window probes).
            upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(upstream, connection), daemon=True)
            back.start()
            _pump(connection, upstream)
            back.join(timeout=10)

    return converse


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
