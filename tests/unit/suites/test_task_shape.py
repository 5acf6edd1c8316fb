"""A prompt with a world is a task: what it must have, and what a prompt without one must not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks.world_state import EFFECTS, KINDS
from clawgauge.errors import SuiteError
from clawgauge.records import SuiteRecord
from clawgauge.suites import load_suite
from clawgauge.world import TOOL_NAMES
from clawgauge.world.machine import WorldSpec
from support.rows import every_row

TASK: dict[str, Any] = {
    "id": "P0",
    "name": "n",
    "prompt": "p",
    "world": {"files": {"/srv/a": "x"}},
    "tools": ["exec", "read"],
    "validator": {"type": "world_state", "expect": [{"file": "/srv/a"}, {"called": "read"}]},
}


def load(folder: Path, **changes: Any) -> SuiteRecord:
    entry = {key: value for key, value in (TASK | changes).items() if value is not None}
    (folder / "s.json").write_text(json.dumps([entry]), "utf-8")
    return load_suite(str(folder / "s.json"))


def test_task_gets_whole_tools_turns_and_expected_tools(tmp_path: Path) -> None:
    """Tools named from the built-in set are written out, turns have a default, and called tools are expected."""
    prompt = load(tmp_path).prompts[0]
    assert [tool["function"]["name"] for tool in prompt.tools] == ["exec", "read"]
    assert prompt.tools[0]["function"]["parameters"]["required"] == ["command"]
    assert (prompt.max_turns, prompt.world, prompt.expected_tools) == (12, TASK["world"], ["read"])


@every_row(
    ("changes", "said"),
    [
        ({"world": None}, "key 'tools[0]'"),
        ({"world": None, "tools": None}, "looks at a world; give the prompt one in 'world'"),
        ({"world": []}, "key 'world' must be an object, not a list"),
        ({"world": {"file": {}}}, "world: key 'file' is not known; did you mean 'files'?"),
        ({"tools": None}, "key 'tools': missing; a task offers some of exec, read"),
        ({"tools": ["exce"]}, "'exec'"),
        (
            {"tools": [{"type": "function", "function": {"name": "browser"}}]},
            "'browser' is not a tool of the simulated world",
        ),
        ({"max_turns": 1}, "key 'max_turns' must be a whole number from 2 to 100, not 1"),
        ({"max_turns": "ten"}, "key 'max_turns' must be a whole number from 2 to 100, not 'ten'"),
        (
            {"world": None, "tools": None, "max_turns": 3, "validator": {"type": "noop"}},
            "key 'max_turns': given without 'world'",
        ),
        ({"validator": {"type": "world_state"}}, "validator: key 'expect' is empty"),
    ],
)
def test_bad_task_is_refused_by_key(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """The refusal names the file, the prompt and the key."""
    with pytest.raises(SuiteError) as refused:
        load(tmp_path, **changes)
    assert said in str(refused.value)
    assert "s.json: prompt 1 ('P0')" in str(refused.value)


def test_world_and_turns_are_in_the_hash(tmp_path: Path) -> None:
    """Two suites that differ in a world, or in the turns allowed, do not ask the same."""
    hashes = {
        load(tmp_path).sha256,
        load(tmp_path, world={"files": {"/srv/a": "y"}}).sha256,
        load(tmp_path, max_turns=13).sha256,
    }
    assert len(hashes) == 3


def test_page_names_every_key_condition_and_tool() -> None:
    """Whatever a world, a condition or a task may name is on the page about tasks."""
    page = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text("utf-8")
    for key in (*WorldSpec.__struct_fields__, *EFFECTS, *TOOL_NAMES):
        assert f"`{key}`" in page
    for kind in KINDS:
        assert f"{{ {kind} = " in page
