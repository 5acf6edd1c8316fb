"""docs/reliability.md is true: it covers every row, and each test it names exists and is about that row."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
N_ROWS = 60


@cache
def names_in(file: str) -> set[str]:
    """The test functions a file has; files without a folder are beside this one."""
    path = ROOT / file if "/" in file else Path(__file__).parent / file
    return set(
        re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )


def rows_of(name: str) -> set[int]:
    """The rows a test is named after; none where it shows something else besides."""
    found = re.match(r"test_row_(\d\d(?:_and_\d\d)*)_", name)
    return {int(number) for number in found[1].split("_and_")} if found else set()


def test_every_row_is_there_once() -> None:
    """Sixty faults, each with its promise, none twice."""
    assert sorted(map(int, ROW.findall(PAGE))) == list(range(1, N_ROWS + 1))


def test_every_named_test_exists() -> None:
    """A promise is not shown by a test that was renamed or never written."""
    named = TEST.findall(PAGE)
    assert len(named) > 100
    assert [f"{file}::{name}" for file, name in named if name not in names_in(file)] == []


def test_every_row_is_shown_by_a_test_of_its_own() -> None:
    """Each row names at least one test that bears its number, and none that bears only others."""
    for line in PAGE.splitlines():
        if row := ROW.match(line):
            numbers = [rows_of(name) for _, name in TEST.findall(line)]
            assert any(int(row[1]) in found for found in numbers), (
                f"row {row[1]} has no test of its own"
            )
            assert all(int(row[1]) in found for found in numbers if found), (
                f"row {row[1]} names another row's test"
            )


def test_every_fault_test_is_on_the_page() -> None:
    """Whoever adds a test for a row finds its place: the row itself must be on the page."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for name in names_in(path.name):
            assert rows_of(name) <= set(range(1, N_ROWS + 1)), (
                f"{path.name}::{name} names a row that is not there"
            )
