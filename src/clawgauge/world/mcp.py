"""The tools of a prompt behind the Model Context Protocol, for a program that takes tools from MCP servers only.

`python -m clawgauge.world.mcp SERVING.json` touches no file of the host but this one and a log of the calls. A task's
calls change its simulated world; a prompt without a world gets one neutral line for every call."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.world.effects import ToolAnswer, bound_memory
from clawgauge.world.world import World

SERVER_NAME, PROTOCOL_VERSION = "clawgauge", "2025-06-18"
NEUTRAL_ANSWER = ToolAnswer("The call was received.")
_METHOD_NOT_FOUND = -32601
_TOOL_USE_ID = "claudecode/toolUseId"


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    tools: list[dict[str, Any]]
    log_path: str
    world: dict[str, Any] | None = None


class LoggedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it arrived. `id` is the client's own name for it, where it gives one."""

    id: str | None
    name: str
    arguments: Any
    answer: str
    is_error: bool


def read_log(path: Path) -> list[LoggedCall]:
    """The calls of one serving; a last line that was cut off in the middle is no call."""
    found = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with contextlib.suppress(ValueError):  # msgspec's are among them
            found.append(msgspec.convert(json.loads(line), LoggedCall))
    return found


class McpServer:
    def __init__(self, serving: Serving) -> None:
        self._tools = []
        for function in (tool.get("function", tool) for tool in serving.tools):
            described = {"name": function["name"], "description": function.get("description", "")}
            takes = function.get("parameters") or {"type": "object", "properties": {}}
            self._tools.append({**described, "inputSchema": takes})
        self._world = None if serving.world is None else World(serving.world)
        self._log_path = Path(serving.log_path)

    def answer(self, line: str) -> str | None:
        """The reply to one line; None for notifications and for what is no request."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if (
            not isinstance(request, dict)
            or request.get("id") is None
            or not isinstance(request.get("method"), str)
        ):
            return None
        params: Any = request.get("params") if isinstance(request.get("params"), dict) else {}
        reply: dict[str, Any] = {}
        match request["method"]:
            case "initialize":
                asked = params.get("protocolVersion")
                version = asked if isinstance(asked, str) else PROTOCOL_VERSION
                server = {"name": SERVER_NAME, "version": "1"}
                reply = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": server,
                }
            case "tools/list":
                reply = {"tools": self._tools}
            case "tools/call":
                reply = self._call(params)
            case other if other != "ping":
                error = {"code": _METHOD_NOT_FOUND, "message": f"no method {other[:80]}"}
                return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": reply})

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments, meta = (
            str(params.get("name", "")),
            params.get("arguments"),
            params.get("_meta"),
        )
        said = self._world.call(name, arguments) if self._world is not None else NEUTRAL_ANSWER
        call_id = meta.get(_TOOL_USE_ID) if isinstance(meta, dict) else None
        call_id = call_id if isinstance(call_id, str) else None
        call = LoggedCall(
            id=call_id, name=name, arguments=arguments, answer=said.text, is_error=said.is_error
        )
        # Before the answer goes out: whoever has seen an answer finds its call in the log.
        with self._log_path.open("a", encoding="ascii") as log:
            log.write(json.dumps(msgspec.to_builtins(call)) + "\n")
        return {"content": [{"type": "text", "text": said.text}], "isError": said.is_error}


def main() -> None:
    # The standard library's reader: it takes half a surrogate pair, and so may a prompt's tools hold one.
    serving = msgspec.convert(json.loads(Path(sys.argv[1]).read_bytes()), Serving)
    bound_memory()
    server = McpServer(serving)
    for line in sys.stdin.buffer:
        # UTF-8 whatever the locale says; a stray byte must not end the server.
        if (reply := server.answer(line.decode("utf-8", "replace"))) is not None:
            sys.stdout.write(reply + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
