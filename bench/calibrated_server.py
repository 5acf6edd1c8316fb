"""A calibrated LLM server: keeps the schedule that a model name spells, and logs when things really happened.

    python -m bench.calibrated_server --port 8399
    curl -sN localhost:8399/v1/chat/completions -d '{"model":"t200-i10-n8","stream":true,"messages":[]}'
    curl -s localhost:8399/truth        # figures, in microseconds; `late` is how far the server missed its schedule
    curl -s localhost:8399/truth.csv    # one line per request
    curl -s localhost:8399/truth/reset

Owns: connections and what is asked on them, in chat completions, Responses and Anthropic messages; `exchange` keeps
each reply's schedule, `truth` its stamps, and `schedule` explains the names. Refuses: faults; it always answers as it
should.

Bytes go to the socket with a plain `write`, past the transport: uvloop's transports collect writes and send them when
the loop has come round, which would make every stamp too early.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import signal
import sys
import time
from typing import cast

import msgspec
import uvloop

from bench.deadlines import DeadlineQueue
from bench.exchange import Exchange
from bench.http_request import NotHttp, Request, take_request
from bench.truth import TruthLog, TruthRow
from bench.wire import make_reply

APIS = {b"/chat/completions": "chat", b"/responses": "responses", b"/messages": "messages"}
SHOWN_MODELS = ("t0-i0-n16", "t100-i10-n32", "t100-i10-n32-r4", "t0-i0-n0-c4")


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Asked(msgspec.Struct):
    model: str = ""
    stream: bool = False
    stream_options: _StreamOptions | None = None


_decode_asked = msgspec.json.Decoder(_Asked).decode


class Server:
    """What all connections share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.deadlines = DeadlineQueue(loop)
        self.log = TruthLog()
        self.numbers = itertools.count(1)

    def answer_about_itself(self, path: bytes) -> tuple[int, str, str]:
        """(status, content type, body) of everything that is not a call to a model."""
        match path:
            case b"/truth":
                return 200, "application/json", json.dumps(self.log.figures())
            case b"/truth.csv":
                return 200, "text/csv", self.log.to_csv()
            case b"/truth/reset":
                self.log.reset()
                self.numbers = itertools.count(1)
                return 200, "application/json", '{"ok": true}'
            case b"/health":
                return 200, "application/json", '{"status": "ok"}'
            case b"/v1/models":
                models = [
                    {"id": name, "object": "model", "owned_by": "bench"} for name in SHOWN_MODELS
                ]
                return 200, "application/json", json.dumps({"object": "list", "data": models})
            case _:
                return (
                    404,
                    "application/json",
                    '{"error": {"message": "not found", "code": "not_found"}}',
                )


class Connection(asyncio.Protocol):
    """One client's connection: one request at a time, in the order they came."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held = bytearray()
        self._exchange: Exchange | None = None
        self._closes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._fd: int = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._exchange is not None:
            self._exchange.abandon()
            self._exchange = None

    def data_received(self, data: bytes) -> None:
        read_ns = time.perf_counter_ns()
        self._held += data
        self._serve(read_ns)

    def resume_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.go_on()

    def write(self, data: bytes) -> bool:
        """Send now. Returns False when the socket is full: `resume_writing` will tell when the rest has left."""
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._transport.abort()
            return False
        if sent == len(data):
            return True
        self._transport.write(data[sent:])
        # The client may have made room since: then the rest is gone already, and nobody would tell us to go on.
        return self._transport.get_write_buffer_size() == 0

    def finished(self) -> None:
        """The reply under way is out; serve what has arrived meanwhile."""
        self._exchange = None
        if self._closes:
            self._transport.close()
        elif self._held:
            self._serve(time.perf_counter_ns())

    def _serve(self, read_ns: int) -> None:
        try:
            while self._exchange is None and (request := take_request(self._held)) is not None:
                self._answer(request, read_ns)
        except NotHttp:
            self._transport.abort()

    def _answer(self, request: Request, read_ns: int) -> None:
        self._closes = request.closes
        api = APIS.get(request.path.removeprefix(b"/v1"))
        if request.method == b"POST" and api is not None:
            try:
                asked = _decode_asked(request.body)
            except msgspec.MsgspecError:
                self._answer_small(
                    400, "application/json", '{"error": {"message": "not a request"}}'
                )
                return
            self._begin(request, api, asked, read_ns)
        else:
            self._answer_small(*self._server.answer_about_itself(request.path))

    def _begin(self, request: Request, api: str, asked: _Asked, read_ns: int) -> None:
        server, number = self._server, next(self._server.numbers)
        row = TruthRow(
            seq=number,
            id=request.id or f"r{number}",
            model=asked.model,
            api=api,
            stream=int(asked.stream),
            recv_ns=read_ns,
        )
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        reply = make_reply(api, asked.model, with_usage)
        self._exchange = Exchange(self, server.deadlines, server.log, reply, row)
        self._exchange.begin()

    def _answer_small(self, status: int, content_type: str, body: str) -> None:
        data = body.encode()
        head = f"HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {len(data)}\r\n\r\n"
        self._transport.write(head.encode() + data)
        if self._closes:
            self._transport.close()


async def serve(port: int) -> None:
    """Serve on loopback until told to stop; the port is printed, so that 0 may stand for any."""
    loop = asyncio.get_running_loop()
    server = Server(loop)
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=4096)
    stopping = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopping.set)
    print(
        f"calibrated server on http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1",
        flush=True,
    )
    # The collector would stop the world in the middle of a schedule, and nothing here makes cycles that matter.
    gc.freeze()
    gc.disable()
    await stopping.wait()
    listener.close()
    server.deadlines.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.calibrated_server", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8399,
        help="0 takes a free one; printed when ready (default 8399)",
    )
    parser.add_argument("--cpu", type=int, help="stay on this core (Linux)")
    arguments = parser.parse_args(argv)
    if arguments.cpu is not None:
        os.sched_setaffinity(0, {arguments.cpu})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
