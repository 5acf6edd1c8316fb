"""How the time a piece of work takes grows with its size."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

# Below this, what is measured is the machine.
FLOOR_S = 0.02
ATTEMPTS = 12


def grows_linearly(
    work: Callable[[int], object], size: int, *, factor: int = 2, floor_s: float = FLOOR_S
) -> bool:
    """So many times the work takes at most one and a half times as many times as long, in time of the processor.

    The shortest of several times is the work's own: whatever else a machine does makes a time longer, never shorter.
    Where a size just outgrows a cache the time makes a step, once; growth of another order goes on beyond it.
    """

    def measure_s(n: int) -> float:
        began_s = time.process_time()
        work(n)
        return time.process_time() - began_s

    once_s = more_s = float("inf")
    gc.disable()  # a full collection walks the heap of the whole test run, whenever it happens to come
    try:
        for _ in range(ATTEMPTS):
            once_s, more_s = min(once_s, measure_s(size)), min(more_s, measure_s(factor * size))
            if more_s <= 1.5 * factor * max(once_s, floor_s):
                return True
        # In proportion to the square of its size the work would take `factor**4` times as long.
        far_s = min(measure_s(factor**2 * size) for _ in range(3))
        return far_s <= 0.7 * factor**4 * max(once_s, floor_s)
    finally:
        gc.enable()
