"""What every measurement is given: the server, how much to do, and where to say what is going on."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.bare_client import BareCall
from bench.command import Finished
from bench.server_process import ROOT, CalibratedServer
from bench.workplace import Workplace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """`rounds` is how often each side is measured, in turn; figures are medians over them."""

    server: CalibratedServer
    quick: bool = False
    full: bool = False
    rounds: int = 3

    @contextlib.contextmanager
    def workplace(self) -> Iterator[Workplace]:
        with tempfile.TemporaryDirectory(prefix="clawgauge-bench-") as folder:
            yield Workplace(Path(folder), self.server)

    def pick(self, *, quick: T, normal: T, full: T) -> T:
        """How much to do, by how much was asked for."""
        return quick if self.quick else full if self.full else normal

    def interleave(self, sides: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """Every side once per round, one after another: what disturbs the machine disturbs them all."""
        samples: dict[str, list[T]] = {name: [] for name in sides}
        for _ in range(self.rounds):
            for name, measure in sides.items():
                samples[name].append(measure())
        return samples

    def tell(self, line: str) -> None:
        print(f"{line}  (load {load_average()[0]:.2f})", file=sys.stderr, flush=True)


def run_bare(place: Workplace, path: str, model: str, *, calls: int, concurrency: int) -> Finished:
    """The bare client as a command of its own, keeping nothing."""
    return place.run(_bare_argv(place, path, model, calls, concurrency))


def observe_bare(
    place: Workplace, path: str, model: str, *, calls: int, concurrency: int
) -> list[BareCall]:
    """The bare client, and what it saw."""
    out = place.folder / "bare.json"
    place.run([*_bare_argv(place, path, model, calls, concurrency), "--out", str(out)])
    return [BareCall(**call) for call in json.loads(out.read_text())]


def _bare_argv(place: Workplace, path: str, model: str, calls: int, concurrency: int) -> list[str]:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bench.bare_client import main; sys.exit(main())"
    argv = [
        sys.executable,
        "-c",
        script,
        "--base-url",
        place.server.base_url,
        "--path",
        path,
        "--model",
        model,
    ]
    return [*argv, "--calls", str(calls), "--concurrency", str(concurrency)]


def load_average() -> list[float]:
    """The machine's load over 1, 5 and 15 minutes: beside every figure, for the reader to judge it by."""
    return [round(load, 2) for load in os.getloadavg()]
