"""Waiting for what must happen, on a machine that may be busy with anything.

A test waits for an event and not for a span of time. `PATIENCE_S` only ends a test that would wait for ever; nothing
is asserted of it. `growing_deadlines` is for what has to come before a deadline of the program's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

PATIENCE_S = 240.0
# No name: too long to be one. A name that merely has no owner would be asked of the network.
NO_SUCH_HOST = "no-such-host." * 30 + "invalid"
# What a reply or a child waits where it is the other side that must act: longer than any test lasts.
FOREVER_S = 3600.0


def wait_until(
    happened: Callable[[], object], within_s: float = PATIENCE_S, every_s: float = 0.01
) -> None:
    """Look again and again until it is so."""
    deadline_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline_s, "it never came to that"
        time.sleep(every_s)


async def happening(happened: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """The same on an event loop, which goes on turning."""
    deadline_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline_s, "it never came to that"
        await asyncio.sleep(0.002)


def growing_deadlines(first_s: float) -> Iterator[float]:
    """Deadlines to try in turn until what should come before one has come: a busy machine needs a later one."""
    return (first_s * factor for factor in (1, 5, 25, 100))
