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
from clawgauge.runner.agent_record import with_agent
from clawgauge.runner.record import make_result
from clawgauge.stats.load import measure_visits
from clawgauge.summary.summarize import summarize, summarize_group

# The one there is, and what is known later: to who writes the file, drives nodes, or has all models.
INSIDE_AN_AGENT = {
    "agent", "model_ms", "tools_ms", "harness_ms", "harness_parts", "ttft_user_ms", "agent_turns", "agent_calls",
    "calls_made", "calls_run", "calls_lost", "calls_gained", "calls_altered", "added_messages", "recorder_late",
    "made",
}  # fmt: skip
GIVEN_LATER = {
    Result: {"record_type", "node"} | INSIDE_AN_AGENT,
    RunSummary: {"results_bytes", "figures_sha256"},
    GroupSummary: {"behind_by_prompts"},
    StepSummary: set(),
}


def named_fields(function: Callable[..., Any], maker: str) -> set[str]:
    """The fields that the function names where it makes a record, or makes one anew."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == maker:
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
    names = named_fields(function, record.__name__)
    assert set(record.__struct_fields__) - names == GIVEN_LATER[record]


def test_every_field_of_a_cell_inside_an_agent_is_given() -> None:
    assert named_fields(with_agent, "replace") >= INSIDE_AN_AGENT
