"""A results file read by two processes gives what one reader gives."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from clawgauge.summary import shares, summarize_folder
from clawgauge.summary.groups import Stratum, StratumKey
from clawgauge.summary.share_wire import ShareRefused, decode_share, encode_share
from clawgauge.summary.shares import SECOND_READER, stratify_folder

from .run_folders import T0, config, failed, prompt, record, tool_record, write_run

MOMENT = datetime(2026, 2, 14, 9, 30, tzinfo=UTC)
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """One core would read alone, and show nothing."""
    monkeypatch.setattr(shares, "_count_cores", lambda: 2)


def varied_rows(n, seed=1):
    """Rows of several targets, suites, stretches and endings, in no order, with spoilt and blank lines among them."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        common = {
            "model": rng.choice(["a", "b", "c"]),
            "suite": rng.choice(["core", "tool_use"]),
            "stretch": rng.choice([0, 0, 1]),
            "repeat": i,
            "e2e_ms": rng.randrange(1, 5000),
            "started_at_ms": (start := T0 + rng.randrange(10**6)),
            "ended_at_ms": start + rng.randrange(5000),
            "cost_usd": rng.choice([None, rng.random()]),
            "output_tps": rng.random() * 100,
            "timings_us": {"e2e": 9000, "ttft": 700, "lag": rng.randrange(2000)},
            "warnings": rng.choice([[], ["odd"], [f"w{rng.randrange(9)}", "odd"]]),
        }
        kind = rng.randrange(8)
        if kind == 0:
            error = rng.choice([None, f"words {i}"])
            rows.append(failed(f"P{i % 7}", "error", rng.choice(["timeout", "http_503"]), error=error) | common)
        elif kind == 1:
            rows.append(rng.choice(['{"broken": ', "", "[1, 2]", "   "]))
        elif kind < 4:
            native = rng.choice([True, False])
            written = {"tool_channel": "text:hermes"} if native and rng.random() < 0.3 else {}
            rows.append(tool_record(f"T{i % 5}", rng.random() < 0.7, native=native) | common | written)
        else:
            rows.append(record(f"P{i % 7}", objective_pass=rng.random() < 0.6, **common))
    return rows


@pytest.mark.parametrize("seed", [1, 2])
def test_two_readers_agree_with_one(tmp_path, seed):
    """Every figure, the order of the groups and the count of bad lines are the same, float for float."""
    folder = write_run(tmp_path / "run", varied_rows(1500, seed), config=config([prompt(f"P{i}") for i in range(9)]))
    alone = summarize_folder(folder, generated_at=MOMENT, split_bytes=NEVER)
    shared = summarize_folder(folder, generated_at=MOMENT, split_bytes=1)
    assert alone.n_unreadable_lines > 50 and len(alone.models) == 4
    assert all(group.tool_use.rescued for group in alone.models[1:])
    assert shared == alone


def test_a_torn_tail_is_torn_for_both(tmp_path):
    """A last line cut short, as in a run under way, counts in nothing, whoever reads it."""
    folder = write_run(tmp_path / "run", varied_rows(300))
    with (folder / "results.jsonl").open("a", encoding="utf-8") as out:
        out.write(json.dumps(record("P0"))[:200])
    alone = summarize_folder(folder, generated_at=MOMENT, split_bytes=NEVER)
    assert summarize_folder(folder, generated_at=MOMENT, split_bytes=1) == alone


@pytest.mark.parametrize("lines", [0, 1, 2, 3])
def test_files_too_short_to_cut(tmp_path, lines):
    """Nothing, one line, or a cut that falls into the last line: all are read, once."""
    folder = write_run(tmp_path / "run", [record(f"P{i}", raw_output="x" * 900 * i) for i in range(lines)])
    summary = summarize_folder(folder, split_bytes=0)
    assert sum(group.n_total for group in summary.models) == lines


def test_old_folders_are_read_as_before(tmp_path):
    """A folder of the first harness gives the same figures whatever its size."""
    additions = list(record())[list(record()).index("suite") :]
    rows = [{k: v for k, v in record(f"P{i % 5}").items() if k not in additions} for i in range(40)]
    folder = write_run(tmp_path / "run", rows)
    assert summarize_folder(folder, split_bytes=1, generated_at=MOMENT) == summarize_folder(
        folder, split_bytes=NEVER, generated_at=MOMENT
    )


def test_more_warnings_than_are_kept(tmp_path):
    """Where distinct warnings overflow in the second half only, the first reader reads on, and counts as one would."""
    rows = [record(f"P{i}", warnings=["known"]) for i in range(200)]
    rows += [record(f"P{i}", repeat=1, warnings=[f"new {i}", "known"]) for i in range(200)]
    folder = write_run(tmp_path / "run", rows)
    alone = summarize_folder(folder, generated_at=MOMENT, split_bytes=NEVER)
    assert summarize_folder(folder, generated_at=MOMENT, split_bytes=1) == alone
    assert any(text == "known (400 of 400 calls)" for text in alone.models[0].warnings)


def test_without_a_second_process_one_reads_all(tmp_path, monkeypatch):
    """Where the interpreter cannot be started, or answers nothing, the summary is the same."""
    folder = write_run(tmp_path / "run", varied_rows(200))
    alone = summarize_folder(folder, generated_at=MOMENT, split_bytes=NEVER)
    for program in ("/no/such/python", "", "/bin/false"):
        monkeypatch.setattr(sys, "executable", program)
        assert summarize_folder(folder, generated_at=MOMENT, split_bytes=1) == alone


def test_the_second_reader_alone(tmp_path):
    """It writes a share that reads back, and ends with 1 and no words where there is nothing to read."""
    folder = write_run(tmp_path / "run", [record(f"P{i}") for i in range(5)])
    words = [sys.executable, "-P", "-m", SECOND_READER]
    done = subprocess.run([*words, str(folder), "0"], capture_output=True, check=True)
    strata, bad_lines = decode_share(done.stdout)
    assert (sum(s.endings.total() for s in strata.values()), bad_lines) == (5, 0)
    missing = subprocess.run([*words, str(tmp_path / "nothing"), "0"], capture_output=True, check=False)
    assert (missing.returncode, missing.stdout, missing.stderr) == (1, b"", b"")


def test_a_share_is_whole_or_refused():
    """Half a message, or strata that dropped warnings, are no share."""
    key = StratumKey("p", "m", None, "s", 0, None)
    share = encode_share({key: Stratum()}, 3)
    assert decode_share(share)[1] == 3
    for data in (b"", share[:-2]):
        with pytest.raises(ShareRefused):
            decode_share(data)
    dropped = Stratum()
    dropped.warnings_dropped = True
    with pytest.raises(ShareRefused):
        encode_share({key: dropped}, 0)


def test_small_files_start_no_process(tmp_path, monkeypatch):
    """An ordinary run is read at once: an interpreter that would fail is never asked."""
    marker = tmp_path / "asked"
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    folder = write_run(tmp_path / "run", varied_rows(100))
    stratify_folder(folder)
    assert not marker.exists()
    stratify_folder(folder, split_bytes=1)
    assert marker.exists()
