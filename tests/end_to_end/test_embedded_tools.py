"""The embedded model with tools: a real model that really calls, over three protocols, and one that cannot.

The template begins the call for the model (`force_tool`), so a call is no sign of skill; what is tested is that a real
server's calls, turns and token counts come through.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clawgauge, write_suite
from support.slow_rest import slow_rest

TOOL_TEMPLATE = Path(__file__).parents[1] / "data" / "smollm2_tools.jinja"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PROMPT: dict[str, Any] = {
    "prompt": "What is the weather in Paris?",
    "tools": [WEATHER],
    "tool_choice": "required",
    "validator": {
        "type": "tool_call",
        "expected_calls": [{"name": "get_weather", "arguments": {"city": "*"}}],
    },
}
TASK: dict[str, Any] = {
    "prompt": "List the files in the home directory.",
    "tools": ["exec"],
    "tool_choice": "required",
    "world": {"files": {"/home/claw/todo.txt": "buy milk"}},
    "max_turns": 3,
    "validator": {"type": "world_state", "expect": [{"called": "exec"}]},
}
FORCED = "extra_body = { chat_template_kwargs = { force_tool = true } }"


@pytest.fixture
def forced(tmp_path: Path, llama_tools_address: str) -> Path:
    """A folder whose configuration reaches the model with the template over each protocol, and embedded."""
    (tmp_path / "clawgauge.toml").write_text(
        f'[providers.embedded]\nchat_template_file = "{TOOL_TEMPLATE}"\n{FORCED}\n'
        f'[providers.chat]\ntype = "openai_chat"\nbase_url = "{llama_tools_address}/v1"\nlocal = true\n{FORCED}\n'
        f'[providers.responses]\ntype = "openai_responses"\nbase_url = "{llama_tools_address}/v1"\n{FORCED}\n'
        f'[providers.messages]\ntype = "anthropic_messages"\nbase_url = "{llama_tools_address}"\n{FORCED}\n'
    )
    return tmp_path


def run(place: Path, provider: str, prompt: dict[str, Any]) -> Outcome:
    write_suite(place / "one.json", prompt)
    words = [
        "run",
        "-t",
        f"{provider}:smollm2-135m",
        "-s",
        "one.json",
        "--max-tokens",
        "96",
        "--temperature",
        "0",
    ]
    return clawgauge(place, *words, env={"OPENAI_API_KEY": "none"})


@pytest.mark.parametrize(
    "provider", slow_rest(["embedded", "chat", "responses", "messages"], every=4)
)
def test_a_real_model_calls_a_tool(forced: Path, provider: str) -> None:
    """The call is native, has its arguments and its first-token time, and counts as tool use."""
    done = run(forced, provider, PROMPT)
    assert done.code == 0, done.stderr
    (record,) = done.records()
    assert record["success"] and record["tool_use_success"] and record["objective_pass"] is True, (
        record
    )
    (call,) = [call for call in record["tool_invocations"] if call["channel"] == "native"]
    assert (call["name"], call["valid"], list(call["arguments"])) == ("get_weather", True, ["city"])
    assert 0 < record["ttft_ms"] <= record["e2e_ms"] and record["ttfa_ms"] is not None
    assert record["finish_reason"] == "tool_calls" and record["output_tokens"] > 5
    assert not any(warning.startswith("tools_dropped") for warning in record["warnings"])


@pytest.mark.slow
def test_a_real_server_reads_the_same_conversation_in_every_protocol(forced: Path) -> None:
    """Calls and results before the prompt come to the same number of tokens however they are sent."""
    conversation = {
        "messages": [
            {"role": "user", "content": "What is the weather in Rome?"},
            {
                "role": "assistant",
                "calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}],
            },
            {"role": "tool", "content": "Sunny, 31 degrees."},
            {"role": "assistant", "content": "It is sunny."},
        ]
    }
    counts = []
    for provider in ("embedded", "chat", "responses", "messages"):
        (record,) = run(forced, provider, {**PROMPT, **conversation}).records()
        assert record["success"] and not record["warnings"], record
        counts.append(record["input_tokens"])
    assert len(set(counts)) == 1 and counts[0] > 100, counts


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["responses", "messages", "chat", "embedded"])
def test_a_real_model_takes_turns(forced: Path, provider: str) -> None:
    """The world's answers go back to a real server in the shape it takes, and the conversation goes on."""
    (record,) = run(forced, provider, TASK).records()
    first = record["transcript"][0]
    assert first["calls"][0]["name"] == "exec" and len(first["answers"]) == len(first["calls"])
    assert len(record["attempts"]) >= 2, "the answer was sent back"
    if not record["success"]:
        # Left to itself the small model may write what llama.cpp can read neither as text nor as a call.
        assert "does not match the expected" in record["error"], record["error"]
        return
    assert 2 <= record["turns"] <= 3 and record["input_tokens"] > record["turns"] * 100


@pytest.mark.slow
def test_a_template_without_a_place_for_tools_is_told(tmp_path: Path) -> None:
    """The model's own template drops tools in silence: the record says so, and how to mend it."""
    (record,) = run(tmp_path, "embedded", {**PROMPT, "tool_choice": None}).records()
    (warning,) = [warning for warning in record["warnings"] if warning.startswith("tools_dropped")]
    assert "chat_template_file" in warning and not record["tool_use_success"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('[providers.embedded]\nchat_template_file = "gone.jinja"\n', "gone.jinja"),
        (
            '[providers.x]\ntype = "openai_chat"\nbase_url = "http://x/v1"\nchat_template_file = "t"\n',
            "chat_template_file",
        ),
    ],
    ids=["missing file", "other provider"],
)
def test_a_template_that_cannot_be_used(tmp_path: Path, table: str, told: str) -> None:
    """A missing file, or the option where it means nothing, is one sentence that names it."""
    (tmp_path / "clawgauge.toml").write_text(table)
    done = run(tmp_path, "embedded", PROMPT)
    said = done.stderr if done.code == 2 else done.records()[0]["error"]
    assert told in said and done.code in (2, 3)
