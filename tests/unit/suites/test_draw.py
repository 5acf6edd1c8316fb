"""Another drawing asks the same with other values, and expects what belongs to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.suites import load_suite

HOSTS = {
    "id": "P0",
    "name": "busiest",
    "prompt": "ash has load 2, cedar has load 11. Cedar or ash? washing does not count. Say {name}, or 11.",
    "draw": {"ash": ["elm", "oak"], "cedar|Cedar": ["maple|Maple", "aspen|Aspen"], "11": ["14", "19"]},
    "validator": {"type": "tool_invocation", "expected_tools": ["cedar"]},
    "system": "cedar.example",
}
LOG = {
    "id": "P1",
    "name": "needle",
    "prompt": "Log:\n{long}\nWho failed?",
    "long": {
        "tokens": 2000,
        "of": ["{time} INFO job {n} done ({id})"],
        "insert": ["{time} ERROR heron failed", "last"],
    },
    "draw": {"heron": ["stork", "crane"]},
    "validator": {"type": "exact", "value": "heron"},
}


def load(tmp_path: Path, drawing: int, *prompts: dict[str, Any]) -> list[Prompt]:
    path = tmp_path / "birds.json"
    path.write_text(json.dumps({"prompts": list(prompts)}))
    return load_suite(str(path), drawing=drawing).prompts


def test_drawing_0_is_the_suite_as_written(tmp_path: Path) -> None:
    (prompt,) = load(tmp_path, 0, HOSTS)
    assert prompt.prompt == HOSTS["prompt"] and prompt.validator == HOSTS["validator"]


@pytest.mark.parametrize("drawing", [1, 2, 3, 77])
def test_a_drawing_changes_prompt_and_expectation_alike(tmp_path: Path, drawing: int) -> None:
    (prompt,) = load(tmp_path, drawing, HOSTS)
    (tree,) = prompt.validator["expected_tools"]
    assert tree in ("maple", "aspen") and prompt.system == f"{tree}.example" and tree.title() in prompt.prompt
    assert "cedar" not in prompt.prompt.lower() and "washing" in prompt.prompt and "{name}" in prompt.prompt
    assert prompt == load(tmp_path, drawing, HOSTS)[0]


def test_drawings_differ(tmp_path: Path) -> None:
    assert len({load(tmp_path, drawing, HOSTS)[0].prompt for drawing in range(1, 40)}) == 8


def test_a_number_of_the_expectation_is_drawn_too(tmp_path: Path) -> None:
    entry = HOSTS | {"validator": {"type": "exact", "value": "11"}, "world": None, "max_tokens": 11}
    (prompt,) = load(tmp_path, 5, entry)
    assert prompt.validator["value"] in ("14", "19") and prompt.max_tokens == 11


def test_a_long_text_has_its_length_and_its_lines_and_is_the_same_again(tmp_path: Path) -> None:
    (prompt,), (again,), (other,) = (load(tmp_path, drawing, LOG) for drawing in (0, 0, 1))
    assert prompt.prompt == again.prompt and 6500 < len(prompt.prompt) < 9000
    assert prompt.prompt.count("ERROR heron failed") == 1 and "{" not in prompt.prompt
    assert prompt.prompt.index("heron failed") < prompt.prompt.index("\nlast\n")
    assert "heron" not in other.prompt and other.validator["value"] in ("stork", "crane")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"draw": {"birch": ["elm"]}}, "'birch' stands nowhere"),
        ({"draw": {"ash": []}}, "list of texts"),
        ({"draw": {"cedar|Cedar": ["elm"]}}, "must have 2 parts"),
        ({"draw": {"ash|cedar": ["a|b"], "cedar": ["c"]}}, "'cedar' is drawn twice"),
        ({"draw": ["ash"]}, "must be an object"),
        ({"long": {"tokens": 5, "of": ["x"]}}, "fills nothing"),
        ({"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 0, "of": ["x"]}}, "whole number"),
        ({"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 9, "of": []}}, "empty"),
        (
            {"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 9, "off": ["x"]}},
            "unknown key; did you mean 'of'",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_place(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(SuiteError, match=r"prompt 1 \('P0'\), key '(draw|long)") as caught:
        load(tmp_path, 0, HOSTS | change)
    assert told in str(caught.value)


def test_a_file_of_a_world_has_a_long_text_of_its_own(tmp_path: Path) -> None:
    """Drawn with the prompt, of about the length asked for, and refused where the file has a text already."""
    file: dict[str, Any] = {"long": LOG["long"], "owner": "root"}
    task: dict[str, Any] = {
        "id": "P0",
        "name": "log",
        "prompt": "Who failed?",
        "tools": ["exec"],
        "world": {"files": {"/var/log/a.log": file, "/var/log/b.log": file}},
        "draw": {"heron": ["stork"]},
        "validator": {"type": "world_state", "expect": [{"file": "/var/log/heron"}]},
    }
    (prompt,) = load(tmp_path, 1, task)
    assert prompt.world is not None
    one, other = (prompt.world["files"][f"/var/log/{name}.log"] for name in "ab")
    assert one["owner"] == "root" and one["text"] != other["text"]
    assert one["text"].count(" ERROR stork failed\n") == 1 and one["text"].endswith("\n")
    assert 6_000 < len(one["text"]) < 9_000
    task["world"]["files"]["/var/log/a.log"] = {**file, "text": "x"}
    with pytest.raises(SuiteError, match=r"world.files./var/log/a.log.long': makes the text of a file that has one"):
        load(tmp_path, 0, task)
