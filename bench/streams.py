"""How many tokens a second can be parsed: long instant streams, each token in an event of its own.

Two sizes are measured in every round, and the figures are of the difference: starting the program is in neither.
"""

from __future__ import annotations

from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.setting import Setting, load_average, run_bare
from bench.throughput import ask_and_check

CONCURRENCY = 4


def measure(setting: Setting) -> dict[str, Any]:
    """Tokens per second of wall time and of CPU time, per side."""
    tokens = setting.pick(quick=5_000, normal=20_000, full=20_000)
    few, many = setting.pick(quick=(4, 12), normal=(4, 24), full=(8, 64))
    model = f"t0-i0-n{tokens}"
    setting.tell(f"streams: {few} and {many} replies of {tokens} tokens")
    with setting.workplace() as place:
        samples = setting.interleave(
            {
                "clawgauge_few": lambda: ask_and_check(
                    place, model, calls=few, concurrency=CONCURRENCY
                ),
                "clawgauge_many": lambda: ask_and_check(
                    place, model, calls=many, concurrency=CONCURRENCY
                ),
                "bare_few": lambda: run_bare(
                    place, "chat", model, calls=few, concurrency=CONCURRENCY
                ),
                "bare_many": lambda: run_bare(
                    place, "chat", model, calls=many, concurrency=CONCURRENCY
                ),
            }
        )
    difference = (many - few) * tokens
    return {
        "model": model,
        "calls": [few, many],
        "clawgauge": _rates(samples["clawgauge_few"], samples["clawgauge_many"], difference),
        "bare_unparsed": _rates(samples["bare_few"], samples["bare_many"], difference),
        "load_average": load_average(),
    }


def _rates(few: list[Finished], many: list[Finished], tokens: int) -> dict[str, float | None]:
    wall_s = median([b.wall_s - a.wall_s for a, b in zip(few, many, strict=True)])
    cpu_s = median([b.cpu_s - a.cpu_s for a, b in zip(few, many, strict=True)])
    return {
        # A difference that is not positive was drowned by the machine's other work.
        "tokens_per_s": round(tokens / wall_s) if wall_s > 0 else None,
        "tokens_per_cpu_s": round(tokens / cpu_s) if cpu_s > 0 else None,
        "peak_rss_mb": round(median([one.peak_rss_mb for one in many]), 1),
    }
