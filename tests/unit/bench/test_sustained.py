"""The long run: which record meets which row, and what its memory and its verdict say."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from bench.command import run_command
from bench.memory_watch import MemoryWatch
from bench.server_process import CalibratedServer
from bench.setting import Setting
from bench.sustained import describe_memory, measure, pair_in_order
from bench.targets import judge
from bench.truth import TruthRow
from bench.workplace import Record, Timings

from support.waiting import wait_until


def record(prompt_id: str, started_at_ms: int) -> Record:
    return Record(prompt_id, started_at_ms, True, True, 6, Timings(e2e=1, ttft=1, ttfa=1), 1.0)


def test_repeats_of_a_prompt_meet_their_rows_in_the_order_they_began() -> None:
    """Two calls of one prompt are not mixed up with those of another, and the earlier record gets the earlier row."""
    records = [record("P1", 30), record("P2", 20), record("P1", 10)]
    truth = [
        TruthRow(id="p1", recv_ns=1),
        TruthRow(id="p2", recv_ns=2),
        TruthRow(id="p1", recv_ns=3),
    ]
    pairs = pair_in_order(records, truth, by_tag=True)
    assert [(one.prompt_id, one.started_at_ms) for one, _ in pairs] == [
        ("P1", 10),
        ("P2", 20),
        ("P1", 30),
    ]
    assert [row for _, row in pairs] == truth


def test_a_call_that_left_no_record_is_noticed() -> None:
    """A lost record cannot hide behind a good average."""
    with pytest.raises(ValueError, match="1 records, but the server answered 2"):
        pair_in_order([record("P1", 1)], [TruthRow(id="p1"), TruthRow(id="p1")], by_tag=True)


def test_memory_is_compared_in_full_swing() -> None:
    """Starting up is in neither figure; too few samples say nothing."""
    assert describe_memory([1.0] * 10 + [50.0] * 80 + [55.0] * 10) == {"early": 50.0, "late": 55.0}
    assert describe_memory([1.0, 2.0]) == {"early": None, "late": None}


def test_the_watch_sees_a_command_grow(tmp_path: Path) -> None:
    """Samples are of the command and not of what launched it."""
    watch = MemoryWatch()

    def let_it_grow() -> None:
        """It is small until it was seen small, and large until it was seen large."""
        wait_until(lambda: watch.samples_mb and watch.samples_mb[-1] > 4)
        small_mb = watch.samples_mb[-1]
        (tmp_path / "grow").touch()
        wait_until(lambda: watch.samples_mb[-1] > small_mb + 40)
        (tmp_path / "end").touch()

    follow = "while not os.path.exists(name): time.sleep(0.01)"
    script = f"import os, time\nname = 'grow'\n{follow}\nx = bytearray(64_000_000)\nname = 'end'\n{follow}"
    growing = threading.Thread(target=let_it_grow)
    growing.start()
    run_command(
        [sys.executable, "-I", "-S", "-c", script], cwd=tmp_path, env={}, started=watch.begin
    )
    growing.join()
    assert max(watch.samples_mb) > min(watch.samples_mb) + 40


def verdict(**found: Any) -> bool | None:
    sustained = {
        "calls": 100_000,
        "lost": 0,
        "rss_mb": {"early": 50.0, "late": 52.0},
        "first": {"ttft_ms": {"p99": 1.0}},
        "last": {"ttft_ms": {"p99": 1.5}},
    }
    (met,) = [
        v.met for v in judge({"sustained": sustained | found}) if v.what.startswith("100,000")
    ]
    return met


def test_a_long_run_is_judged_by_all_it_promises() -> None:
    """A lost call, growing memory or a clock that drifts each break the promise; a shorter run says nothing."""
    assert verdict() is True
    assert verdict(lost=1) is False
    assert verdict(rss_mb={"early": 50.0, "late": 60.0}) is False
    assert verdict(last={"ttft_ms": {"p99": 2.5}}) is False
    assert verdict(calls=3_000) is None


@pytest.mark.slow
def test_a_short_sustained_run_adds_up(server: CalibratedServer) -> None:
    """Three thousand calls at full concurrency: every one recorded, judged, and laid beside its truth."""
    found = measure(Setting(server, quick=True, rounds=1))
    assert (found["lost"], found["unanswered"]) == (0, 0)
    assert found["first"]["ttft_ms"]["n"] == found["last"]["ttft_ms"]["n"] == 1000
