"""A run folder of a capacity run with known times."""

from __future__ import annotations

import json
from pathlib import Path

from clawgauge.records import Target
from support import written_runs
from support.measured_models import OLLAMA

FIRST_TOKENS_MS = {1: 1000, 2: 1500, 4: 3000}


def write_load(
    folder: Path,
    target: Target,
    slower: float = 1.0,
    output: int = 8,
    n_failed: int = 0,
    n_rounds: int = 1,
    slow_visit: int | None = None,
) -> None:
    """A capacity run with prompts of 16k tokens: at 1, 2 and 4 at once first tokens took 1, 1.5 and 3 seconds, and the
    last `n_failed` calls at 4 at once were cut off. 2 and 4 were visited in `n_rounds`, of which the search is the
    first; at `slow_visit` everything took twice as long. With one round the folder is as version 0.2.0 wrote it."""
    options = {
        "contexts": [16_000],
        "output_tokens": output,
        "slo": {"ttft_ms": 2000.0},
        "max_concurrency": 4,
        "rates": [],
    }
    options |= {
        "duration_s": 60.0,
        "shared_prefix": 0,
        "shape": "plain",
        "swap": False,
        "max_time_s": 900.0,
    }
    records, events = [], [("capacity_context", {"context_tokens": 16_000, "truncated": False})]
    visits = [(1, level, ttft_ms) for level, ttft_ms in FIRST_TOKENS_MS.items()]
    for visit in range(2, n_rounds + 1):
        order = {"context_tokens": 16_000, "visit": visit, "concurrency": [4, 2]}
        events.append(("capacity_round", order))
        visits += [(visit, level, FIRST_TOKENS_MS[level]) for level in (4, 2)]
    for visit, level, ttft_ms in visits:
        factor = 2 * slower if visit == slow_visit else slower
        ttft_us = round(1000 * ttft_ms * factor)
        name, times = f"16000/c{level}", {"ttft": ttft_us, "e2e": ttft_us + 100_000}
        window = {"context_tokens": 16_000, "concurrency": level, "from_ms": 0.0, "to_ms": 1e9}
        place = {}
        if n_rounds > 1:
            place["visit"] = visit
        if visit > 1:
            name += f"v{visit}"
        events.append(("capacity_step", window | place | {"step": name}))
        calls = []
        for n in range(60):
            calls.append({"client": n % level, "due_us": 4_000_000 * n, "queued_us": 0} | place)
        how = {
            "suite": "capacity",
            "timings_us": times,
            "provider": target.provider,
            "model": target.model,
        }
        made = [
            written_runs.record(name, None, repeat=n, load=load, **how)
            for n, load in enumerate(calls)
        ]
        for cut_off in made[len(made) - n_failed :] if level == 4 else ():
            cut_off.update(
                written_runs.unanswered(name, "timeout"),
                repeat=cut_off["repeat"],
                load=cut_off["load"],
                **how,
            )
        records += made
    planned = written_runs.config([], [target.model], capacity=options)
    written_runs.write_run(
        folder, records, config=planned | {"providers": {target.provider: OLLAMA}}
    )
    lines = [
        {"event": name, "at_ms": 1, "target": target.label, "detail": detail}
        for name, detail in events
    ]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
