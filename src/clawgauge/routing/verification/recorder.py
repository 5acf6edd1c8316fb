"""A model on loopback that says READY in every protocol, and keeps what it was asked.

It never answers with an error: OpenClaw would ask again for a minute, and then go on to the next
model.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from clawgauge.json_limits import find_excess
from clawgauge.routing.request_facts import Protocol, find_protocol

VERIFY_WORD = "clawgauge-verify-subagent"
"""A prompt with this word is answered with the call that starts a subagent."""
SUBAGENT_TASK = "Say READY: you are the subagent."
_READY = "READY"
_MAX_REQUEST_BYTES = 32 << 20
_MAX_REQUESTS = 500
# What OpenClaw asks of a server's models before it calls one.
_OLLAMA_MODEL = {
    "model_info": {},
    "details": {},
    "capabilities": ["completion", "tools", "thinking"],
}
_TOOL_CALLER = "tool_call"
_SPAWN = "sessions_spawn"
_CALL_ID = "call_verify_1"


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request that reached the recorder."""

    provider_id: str
    path: str
    """After the id of the provider."""
    body: Mapping[str, Any]

    @property
    def model(self) -> str | None:
        model = self.body.get("model")
        if isinstance(model, str):
            return model
        # Google's protocol has the model in its path.
        return self.path.rpartition("/")[2].partition(":")[0] or None


class Recorder:
    """What was asked so far. `prompt_tokens` is what every answer says it read."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._requests: list[SeenRequest] = []
        self._has_spawned = False
        self.port = 0
        self.prompt_tokens = 100
        self.news = threading.Event()
        """Set with every request; whoever waits for one clears it."""

    def address(self, provider_id: str) -> str:
        """Where a provider is to be asked, in the place of its own address."""
        return f"http://127.0.0.1:{self.port}/{self._token}/{provider_id}"

    @property
    def requests(self) -> list[SeenRequest]:
        with self._lock:
            return list(self._requests)

    def take(self, path: str, body: Mapping[str, Any]) -> bool:
        """Keep a request; False for one that is not from the program that was given the address."""
        _, token, provider_id, *rest = [*path.split("/"), "", "", ""]
        if not secrets.compare_digest(token, self._token):
            return False
        plain_path = "/" + "/".join(part for part in rest if part)
        with self._lock:
            if len(self._requests) < _MAX_REQUESTS:
                self._requests.append(SeenRequest(provider_id, plain_path, body))
        self.news.set()
        return True

    def wants_subagent(self, body: Mapping[str, Any]) -> bool:
        """Whether this request is to be answered with the call that starts a subagent: once."""
        with self._lock:
            if self._has_spawned or not _names_tool(body) or not _holds_word(body):
                return False
            self._has_spawned = True
            return True


def _names_tool(body: Mapping[str, Any]) -> bool:
    return find_spawn_tool(body) is not None


def find_spawn_tool(body: Mapping[str, Any]) -> str | None:
    """The tool by which a subagent can be started: OpenClaw's own, or the one that calls others."""
    names = set()
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            function = tool.get("function")
            named = function if isinstance(function, dict) else tool
            names.add(named.get("name"))
    for name in (_SPAWN, _TOOL_CALLER):
        if name in names:
            return name
    return None


