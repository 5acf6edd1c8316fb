"""The first token of a lone call, fitted from a folder's steps: from those that are such, and can be trusted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from clawgauge.records import CapacityOptions, Event, Load, Slo, Target, TimingsUs
from clawgauge.summary.capacity import LoadCalls, read_capacity

TARGET = Target("a", "m")
OPTIONS = CapacityOptions(
    contexts=[1000, 2000], output_tokens=8, slo=Slo(), max_concurrency=1, rates=[], duration_s=1.0, shared_prefix=0,
    shape="plain", swap=False, max_time_s=60.0,
)  # fmt: skip


def row(step: str, number: int, tokens: int, ttft_us: int) -> Any:
    told = {
        "success": True,
        "failure_type": None,
        "availability_status": "ok",
        "server_us": None,
        "cold_start": None,
    }
    counts = {
        "input_tokens": tokens,
        "output_tokens": 8,
        "cached_tokens": None,
        "reasoning_tokens": None,
    }
    load = Load(client=0, due_us=1000 * number, queued_us=0)
    times = TimingsUs(e2e=ttft_us + 100, ttft=ttft_us)
    return SimpleNamespace(
        suite="capacity",
        load=load,
        timings_us=times,
        target=TARGET,
        prompt_id=step,
        was_asked=True,
        **counts,
        **told,
    )


def test_agents_and_steps_in_which_we_were_late_have_no_part_in_it() -> None:
    rows, events = list[Any](), list[Event]()
    steps = {
        "1000/c1": (1000, {}), "2000/c1": (2000, {}), "3000/c1": (3000, {"untrusted": "late"}),
        "4000/c1": (4000, {"pauses": True}),
    }  # fmt: skip
    for step, (tokens, facts) in steps.items():
        window = {
            "step": step,
            "context_tokens": tokens,
            "concurrency": 1,
            "from_ms": 0.0,
            "to_ms": 1e9,
            **facts,
        }
        events.append(Event(event="capacity_step", at_ms=0, target=TARGET.label, detail=window))
        events.append(
            Event(
                event="capacity_context",
                at_ms=0,
                target=TARGET.label,
                detail={"context_tokens": tokens},
            )
        )
        rows += [
            row(step, number, tokens, 9_000_000 if facts else 10 * tokens) for number in range(4)
        ]
    run, calls = (
        SimpleNamespace(config=SimpleNamespace(targets=[TARGET]), events=events),
        LoadCalls(),
    )
    calls.add(rows)
    fit = read_capacity(cast(Any, run), OPTIONS, calls)[0].ttft_fit
    assert fit is not None and (fit.n, round(fit.ms_per_1k_tokens, 6)) == (8, 10.0)
