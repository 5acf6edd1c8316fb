"""`clawgauge capacity` against a server whose capacity is known by arithmetic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.loaded_server import serving_load

from clawgauge.capacity.rounds import draw_order
from support.command import Outcome, chat_config, clawgauge, read_records, trust_configuration
from support.rows import every_row
from support.scripted_server import ScriptedServer, Status
from support.view import started
from support.waiting import wait_until


@pytest.fixture(scope="module")
def loaded() -> Iterator[str]:
    with serving_load() as address:
        yield address


def load(cwd: Path, address: str, model: str, *words: str) -> Outcome:
    chat_config(cwd, box=address)
    return clawgauge(cwd, "capacity", "-t", f"box:{model}", *words)


def capacity(done: Outcome) -> list[dict[str, Any]]:
    assert done.code == 0, done.stderr
    found: list[dict[str, Any]] = done.summary()["capacity"]
    return found


def test_how_many_it_carries_is_said_and_rests_on_the_records(tmp_path: Path, loaded: str) -> None:
    done = load(
        tmp_path, loaded, "s2-f40-t5-i1-n8-x1500", "--context", "500,4k", "--output", "8", "--max-concurrency", "1",
        "--slo", "ttft=5s",
    )  # fmt: skip
    short, long = capacity(done)
    levels = [step["concurrency"] for step in short["steps"]]
    assert levels == [1]
    assert short["truncated"] is False and long["truncated"] is True
    assert (long["truncated_by"], long["counted_tokens"], long["steps"]) == ("count", 1500, [])
    assert "SILENTLY TRUNCATED to 1500 tokens" in done.stderr and "at once at 500" in done.stderr
    records = done.records()
    assert all(len(record["attempts"]) == 1 and record["suite"] == "capacity" for record in records)
    for step in short["steps"]:
        mine = []
        for visit in step["visits"]:
            of_visit = [record for record in records if record["prompt_id"] == visit["step"]]
            assert len({record["repeat"] for record in of_visit}) == len(of_visit)
            assert {record["load"]["visit"] for record in of_visit} == {visit["visit"]}
            mine += of_visit
        assert len(mine) >= step["n"] > 0
        assert {visit["visit"] for visit in step["visits"]} == {1, 2, 3, 4, 5}
        assert {record["load"]["client"] for record in mine} == set(range(step["concurrency"]))
        assert (
            step["attained"] == 1.0
            and step["n_failed"] == 0
            and step["input_tokens"] == pytest.approx(500, abs=2)
        )
        assert step["ttft_ms"]["p50"] >= 25, "faster than the server can be"
    # From the first second on it is said what is being done.
    calibrating = done.stderr.index("calibrating by two short calls")
    assert calibrating < done.stderr.index("calibration took") < done.stderr.index("1 at once at")
    assert "round 2 of 5, in random order: 1 at once" in done.stderr
    assert short["n_rounds"] == 5
    # Told again from the folder alone, in all forms; and it is no run to route by, or to compare with.
    again = clawgauge(tmp_path, "show", "latest", "--json")
    assert json.loads(again.stdout)["capacity"] == done.summary()["capacity"]
    assert "at once" in (done.folder / "summary.md").read_text()
    clawgauge(tmp_path, "report", "-o", "page.html")
    assert '"capacity":[{' in (tmp_path / "page.html").read_text()
    routed = clawgauge(tmp_path, "route", "latest")
    assert routed.code == 2 and "capacity run" in routed.stderr
    # It is gone on with as it was begun, at the same server; but it may have more time.
    go_on = ("capacity", "--resume", done.folder.name)
    refused = clawgauge(tmp_path, *go_on, "--slo", "ttft=1s", "--max-time", "7m")
    assert refused.code == 2 and "only --max-time may be another" in refused.stderr
    longer = clawgauge(tmp_path, *go_on, "--max-time", "7m", "--dry-run", "--json")
    again = json.loads(longer.stdout)["capacity"]
    assert (again["max_time_s"], again["contexts"], again["slo"]["ttft_ms"]) == (
        420.0,
        [500, 4000],
        5000.0,
    )
    chat_config(tmp_path, box="http://127.0.0.1:1/v1")
    moved = clawgauge(tmp_path, *go_on)
    assert (
        moved.code == 2
        and "box was at" in moved.stderr
        and "is now at http://127.0.0.1:1" in moved.stderr
    )


def test_what_makes_no_sense_is_a_sentence_before_any_call(
    place: Path, server: ScriptedServer
) -> None:
    wrong = [
        "--slo ttft=2s,e2e=1s",
        "--resume nowhere",
        "--swap -t fake:other --rate 2",
        "--rate 2 --max-time 9",
    ]
    for words in map(str.split, wrong):
        done = clawgauge(place, "capacity", "-t", "fake:scripted-model", *words)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert "clawgauge: " in done.stderr and "Traceback" not in done.stderr
    assert server.requests == [] and not (place / "runs").exists()


def test_who_may_cost_money_is_not_loaded_without_a_limit(
    place: Path, server: ScriptedServer
) -> None:
    config = (place / "clawgauge.toml").read_text().replace("local = true\n", "")
    (place / "clawgauge.toml").write_text(config)
    done = clawgauge(place, "capacity", "-t", "fake:scripted-model")
    assert done.code == 2 and "--max-cost" in done.stderr and server.requests == []


def test_a_model_that_is_not_there_is_a_sentence_after_one_call(
    tmp_path: Path, loaded: str
) -> None:
    done = load(tmp_path, loaded, "gone")
    assert done.code == 2 and "box:gone cannot be loaded" in done.stderr, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert len(read_records(folder)) == 1


def test_a_server_that_fails_is_no_wrong_request(place: Path, server: ScriptedServer) -> None:
    """The call was made and is on record: exit 3 and a summary, as for any run that had no answer."""
    server.reply_with(Status(500))
    done = clawgauge(place, "capacity", "-t", "fake:scripted-model")
    assert done.code == 3 and "fake:scripted-model cannot be loaded: HTTP 500" in done.stderr, (
        done.stderr
    )
    assert len(done.records()) == 1 and (done.folder / "summary.json").is_file()


@pytest.mark.slow
def test_a_limit_on_the_cost_ends_the_load_and_what_was_measured_stands(
    tmp_path: Path, loaded: str
) -> None:
    (tmp_path / "prices.toml").write_text(
        '[[price]]\nprovider = "box"\nmodel = "s2-t20-i5-n8"\ninput = 1.0\noutput = 1.0\n'
    )
    # More than the most calls that a first step may take on a busy machine, tried twice.
    words = ("--context", "1k", "--slo", "e2e=100s", "--max-cost", "0.6", "--prices", "prices.toml")
    done = load(tmp_path, loaded, "s2-t20-i5-n8", *words)
    assert done.code == 0 and "--max-cost is spent" in done.stderr, done.stderr
    spent = sum(record["cost_usd"] or 0 for record in done.records())
    # What the calls under way might have cost was set aside, and how many these are depends on the machine.
    assert 0.2 < spent < 0.601 and capacity(done)[0]["steps"]


@pytest.mark.slow
def test_the_knee_is_found_and_a_run_goes_on_where_it_stopped(tmp_path: Path, loaded: str) -> None:
    words = ("--context", "1k", "--output", "16", "--max-concurrency", "32")
    model = "s4-f100-t20-i10-n16"
    short = load(tmp_path, loaded, model, *words, "--max-time", "9s", "--run-id", "halves")
    before = [step["concurrency"] for step in capacity(short)[0]["steps"]]
    n_before = len(short.records())
    done = clawgauge(tmp_path, "capacity", "--resume", "halves")
    # The time of the whole run is spent; a second run has its own.
    assert "Traceback" not in done.stderr and len(short.records()) > n_before
    whole = load(tmp_path, loaded, model, *words)
    (entry,) = capacity(whole)
    assert set(before) <= {step["concurrency"] for step in entry["steps"]}
    if all(step["trusted"] for step in entry["steps"]):
        assert entry["knee"]["concurrency"] in (4, 5) and entry["knee"]["limited_by"] == "slots"
        assert entry["knee"]["requests_per_s"] == pytest.approx(4 / 0.27, rel=0.05)
    compared = clawgauge(tmp_path, "compare", "halves", whole.folder.name, "--json")
    both = [
        {step["concurrency"] for step in one["steps"] if step["trusted"]}
        for one in (entry, *capacity(short))
    ]
    figures = {"at once", "requests/s"} if both[0] & both[1] else {"at once"}
    assert {one["figure"] for one in json.loads(compared.stdout)} >= figures


@pytest.mark.slow
def test_a_run_that_is_killed_in_a_round_goes_on_in_the_same_order_and_loses_nothing(
    tmp_path: Path, loaded: str
) -> None:
    """Four at once have their first token after 75 ms at most, five after 102."""
    chat_config(tmp_path, box=loaded)
    trust_configuration(tmp_path)
    words = ["capacity", "-t", "box:s2-t20-i5-n8", "--context", "500", "--output", "8"]
    words += ["--slo", "ttft=90ms", "--max-concurrency", "6", "--run-id", "killed"]
    folder = tmp_path / "runs" / "killed"
    with started(tmp_path, [sys.executable, "-m", "clawgauge", *words]) as process:
        wait_until(lambda: n_later_visits(folder) >= 2)
        process.kill()
        process.wait()
    before = read_records(folder)
    done = clawgauge(tmp_path, "capacity", "--resume", "killed")
    (entry,) = capacity(done)
    records = done.records()
    assert records[: len(before)] == before
    cells = [(record["prompt_id"], record["repeat"]) for record in records]
    assert len(set(cells)) == len(cells)
    assert entry["n_rounds"] == 5
    # Every round was made in the order that was drawn for it.
    seed = json.loads((folder / "config.json").read_bytes())["capacity"]["order_seed"]
    visited: dict[int, list[int]] = {}
    for event in read_events(folder):
        detail = event["detail"]
        if event["event"] == "capacity_step":
            of_round = visited.setdefault(detail["visit"], [])
            # What was late is tried again.
            if detail["concurrency"] not in of_round:
                of_round.append(detail["concurrency"])
    for visit in range(2, 6):
        key = f"{seed} box:s2-t20-i5-n8 500 {visit}"
        assert visited[visit] == draw_order(visited[visit], key)
    if all(not visit["untrusted"] for step in entry["steps"] for visit in step["visits"]):
        within = entry["within_slo"]
        assert within["concurrency"] <= 4 <= within["concurrency_to"]


def read_events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    if not path.is_file():
        return []
    # The last line may be under way.
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def n_later_visits(folder: Path) -> int:
    """How many numbers of clients were visited again."""
    return sum(
        event["detail"].get("visit", 0) > 1
        for event in read_events(folder)
        if event["event"] == "capacity_step"
    )


@pytest.mark.slow
def test_arrivals_and_agents_and_what_nobody_can_tell(tmp_path: Path, loaded: str) -> None:
    arrivals = load(
        tmp_path, loaded, "s2-t20-i2-n16", "--rate", "5,100", "--duration", "8s", "--output", "16"
    )
    (entry,) = capacity(arrivals)
    slow, fast = entry["steps"]
    assert entry["mode"] == "open" and not slow["growing"] and fast["growing"]
    assert fast["requests_per_s"] < 45 and fast["ttft_ms"]["p95"] > 1000, (
        "time counts from when it was due"
    )
    assert all(record["queued_ms"] is not None for record in arrivals.records())
    agents = load(
        tmp_path,
        loaded,
        "s2-f10-t5-i1-n8",
        "--shape",
        "agent",
        "--max-concurrency",
        "2",
        "--max-time",
        "60s",
    )
    tokens = {record["input_tokens"] for record in agents.records() if "/c" in record["prompt_id"]}
    assert capacity(agents)[0]["steps"] and max(tokens) > 2 * min(tokens), (
        "the context did not grow"
    )
    quiet = load(
        tmp_path, loaded, "s2-t5-i1-n8-quiet", "--context", "300", "--max-concurrency", "1"
    )
    assert capacity(quiet)[0]["truncated"] is None and "cannot be told" in quiet.stderr


@pytest.mark.slow
@every_row(
    "model, tokens, found",
    [
        ("t1-n4-x1000", "2k", (True, "count")),
        ("t1-n4-x1000-repeat", "2k", (True, "count")),
        ("t1-n4-x1000-repeat-quiet", "2k", (True, "marker")),
        ("t1-n4-x5000", "2k", (False, None)),
        ("t1-n4-x1950", "2k", (True, "count")),
        ("t1-n4-x2050", "2k", (False, None)),
        ("t1-n4-repeat", "2k", (False, None)),
        ("t1-n4-repeat-quiet", "2k", (False, None)),
        ("t1-n4-quiet", "2k", (None, None)),
        ("t1-n4-x1000-refuse", "2k", (None, None)),
    ],
)
def test_what_was_cut_off_is_found_and_nothing_else(
    tmp_path: Path, loaded: str, model: str, tokens: str, found: tuple[bool | None, str | None]
) -> None:
    done = load(tmp_path, loaded, model, "--context", tokens, "--max-concurrency", "1")
    (entry,) = capacity(done)
    assert (entry["truncated"], entry["truncated_by"]) == found
    assert bool(entry["refused"]) == ("refuse" in model)
    assert ("TRUNCATED" in done.stderr) == (found[0] is True)
