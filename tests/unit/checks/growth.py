"""How the time a piece of work takes grows with the text it is given."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SIZE = 32_768
# Below this, what is measured is the machine.
FLOOR_S = 0.02
ATTEMPTS = 4


def grows_linearly(work: Callable[[str], object], unit: str, prefix: str = "", suffix: str = "") -> bool:
    def measure(size: int) -> float:
        text = prefix + unit * (size // len(unit)) + suffix
        started = time.process_time()
        work(text)
        return time.process_time() - started

    gc.disable()  # a full collection walks the heap of the whole test run, whenever it happens to come
    try:
        return any(measure(2 * SIZE) <= 3 * max(measure(SIZE), FLOOR_S) for _ in range(ATTEMPTS))
    finally:
        gc.enable()
