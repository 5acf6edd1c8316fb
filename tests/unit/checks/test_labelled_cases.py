"""The labelled cases: answers whose tool calls were settled by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks import judge_answer, tool_calls_of
from clawgauge.checks.detection import detect_tools
from clawgauge.records import Prompt
from support.rows import every_row

CASES = Path(__file__).parents[2] / "data" / "tool_detection_cases.jsonl"
CERTAINTIES = {"seed", "spec", "ext"}


def read_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@every_row("case", [pytest.param(case, id=case["id"]) for case in read_cases()])
def test_a_labelled_answer_yields_its_calls(case: dict[str, Any]) -> None:
    """Names, order, repeats and success are what the label says."""
    found = detect_tools(case["text"], case["expected_tools"])
    names = tool_calls_of(found)
    assert [call.name for call in found if call.valid] == case["all_invocations"]
    assert names == case["tool_calls"]
    assert len(names) == case["tool_call_count"]
    prompt = Prompt(
        id="P0",
        name="P0",
        prompt="?",
        validator={"type": "noop"},
        expected_tools=case["expected_tools"],
    )
    assert judge_answer(prompt, case["text"], []).tool_use_success is case["tool_use_success"]


def test_the_case_file_is_whole() -> None:
    """Every case says how certain it is, each certainty is there, and the cases are not a handful."""
    assert {case["certainty"] for case in read_cases()} == CERTAINTIES
    assert len(read_cases()) >= 90
