"""Does a long run cost more per call, or more memory, than a short one? A hundred times the calls, side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.setting import Setting, load_average, run_bare
from bench.throughput import ask_and_check

MODEL = "t0-i0-n4"
CONCURRENCY = 256
PROMPTS = 1000


def measure(setting: Setting) -> dict[str, Any]:
    """One row per size; `marginal` is the cost of a call between the smallest and the largest."""
    sizes = setting.pick(
        quick=[1_000, 3_000], normal=[1_000, 10_000, 100_000], full=[1_000, 100_000]
    )
    setting.tell(
        f"growth: {', '.join(f'{size:,}' for size in sizes)} calls at concurrency {CONCURRENCY}"
    )
    with setting.workplace() as place:
        sides: dict[str, Callable[[], Finished]] = {}
        for size in sizes:
            sides[f"clawgauge_{size}"] = partial(
                ask_and_check,
                place,
                MODEL,
                calls=size,
                concurrency=CONCURRENCY,
                repeats=size // PROMPTS,
            )
            sides[f"bare_{size}"] = partial(
                run_bare, place, "chat", MODEL, calls=size, concurrency=CONCURRENCY
            )
        samples = setting.interleave(sides)
    rows = [
        {
            "calls": size,
            **{side: _describe(samples[f"{side}_{size}"]) for side in ("clawgauge", "bare")},
        }
        for size in sizes
    ]
    marginal = {
        side: _marginal(samples, side, sizes[0], sizes[-1]) for side in ("clawgauge", "bare")
    }
    return {
        "model": MODEL,
        "concurrency": CONCURRENCY,
        "rows": rows,
        "marginal_cpu_ms_per_call": marginal,
        "marginal_cpu_ratio": round(marginal["clawgauge"] / marginal["bare"], 2),
        "marginal_bytes_per_call": _marginal_bytes(samples, sizes[0], sizes[-1]),
        "load_average": load_average(),
    }


def _describe(rounds: list[Finished]) -> dict[str, float]:
    return {
        "wall_s": round(median([one.wall_s for one in rounds]), 3),
        "cpu_s": round(median([one.cpu_s for one in rounds]), 3),
        "peak_rss_mb": round(median([one.peak_rss_mb for one in rounds]), 1),
    }


def _marginal_bytes(samples: dict[str, list[Finished]], small: int, large: int) -> int:
    """What a run remembers of each call, as its peak memory tells."""
    grown_mb = median([one.peak_rss_mb for one in samples[f"clawgauge_{large}"]]) - median(
        [one.peak_rss_mb for one in samples[f"clawgauge_{small}"]]
    )
    return round(grown_mb * 1024 * 1024 / (large - small))


def _marginal(samples: dict[str, list[Finished]], side: str, small: int, large: int) -> float:
    pairs = zip(samples[f"{side}_{small}"], samples[f"{side}_{large}"], strict=True)
    return round(median([(b.cpu_s - a.cpu_s) * 1000 / (large - small) for a, b in pairs]), 4)