def _holds_word(body: Mapping[str, Any]) -> bool:
    """Whether the last message of a person has the word: a subagent is not to start another."""
    messages = body.get("messages") or body.get("input")
    for message in reversed(messages) if isinstance(messages, list) else ():
        if not isinstance(message, dict) or message.get("role") != "user":
            continue
        if VERIFY_WORD in json.dumps(message.get("content"), default=str):
            return True
    return False


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder on a free port of loopback, for as long as the context lasts."""
    recorder = Recorder(secrets.token_urlsafe(18).replace("_", "x").replace("-", "y"))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            self._send_json({"data": [], "models": [], "version": "0.0.0"})

        def do_POST(self) -> None:
            n_bytes = int(self.headers.get("Content-Length") or 0)
            if not 0 < n_bytes <= _MAX_REQUEST_BYTES:
                return self.send_error(413)
            data = self.rfile.read(n_bytes)
            if find_excess(data) is not None:
                return self.send_error(413)
            try:
                body = msgspec.json.decode(data)
            except msgspec.DecodeError:
                return self.send_error(400)
            path = self.path.partition("?")[0]
            if find_protocol(path) is Protocol.UNKNOWN:
                return self._send_json(_answer_question(path))
            if not isinstance(body, dict) or not recorder.take(path, body):
                return self.send_error(404)
            answer = make_answer(recorder, path, body)
            self.send_response(200)
            self.send_header("Content-Type", answer.content_type)
            self.end_headers()
            self.wfile.write(answer.data)
            return None

        def _send_json(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorder.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()


def _answer_question(path: str) -> Any:
    if path.endswith("/api/show"):
        return _OLLAMA_MODEL
    if path.endswith("/api/embed"):
        return {"embeddings": [[0.0] * 8]}
    return {}


@dataclass(frozen=True, slots=True)
class Answer:
    content_type: str
    data: bytes


def make_answer(recorder: Recorder, path: str, body: Mapping[str, Any]) -> Answer:
    """The word READY as the protocol has it, streamed; or the call that starts a subagent."""
    spawn = None
    if recorder.wants_subagent(body):
        spawn = _spawn_call(find_spawn_tool(body))
    n_tokens = recorder.prompt_tokens
    model = str(body.get("model") or "model")
    match find_protocol(path):
        case Protocol.OLLAMA:
            return _answer_ollama(model, n_tokens, spawn)
        case Protocol.RESPONSES:
            return _answer_responses(model, n_tokens, spawn)
        case Protocol.MESSAGES:
            return _answer_messages(model, n_tokens, spawn)
        case Protocol.GEMINI:
            return _answer_gemini(n_tokens, spawn)
        case _:
            return _answer_chat(model, n_tokens, spawn)


@dataclass(frozen=True, slots=True)
class _Spawn:
    name: str
    arguments: dict[str, Any]


def _spawn_call(tool: str | None) -> _Spawn:
    task = {"task": SUBAGENT_TASK, "label": "verify"}
    if tool == _TOOL_CALLER:
        return _Spawn(_TOOL_CALLER, {"id": _SPAWN, "args": task})
    return _Spawn(_SPAWN, task)


def _lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def _events(values: list[dict[str, Any]], *, named: bool) -> bytes:
    parts = []
    for value in values:
        name = f"event: {value['type']}\n" if named else ""
        parts.append(f"{name}data: {json.dumps(value)}\n\n".encode())
    return b"".join(parts)


def _answer_ollama(model: str, n_tokens: int, spawn: _Spawn | None) -> Answer:
    message: dict[str, Any] = {"role": "assistant", "content": _READY}
    if spawn is not None:
        function = {"name": spawn.name, "arguments": spawn.arguments}
        message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    common = {"model": model, "created_at": "2026-01-01T00:00:00Z"}
    end = {
        **common,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": n_tokens,
        "eval_count": 2,
        "total_duration": 1,
    }
    lines = [{**common, "message": message, "done": False}, end]
    return Answer("application/x-ndjson", _lines(lines))


def _answer_chat(model: str, n_tokens: int, spawn: _Spawn | None) -> Answer:
    delta: dict[str, Any] = {"role": "assistant", "content": _READY}
    reason = "stop"
    if spawn is not None:
        function = {"name": spawn.name, "arguments": json.dumps(spawn.arguments)}
        call = {"index": 0, "id": _CALL_ID, "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls"
    common = {"id": "v", "object": "chat.completion.chunk", "created": 0, "model": model}
    usage = {
        "prompt_tokens": n_tokens,
        "completion_tokens": 2,
        "total_tokens": n_tokens + 2,
    }
    chunks = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**common, "choices": [], "usage": usage},
    ]
    return Answer("text/event-stream", _events(chunks, named=False) + b"data: [DONE]\n\n")


def _answer_responses(model: str, n_tokens: int, spawn: _Spawn | None) -> Answer:
    response: dict[str, Any] = {"id": "resp_v", "object": "response", "model": model, "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}}
    ]
    if spawn is not None:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": "fc_v",
            "call_id": _CALL_ID,
            "name": spawn.name,
            "arguments": json.dumps(spawn.arguments),
            "status": "completed",
        }
        begun = {**item, "arguments": "", "status": "in_progress"}
        delta = {"item_id": "fc_v", "output_index": 0}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {
                "type": "response.function_call_arguments.delta",
                **delta,
                "delta": item["arguments"],
            },
            {
                "type": "response.function_call_arguments.done",
                **delta,
                "arguments": item["arguments"],
            },
        ]
    else:
        part = {"type": "output_text", "text": _READY, "annotations": []}
        item = {
            "type": "message",
            "id": "msg_v",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        begun = {**item, "content": [], "status": "in_progress"}
        place = {"item_id": "msg_v", "output_index": 0, "content_index": 0}
        empty = {**part, "text": ""}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.content_part.added", **place, "part": empty},
            {"type": "response.output_text.delta", **place, "delta": _READY},
            {"type": "response.output_text.done", **place, "text": _READY},
            {"type": "response.content_part.done", **place, "part": part},
        ]
    usage = {
        "input_tokens": n_tokens,
        "output_tokens": 2,
        "total_tokens": n_tokens + 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return Answer("text/event-stream", _events(events, named=True))


def _answer_messages(model: str, n_tokens: int, spawn: _Spawn | None) -> Answer:
    message: dict[str, Any] = {
        "id": "msg_v",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": n_tokens, "output_tokens": 1},
    }
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": _READY}
    reason = "end_turn"
    if spawn is not None:
        block = {"type": "tool_use", "id": "toolu_v", "name": spawn.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(spawn.arguments)}
        reason = "tool_use"
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    return Answer("text/event-stream", _events(events, named=True))


def _answer_gemini(n_tokens: int, spawn: _Spawn | None) -> Answer:
    part: dict[str, Any] = {"text": _READY}
    if spawn is not None:
        part = {"functionCall": {"name": spawn.name, "args": spawn.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": n_tokens,
        "candidatesTokenCount": 2,
        "totalTokenCount": n_tokens + 2,
    }
    pieces = [{"candidates": [candidate], "usageMetadata": usage}]
    return Answer("text/event-stream", _events(pieces, named=False))
