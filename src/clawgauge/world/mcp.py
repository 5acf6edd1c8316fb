"""The tools of a prompt behind the Model Context Protocol.

It is for a program that takes tools from MCP servers only: `python -m clawgauge.world.mcp
SERVING.json` touches no file of the host but this one and a log of the calls. A task's calls change
its simulated machine; a prompt without one gets one neutral line for every call.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.world.effects import ToolAnswer, bound_memory
from clawgauge.world.world import World

SERVER_NAME = "clawgauge"
PROTOCOL_VERSION = "2025-06-18"
NEUTRAL_ANSWER = ToolAnswer("The call was received.")
_METHOD_NOT_FOUND = -32601
_TOOL_USE_ID = "claudecode/toolUseId"


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is started with."""

    tools: list[dict[str, Any]]
    log_path: str
    world: dict[str, Any] | None = None


class LoggedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it arrived. `id` is the client's own name for it, where it gives one.

    `arrived_ns` and `answered_ns` are on the clock of `time.perf_counter_ns`, which the processes
    of one machine share on Linux and macOS.
    """

    id: str | None
    name: str
    arguments: Any
    answer: str
    is_error: bool
    arrived_ns: int = 0
    answered_ns: int = 0


def read_log(path: Path) -> list[LoggedCall]:
    """The calls of one serving; a last line that was cut off in the middle is no call."""
    if not path.is_file():
        return []
    calls = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):  # msgspec's are among them
            calls.append(msgspec.convert(json.loads(line), LoggedCall))
    return calls


class McpServer:
    def __init__(self, serving: Serving) -> None:
        self._tools = [_describe_tool(tool) for tool in serving.tools]
        self._world = None if serving.world is None else World(serving.world)
        self._log_path = Path(serving.log_path)

    def answer(self, line: str) -> str | None:
        """The reply to one line; None for notifications and for what is no request."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(request, dict) or request.get("id") is None:
            return None
        method = request.get("method")
        if not isinstance(method, str):
            return None
        params = request.get("params")
        if not isinstance(params, dict):
            params = {}
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        result = self._answer_method(method, params)
        if result is None:
            reply["error"] = {"code": _METHOD_NOT_FOUND, "message": f"no method {method[:80]}"}
        else:
            reply["result"] = result
        return json.dumps(reply)

    def _answer_method(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """What a method gives; None for one that is not known."""
        match method:
            case "initialize":
                version = params.get("protocolVersion")
                return {
                    "protocolVersion": version if isinstance(version, str) else PROTOCOL_VERSION,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": SERVER_NAME, "version": "1"},
                }
            case "tools/list":
                return {"tools": self._tools}
            case "tools/call":
                return self._call(params)
            case "ping":
                return {}
            case _:
                return None

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        arrived_ns = time.perf_counter_ns()
        name = str(params.get("name", ""))
        arguments = params.get("arguments")
        answer = NEUTRAL_ANSWER
        if self._world is not None:
            answer = self._world.call(name, arguments)
        call = LoggedCall(
            id=_call_id(params),
            name=name,
            arguments=arguments,
            answer=answer.text,
            is_error=answer.is_error,
            arrived_ns=arrived_ns,
            answered_ns=time.perf_counter_ns(),
        )
        # Before the answer goes out: whoever has seen an answer finds its call in the log.
        with self._log_path.open("a", encoding="ascii") as log:
            log.write(json.dumps(msgspec.to_builtins(call)) + "\n")
        return {"content": [{"type": "text", "text": answer.text}], "isError": answer.is_error}


def _describe_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as MCP lists it."""
    function = tool.get("function", tool)
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "inputSchema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _call_id(params: dict[str, Any]) -> str | None:
    meta = params.get("_meta")
    call_id = meta.get(_TOOL_USE_ID) if isinstance(meta, dict) else None
    return call_id if isinstance(call_id, str) else None


def main() -> None:
    # The standard library's reader: it takes half a surrogate pair, and so may a prompt's tools
    # hold one.
    serving = msgspec.convert(json.loads(Path(sys.argv[1]).read_bytes()), Serving)
    bound_memory()
    server = McpServer(serving)
    for line in sys.stdin.buffer:
        # UTF-8 whatever the locale says; a stray byte must not end the server.
        reply = server.answer(line.decode("utf-8", "replace"))
        if reply is not None:
            sys.stdout.write(reply + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
