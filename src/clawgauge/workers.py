"""Threads for what blocks: a fixed number of them, and the end of the program waits for none."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """`n_threads` threads that take work in the order in which it comes.

    The program would wait for an executor of the standard library when it ends, and a large report
    can take long to make. These threads only read, so they are left behind."""

    def __init__(self, name: str, n_threads: int) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        for number in range(n_threads):
            thread = threading.Thread(target=self._work, name=f"{name} {number}", daemon=True)
            thread.start()

    async def run(self, job: Callable[[], T]) -> T:
        """What `job` returns or raises. Work that nobody waits for any more is not begun."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
