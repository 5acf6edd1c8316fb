"""Is the harness light? A thousand short calls, whole commands side by side: wall time, CPU and memory.

clawgauge sends, parses, judges and records each call on disk, takes its inventory and writes its summary. The bare
client only sends and reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.setting import Setting, load_average, run_bare
from bench.workplace import Workplace

MODEL = "t0-i0-n16"
CONCURRENCY = 64


def measure(setting: Setting) -> dict[str, Any]:
    """Medians per side, and their ratios."""
    calls = setting.pick(quick=300, normal=1000, full=1000)
    setting.tell(f"throughput: {calls} calls of 16 instant tokens at concurrency {CONCURRENCY}")
    with setting.workplace() as place:
        samples = setting.interleave(
            {
                "clawgauge": lambda: ask_and_check(
                    place, MODEL, calls=calls, concurrency=CONCURRENCY
                ),
                "bare": lambda: run_bare(
                    place, "chat", MODEL, calls=calls, concurrency=CONCURRENCY
                ),
            }
        )
        told = what_is_recorded(place.newest_run())
    sides = {name: _describe(rounds, calls) for name, rounds in samples.items()}
    return {
        "model": MODEL,
        "calls": calls,
        "concurrency": CONCURRENCY,
        **sides,
        "ratios": ratios(sides["clawgauge"], sides["bare"]),
        **told,
        "load_average": load_average(),
    }


def ask_and_check(
    place: Workplace, model: str, *, calls: int, concurrency: int, repeats: int = 1
) -> Finished:
    """One run; raises unless every call was answered, judged and recorded."""
    asked = place.ask(
        "chat", model, prompts=calls // repeats, concurrency=concurrency, repeats=repeats
    )
    n_judged = sum(record.success and record.objective_pass is True for record in asked.records())
    if n_judged != calls:
        raise ValueError(
            f"{n_judged} of {calls} calls were answered and judged: nothing to compare"
        )
    return asked.finished


def what_is_recorded(folder: Path) -> dict[str, bool]:
    """Whether a run folder tells connecting apart, and says how busy the client itself was."""
    with (folder / "results.jsonl").open("rb") as results:
        timings = json.loads(results.readline())["timings_us"]
    around = (folder / "events.jsonl").read_bytes() + (folder / "summary.json").read_bytes()
    return {"connect_recorded": "connect" in timings, "loop_lag_recorded": b"_lag" in around}


def ratios(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    """How many times theirs ours is, for every figure both have."""
    return {
        key: round(ours[key] / theirs[key], 2) for key in ours.keys() & theirs.keys() if theirs[key]
    }


def _describe(rounds: list[Finished], calls: int) -> dict[str, float]:
    wall_s = median([one.wall_s for one in rounds])
    cpu_s = median([one.cpu_s for one in rounds])
    return {
        "wall_s": round(wall_s, 3),
        "calls_per_s": round(calls / wall_s, 1),
        "cpu_s": round(cpu_s, 3),
        "cpu_ms_per_call": round(cpu_s * 1000 / calls, 3),
        "peak_rss_mb": round(median([one.peak_rss_mb for one in rounds]), 1),
    }
