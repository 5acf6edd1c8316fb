"""Does it stay true? A hundred thousand calls in one run: nothing lost, memory flat, the last timed like the first.

The schedule leaves a core room to breathe, so that what is measured is the clock and not a client at its limit. Records
and rows of one prompt meet in the order in which they began; all calls keep one schedule, so a swap costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.fidelity import record_errors
from bench.figures import median
from bench.memory_watch import MemoryWatch
from bench.setting import Setting, load_average
from bench.truth import COMPLETE, TruthRow
from bench.workplace import Record

MODEL = "t200-i10-n16"
CONCURRENCY = 256
PROMPTS = 1000
SHOWN = 1000


def measure(setting: Setting) -> dict[str, Any]:
    """One long run: the errors of its first and its last calls, its memory early and late, and what was lost."""
    calls = setting.pick(quick=3_000, normal=100_000, full=100_000)
    setting.tell(f"sustained: {calls:,} calls at concurrency {CONCURRENCY}")
    watch = MemoryWatch()
    with setting.workplace() as place:
        place.reset_truth()
        asked = place.ask(
            "chat",
            MODEL,
            prompts=PROMPTS,
            concurrency=CONCURRENCY,
            repeats=calls // PROMPTS,
            started=watch.begin,
        )
        records, truth = asked.records(), place.truth("chat")
    pairs = pair_in_order(records, truth, by_tag=place.server.tags_requests)
    warm = [pair for pair in pairs if pair[0].timings_us.connect is None]
    return {
        "model": MODEL,
        "calls": calls,
        "concurrency": CONCURRENCY,
        "lost": calls - sum(record.success and record.objective_pass is True for record in records),
        "unanswered": sum(row.end != COMPLETE for row in truth),
        "wall_s": round(asked.finished.wall_s, 1),
        "cpu_ms_per_call": round(asked.finished.cpu_s * 1000 / calls, 4),
        "first": record_errors(warm[:SHOWN]),
        "last": record_errors(warm[-SHOWN:]),
        "rss_mb": describe_memory(watch.samples_mb)
        | {"peak": round(asked.finished.peak_rss_mb, 1)},
        "load_average": load_average(),
    }


def pair_in_order(
    records: Sequence[Record], truth: Sequence[TruthRow], *, by_tag: bool
) -> list[tuple[Record, TruthRow]]:
    """Each record with a row of the same prompt, in the order of the rows. Raises where the two do not add up."""
    if len(records) != len(truth):
        raise ValueError(f"{len(records)} records, but the server answered {len(truth)} calls")
    asked: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.started_at_ms, reverse=True):
        asked[record.prompt_id.lower() if by_tag else ""].append(record)
    return [(asked[row.id if by_tag else ""].pop(), row) for row in truth]


def describe_memory(samples_mb: Sequence[float]) -> dict[str, float | None]:
    """The median of the second tenth of the run, when it is in full swing, and of the last."""
    tenth = len(samples_mb) // 10
    if not tenth:
        return {"early": None, "late": None}
    return {
        "early": round(median(samples_mb[tenth : 2 * tenth]), 1),
        "late": round(median(samples_mb[-tenth:]), 1),
    }
