"""Exports: what was recorded comes back, whatever a model wrote."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.errors import ConfigError, RunFolderError
from clawgauge.export import COLUMNS, ResultStream, choose_columns, iter_csv, iter_jsonl
from clawgauge.export.rows import read_row_groups
from clawgauge.records import Attempt, Result, TimingsUs, ToolInvocation
from support.rows import every_row
from support.written_runs import record, write_old_run, write_run
from unit.journal.samples import make_result

HOSTILE = '=HYPERLINK("http://x")\r\nsecond, "line"\r\tthird\u2028\x1b[2J\x85 – 漢字 🦀'
RICH = make_result(
    raw_output=HOSTILE,
    parsed_output={"deep": {"list": [1, None, "ü"]}},
    tool_calls=["free", "df,x"],
    tool_call_count=2,
    timings_us=TimingsUs(e2e=1, ttft=None, lag=7),
    attempts=[
        Attempt(status="error", failure_type="http_500", e2e_ms=3),
        Attempt(status="ok", failure_type=None, e2e_ms=4),
    ],
    tool_invocations=[ToolInvocation(name="free", arguments={"a": 1}, channel="native")],
    cost_usd=0.1,
    reasoning_text="",
    warnings=["a", 'b"c'],
)


def read_csv(results: Sequence[Result], *, excel_safe: bool = False) -> list[dict[str, str]]:
    text = b"".join(iter_csv(results, COLUMNS, excel_safe=excel_safe)).decode(
        "utf-8-sig" if excel_safe else "utf-8"
    )
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_field_of_a_result_has_its_column() -> None:
    """A field that is recorded is exported, in the order of the record, nested ones under flat names."""
    names = [column.name for column in COLUMNS]
    for field in Result.__struct_fields__:
        assert field in names or f"{field}_e2e" in names
    assert len(names) == len(set(names))
    assert [name for name in names if name.startswith("timings_us_")] == [
        f"timings_us_{f}" for f in TimingsUs.__struct_fields__
    ]


def test_csv_gives_back_what_was_recorded() -> None:
    """Python's own reader finds the same texts, line ends and quotes, numbers, truth values and JSON."""
    (row,) = read_csv([RICH])
    assert row["raw_output"] == HOSTILE and row["target"] == "ollama_openai:llama3.2:3b"
    assert (row["e2e_ms"], row["cost_usd"], row["success"], row["timings_us_lag"]) == (
        "840",
        "0.1",
        "true",
        "7",
    )
    assert (
        json.loads(row["tool_calls"]) == RICH.tool_calls
        and json.loads(row["warnings"]) == RICH.warnings
    )
    assert json.loads(row["parsed_output"]) == RICH.parsed_output
    assert row["n_attempts"] == "2" and json.loads(row["attempts"])[0]["failure_type"] == "http_500"
    assert json.loads(row["tool_invocations"])[0]["arguments"] == {"a": 1}
    assert row["timings_us_ttft"] == row["thinking_level"] == ""


def test_csv_tells_null_from_empty_text() -> None:
    """Nothing between two commas is null; an empty text is quoted."""
    columns = choose_columns(["thinking_level", "reasoning_text"])
    assert b"".join(iter_csv([RICH], columns)) == b'thinking_level,reasoning_text\n,""\n'


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_csv(text: str) -> None:
    """Whatever a model writes is one cell, and the same cell."""
    (row,) = read_csv([msgspec.structs.replace(RICH, raw_output=text)])
    assert row["raw_output"] == text and row["suite"] == "core"


def test_nul_becomes_a_mark_in_csv_and_stays_in_jsonl() -> None:
    """No two CSV readers agree about NUL; JSON has a way to write it."""
    result = msgspec.structs.replace(RICH, raw_output="a\0b")
    assert read_csv([result])[0]["raw_output"] == "a\ufffdb"
    assert json.loads(b"".join(iter_jsonl([result], COLUMNS)))["raw_output"] == "a\0b"


BLANKS = (
    " ",
    "\u3000\u00a0",
    "\u3164",
    "\u0301",
    "\ufeff",
    "\u200b",
    "\x1c",
    "\n",
    "\t",
    "\u2028",
    "\u00ad\u2060 ",
)
SIGNS = "=+-@＝＋－＠﹦⁺₋﹣﹫\u2212"


