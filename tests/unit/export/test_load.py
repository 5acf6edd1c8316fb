"""`clawgauge.load`: a run in two lines."""

from __future__ import annotations

import pytest

import clawgauge
from clawgauge.errors import RunFolderError
from clawgauge.export import COLUMNS
from support.written_runs import MODEL, config, prompt, record, unanswered, write_run


def test_every_call_is_a_row_with_the_columns_of_an_export(tmp_path):
    records = [record("P0"), record("P1", False), unanswered("P2")]
    folder = write_run(
        tmp_path / "runs" / "mine", records, config=config([prompt(f"P{n}") for n in range(3)])
    )
    rows = clawgauge.load("mine", tmp_path / "runs")
    assert rows == clawgauge.load(folder) == clawgauge.load("latest", str(tmp_path / "runs"))
    assert [(row["prompt_id"], row["objective_pass"], row["model"]) for row in rows] == [
        ("P0", True, MODEL),
        ("P1", False, MODEL),
        ("P2", None, MODEL),
    ]
    assert all(list(row) == [column.name for column in COLUMNS] for row in rows)


def test_a_run_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RunFolderError, match="There is no run"):
        clawgauge.load("nobody", tmp_path)
