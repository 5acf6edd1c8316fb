"""Long tables of small cases as one test: a test of its own for each costs more than the case it tries."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def every_row(
    names: str | Sequence[str],
    table: Iterable[Any],
    *,
    ids: Sequence[str] | Callable[[Any], str] | None = None,
) -> Callable[[Test], Test]:
    """What `pytest.mark.parametrize` does, within one test. Fixtures are the same for all rows, but for `tmp_path`.

    All rows are tried, whatever becomes of the others; the failure holds one error for each that failed, under its id.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [read_row(entry, len(columns)) for entry in table]
    if callable(ids):
        rows = [("-".join(map(ids, values)), values) for _, values in rows]
    elif ids is not None:
        rows = [(name, values) for name, (_, values) in zip(ids, rows, strict=True)]
    assert rows, "a table without rows claims nothing"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def try_all(**others: Any) -> None:
            failures = []
            for number, (name, values) in enumerate(rows):
                own = {}
                if "tmp_path" in others:
                    own["tmp_path"] = others["tmp_path"] / str(number)
                    own["tmp_path"].mkdir()
                try:
                    test(**{**others, **own, **dict(zip(columns, values, strict=True))})
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"in the row {name}")
                    failures.append(failure)
            if failures:
                named = ", ".join(
                    failure.__notes__[-1].removeprefix("in the row ") for failure in failures
                )
                raise BaseExceptionGroup(
                    f"{len(failures)} of {len(rows)} rows failed: {named}", failures
                )

        signature = inspect.signature(test)
        left = [
            parameter for name, parameter in signature.parameters.items() if name not in columns
        ]
        assert len(left) == len(signature.parameters) - len(columns), (
            f"{test.__name__} does not take {names}"
        )
        try_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return try_all

    return decorate


def read_row(entry: Any, width: int) -> tuple[str, Sequence[Any]]:
    """A row's id and values; a row without an id is known by what is in it."""
    if isinstance(entry, type(pytest.param())):
        assert not entry.marks, "a marked row needs a test of its own"
        return entry.id or shorten(repr(entry.values)), entry.values
    values = [entry] if width == 1 else list(entry)
    return shorten(repr(values)), values


def shorten(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:60]} … {text[-30:]}"
