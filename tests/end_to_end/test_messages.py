"""A suite whose prompts go on from a conversation and share a context, through the whole program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.command import chat_config, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Text

PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "exec", "parameters": PARAMETERS}}
CONTEXT = {
    "system": "You keep four servers alive.",
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "What is it?"},
    ],
}
MOMENT: dict[str, Any] = {
    "context": "desk",
    "messages": [
        {"role": "user", "content": "web2 is slow. Why?"},
        {"role": "assistant", "calls": [{"name": "exec", "arguments": {"command": "ssh web2 df"}}]},
        {"role": "tool", "content": "/dev/sda1 100% /"},
    ],
    "validator": {
        "type": "tool_call",
        "expected_calls": [{"name": "exec", "arguments": {"command": ["du /"]}}],
    },
}


def test_asked_judged_rescored_resumed_and_shown(place: Path, server: ScriptedServer) -> None:
    """The whole conversation is sent, the next call is judged, and the folder alone is enough for all that follows."""
    server.reply_with(Text("", tool_calls=[("exec", '{"command": "du /"}')]))
    chat_config(place, fake=server.v1_url)
    suite = write_suite(
        place / "s.json", MOMENT, {**MOMENT, "prompt": "So?"}, contexts={"desk": CONTEXT}
    )
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "s.json", "--unique-prefix")
    assert done.code == 0, done.stderr
    assert [record["objective_pass"] for record in done.records()] == [True, True]
    sent = [call.json["messages"] for call in server.calls]
    roles = ["system", "user", "assistant", "user", "assistant", "tool"]
    assert [[message["role"] for message in one] for one in sent] == [roles, [*roles, "user"]]
    assert all(one[0]["content"].endswith("request id]\n" + CONTEXT["system"]) for one in sent)
    config = json.loads((done.folder / "config.json").read_bytes())
    assert list(config["contexts"]) == ["s/desk"] and "system" not in config["prompts"][0]
    suite.unlink()
    again = clawgauge(place, "rescore", done.folder.name)
    assert (again.code, "2 answers judged again: 0 verdicts changed" in again.stderr) == (0, True)
    resumed = clawgauge(place, "run", "--resume", done.folder.name)
    assert resumed.code == 0 and "nothing is left to ask" in resumed.stderr
    shown = clawgauge(place, "show", done.folder.name, "s/P0")
    assert (
        "[user]\nweb2 is slow. Why?" in shown.stdout
        and 'call exec {"command": "ssh web2 df"}' in shown.stdout
    )
