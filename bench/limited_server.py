"""A host with a limit, which answers 429 with Retry-After beyond it, and remembers who came too early.

A model's name says which limit, its parts joined by `-`, times in milliseconds:

    tT  every answer takes T    qQ  at most Q calls at once    rR  at most R calls in each second

Every model has a limit of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from bench.http_request import NotHttp, Request, take_request

RETRY_AFTER_S = 1
# A call that was sent before a refusal was read is not one that came too early: it is on its way.
_ON_ITS_WAY_S = 0.1


class LimitedModel:
    """What one name allows, and what came."""

    def __init__(self, name: str) -> None:
        numbers = {part[:1]: part[1:] for part in name.split("-") if part[1:].isdigit()}
        self.answer_s = int(numbers.get("t", 500)) / 1000
        self.most_at_once = int(numbers.get("q", 1_000_000))
        self.most_in_a_second = int(numbers.get("r", 1_000_000))
        self.n_answered = 0
        self.n_refused = 0
        self.n_too_early = 0
        self._n_under_way = 0
        self._admitted_at_s: list[float] = []
        self._refused_at_s = float("-inf")

    def admit(self, now_s: float) -> bool:
        """Whether a call that came now is answered."""
        since_refusal_s = now_s - self._refused_at_s
        if _ON_ITS_WAY_S < since_refusal_s < RETRY_AFTER_S:
            self.n_too_early += 1
        self._admitted_at_s = [at_s for at_s in self._admitted_at_s if now_s - at_s < 1.0]
        is_full = self._n_under_way >= self.most_at_once
        if is_full or len(self._admitted_at_s) >= self.most_in_a_second:
            self._refused_at_s = now_s
            self.n_refused += 1
            return False
        self._admitted_at_s.append(now_s)
        self._n_under_way += 1
        return True

    def finish(self) -> None:
        self._n_under_way -= 1
        self.n_answered += 1


class _Connection(asyncio.Protocol):
    def __init__(self, models: dict[str, LimitedModel]) -> None:
        self._models = models
        self._held = bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        now_s = time.perf_counter()
        self._held += data
        try:
            request = take_request(self._held)
        except NotHttp:
            self._transport.abort()
            return
        if request is not None:
            self._answer(request, now_s)

    def _answer(self, request: Request, now_s: float) -> None:
        if request.method != b"POST":
            self._send(b"200 OK", {"object": "list", "data": []})
            return
        name = json.loads(request.body)["model"]
        model = self._models.setdefault(name, LimitedModel(name))
        if model.admit(now_s):
            self._task = asyncio.get_running_loop().create_task(self._stream(model))
            return
        extra = f"retry-after: {RETRY_AFTER_S}\r\n".encode()
        self._send(b"429 Too Many Requests", {"error": {"message": "slow down"}}, extra)

    async def _stream(self, model: LimitedModel) -> None:
        await asyncio.sleep(model.answer_s)
        model.finish()
        events = [
            {"choices": [{"index": 0, "delta": {"content": "w0000 "}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}},
        ]
        lines = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
        body = lines + b"data: [DONE]\n\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)

    def _send(self, status: bytes, document: dict[str, Any], extra: bytes = b"") -> None:
        body = json.dumps(document).encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
        self._transport.write(head % (status, extra, len(body)) + body)


@contextmanager
def serving_limited() -> Iterator[tuple[str, dict[str, LimitedModel]]]:
    """The server in a thread of its own: its address and its models by name, until the block ends."""
    models: dict[str, LimitedModel] = {}
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started = threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        listener = await loop.create_server(lambda: _Connection(models), "127.0.0.1", 0)
        ports.append(listener.sockets[0].getsockname()[1])
        started.set()
        await stop.wait()
        listener.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{ports[0]}/v1", models
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
