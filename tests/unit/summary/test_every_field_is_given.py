"""Records have defaults for the sake of older folders; who makes one today names every field of it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from clawgauge.records import GroupSummary, Result, RunSummary
from clawgauge.records.summary import StepSummary
from clawgauge.runner.record import make_result
from clawgauge.stats.load import measure_visits
from clawgauge.summary.summarize import summarize, summarize_group

# The one there is, and what is known later: to who writes the file, drives nodes, or has all models.
GIVEN_LATER = {
    Result: {"record_type", "node"},
    RunSummary: {"results_bytes", "figures_sha256"},
    GroupSummary: {"behind_by_prompts"},
    StepSummary: set(),
}


def named_fields(function: Callable[..., Any], record: type[msgspec.Struct]) -> set[str]:
    """The fields of `record` that the function names where it makes one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == record.__name__:
            names |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    return names


@pytest.mark.parametrize(
    ("function", "record"),
    [
        (make_result, Result),
        (summarize, RunSummary),
        (summarize_group, GroupSummary),
        (measure_visits, StepSummary),
    ],
)
def test_every_field_of_a_record_is_given(
    function: Callable[..., Any], record: type[msgspec.Struct]
) -> None:
    """One that is forgotten would be null or 0 in every run, and no reader could tell."""
    assert set(record.__struct_fields__) - named_fields(function, record) == GIVEN_LATER[record]
