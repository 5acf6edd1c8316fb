"""What does a viewer cost a run? The same run alone, and with `clawgauge view` following it for a browser.

The browser is played by a thread here: it asks for the rows as an EventSource does, and reads each event to its end.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil

from bench.figures import median
from bench.setting import Setting, load_average
from bench.throughput import CONCURRENCY, ratios
from bench.workplace import CLAWGAUGE, Asked, Workplace

MODEL = "t20-i1-n16"
PATIENCE_S = 60.0


class Side(NamedTuple):
    """One run: what it took, how late its loop was, and what its viewer saw and took."""

    wall_s: float
    cpu_s: float
    lag_p99_ms: float
    seen: int = 0
    viewer_cpu_s: float = 0.0


def measure(setting: Setting) -> dict[str, Any]:
    """Medians of both sides, in turn, and their ratios."""
    calls = setting.pick(quick=600, normal=10_000, full=20_000)
    setting.tell(f"viewer: {calls:,} calls at concurrency {CONCURRENCY}, alone and followed")
    with setting.workplace() as place:
        samples = setting.interleave(
            {"alone": lambda: alone(place, calls), "followed": lambda: followed(place, calls)}
        )
    sides = {
        name: {
            field: round(median([getattr(one, field) for one in rounds]), 3)
            for field in Side._fields
        }
        for name, rounds in samples.items()
    }
    return {
        "model": MODEL,
        "calls": calls,
        "concurrency": CONCURRENCY,
        **sides,
        "ratios": ratios(sides["followed"], sides["alone"]),
        "load_average": load_average(),
    }


def _ask(place: Workplace, calls: int) -> Asked:
    asked = place.ask("chat", MODEL, prompts=calls, concurrency=CONCURRENCY)
    n_judged = sum(record.success and record.objective_pass is True for record in asked.records())
    if n_judged != calls:
        raise ValueError(
            f"{n_judged} of {calls} calls were answered and judged: nothing to compare"
        )
    return asked


def _side(asked: Asked, **viewer: Any) -> Side:
    clock = json.loads((asked.folder / "summary.json").read_bytes())["models"][0]["clock"]
    return Side(asked.finished.wall_s, asked.finished.cpu_s, clock["lag_p99_ms"] or 0.0, **viewer)


def alone(place: Workplace, calls: int) -> Side:
    return _side(_ask(place, calls))


def followed(place: Workplace, calls: int) -> Side:
    """The run with a viewer that was there before it, and stays until all has been shown."""
    (place.folder / "runs").mkdir(exist_ok=True)
    command = [*CLAWGAUGE, "view", "--no-open"]
    with subprocess.Popen(
        command, cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            browser = Browser(process.stdout.readline().strip(), set(place.runs()), place)
            browser.start()
            asked = _ask(place, calls)
            browser.join(PATIENCE_S)
            if browser.seen != calls:
                raise ValueError(f"the viewer was shown {browser.seen} of {calls} rows")
            times = psutil.Process(process.pid).cpu_times()
        finally:
            process.kill()
    return _side(asked, seen=browser.seen, viewer_cpu_s=times.user + times.system)


class Browser(threading.Thread):
    """Follows the first run that was not there before. `seen` is how many rows the view says have ended."""

    def __init__(self, address: str, before: set[str], place: Workplace) -> None:
        super().__init__(daemon=True)
        self.seen = 0
        self._address, self._before, self._place = urlsplit(address), before, place

    def run(self) -> None:
        base = self._enter()
        pause = threading.Event()
        while not (new := [name for name in self._place.runs() if name not in self._before]):
            pause.wait(0.02)
        with closing(
            http.client.HTTPConnection(self._address.netloc, timeout=PATIENCE_S)
        ) as connection:
            while True:
                connection.request("GET", f"{base}runs/{new[0]}/rows")
                reply = connection.getresponse()
                if reply.status == http.client.OK and self._read(reply):
                    return
                reply.read()
                pause.wait(0.05)

    def _enter(self) -> str:
        """The path under which all pages are, for the address that was printed."""
        with closing(
            http.client.HTTPConnection(self._address.netloc, timeout=PATIENCE_S)
        ) as connection:
            connection.request("GET", f"/?{self._address.query}")
            location = connection.getresponse().getheader("Location")
        if location is None:
            raise ValueError("the view did not let the browser in")
        return location

    def _read(self, reply: http.client.HTTPResponse) -> bool:
        """Whether the run has ended."""
        for line in reply:
            if line.startswith(b"data: "):
                news = json.loads(line.removeprefix(b"data: "))
                self.seen = sum(sum(counts.values()) for counts in news["counts"].values())
        return bool(self.seen)
