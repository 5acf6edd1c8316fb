"""The first token of a lone call, fitted from a folder's steps: from those that are such, and can be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from msgspec import to_builtins

from clawgauge.records import CapacityOptions, Event, Load, Slo, Target, TimingsUs
from clawgauge.summary import summarize_folder
from clawgauge.summary.capacity import LoadCalls, read_capacity, read_visits
from support import written_runs

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


def write_visits(path: Any, rounds: list[dict[str, Any]], steps: list[dict[str, Any]]) -> None:
    """A run of one target whose events are these rounds and steps; every step has 20 calls."""
    config = written_runs.config([], capacity=to_builtins(OPTIONS))
    records = []
    events = [("capacity_context", {"context_tokens": 1000})]
    for detail in rounds:
        events.append(("capacity_round", {"context_tokens": 1000, **detail}))
    for detail in steps:
        window = {"context_tokens": 1000, "from_ms": 0.0, "to_ms": 1e9, **detail}
        events.append(("capacity_step", window))
        for number in range(20):
            load = {"client": number % detail["concurrency"], "due_us": 1, "queued_us": 0}
            times = {"ttft": 1000, "e2e": 1_000_000}
            record = written_runs.record(
                detail["step"], None, repeat=number, suite="capacity", load=load, timings_us=times
            )
            records.append(record)
    label = records[0]["provider"] + ":" + records[0]["model"]
    written_runs.write_run(path, records, config=config)
    lines = [
        {"event": name, "at_ms": 1, "target": label, "detail": detail} for name, detail in events
    ]
    (path / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_rounds_count_as_far_as_they_came_to_their_end(tmp_path: Path) -> None:
    """The second round was made, of the third one visit is missing; a visit that was made again
    counts as it was the last time.
    """
    rounds = [
        {"visit": 2, "concurrency": [2, 1]},
        {"visit": 3, "concurrency": [1, 2]},
        {"visit": 4, "concurrency": [1, 2]},
    ]
    steps = [
        {"step": "1000/c1", "concurrency": 1},
        {"step": "1000/c2", "concurrency": 2},
        {"step": "1000/c2v2", "concurrency": 2, "visit": 2, "untrusted": "late"},
        {"step": "1000/c2v2b", "concurrency": 2, "visit": 2},
        {"step": "1000/c1v2", "concurrency": 1, "visit": 2},
        {"step": "1000/c1v3", "concurrency": 1, "visit": 3},
    ]
    write_visits(tmp_path / "run", rounds, steps)
    (entry,) = summarize_folder(tmp_path / "run").capacity
    assert entry.n_rounds == 2
    one, two = entry.steps
    assert [visit.visit for visit in one.visits] == [1, 2, 3]
    assert one.n == 60
    assert [visit.step for visit in two.visits] == ["1000/c2", "1000/c2v2b"]
    assert len(two.trusted_visits) == 2
    # A run that is gone on with has every visit by itself.
    measured = read_visits(tmp_path / "run")
    found = {(visit.step.concurrency, visit.number): visit.step.n for visit in measured}
    assert found == {(1, 1): 20, (2, 1): 20, (2, 2): 20, (1, 2): 20, (1, 3): 20}
    assert {visit.context_tokens for visit in measured} == {1000}


def test_a_folder_without_rounds_has_one(tmp_path: Path) -> None:
    write_visits(tmp_path / "run", [], [{"step": "1000/c1", "concurrency": 1}])
    (entry,) = summarize_folder(tmp_path / "run").capacity
    assert entry.n_rounds == 1
    assert [visit.visit for visit in entry.steps[0].visits] == [1]
