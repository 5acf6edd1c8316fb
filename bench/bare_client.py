"""The least an aiohttp client can do: send, read to the end, note when the first token came. Nothing is kept.

What clawgauge costs is measured beside this. It parses nothing and records nothing; it knows the first word of a
calibrated reply and looks for it in the bytes.

    python -m bench.bare_client --base-url http://127.0.0.1:8399/v1 --model t0-i0-n16 --calls 1000 --concurrency 64
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import uvloop

FIRST_WORD = b'"w0000 "'
PATHS = {"chat": "/chat/completions", "responses": "/responses"}


@dataclass(frozen=True, slots=True)
class BareCall:
    """One call as this client saw it. `warm`: its connection had been used before."""

    id: str
    warm: bool
    ttft_ns: int
    e2e_ns: int


def request_body(path: str, model: str, request_id: str) -> bytes:
    prompt = f"Count. [[id:{request_id}]]"
    body: dict[str, object] = {"model": model, "stream": True}
    if path == "chat":
        body |= {
            "messages": [{"role": "user", "content": prompt}],
            "stream_options": {"include_usage": True},
        }
    else:
        body["input"] = prompt
    return json.dumps(body).encode()


async def call_once(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[int, int]:
    """(time to first token, time to the end), in nanoseconds."""
    began_ns = time.perf_counter_ns()
    first_ns = 0
    async with session.post(url, data=body) as reply:
        while chunk := await reply.content.readany():
            at_ns = time.perf_counter_ns()
            if not first_ns and FIRST_WORD in chunk:
                first_ns = at_ns
    if reply.status != 200 or not first_ns:
        raise RuntimeError(f"the server answered {reply.status} and no token")
    return first_ns - began_ns, at_ns - began_ns


async def run(arguments: argparse.Namespace) -> list[BareCall]:
    calls: list[BareCall] = []
    numbers = iter(range(arguments.calls))
    url = arguments.base_url + PATHS[arguments.path]
    headers = {"content-type": "application/json"}
    connector = aiohttp.TCPConnector(limit=arguments.concurrency)
    gc.freeze()
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(arguments.concurrency):
            group.create_task(_work(session, url, arguments, numbers, calls))
    return calls


async def _work(
    session: aiohttp.ClientSession,
    url: str,
    arguments: argparse.Namespace,
    numbers: Iterator[int],
    seen: list[BareCall],
) -> None:
    warm = False
    for number in numbers:
        body = request_body(arguments.path, arguments.model, f"p{number}")
        ttft_ns, e2e_ns = await call_once(session, url, body)
        if arguments.out is not None:
            seen.append(BareCall(f"p{number}", warm, ttft_ns, e2e_ns))
        warm = True


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bare_client", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--path", choices=sorted(PATHS), default="chat")
    parser.add_argument("--model", required=True)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write what was seen here, as JSON")
    arguments = parser.parse_args(argv)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        calls = runner.run(run(arguments))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(call) for call in calls]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
