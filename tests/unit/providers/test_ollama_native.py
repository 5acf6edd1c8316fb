"""Ollama through its own API: what is sent, what is read line by line, where the time went, and which window it has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import ProviderSettings, Turn, create_provider
from clawgauge.records import MadeCall, Message, ToolInvocation
from support.command import clawgauge, write_suite
from support.ollama_format import InstalledModel
from support.rows import every_row
from support.scripted_server import (
    BadJson200,
    Cut,
    Html200,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
)
from unit.providers.observed import attempt

TOOLS = [{"type": "function", "function": {"name": "exec", "parameters": {"type": "object"}}}]


def ask(server: ScriptedServer, **call: Any) -> tuple[Reply, CallFailure | None]:
    return attempt("ollama", server.base_url, **call)


def find_window(server: ScriptedServer, model: str, **extra: Any) -> int | None:
    async def asked() -> int | None:
        async with create_provider(
            ProviderSettings("ollama", "ollama", server.base_url, extra=extra)
        ) as provider:
            return await provider.find_window(model)

    return asyncio.run(asked())


def test_an_answer_with_its_thinking_its_calls_and_its_time(server: ScriptedServer) -> None:
    """Text, thinking, calls and counts are told apart; queued is what is in the total and in no part of it."""
    server.script(
        Text(
            "Let me look.",
            reasoning="hm well",
            tool_calls=[("exec", '{"command": "df"}')],
            usage=(7, 3),
        )
    )
    done, failure = ask(server, tools=TOOLS)
    assert failure is None and (done.text, done.reasoning_text) == ("Let me look.", "hm well")
    assert [(call.name, call.arguments) for call in done.native_calls] == [
        ("exec", {"command": "df"})
    ]
    assert (done.input_tokens, done.output_tokens, done.finish_reason) == (7, 3, "tool_calls")
    assert done.ttft_ns is not None and done.model_reported == "scripted-model"
    ms = {part: ns // 1_000_000 for part, ns in (done.server_ns or {}).items()}
    assert ms == {"load": 20, "prefill": 30, "decode": 40, "queue": 10, "total": 100}


def test_what_is_sent(server: ScriptedServer) -> None:
    """The conversation natively, limits among the options, the form of the answer as a schema, and the settings."""
    messages = (
        Message(role="user", content="look"),
        Message(role="assistant", calls=[MadeCall(name="exec", arguments={"command": "ls"})]),
        Message(role="tool", content="a.txt"),
    )
    turn = Turn(
        "Now.", (ToolInvocation(name="exec", arguments={}, channel="native"),), ("ok",), "thought"
    )
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    extra = {"context": 8192, "keep_alive": "30m"}
    attempt("ollama", server.v1_url, settings={"extra": extra}, prompt="go on", system="Be brief.", messages=messages,
            history=(turn,), tools=TOOLS, thinking_level="xhigh", max_tokens=9, seed=3, temperature=0.0,
            response_format=form)  # fmt: skip
    sent = server.calls[0].json
    for message in sent["messages"]:
        assert all(
            call.pop("id") and call.pop("type") == "function"
            for call in message.get("tool_calls", [])
        )
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "",
         "tool_calls": [{"function": {"name": "exec", "arguments": {"command": "ls"}}}]},
        {"role": "tool", "tool_name": "exec", "content": "a.txt"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "Now.", "thinking": "thought",
         "tool_calls": [{"function": {"name": "exec", "arguments": {}}}]},
        {"role": "tool", "tool_name": "exec", "content": "ok"},
    ]  # fmt: skip
    assert sent["options"] == {"num_ctx": 8192, "num_predict": 9, "temperature": 0.0, "seed": 3}
    assert (sent["keep_alive"], sent["think"], sent["format"]) == (
        "30m",
        "high",
        {"type": "object"},
    )
    assert "tool_choice" not in sent


def test_lines_may_be_cut_anywhere(server: ScriptedServer) -> None:
    """CRLF, blank lines, a missing last newline and any cut make the same answer."""
    lines = [
        b'{"message":{"content":"na\xc3\xafve "}}',
        b'{"message":{"content":"ok"}}',
        b'{"done":true,"eval_count":2}',
    ]
    for data in (b"\n".join(lines), b"\r\n\r\n".join(lines) + b"\r\n"):
        server.script(*(SseBytes(data, every=every) for every in (1, 7)))
        for _ in range(2):
            done, failure = ask(server)
            assert failure is None and (done.text, done.output_tokens) == ("naïve ok", 2)


FAULTS = [
    ("not there", Status(404, {"error": "model 'x' not found"}), ("skipped_unavailable", "model_not_found")),
    ("busy", Status(503, {"error": "server busy, please try again"}), ("error", "http_503")),
    ("long", Status(400, {"error": "input length exceeds the context length"}), ("error", "context_length_exceeded")),
    ("a page", Html200(), ("error", "invalid_response")),
    ("not JSON", BadJson200(), ("error", "invalid_response")),
    ("an error inside", StreamError(500, after_text="one two"), ("error", "stream_error")),
    ("a limit inside", StreamError(429), ("rate_limited", "stream_error")),
    ("cut off", Cut(clean=True), ("error", "stream_interrupted")),
]  # fmt: skip


@every_row(("name", "reply", "found"), FAULTS)
def test_what_goes_wrong_is_called_by_its_name(
    name: str, reply: Any, found: tuple[str, str]
) -> None:
    with ScriptedServer() as server:
        server.script(reply)
        _, failure = ask(server)
        assert failure is not None and (failure.status, failure.failure_type) == found


@pytest.mark.parametrize(
    "usage", [{}, {"total_duration": -1, "eval_count": "many"}, {"total_duration": 2**63}]
)
def test_what_is_no_time_is_not_told(server: ScriptedServer, usage: dict[str, Any]) -> None:
    """A server that tells nothing, or nonsense, leaves no anatomy, and the answer stands."""
    nothing = dict.fromkeys(
        ("load_duration", "prompt_eval_duration", "eval_duration", "total_duration")
    )
    server.script(Text("fine", usage=nothing | usage))
    done, failure = ask(server)
    assert failure is None and (done.text, done.server_ns) == ("fine", None)


def test_which_window_a_model_has() -> None:
    """What is asked for, what it is loaded with, what its Modelfile says; never more than it was made for."""
    models = [
        InstalledModel("plain", context_length=8192),
        InstalledModel("set", parameters="stop x\nnum_ctx  2048\n"),
    ]
    with ScriptedServer(models=models, loaded=["plain"]) as server:
        assert find_window(server, "plain") == 4096, "as /api/ps says of a loaded model"
        assert find_window(server, "plain", context=16_384) == 8192
        assert find_window(server, "set") == 2048
        assert find_window(server, "absent") is None
    with ScriptedServer(models=models) as server:
        assert find_window(server, "plain") == 8192


def test_a_run_tells_where_the_time_went_and_what_was_cut(tmp_path: Path) -> None:
    """Records, summary and -v have the parts; a prompt that filled the window is warned of, a longer one not asked."""
    with ScriptedServer(models=[InstalledModel("m", context_length=1024)]) as server:
        table = f'[providers.box]\ntype = "ollama"\nbase_url = "{server.base_url}"\n'
        (tmp_path / "clawgauge.toml").write_text(table)
        write_suite(tmp_path / "s.json", {"prompt": "short"}, {"prompt": "a b " * 1_000})
        server.reply_with(Text("fine", usage=(1024, 3)))
        done = clawgauge(tmp_path, "run", "-v", "-t", "box:m", "-s", "s.json")
    assert done.code == 0, done.stderr
    (record,) = done.records()
    parts = {part: us for part, us in record["server_us"].items() if part != "wire"}
    assert parts == {"load": 20_000, "queue": 10_000, "prefill": 30_000, "decode": 40_000}
    assert (
        record["warnings"][0].startswith("prompt_cut: the server read 1024 tokens")
        and record["cold_start"] is True
    )
    (group,) = done.summary()["models"]
    assert group["server_ms"]["prefill"]["p50"] == 30 and list(group["server_ms"])[-1] == "wire"
    assert (
        "Where the time goes" in done.stderr
        and "longer than the model's window of 1024 tokens" in done.stderr
    )
