"""How the fake `claude` uses tools: it starts the MCP server it was given, as the real one does, and calls it.

Loaded by the program behind the fake when its behaviour has `tool_rounds`. Standard library alone. The order of lines,
the names, the ids in `_meta` and the end by `--max-turns` follow what the real program was seen doing.
"""

import json
import subprocess

PREFIX = "mcp__clawgauge__"


class McpClient:
    """One connection to the server named `clawgauge` in a configuration file."""

    def __init__(self, config_path):
        with open(config_path, encoding="utf-8") as file:  # noqa: PTH123 - as in the program that loads this
            server = json.load(file)["mcpServers"]["clawgauge"]
        command = [server["command"], *server["args"]]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._last_id = 0
        self.ask("server/discover", {})
        self.ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fake"}},
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = self.ask("tools/list", {})["result"]["tools"]

    def ask(self, method, params):
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        reply = json.loads(self._process.stdout.readline())
        assert reply["id"] == self._last_id, reply
        return reply

    def close(self):
        self._process.stdin.close()
        self._process.wait()

    def _send(self, message):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def converse(behaviour, options, print_line, print_answer):
    """Play the rounds of calls, then the answer; the exit code of the real program in the same case."""
    client = McpClient(options["--mcp-config"])
    allowed = options["--allowedTools"].split(",")
    offered = [PREFIX + tool["name"] for tool in client.tools if PREFIX + tool["name"] in allowed]
    connected = not behaviour["mcp_fails"]
    servers = [{"name": "clawgauge", "status": "connected" if connected else "failed"}]
    print_line(
        {
            "type": "system",
            "subtype": "init",
            "tools": offered if connected else [],
            "mcp_servers": servers,
        }
    )
    max_turns = int(options.get("--max-turns", 99))
    for turn, (text, calls) in enumerate(behaviour["tool_rounds"], start=1):
        for line in _message_lines(options, turn, text, calls):
            print_line(line)
        for index, (name, arguments) in enumerate(calls):
            meta = (
                {"claudecode/toolUseId": f"toolu_{turn}_{index}"}
                if behaviour["names_calls"]
                else {}
            )
            print_line(_tool_result(client, f"toolu_{turn}_{index}", name, arguments, meta))
        if turn == max_turns:
            client.close()
            print_line(_spent(max_turns))
            return 1
    client.close()
    print_answer()
    return 0


def _message_lines(options, turn, text, calls):
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": f"msg_{turn}", "model": options.get("--model"), "content": [], "usage": usage}
    events = [{"type": "message_start", "message": message}]
    if text:
        events.append(_start(0, {"type": "text", "text": ""}))
        events.append(_delta(0, {"type": "text_delta", "text": text}))
    for index, (name, arguments) in enumerate(calls, start=1):
        block = {
            "type": "tool_use",
            "id": f"toolu_{turn}_{index - 1}",
            "name": PREFIX + name,
            "input": {},
        }
        half = len(arguments) // 2
        events.append(_start(index, block))
        events += [
            _delta(index, {"type": "input_json_delta", "partial_json": p})
            for p in _halves(arguments, half)
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": usage | {"output_tokens": 5}})
    return [
        {"type": "stream_event", "event": event, "parent_tool_use_id": None} for event in events
    ]


def _halves(arguments, half):
    return [piece for piece in (arguments[:half], arguments[half:]) if piece]


def _start(index, block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index, delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _tool_result(client, tool_use_id, name, arguments, meta):
    """Arguments that are not JSON are refused before they reach the server."""
    try:
        params = {"name": name, "arguments": json.loads(arguments), "_meta": meta}
    except ValueError:
        content = "<tool_use_error>InputValidationError</tool_use_error>"
    else:
        content = client.ask("tools/call", params)["result"]["content"]
    result = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    return {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        "parent_tool_use_id": None,
    }


def _spent(max_turns):
    return {
        "type": "result",
        "subtype": "error_max_turns",
        "is_error": True,
        "terminal_reason": "max_turns",
        "stop_reason": "tool_use",
        "errors": [f"Reached maximum number of turns ({max_turns})"],
        "usage": {"input_tokens": 10 * max_turns, "output_tokens": 5 * max_turns},
        "total_cost_usd": 0.002,
        "duration_api_ms": 1,
    }
