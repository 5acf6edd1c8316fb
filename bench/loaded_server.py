"""A server of known capacity: so many slots, so long a prefill, so large a window, as a model's name spells it.

    python -m bench.loaded_server --port 8399

The parts of a name, joined by `-`, are those of `bench.schedule` (`t`, `i`, `n`, times in milliseconds) and

    sS  S requests at once, the others wait in line       fF  F microseconds of prefill for every prompt token
    lL  at most L prefills at once                        xX  of a longer prompt only the last X tokens are read
    repeat   the answer begins with the codes that were read: K or Z and eight digits
    quiet    no token is counted                          refuse   a prompt beyond the window is a 400
    gone     there is no such model

Prompt tokens are characters / 4. The schedule is kept in virtual time: a slot passes on when its last token was due,
not when this program woke up, so what the server can carry is exact on a busy machine too.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from bench.http_request import NotHttp, Request, take_request

_CODE = re.compile(r"\b[KZ][0-9a-f]{8}\b")
_NUMBER = re.compile(r"([sflxtin])([0-9.]+)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Model:
    """One name's capacity, shared by all who ask for it."""

    def __init__(self, name: str) -> None:
        parts = name.split("-")
        numbers = {
            found[1]: float(found[2]) for part in parts if (found := _NUMBER.fullmatch(part))
        }
        self.words = set(parts)
        self.prefill_s = numbers.get("f", 0.0) / 1e6
        self.first_s, self.gap_s = numbers.get("t", 0.0) / 1e3, numbers.get("i", 0.0) / 1e3
        self.n_tokens, self.window = int(numbers.get("n", 16)), numbers.get("x", math.inf)
        self._slots = [0.0] * int(numbers.get("s", 100_000))
        self._lanes = [0.0] * int(numbers.get("l", 100_000))

    def admit(self, now_s: float, prompt_tokens: int) -> float:
        """When the first token of a request that came just now is due."""
        prefill_s = self.prefill_s * prompt_tokens
        begin_s = max(now_s, heapq.heappop(self._slots), self._lanes[0])
        heapq.heapreplace(self._lanes, begin_s + prefill_s)
        due_s = begin_s + prefill_s + self.first_s
        heapq.heappush(self._slots, due_s + (self.n_tokens - 1) * self.gap_s)
        return due_s


class Connection(asyncio.Protocol):
    def __init__(self, models: dict[str, Model]) -> None:
        self._models, self._held = models, bytearray()
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
            if (request := take_request(self._held)) is not None:
                self._answer(request, now_s)
        except NotHttp:
            self._transport.abort()

    def _answer(self, request: Request, now_s: float) -> None:
        if request.method != b"POST":
            self._send_whole(200, {"object": "list", "data": []})
            return
        asked = json.loads(request.body)
        prompt = "".join(message["content"] for message in asked["messages"])
        model = self._models.setdefault(asked["model"], Model(asked["model"]))
        tokens = math.ceil(len(prompt) / 4)
        if "gone" in model.words:
            self._send_whole(
                404, {"error": {"message": "no such model", "code": "model_not_found"}}
            )
            return
        if tokens > model.window:
            if "refuse" in model.words:
                words = f"the prompt has {tokens} tokens, the window {model.window:g}"
                self._send_whole(
                    400, {"error": {"message": words, "code": "context_length_exceeded"}}
                )
                return
            tokens = int(model.window)
            prompt = prompt[-4 * tokens :]
        codes = _CODE.findall(prompt) if "repeat" in model.words else []
        due_s = model.admit(now_s, tokens)
        self._task = asyncio.get_running_loop().create_task(
            self._stream(model, due_s, tokens, codes)
        )

    async def _stream(self, model: Model, due_s: float, tokens: int, codes: list[str]) -> None:
        self._transport.write(_HEAD)
        for k in range(model.n_tokens):
            at_s = due_s + k * model.gap_s
            if (wait_s := at_s - time.perf_counter()) > 0:
                await asyncio.sleep(wait_s)
            text = " ".join(dict.fromkeys(codes)) if codes and k == 0 else f" w{k}"
            self._event({"choices": [{"index": 0, "delta": {"content": text}}]})
        usage = {"prompt_tokens": tokens, "completion_tokens": model.n_tokens}
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        if "quiet" not in model.words:
            self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")

    def _event(self, event: dict[str, Any]) -> None:
        self._chunk(b"data: %s\n\n" % json.dumps(event).encode())

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send_whole(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        self._transport.write(head.encode() + data)


async def serve(
    port: int, started: threading.Event, found: list[int], stop: asyncio.Event | None = None
) -> None:
    models: dict[str, Model] = {}
    listener = await asyncio.get_running_loop().create_server(
        lambda: Connection(models), "127.0.0.1", port, backlog=1024
    )
    found.append(listener.sockets[0].getsockname()[1])
    started.set()
    await (stop or asyncio.Event()).wait()
    listener.close()


@contextmanager
def serving_load() -> Iterator[str]:
    """The server in a thread of its own: its address, until the block ends."""
    started, found = threading.Event(), list[int]()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        loop.run_until_complete(serve(0, started, found, stop))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{found[0]}/v1"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loaded_server", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--port", type=int, default=8399)
    started, found = threading.Event(), list[int]()
    asyncio.run(serve(parser.parse_args(argv).port, started, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
