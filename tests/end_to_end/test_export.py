"""`clawgauge export` and its page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from shutil import copytree

import pytest

from clawgauge.export import COLUMNS
from support.command import Outcome, clawgauge
from support.scripted_server import ScriptedServer, Text

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def finished(place: Path, server: ScriptedServer) -> Outcome:
    server.script(Text("yes"), Text("=1+1"), Text("`free`"), Text('two\n"lines"'))
    return clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json")


def test_the_page_lists_every_column() -> None:
    """docs/export.md names each column with its kind, in order, and no other."""
    page = (DOCS / "export.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| (\w+) \|", page, flags=re.MULTILINE)
    assert table == [(column.name, column.kind) for column in COLUMNS]


def test_csv_on_stdout_is_the_records(finished: Outcome) -> None:
    """One row per record, the same values, nothing else on stdout."""
    done = clawgauge(finished.cwd, "export", "latest")
    assert done.code == 0 and done.stderr == ""
    rows = list(csv.DictReader(done.stdout.splitlines(keepends=True)))
    assert [row["raw_output"] for row in rows] == [r["raw_output"] for r in finished.records()]
    assert [row["e2e_ms"] for row in rows] == [str(r["e2e_ms"]) for r in finished.records()]


def test_the_format_follows_the_file(finished: Outcome) -> None:
    """-o name.jsonl is JSON Lines; several runs stack; the file is whole and what was said on stderr."""
    copytree(finished.folder, finished.cwd / "copy")
    done = clawgauge(finished.cwd, "export", str(finished.folder), "./copy", "-o", "all.jsonl")
    assert done.code == 0 and done.stdout == "" and "8 rows of" in done.stderr
    lines = [json.loads(line) for line in (finished.cwd / "all.jsonl").read_text().splitlines()]
    assert [line["prompt_id"] for line in lines] == ["P0", "P1", "P2", "P3"] * 2
    assert sorted(p.name for p in finished.cwd.iterdir() if p.name.startswith(".")) == []


def test_a_run_named_twice_is_written_once(finished: Outcome) -> None:
    """Rows counted twice would look like evidence; it is said."""
    done = clawgauge(
        finished.cwd, "export", "latest", str(finished.folder), "--columns", "prompt_id"
    )
    assert done.code == 0 and done.stdout.count("\n") == 5
    assert "named already: its rows are written once" in done.stderr


def test_an_unknown_ending_needs_a_format(finished: Outcome) -> None:
    """CSV under the name of a workbook helps nobody; --format says it is meant."""
    refused = clawgauge(finished.cwd, "export", "latest", "-o", "x.xlsx")
    assert (
        refused.code == 2
        and "--format" in refused.stderr
        and not (finished.cwd / "x.xlsx").exists()
    )
    assert clawgauge(finished.cwd, "export", "latest", "-o", "x.txt", "--format", "csv").code == 0


def test_spreadsheets(finished: Outcome) -> None:
    """--excel-safe turns a formula into text."""
    clawgauge(
        finished.cwd, "export", "latest", "--excel-safe", "-o", "x.csv", "--columns", "raw_output"
    )
    assert (finished.cwd / "x.csv").read_bytes().decode("utf-8-sig").splitlines()[2] == '"\'=1+1"'


def test_unreadable_lines_are_in_the_exit_code(finished: Outcome) -> None:
    """The rest is exported, the loss is said, the code is 5."""
    with (finished.folder / "results.jsonl").open("ab") as file:
        file.write(b"{broken\n")
    done = clawgauge(finished.cwd, "export", "latest", "--columns", "prompt_id")
    assert done.code == 5 and "1 line" in done.stderr and done.stdout.count("\n") == 5


WRONG_REQUESTS: list[tuple[tuple[str, ...], str]] = [
    (("nowhere",), "no run 'nowhere'"),
    (("latest", "--columns", "speed"), "no column speed"),
    (("latest", "--format", "parquet"), "-o FILE"),
    (("latest", "--format", "jsonl", "--excel-safe"), "--excel-safe is about CSV"),
    (("latest", "-o", "no/such/folder/x.csv"), "Cannot write no/such/folder/x.csv"),
]


def test_wrong_requests(finished: Outcome) -> None:
    """Exit 2 and one sentence."""
    for words, said in WRONG_REQUESTS:
        done = clawgauge(finished.cwd, "export", *words)
        assert done.code == 2 and said in done.stderr and done.stderr.count("\n") == 1, (
            words,
            done.stderr,
        )
