"""The means of prompt families in summary.json, by which models are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import RunFolderError
from clawgauge.records import RULE
from clawgauge.records.run import IN_CONTEXT
from clawgauge.records.summary import FamilyMeans
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from support.written_runs import MODEL, config, prompt, record, unanswered, write_run

TOOL = {"name": "free", "description": "memory", "parameters": {"type": "object"}}
HOLD_BACK = {"type": "tool_call", "no_call": True}


def means_of(
    folder: Path, prompts: list[dict[str, Any]], records: list[dict[str, Any]], **changes: Any
) -> FamilyMeans:
    plan = config(prompts, [MODEL], rule=RULE, **changes)
    (group,) = summarize_folder(write_run(folder, records, config=plan)).models
    assert group.by_family is not None
    return group.by_family


def test_repeats_drawings_and_variants_of_a_prompt_are_averaged(tmp_path: Path) -> None:
    """Two of three repeats and one of two variants are a mean of one family each."""
    prompts = [
        prompt("P0"),
        prompt("P1"),
        prompt("P2", variant_of="P1"),
        prompt("P3"),
    ]
    records = [
        record("P0", True, repeat=0),
        record("P0", True, repeat=1),
        record("P0", False, repeat=2),
        record("P1", True),
        record("P2", False),
        record("P3", True),
        record("P3", False, draw=1),
    ]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("passes") == {"core/P0": 0.666667, "core/P1": 0.5, "core/P3": 0.5}


def test_the_turns_of_a_session_are_one_family(tmp_path: Path) -> None:
    """Models are compared on the user's own work by sessions, as it is judged."""
    own_work = {"validator": {"type": "agreement", "no_call": True}, "tools": [TOOL]}
    prompts = [
        prompt("m1", "mine", session="monday", **own_work),
        prompt("m2", "mine", session="monday", **own_work),
        prompt("m3", "mine", session="friday", **own_work),
    ]
    records = [
        record("m1", True, suite="mine"),
        record("m2", False, suite="mine"),
        record("m3", True, suite="mine"),
    ]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("agreement") == {"mine/session monday": 0.5, "mine/session friday": 1.0}


def test_both_prompts_of_a_pair_are_one_family(tmp_path: Path) -> None:
    prompts = [
        prompt("P0", tools=[TOOL], validator=HOLD_BACK),
        prompt("P1", tools=[TOOL], pair="P0"),
    ]
    records = [record("P0", True), record("P1", False)]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("passes") == {"core/P0": 0.5}
    assert means.of("restraint") == {"core/P0": 1.0}


def test_figures_are_of_their_own_prompts(tmp_path: Path) -> None:
    """Tools, restraint, tasks and the prompts of a job, each by its families; `passes` are of all."""
    job = {"prompts": ["core/json"], "weighs": {"passes": 1}}
    prompts = [
        prompt("P0", category="json"),
        prompt("T0", tools=[TOOL], expected_tools=["free"]),
        prompt("R0", tools=[TOOL], validator=HOLD_BACK),
        prompt("W0", validator={"type": "world_state", "expect": []}, world={"files": {}}),
    ]
    called = {"expected_tools": ["free"], "tools_offered": True, "tool_use_success": True}
    records = [
        record("P0", True),
        record("T0", False, **called),
        record("R0", True, tools_offered=True),
        record("W0", True, turns=2),
    ]
    means = means_of(tmp_path / "run", prompts, records, jobs={"mine": job})
    assert means.of("tools") == {"core/T0": 1.0}
    assert means.of("restraint") == {"core/R0": 1.0}
    assert means.of("tasks") == {"core/W0": 1.0}
    assert means.of("job/mine") == {"core/P0": 1.0}
    assert means.of("passes") == {
        "core/P0": 1.0,
        "core/T0": 0.0,
        "core/R0": 1.0,
        "core/W0": 1.0,
    }


def test_what_counts_is_what_decides_needs(tmp_path: Path) -> None:
    """A timeout of a server that answers is failed, an empty answer too; a refused connection is not known."""
    prompts = [prompt(f"P{number}") for number in range(4)]
    records = [
        record("P0", True),
        unanswered("P1", "timeout"),
        record("P2", None, success=False, failure_type="empty_response"),
        unanswered("P3", "connection_refused"),
    ]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("passes") == {"core/P0": 1.0, "core/P1": 0.0, "core/P2": 0.0}
    assert means.of("answers") == {"core/P0": 1.0, "core/P1": 0.0, "core/P2": 0.0, "core/P3": 0.0}


def test_a_refusal_is_no_evidence_of_restraint(tmp_path: Path) -> None:
    """It called nothing and said no: other figures count it as failed."""
    prompts = [prompt(f"R{n}", tools=[TOOL], validator=HOLD_BACK) for n in range(2)]
    refused = record("R0", None, success=False, failure_type="refusal", tools_offered=True)
    records = [refused, record("R1", True, tools_offered=True)]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("restraint") == {"core/R1": 1.0}
    assert means.of("passes") == {"core/R0": 0.0, "core/R1": 1.0}


def test_turns_of_the_users_own_work_are_agreement(tmp_path: Path) -> None:
    turns = [prompt("A0", validator={"type": "agreement", "calls": []}), prompt("P0")]
    means = means_of(tmp_path / "run", turns, [record("A0", False), record("P0", True)])
    assert means.of("agreement") == {"core/A0": 0.0}


def test_prompts_in_a_context_of_the_users_judge_no_model(tmp_path: Path) -> None:
    """Of a prompt that was asked bare and inside the context the bare one counts."""
    inside = prompt("P0", suite=f"core{IN_CONTEXT}", in_context=True)
    records = [record("P0", True), record("P0", False, suite=f"core{IN_CONTEXT}")]
    means = means_of(tmp_path / "run", [prompt("P0"), inside], records)
    assert means.families == ["core/P0"]
    assert means.of("passes") == {"core/P0": 1.0}


def test_times_are_scores(tmp_path: Path) -> None:
    """One half at five seconds for a call and at one second for a first token; nothing for a call that was cut off."""
    prompts = [prompt(f"P{number}") for number in range(2)]
    records = [
        record("P0", e2e_ms=5_000, ttft_ms=1_000, repeat=0),
        record("P0", e2e_ms=0, ttft_ms=0, repeat=1),
        unanswered("P1", "timeout", e2e_ms=60_000),
    ]
    means = means_of(tmp_path / "run", prompts, records)
    assert means.of("latency") == {"core/P0": 0.75, "core/P1": 0.0}
    assert means.of("first_token") == {"core/P0": 0.75}


def test_a_run_of_an_earlier_version_has_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record("P0")], config=config([prompt("P0")]))
    (group,) = summarize_folder(folder).models
    assert group.by_family is None


def test_a_strangers_means_are_no_more_than_means(tmp_path: Path) -> None:
    """A list that is too short has nothing for the last families; a mean of two is refused."""
    assert FamilyMeans(families=["a", "b"], figures={"passes": [1.0]}).of("passes") == {"a": 1.0}
    folder = write_run(tmp_path / "run", [record("P0")], config=config([prompt("P0")], rule=RULE))
    summary = json.loads(json.dumps({"models": [], "schema_version": 1, "run_id": "run"}))
    summary |= {"generated_at": "", "run_wall_clock_ms": None}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert Run.open(folder).summary is not None
    summary["models"] = [{"by_family": {"families": ["a"], "figures": {"passes": [2.0]}}}]
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunFolderError):
        _ = Run.open(folder).summary
