"""The one event loop: uvloop where it installs, and what Ctrl-C, SIGTERM and SIGHUP do to it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from clawgauge.providers.process_groups import kill_all_groups

T = TypeVar("T")
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interruption:
    """Counts signals. The first cancels the work; the second ends the process at once, its children with it."""

    def __init__(self, work: asyncio.Task[Any]) -> None:
        self._work = work
        self.happened = False

    def __call__(self) -> None:
        if self.happened:
            kill_all_groups()
            os._exit(130)
        self.happened = True
        self._work.cancel()


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end. Objects made while importing are taken out of the collector's way first."""
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Any:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def interruptible(work: Coroutine[Any, Any, None]) -> bool:
    """Await `work`; returns True if a signal ended it early."""
    task = asyncio.ensure_future(work)
    interruption = Interruption(task)
    loop = asyncio.get_running_loop()
    installed = []
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, interruption)
        except (NotImplementedError, RuntimeError, ValueError):
            continue
        installed.append(number)
    try:
        await task
    except asyncio.CancelledError:
        if not interruption.happened:
            raise
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
    return interruption.happened
