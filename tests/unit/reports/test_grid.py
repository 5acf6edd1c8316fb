"""A small run prompt by prompt: what each model answered, and why a failure is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clawgauge.reports.grid import MAX_PROMPTS, describe_grid
from clawgauge.reports.terminal import as_text
from clawgauge.summary import summarize_folder
from clawgauge.verdict import best_first
from support.written_runs import record, unanswered, write_run

Record = dict[str, Any]
NOT_EXACT = 'not_exact: got "I am not sure", wanted "4"'


def grid_lines(folder: Path, records: list[Record], width: int = 100) -> list[str]:
    path = write_run(folder, records)
    return as_text([describe_grid(path, summarize_folder(path))], width).strip().splitlines()


def small_run() -> list[Record]:
    return [
        record("P0", False, model="worse", raw_output="I am not sure", violation=NOT_EXACT),
        record("P1", False, model="worse", raw_output="", violation="no_text"),
        unanswered("P2", model="worse"),
        record("P0", model="better", raw_output="4"),
        record("P1", model="better"),
        record("P2", model="better"),
    ]


def test_each_answer_is_shown_with_its_mark_and_the_reason_of_a_failure(tmp_path: Path) -> None:
    heading, _, first, second, third, *rest = grid_lines(tmp_path / "run", small_run())[1:]
    assert heading.split() == ["prompt", "better", "worse"]
    assert "✓ 4" in first and '✗ I am not sure: wanted "4"' in first
    assert "✓ yes" in second and "✗ (nothing): nothing was said" in second
    assert "✓ yes" in third and "no answer: timeout" in third
    assert rest[0] == "one of these in full:"
    assert rest[1].strip() == f"clawgauge show run PROMPT --runs-dir {tmp_path}"


def test_of_repeats_it_is_told_how_many_passed(tmp_path: Path) -> None:
    records = [
        record("P0", repeat=0, raw_output="yes"),
        record("P0", False, repeat=1, raw_output="no", violation="not_exact"),
    ]
    (row,) = (line for line in grid_lines(tmp_path / "run", records) if line.startswith("P0"))
    assert "1 of 2 passed, ✗ no: not the answer that was wanted" in row


def test_an_answer_forges_no_line_of_it(tmp_path: Path) -> None:
    """Line ends, escape sequences and whatever reorders text are gone; a long answer is cut."""
    hostile = "\x1b[2Jyes\nP9 made up   ✓ yes\u202e" + "x" * 500
    lines = grid_lines(tmp_path / "run", [record("P0", raw_output=hostile)])
    assert not any(line.startswith("P9") for line in lines)
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)
    *table, _ = lines  # the last is a command, which is never broken
    assert max(map(len, table)) <= 100


def test_a_large_run_has_none(tmp_path: Path) -> None:
    records = [record(f"P{n}") for n in range(MAX_PROMPTS + 1)]
    assert grid_lines(tmp_path / "large", records) == []
    assert len(grid_lines(tmp_path / "small", records[:-1])) > MAX_PROMPTS


def test_where_no_job_tells_models_apart_who_passed_more_stands_first(tmp_path: Path) -> None:
    """Whatever they are called, whoever was asked first, and however fast the worse one is."""
    records = []
    for model, n_passed, took_ms in (("a", 1, 5), ("b", 3, 900), ("c", 2, 100)):
        for n in range(3):
            records.append(record(f"P{n}", n < n_passed, model=model, e2e_ms=took_ms))
    summary = summarize_folder(write_run(tmp_path / "run", records))
    models = [group.target.model for group in best_first(summary.models, summary.jobs)]
    assert models == ["b", "c", "a"]
