"""A small agent program that behaves as goose does, with faults on request. It imports nothing of ours.

`install_fake_agent` (support/fake_agent.py) puts a script called `goose` before it, which names the file with its
behaviour. It speaks chat completions, streamed, and runs tools that an MCP server on stdio offers.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class ToolServer:
    """The MCP server behind `--with-extension`."""

    def __init__(self, command: str) -> None:
        words = shlex.split(command)
        self.prefix = f"{Path(words[0]).name}__"
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._n_requests = 0
        self._ask("initialize", {"protocolVersion": "2025-06-18"})
        self.tools = self._ask("tools/list", {})["tools"]

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._n_requests += 1
        request = {"jsonrpc": "2.0", "id": self._n_requests, "method": method, "params": params}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())["result"]

    def call(self, name: str, arguments: Any) -> str:
        result = self._ask("tools/call", {"name": name, "arguments": arguments})
        return str(result["content"][0]["text"])


class Agent:
    def __init__(self, behaviour: dict[str, Any], arguments: list[str]) -> None:
        self.behaviour = behaviour
        self.model = os.environ["GOOSE_MODEL"]
        host = os.environ.get("OPENAI_HOST")
        path = f"/{os.environ.get('OPENAI_BASE_PATH', '')}"
        if host is None:
            host = os.environ["OLLAMA_HOST"]
            path = "/v1/chat/completions"
        self.address = urlsplit(host)
        self.path = self.address.path + path
        self.tool_server = None
        if "--with-extension" in arguments:
            self.tool_server = ToolServer(arguments[arguments.index("--with-extension") + 1])
        self.messages: list[dict[str, Any]] = []
        if "--system" in arguments:
            system = arguments[arguments.index("--system") + 1]
            self.messages.append({"role": "system", "content": system})

    def run(self, prompt: str) -> int:
        if self.behaviour.get("asks_nothing"):
            sys.stderr.write("fake agent: no model was chosen\n")
            return 0
        self.messages.append({"role": "user", "content": prompt})
        for _ in range(20):
            status, reply = self._ask()
            if status != 200:
                if self.behaviour.get("asks_again_on_errors"):
                    time.sleep(0.02)
                    continue
                return 0
            if self.behaviour.get("leaves_early"):
                return 0
            self.messages.append(reply)
            calls = reply.get("tool_calls") or []
            hides = self.behaviour.get("hides_written_calls")
            if hides and "<tool_call>" in reply["content"]:
                self.messages.append({"role": "user", "content": "Go on."})
                continue
            if not calls:
                return int(self.behaviour.get("exit_code", 0))
            for call in calls:
                self.messages.append(self._run_tool(call))
        return 1

    def _run_tool(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        answer = "no such tool"
        name = function["name"]
        if self.tool_server is not None and name.startswith(self.tool_server.prefix):
            arguments = self._repair(function["arguments"])
            if isinstance(arguments, dict):
                answer = self.tool_server.call(
                    name.removeprefix(self.tool_server.prefix), arguments
                )
        return {"role": "tool", "tool_call_id": call["id"], "content": answer}

    def _repair(self, text: str) -> Any:
        try:
            arguments = json.loads(text or "{}")
        except ValueError:
            return {"command": "ls"} if self.behaviour.get("completes_arguments") else None
        if self.behaviour.get("numbers_become_texts"):
            arguments = {name: str(value) for name, value in arguments.items()}
        return arguments

    def _offer(self) -> list[dict[str, Any]]:
        tools = []
        if self.tool_server is not None and not self.behaviour.get("drops_tools"):
            for tool in self.tool_server.tools:
                function = {
                    "name": self.tool_server.prefix + tool["name"],
                    "description": tool["description"],
                    "parameters": tool["inputSchema"],
                }
                tools.append({"type": "function", "function": function})
        for name in self.behaviour.get("offers_of_its_own", []):
            tools.append({"type": "function", "function": {"name": name, "parameters": {}}})
        return tools

    def _ask(self) -> tuple[int, dict[str, Any]]:
        body = {
            "model": self.behaviour.get("asks_for_model", self.model),
            "messages": self.messages,
            "stream": True,
        }
        tools = self._offer()
        if tools:
            body["tools"] = tools
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        headers["Authorization"] = "Bearer none"
        connection = http.client.HTTPConnection(
            str(self.address.hostname), self.address.port, timeout=300
        )
        try:
            connection.request("POST", self.path, json.dumps(body), headers)
            reply = connection.getresponse()
            if reply.status != 200:
                reply.read()
                return reply.status, {}
            if self.behaviour.get("leaves_early"):
                reply.read(20)
                return 200, {}
            return 200, read_stream(reply)
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()


def read_stream(reply: http.client.HTTPResponse) -> dict[str, Any]:
    """The message of a streamed completion."""
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for line in reply:
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        for choice in json.loads(line[5:]).get("choices", []):
            delta = choice.get("delta", {})
            text += delta.get("content") or ""
            for piece in delta.get("tool_calls") or []:
                call = calls.setdefault(
                    piece.get("index", 0),
                    {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
                )
                call["id"] = call["id"] or piece.get("id") or ""
                function = piece.get("function", {})
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = list(calls.values())
    return message


def main() -> int:
    behaviour = json.loads(Path(sys.argv[1]).read_text())
    arguments = sys.argv[2:]
    if arguments == ["--version"]:
        print(f" {behaviour.get('version', '1.34.0')}")
        return 0
    seen = {name: value for name, value in os.environ.items() if name != "PATH"}
    if "notes" in behaviour:
        Path(behaviour["notes"]).write_text(json.dumps({"environ": seen, "argv": arguments}))
    return Agent(behaviour, arguments).run(sys.stdin.read())


if __name__ == "__main__":
    sys.exit(main())
