"""Our MCP server as a client meets it: a real child process, one JSON object a line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clawgauge.world import tool_definitions
from clawgauge.world.mcp import NEUTRAL_ANSWER, read_log
from support.waiting import PATIENCE_S

TOOLS = tool_definitions(["read", "write"])
WORLD = {"files": {"/home/claw/a.txt": "first line"}}


class Client:
    """A client that writes raw lines and reads what comes back."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def send(self, line: bytes) -> None:
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.send(
            json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
        )
        reply: dict[str, Any] = json.loads(self._stdout.readline())
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
        return reply

    def call(self, name: str, arguments: Any, tool_use_id: str | None = None) -> str:
        meta = {"_meta": {"claudecode/toolUseId": tool_use_id}} if tool_use_id else {}
        result = self.ask("tools/call", name=name, arguments=arguments, **meta)["result"]
        return str(result["content"][0]["text"])


@contextmanager
def serving(folder: Path, world: dict[str, Any] | None) -> Iterator[Client]:
    """A server for these tools, which ends by itself when the client closes its end."""
    file = folder / "serving.json"
    file.write_text(json.dumps({"tools": TOOLS, "world": world, "log_path": str(folder / "log")}))
    command = [sys.executable, "-m", "clawgauge.world.mcp", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield Client(process)
        assert process.stdin is not None and process.stderr is not None
        process.stdin.close()
        assert process.wait(timeout=PATIENCE_S) == 0 and process.stderr.read() == b""


def test_the_greeting_and_the_tools(tmp_path: Path) -> None:
    """A client gets the version it asked for, the tools with their schemas, and an error for what is not there."""
    with serving(tmp_path, None) as client:
        assert "error" in client.ask("server/discover")
        greeting = client.ask("initialize", protocolVersion="2025-11-25")["result"]
        assert greeting["protocolVersion"] == "2025-11-25" and "tools" in greeting["capabilities"]
        client.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        tools = client.ask("tools/list")["result"]["tools"]
        assert client.ask("ping")["result"] == {}
    assert [tool["name"] for tool in tools] == ["read", "write"]
    assert tools[0]["inputSchema"] == TOOLS[0]["function"]["parameters"] and tools[0]["description"]


def test_a_task_changes_its_world_and_nothing_else(tmp_path: Path) -> None:
    """Calls see what earlier ones did, the log has them in order, and no file of the host is touched."""
    target = tmp_path / "not-written.txt"
    # A file of the world's own user can be written there, wherever this machine keeps its temporary files.
    world = {"files": {**WORLD["files"], str(target): "before"}}
    with serving(tmp_path, world) as client:
        assert "first line" in client.call("read", {"path": "/home/claw/a.txt"}, "t1")
        client.call("write", {"path": str(target), "content": "from a model"}, "t2")
        assert "from a model" in client.call("read", {"path": str(target)}, "t3")
    assert not target.exists()
    log = read_log(tmp_path / "log")
    assert [(call.id, call.name) for call in log] == [
        ("t1", "read"),
        ("t2", "write"),
        ("t3", "read"),
    ]
    assert (
        log[1].arguments == {"path": str(target), "content": "from a model"}
        and "first line" in log[0].answer
    )


def test_without_a_world_every_call_gets_the_same_neutral_line(tmp_path: Path) -> None:
    """A prompt of one turn learns nothing from its calls, and each is logged with its arguments."""
    with serving(tmp_path, None) as client:
        assert {client.call("read", {"path": "/x"}), client.call("nope", ["odd"])} == {
            NEUTRAL_ANSWER.text
        }
    assert [(call.name, call.arguments) for call in read_log(tmp_path / "log")] == [
        ("read", {"path": "/x"}),
        ("nope", ["odd"]),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not JSON",
        b"[]",
        b"7",
        b"\xff\xfe",
        b'{"id": 1}',
        b'{"id": 1, "method": 5}',
        b"[" * 100_000,
        b'{"\\ud800": 1}',
    ],
    ids=[
        "empty",
        "words",
        "array",
        "number",
        "bytes",
        "no method",
        "odd method",
        "deep",
        "surrogate",
    ],
)
def test_a_line_that_is_no_request_is_passed_over(tmp_path: Path, line: bytes) -> None:
    """Whatever is sent, the next request is answered."""
    with serving(tmp_path, WORLD) as client:
        client.send(line)
        assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "params",
    [{}, {"name": None}, {"name": "read"}, {"name": "read", "arguments": "x"}, {"_meta": 7}],
)
def test_a_call_that_is_wrong_is_answered_and_logged(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    """A call without a name, arguments or sense gets an error as its answer; the server goes on."""
    with serving(tmp_path, WORLD) as client:
        assert client.ask("tools/call", **params)["result"]["isError"] is True
    assert len(read_log(tmp_path / "log")) == 1


def test_a_log_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    """A server killed in the middle of a line leaves the calls before it readable."""
    with serving(tmp_path, None) as client:
        client.call("read", {"path": "\ud800"})
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole + b'{"id": "t2", "na')
    assert [call.name for call in read_log(tmp_path / "log")] == ["read"]
    assert read_log(tmp_path / "missing") == []
