"""The warning for tools that a server dropped in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.records import Prompt
from clawgauge.runner.record import dropped_warning
from faults import asking
from support.rows import every_row
from support.scripted_server import ScriptedServer, Text


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


MANY = [
    tool(f"tool_{n}", "Does one of the many things a tool may do. " * 5, path={"type": "string"})
    for n in range(8)
]


@every_row(
    ("tools", "input_tokens", "warned"),
    [
        (MANY, 40, True),
        (MANY, 900, False),
        (MANY, None, False),
        (MANY, 0, False),
        ([], 3, False),
        ([tool("add", "Add two numbers", a={"type": "number"})], 12, False),
        ([tool("pick", "", colour={"enum": ["ultramarine" * 100]})], 50, True),
        ([tool("pick", "", **{"a_long_argument_name" * 50: {}})], 50, True),
    ],
    ids=[
        "far too few",
        "enough",
        "not told",
        "nothing",
        "no tools",
        "too small to tell",
        "values",
        "argument names",
    ],
)
def test_too_few_tokens_give_it_away(
    tools: list[dict[str, Any]], input_tokens: int | None, warned: bool
) -> None:
    """Fewer tokens than the definitions alone must take is told; anything that might be enough is not."""
    assert (dropped_warning(tools, input_tokens) is not None) == warned


def ask(tmp_path: Path, kind: str, reply: Text) -> dict[str, Any]:
    prompt = Prompt(
        id="P0", name="p", prompt="go", suite="s", validator={"type": "noop"}, tools=MANY
    )
    with ScriptedServer(dialect="ollama") as server:
        server.reply_with(reply)
        (record,) = asking.ask(tmp_path, server.v1_url, kind=kind, prompts=[prompt])
    return record


@pytest.mark.parametrize(
    ("kind", "reply", "code"),
    [
        ("openai_chat", Text("Sure.", usage=(12, 2)), "too_few_tokens"),
        ("openai_chat", Text("Sure.", usage=(0, 2)), None),
        ("openai_chat", Text("Sure.", usage=(900, 2)), None),
        ("openai_chat", Text("Sure.", usage=(12, 2), cached_tokens=900), None),
        ("openai_chat", Text("", usage=(12, 2), tool_calls=[("tool_1", "{}")]), None),
        ("ollama", Text("Sure.", usage=(12, 2)), None),
        ("ollama", Text("Sure.", usage=(0, 2)), None),
        ("ollama_openai", Text("Sure.", usage=(12, 2)), None),
    ],
    ids=[
        "too few",
        "nothing",
        "enough",
        "cached",
        "a call",
        "Ollama",
        "Ollama, nothing",
        "Ollama's /v1",
    ],
)
def test_a_low_count_is_a_sign_only_where_it_counts_all(
    tmp_path: Path, kind: str, reply: Text, code: str | None
) -> None:
    """No count, a native call, tokens in a cache, and what Ollama read anew say nothing of dropped tools."""
    record = ask(tmp_path, kind, reply)
    assert record["tools_unseen"] == code
    assert [warning.partition(":")[0] for warning in record["warnings"]] == (
        ["tools_dropped"] if code else []
    )
