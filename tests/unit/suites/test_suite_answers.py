"""The built-in suites against answers that people have labelled: right ones pass, wrong ones fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks import judge_answer
from clawgauge.records import ToolInvocation
from clawgauge.suites import load_suite
from support.rows import every_row
from support.slow_rest import slow_rest

ANSWERS = Path(__file__).parents[2] / "data" / "suite_answers.jsonl"
MISJUDGED = [
    json.loads(line)
    for line in ANSWERS.with_name("misjudged_answers.jsonl").read_text("utf-8").splitlines()
]
ORDINARY = [
    json.loads(line)
    for line in ANSWERS.with_name("ordinary_answers.jsonl").read_text("utf-8").splitlines()
]
LEAST_RATE = {"right": 0.98, "wrong": 0.95}


def read_labelled(suite: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in ANSWERS.read_text("utf-8").splitlines()]
    return [row for row in rows if row["suite"] == suite]


def calls_of(row: dict[str, Any]) -> list[ToolInvocation]:
    calls = [(call["name"], call["arguments"]) for call in row["answer"]["tool_calls"]]
    return [
        ToolInvocation(
            name=name, arguments=json.loads(a) if isinstance(a, str) else a, channel="native"
        )
        for name, a in calls
    ]


@pytest.mark.parametrize("every", slow_rest([7, 1], every=2))
@pytest.mark.parametrize("kind", ["right", "wrong"])
@pytest.mark.parametrize("suite", ["core", "tool_use", "native_tools", "restraint"])
def test_verdicts_agree_with_people(suite: str, kind: str, every: int) -> None:
    """Of the right answers at least 98% pass, of the wrong ones at least 95% fail; the message names the others."""
    prompts = {prompt.id: prompt for prompt in load_suite(suite).prompts}
    rows = [row for row in read_labelled(suite) if row["kind"] == kind][::every]
    astray = []
    for row in rows:
        verdict = judge_answer(prompts[row["prompt_id"]], row["answer"]["content"], calls_of(row))
        if (verdict.objective_pass is not False) != (kind == "right"):
            astray.append((row["prompt_id"], row["answer"], verdict.violation))
    assert len(astray) <= len(rows) * (1 - LEAST_RATE[kind]), astray


def test_prompts_read_as_they_did() -> None:
    """Every prompt that was answered is still asked, letter for letter."""
    rows = [json.loads(line) for line in ANSWERS.read_text("utf-8").splitlines()]
    for suite in {row["suite"] for row in rows}:
        asked = {prompt.id: prompt.prompt for prompt in load_suite(suite).prompts}
        assert {row["prompt_id"] for row in rows if row["suite"] == suite} <= asked.keys()
        answered = {
            row["prompt_id"]: row["prompt"]
            for row in rows
            if row["suite"] == suite and "prompt" in row
        }
        assert {name: asked[name] for name in answered} == answered


@every_row("row", MISJUDGED, ids=lambda row: f"{row['suite']}-{row['prompt_id']}-{row['kind']}")
def test_answers_that_were_misjudged_are_judged_right(row: dict[str, Any]) -> None:
    """Unusual right answers pass, and wrong ones that look right fail: each had the other verdict once."""
    prompt = next(
        prompt for prompt in load_suite(row["suite"]).prompts if prompt.id == row["prompt_id"]
    )
    verdict = judge_answer(prompt, row["answer"]["content"], calls_of(row))
    assert (verdict.objective_pass is not False) == (row["kind"] == "right"), (
        row["answer"],
        verdict.violation,
    )


@pytest.mark.parametrize("every", slow_rest([9, 1], every=2))
def test_ordinary_answers_are_judged_as_anybody_would(every: int) -> None:
    """Markdown, a sentence before a command, a polite closer: none of it fails; plainly wrong answers do."""
    prompts = {
        (s, one.id): one
        for s in ("tool_use", "restraint", "native_tools")
        for one in load_suite(s).prompts
    }
    astray = []
    for row in ORDINARY[::every]:
        verdict = judge_answer(
            prompts[row["suite"], row["prompt_id"]], row["answer"]["content"], calls_of(row)
        )
        if verdict.objective_pass != (row["kind"] == "right"):
            astray.append((row, verdict.violation))
    assert astray == []


@pytest.mark.parametrize("drawing", slow_rest([0, 1, 2, 3], every=4))
def test_a_number_read_in_a_long_text_counts_in_bold_and_not_beside_another(drawing: int) -> None:
    """Bold, back-ticks and a full stop are no other answer; a near miss, a second candidate and a hedge are."""
    numbers = [
        prompt
        for prompt in load_suite("long_context", drawing=drawing).prompts
        if "obey" not in prompt.name
    ]
    for prompt in numbers:
        right = re.findall(r"\d+", prompt.validator["pattern"])[0]
        for answer in (
            right,
            f"{right}.",
            f"**{right}**",
            f"`{right}`",
            f"<think>{right}1?</think>\n{right}\n",
        ):
            assert judge_answer(prompt, answer, []).objective_pass, answer
        for answer in (
            f"0{right}",
            f"{right}{right[-1]}",
            f"{right} or 9",
            f"{right}.5",
            f"-{right}",
            f"about {right}",
        ):
            assert judge_answer(prompt, answer, []).objective_pass is False, answer
