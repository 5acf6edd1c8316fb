"""A table tried within one test hides no row: each failure is told, under its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rows import every_row


def test_every_failing_row_is_told() -> None:
    """Rows after a failure are tried too, whether an assertion, an error or a missing exception ended it."""
    tried = []

    @every_row(
        ("kind", "number"),
        [pytest.param("assert", 1, id="one"), ("good", 2), ("error", 3), ("raises", 4)],
    )
    def check(kind: str, number: int) -> None:
        tried.append(number)
        assert kind != "assert"
        if kind == "error":
            raise OSError("broken")
        if kind == "raises":
            with pytest.raises(ValueError):
                pass

    with pytest.raises(
        BaseExceptionGroup, match=r"3 of 4 rows failed: one, .*'error', 3.*'raises', 4"
    ) as caught:
        check()
    assert tried == [1, 2, 3, 4]
    assert [type(failure) for failure in caught.value.exceptions] == [
        AssertionError,
        OSError,
        pytest.fail.Exception,
    ]


@every_row("name", ["a", "b"])
@every_row("size", [1, 2], ids=str)
def test_each_row_has_a_folder_of_its_own(tmp_path: Path, name: str, size: int) -> None:
    """A file that one row wrote is not there for the next, in tables of tables neither."""
    (tmp_path / "file").touch(exist_ok=False)


def test_a_table_must_fit_the_test() -> None:
    """A table without rows, a marked row, and a column that the test does not take are mistakes."""
    with pytest.raises(AssertionError, match="without rows"):
        every_row("value", [])
    with pytest.raises(AssertionError, match="marked"):
        every_row("value", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(AssertionError, match="does not take other"):
        every_row("other", [1])(lambda value: None)