@every_row("start", [*SIGNS, "\t", "\r", *(f"{blank}{sign}" for blank in BLANKS for sign in "=＝")])
def test_spreadsheets_get_no_formula_when_asked(start: str) -> None:
    """By default a cell is what was recorded; with excel_safe it cannot run, and numbers stay numbers."""
    result = msgspec.structs.replace(RICH, raw_output=f"{start}1+1", output_tps=-1.5)
    assert read_csv([result])[0]["raw_output"] == f"{start}1+1"
    safe = read_csv([result], excel_safe=True)[0]
    assert safe["raw_output"] == f"'{start}1+1" and safe["output_tps"] == "-1.5"
    assert next(iter_csv([result], COLUMNS, excel_safe=True)).startswith(b"\xef\xbb\xbf")


@every_row("text", ["yes", " yes", "'=1", "[1]", "é", "日本", "1+1", "*", "", "  ", "≠ 1", "~"])
def test_what_is_no_formula_stays_as_it_is(text: str) -> None:
    """A cell that no spreadsheet would run is not changed for one."""
    result = msgspec.structs.replace(RICH, raw_output=text)
    assert read_csv([result], excel_safe=True)[0]["raw_output"] == text


def test_jsonl_is_one_flat_object_a_line() -> None:
    """Lists stay lists, objects are JSON text, and no control character is raw in a line."""
    line = b"".join(iter_jsonl([RICH], COLUMNS))
    row = json.loads(line)
    assert list(row) == [column.name for column in COLUMNS] and row["tool_calls"] == [
        "free",
        "df,x",
    ]
    assert json.loads(row["parsed_output"]) == RICH.parsed_output and row["raw_output"] == HOSTILE
    assert line.count(b"\n") == 1 and len(line.decode().splitlines()) == 1
    assert not any(isinstance(value, dict) for value in row.values())


def test_runs_stack_and_bad_lines_are_counted(tmp_path: Path) -> None:
    """Several runs, old and new, are one table; a damaged line is left out and told."""
    a = write_run(tmp_path / "a", [record("P0"), "{broken", record("P1")])
    old = write_old_run(tmp_path / "old", [record("P0")])
    stream = ResultStream([a, old])
    rows = list(stream)
    assert [(r.run_id, r.prompt_id) for r in rows] == [("a", "P0"), ("a", "P1"), ("old", "P0")]
    assert (stream.n_rows, stream.n_unreadable) == (3, 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError):
        ResultStream([a, tmp_path / "empty"])


def test_columns_can_be_chosen() -> None:
    """In the order named; an unknown one is refused with the list."""
    assert [c.name for c in choose_columns(["e2e_ms", "target"])] == ["e2e_ms", "target"]
    with pytest.raises(ConfigError, match=r"no column speed; choose from target, record_type"):
        choose_columns(["speed"])


def test_a_number_that_64_bits_do_not_hold_leaves_its_cell_empty() -> None:
    """A damaged line may claim any number, and the other rows are still written."""
    column = choose_columns(["e2e_ms"])
    numbers = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 840]
    results = [msgspec.structs.replace(RICH, e2e_ms=number) for number in numbers]
    assert list(read_row_groups(results, column)) == [[[2**63 - 1, None, -(2**63), None, 840]]]


@pytest.mark.real
def test_parquet_gives_back_what_was_recorded(tmp_path: Path) -> None:
    """pyarrow reads typed columns: integers, doubles, booleans, lists of texts; nulls are nulls, NUL is NUL."""
    pq = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed: pip install 'clawgauge[parquet]'"
    )
    from clawgauge.export import write_parquet

    results = [
        msgspec.structs.replace(RICH, prompt_id=f"P{n}", raw_output=f"{n}\0") for n in range(2_500)
    ]
    results[1] = msgspec.structs.replace(results[1], e2e_ms=2**70)
    with (tmp_path / "r.parquet").open("wb") as file:
        assert write_parquet(results, COLUMNS, file) == 2_500
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column_names == [column.name for column in COLUMNS] and table.num_rows == 2_500
    row = table.slice(2_499, 1).to_pylist()[0]
    assert row == json.loads(b"".join(iter_jsonl([results[-1]], COLUMNS)))
    assert table["e2e_ms"][1].as_py() is None
    assert pq.ParquetFile(tmp_path / "r.parquet").num_row_groups == 3
