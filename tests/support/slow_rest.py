"""Long lists of much the same case: a few of them in every run of the tests, the rest with the slow ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_rest(values: Iterable[Any], *, every: int) -> list[Any]:
    """Parameters for `parametrize`: the first and every n-th after it as they are, the others marked `slow`."""
    return [value if index % every == 0 else slow(value) for index, value in enumerate(values)]


def slow(value: Any) -> Any:
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.slow])
    return pytest.param(value, marks=pytest.mark.slow)
