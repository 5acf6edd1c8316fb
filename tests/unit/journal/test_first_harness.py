"""Folders made by the first harness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.journal import encode_line, index_cells, iter_results
from clawgauge.records import CellRow, Result
from clawgauge.run_data import Run
from support.rows import every_row

from .samples import make_config, make_result

ANSWERED: dict[str, Any] = {
    "record_type": "result",
    "run_id": "20250101_080000",
    "provider": "ollama_openai",
    "model": "llama3.2:3b",
    "thinking_level": "null",
    "prompt_id": "P0",
    "prompt_name": "sanity_heartbeat",
    "availability_status": "ok",
    "started_at_ms": 1_735_700_000_000.4,
    "ended_at_ms": 1_735_700_001_234.6,
    "e2e_ms": 1234.6,
    "ttft_ms": None,
    "success": True,
    "failure_type": None,
    "objective_pass": True,
    "violation": None,
    "input_tokens": 10.0,
    "output_tokens": "12",
    "raw_output": "HEARTBEAT_OK",
    "parsed_output": {"value": "HEARTBEAT_OK"},
    "tool_calls": ["free", "Free", "du"],
    "tool_call_count": 3,
    "tool_use_success": True,
}
EVENT = {
    "record_type": "event",
    "event": "model_unloaded",
    "model": "m",
    "provider": "p",
    "at_ms": 5.0,
}


def write_old_run(
    folder: Path, *records: dict[str, Any], config: str | None = '{"models": ["llama3.2:3b"]}'
) -> Path:
    if config is not None:
        (folder / "config.json").write_text(config)
    (folder / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def read_one(folder: Path, record: dict[str, Any]) -> Result:
    reader = iter_results(write_old_run(folder, record))
    (result,) = reader
    assert reader.n_unreadable_lines == 0
    return result


def test_an_old_record_reads_as_one_of_ours(tmp_path: Path) -> None:
    """Loose types are put right, what was missing is filled, and nothing measured is invented."""
    result = read_one(tmp_path, ANSWERED)
    assert (result.thinking_level, result.suite, result.repeat) == (None, "", 0)
    assert (result.started_at_ms, result.ended_at_ms, result.e2e_ms) == (
        1_735_700_000_000,
        1_735_700_001_235,
        1235,
    )
    assert (result.ttft_ms, result.input_tokens, result.output_tokens) == (None, 10, 12)
    assert (result.tool_calls, result.tool_call_count, result.tool_use_success) == (
        ["free", "du"],
        2,
        True,
    )
    assert (result.objective_pass, result.parsed_output) == (True, {"value": "HEARTBEAT_OK"})
    assert msgspec.json.decode(encode_line(result), type=Result) == result


def test_a_bare_record_is_enough(tmp_path: Path) -> None:
    """A record that says only what was asked of whom is an unanswered call of that cell."""
    result = read_one(tmp_path, {"provider": "p", "model": "m", "prompt_id": "P1"})
    assert (result.availability_status, result.success, result.e2e_ms, result.tool_calls) == (
        "ok",
        False,
        0,
        [],
    )
    assert (result.run_id, result.prompt_name) == (tmp_path.name, "P1")


def test_a_failed_call_has_no_verdict(tmp_path: Path) -> None:
    """What the old harness noted about unanswered calls does not count as a failed answer."""
    failed = {
        **ANSWERED,
        "availability_status": "rate_limited",
        "success": False,
        "failure_type": "http_429",
    }
    result = read_one(tmp_path, {**failed, "objective_pass": False, "violation": "no text"})
    assert (result.availability_status, result.success, result.failure_type) == (
        "rate_limited",
        False,
        "http_429",
    )
    assert (result.objective_pass, result.violation, result.parsed_output) == (None, None, None)
    assert (result.tool_calls, result.tool_call_count, result.tool_use_success) == ([], 0, False)


@every_row(
    ("passed", "violation"), [(True, None), (None, None), ("yes", None), (False, "too_long")]
)
def test_a_violation_belongs_to_a_failed_check_alone(
    tmp_path: Path, passed: object, violation: str | None
) -> None:
    """An old remark beside a passed or missing verdict is not shown as a violation."""
    result = read_one(tmp_path, {**ANSWERED, "objective_pass": passed, "violation": "too_long"})
    assert result.objective_pass is (passed if isinstance(passed, bool) else None)
    assert result.violation == violation


@every_row("level", ["null", "none", "None", "", None, 3])
def test_every_spelling_of_no_level_is_null(tmp_path: Path, level: object) -> None:
    """No thinking level is null, however it was written."""
    assert read_one(tmp_path, {**ANSWERED, "thinking_level": level}).thinking_level is None


def test_a_level_is_kept(tmp_path: Path) -> None:
    """A thinking level that was asked for stays."""
    assert read_one(tmp_path, {**ANSWERED, "thinking_level": "high"}).thinking_level == "high"


@every_row(
    ("times", "e2e_ms"),
    [
        ({"e2e_ms": None, "latency_ms": 20.4}, 20),
        ({"e2e_ms": None}, 1234),
        ({"e2e_ms": "77.7"}, 78),
        ({"e2e_ms": "soon", "ended_at_ms": None}, 0),
        ({"e2e_ms": True, "started_at_ms": None}, 0),
    ],
)
def test_times_are_taken_from_what_there_is(
    tmp_path: Path, times: dict[str, Any], e2e_ms: int
) -> None:
    """A latency that is missing or no number comes from its neighbours, else is 0."""
    record = {**ANSWERED, "ended_at_ms": 1_735_700_001_234, **times}
    assert read_one(tmp_path, record).e2e_ms == e2e_ms


def test_repeated_lines_of_a_cell_are_repeats(tmp_path: Path) -> None:
    """The same cell recorded again counts as a further repeat, so no line hides another."""
    other = {**ANSWERED, "prompt_id": "P1"}
    write_old_run(
        tmp_path, ANSWERED, other, ANSWERED, {**ANSWERED, "thinking_level": "low"}, ANSWERED
    )
    reader = iter_results(tmp_path)
    assert [result.repeat for result in reader] == [0, 0, 1, 0, 2]
    assert [result.repeat for result in reader] == [0, 0, 1, 0, 2]
    assert len(index_cells(tmp_path)) == 5


def test_events_among_the_results_are_events(tmp_path: Path) -> None:
    """Event lines are no results and no bad lines; they are found among the events."""
    write_old_run(
        tmp_path, EVENT, ANSWERED, {"record_type": "event"}, {**ANSWERED, "prompt_id": "P1"}
    )
    reader = iter_results(tmp_path)
    assert [result.prompt_id for result in reader] == ["P0", "P1"]
    assert reader.n_unreadable_lines == 0
    first, second = Run.open(tmp_path).events
    assert (first.event, first.at_ms, first.target) == ("model_unloaded", 5, "p:m")
    assert (second.event, second.at_ms) == ("event", 0)
    assert Run.open(tmp_path).config is None


def test_old_rubbish_is_counted_and_old_tears_are_seen(tmp_path: Path) -> None:
    """Lines that name no cell are bad, and a last line cut short is torn, as in our own folders."""
    write_old_run(tmp_path, ANSWERED, {"provider": "p"}, {"model": 3})
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('rubbish\n\n{"provider": "p", "mo')
    reader = iter_results(tmp_path)
    assert len(list(reader)) == 1
    assert reader.n_unreadable_lines == 3


def test_old_folders_are_told_from_ours(tmp_path: Path) -> None:
    """With or without config.json, and whatever the first line, the maker of a folder is recognised."""
    assert Run.open(write_old_run(tmp_path, ANSWERED)).first_harness
    (tmp_path / "config.json").unlink()
    assert Run.open(tmp_path).first_harness
    assert Run.open(write_old_run(tmp_path)).first_harness
    ours = encode_line(make_result())
    (tmp_path / "results.jsonl").write_bytes(b"{}\nrubbish\n" + ours)
    (tmp_path / "config.json").unlink()
    assert not Run.open(tmp_path).first_harness
    (tmp_path / "config.json").write_bytes(encode_line(make_config()))
    (tmp_path / "results.jsonl").write_text(json.dumps(ANSWERED) + "\n")
    assert not Run.open(tmp_path).first_harness


def test_a_small_struct_reads_old_folders_too(tmp_path: Path) -> None:
    """A summary's own struct works on an old folder as on ours."""

    class Row(CellRow, frozen=True, kw_only=True):
        e2e_ms: int

    (row,) = iter_results(write_old_run(tmp_path, ANSWERED), Row)
    assert (row.suite, row.repeat, row.e2e_ms) == ("", 0, 1235)
