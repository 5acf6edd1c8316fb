"""Tools defined once at the head of a suite and named by its prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.records import SuiteRecord
from clawgauge.suites import load_suite
from support.rows import every_row

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
TOOLBOX: dict[str, Any] = {
    "read": {"description": "Read a file.", "parameters": PARAMETERS},
    "ping": {},
}
OWN: dict[str, Any] = {
    "type": "function",
    "function": {"name": "mine", "parameters": {"type": "object"}},
}
ENTRY: dict[str, Any] = {
    "id": "P0",
    "name": "n",
    "prompt": "Show me /etc/hosts.",
    "tools": ["read", "ping"],
    "validator": {
        "type": "tool_call",
        "expected_calls": [{"name": "read", "arguments": {"path": ["/etc/hosts"]}}],
    },
}


def load(tmp_path: Path, toolbox: object = TOOLBOX, **changes: Any) -> SuiteRecord:
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({"name": "s", "toolbox": toolbox, "prompts": [ENTRY | changes]}),
        encoding="utf-8",
    )
    return load_suite(str(path))


def test_named_tools_are_written_out(tmp_path: Path) -> None:
    """A prompt holds whole definitions, as if it had written them itself, in the order it names them."""
    read = {
        "type": "function",
        "function": {"name": "read", "description": "Read a file.", "parameters": PARAMETERS},
    }
    ping = {"type": "function", "function": {"name": "ping"}}
    named = load(tmp_path, tools=["ping", OWN, "read"])
    assert named.prompts[0].tools == [ping, OWN, read]
    assert load(tmp_path, toolbox=None, tools=[ping, OWN, read]).sha256 == named.sha256
    assert load(tmp_path).prompts[0].expected_tools == ["read"]


def test_a_tool_may_be_forced_by_name(tmp_path: Path) -> None:
    """`tool_choice` knows the tools of the toolbox."""
    choice = {"type": "function", "function": {"name": "read"}}
    assert load(tmp_path, tool_choice=choice).prompts[0].tool_choice == choice


@every_row(
    ("toolbox", "changes", "said"),
    [
        ([], {}, "key 'toolbox' must be an object of tools by name, not a list"),
        ({"read": "r"}, {}, "key 'toolbox.read' must be an object with description, parameters"),
        ({" ": {}}, {}, "a tool's name must not be empty"),
        (
            {"read": {"parametres": {}}},
            {},
            "key 'toolbox.read.parametres' is not known here; did you mean 'parameters'?",
        ),
        ({"read": {"parameters": 3}}, {}, "key 'toolbox.read.parameters' must be an object, not 3"),
        ({"read": {"description": 3}}, {}, "key 'toolbox.read.description' must be text, not 3"),
        (TOOLBOX, {"tools": ["raed"]}, "prompt 1 ('P0'), key 'tools[0]': must be an object"),
        (TOOLBOX, {"tools": ["raed"]}, "'toolbox', which has no 'raed'; did you mean 'read'?"),
        (None, {}, "'toolbox', which is missing, so 'read' cannot be named"),
        (TOOLBOX, {"tools": ["read", "read"]}, "key 'tools[1]': 'read' is offered twice"),
        (
            TOOLBOX,
            {"tools": ["ping"]},
            "prompt 1 ('P0'): validator: key 'expected_calls[0].name' is 'read', which is not",
        ),
        (
            TOOLBOX,
            {"tools": None},
            "prompt 1 ('P0'): validator: key 'type' is 'tool_call', but the prompt offers no tools",
        ),
    ],
)
def test_a_bad_toolbox_is_refused(
    tmp_path: Path, toolbox: object, changes: dict[str, Any], said: str
) -> None:
    """The refusal names the tool, or the prompt that names one that is not there."""
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, toolbox, **changes)
    assert said in str(caught.value)
