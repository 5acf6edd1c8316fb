"""How far this program's own clock can be trusted over one target's suite.

Owns: what the client itself cost and how well it could tell time: its loop's lag, its processor time, the step of its
clock. Refuses: judging; whoever reads the figures says whether the client was the bottleneck.
"""

from __future__ import annotations

import time
from typing import Any, Self

import msgspec

from clawgauge.runner.lag import LagWatch, clock_resolution_ns


class ClientClock:
    """Runs from entering to leaving. `cores` and `load_1m` are what the machine had, and had to do, before that."""

    def __init__(self, *, cores: int | None, load_1m: float | None) -> None:
        self.lag_watch = LagWatch()
        self._cores = cores
        self._load_1m = load_1m
        self._resolution_ns = clock_resolution_ns()
        self._began_s = self._wall_s = 0.0
        self._began_cpu_s = self._cpu_s = 0.0

    def __enter__(self) -> Self:
        self.lag_watch.__enter__()
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wall_s = time.perf_counter() - self._began_s
        self._cpu_s = time.process_time() - self._began_cpu_s
        self.lag_watch.__exit__(*exc_info)

    def describe(self) -> dict[str, Any]:
        """The figures, for events.jsonl."""
        return {
            "resolution_ns": self._resolution_ns,
            "loop_lag_ms": msgspec.to_builtins(self.lag_watch.describe()),
            "client_cpu_s": round(self._cpu_s, 3),
            "wall_s": round(self._wall_s, 3),
            "cores": self._cores,
            "load_1m": self._load_1m,
        }
