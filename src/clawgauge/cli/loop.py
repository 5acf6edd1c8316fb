"""The one event loop: uvloop where it installs, and how an interruption reaches what runs in it."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from clawgauge.cli.process import Interrupted, interruption
from clawgauge.client_limits import require_descriptors
from clawgauge.errors import MachineError

T = TypeVar("T")
# What an event loop and a run folder take before anything is asked.
_DESCRIPTORS = 10


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end. Objects made while importing are taken out of the collector's way first."""
    try:
        require_descriptors(_DESCRIPTORS)
    except OSError as fault:
        main.close()
        raise MachineError("this program may open too few files to work: raise the limit with ulimit -n 256") from fault
    # Around the loop's own life an interruption is only noted: nothing of it is half built or half closed.
    with interruption.cancelling(lambda: None):
        gc.freeze()
        # A thread that judges gives way to the loop that stamps within a millisecond.
        sys.setswitchinterval(0.001)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            try:
                return runner.run(_cancellable(main))
            except asyncio.CancelledError:
                if interruption.happened:
                    raise Interrupted from None
                raise


async def interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`; an interruption ends it alone, and what stands after it is still done."""
    try:
        await _cancellable(work)
    except asyncio.CancelledError:
        if not interruption.happened:
            raise


async def _cancellable(work: Coroutine[Any, Any, T]) -> T:
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    # Wakes the loop as well: a signal handler runs between two of its turns, or in the middle of one.
    with interruption.cancelling(lambda: loop.call_soon_threadsafe(task.cancel)):
        if interruption.happened:
            task.cancel()
        return await task


def _loop_factory() -> Any:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
