"""Chat completions: a call as messages, the wire's chunks and replies, and the providers of any such server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink, Turn
from clawgauge.providers.http.errors import stream_failure
from clawgauge.providers.http.lenient_json import decode_lenient, refuse_crowded
from clawgauge.providers.http.server import HttpServer
from clawgauge.records import MAX_TOKENS, ToolInvocation, as_count

_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call and its answer."""

    id: str
    name: str
    arguments: str
    answer: str


def past_turns(call: Call) -> Iterator[tuple[Turn, list[PastCall]]]:
    """Every earlier turn with its calls.

    The ids are ours: servers differ in what they send, some send none, and one family takes nothing but nine letters
    and digits. They are counted from the start of the task, so a call keeps its id in every later request.
    """
    ids = (f"call{number:05d}" for number in count(1))
    names = {_offered_name(tool).lower(): _offered_name(tool) for tool in call.tools}
    for turn in call.history:
        calls = [
            PastCall(next(ids), _sendable_name(made.name, names), _written(made), answer)
            for made, answer in zip(turn.calls, turn.answers, strict=True)
        ]
        yield turn, calls


def _offered_name(tool: dict[str, object]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _sendable_name(name: str, offered: dict[str, str]) -> str:
    """As the tool was offered; a name the model made up is sent as servers accept names, or they refuse the request."""
    return offered.get(name) or _UNSENDABLE.sub("_", name)[:_NAME_CHARS] or "unnamed"


def _written(made: ToolInvocation) -> str:
    """The arguments as text. Malformed ones go back as none: servers that parse them again would refuse the request,
    and the answer beside them tells the model what was wrong.
    """
    if not isinstance(made.arguments, dict):
        return "{}"
    return json.dumps(made.arguments, ensure_ascii=False)


def chat_messages(call: Call) -> list[dict[str, Any]]:
    """What the model is to read, in order."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": call.system}] if call.system else []
    messages.append({"role": "user", "content": call.prompt})
    for turn, calls in past_turns(call) if call.history else ():
        messages.append(_assistant_message(turn, calls))
        messages += [{"role": "tool", "tool_call_id": made.id, "content": made.answer} for made in calls]
    return messages


def _assistant_message(turn: Turn, calls: list[PastCall]) -> dict[str, Any]:
    # Empty text rather than null: some chat templates add to it without looking.
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.reasoning:
        # Servers that show reasoning may refuse to go on after a call without it; the others are never sent any.
        message["reasoning_content"] = turn.reasoning
    message["tool_calls"] = [
        {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
        for made in calls
    ]
    return message


_MAX_ID_CHARS = 200


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    model: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


def chat_body(call: Call, extra: dict[str, Any] | None = None) -> bytes:
    """The request. A field that was not asked for is not sent."""
    body: dict[str, Any] = {"model": call.model, "messages": chat_messages(call), "stream": call.stream}
    if call.stream:
        body["stream_options"] = {"include_usage": True}
    if call.max_tokens is not None:
        body["max_tokens"] = call.max_tokens
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.seed is not None:
        body["seed"] = call.seed
    if call.thinking_level is not None:
        body["reasoning_effort"] = call.thinking_level
    if call.tools:
        body["tools"] = call.tools
        if call.tool_choice is not None:
            body["tool_choice"] = call.tool_choice
    body.update(extra or {})
    return encode_body(body)


def encode_body(body: dict[str, Any]) -> bytes:
    """JSON bytes. A lone surrogate in a prompt is sent as its escape rather than failing the call."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode("ascii")


class ChatReader:
    """Feeds one chat reply, streamed or whole, to a sink. Implements `http_reply.Reader`."""

    __slots__ = ("_calls", "_done", "_finished", "_model_seen", "_n_calls", "_read_any", "_sink", "_unread", "model")

    def __init__(self, sink: Sink, model: str) -> None:
        self.model = model
        self._sink = sink
        self._calls: dict[int, _BegunCall] = {}
        self._n_calls = 0
        self._finished = False
        self._done = False
        self._model_seen = False
        self._read_any = False
        self._unread = b""

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            if self._unread and not self._read_any:
                raise not_the_protocol(self._unread, "chat completions")
            self._done = True
            return True
        refuse_crowded(data)
        try:
            chunk = _decode_chunk(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            lenient = self._decode_leniently(data, name)
            if lenient is None:
                return False
            chunk = lenient
        self._read_any = True
        if chunk.error is not None:
            raise stream_failure(chunk.error)
        if name == b"error":
            raise stream_failure(decode_lenient(data) or data.decode("utf-8", "replace"))
        if chunk.model and not self._model_seen:
            self._model_seen = True
            self._sink.note(model_reported=chunk.model)
        for choice in chunk.choices or ():
            # Only the first choice is the answer; n > 1 is never asked for.
            if choice.index:
                continue
            if choice.delta is not None:
                self._report(at_ns, choice.delta)
            if choice.finish_reason:
                self._finished = True
                self._sink.finish(choice.finish_reason)
        if chunk.usage is not None:
            report_counts(self._sink, chunk.usage, "prompt_tokens", "completion_tokens")
        return False

    def _decode_leniently(self, data: bytes, name: bytes) -> _Chunk | None:
        lenient = decode_lenient(data)
        if lenient is not None:
            return _chunk_from(lenient)
        if name == b"error":
            raise stream_failure(data.decode("utf-8", "replace"))
        self._unread = self._unread or data
        return None

    def _report(self, at_ns: int, delta: _Delta) -> None:
        sink = self._sink
        if reasoning := delta.reasoning_content or delta.reasoning:
            sink.reasoning(at_ns, reasoning)
        if delta.content:
            sink.text(at_ns, delta.content)
        if delta.refusal:
            sink.note(refusal=delta.refusal)
        if delta.tool_calls:
            self._report_calls(at_ns, delta.tool_calls)

    def _report_calls(self, at_ns: int, calls: list[_ToolCall]) -> None:
        for position, call in enumerate(calls):
            function = call.function or _Function()
            if not (function.name or function.arguments):
                continue
            index = call.index if call.index is not None else position
            begun = self._calls.get(index)
            if begun is None or begun.is_followed_by(call, function):
                self._n_calls += 1
                begun = self._calls[index] = _BegunCall(f"call {self._n_calls}")
            begun.id = begun.id or (call.id or "")[:_MAX_ID_CHARS]
            begun.name = function.name or begun.name
            begun.has_arguments = begun.has_arguments or bool(function.arguments)
            self._sink.tool_delta(at_ns, begun.key, function.name, function.arguments)

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data)
        if (
            reply is None
            or not isinstance(reply.get("choices"), list | None)
            or not ("choices" in reply or "error" in reply)
        ):
            raise not_the_protocol(data, "chat completions")
        if reply.get("error") is not None:
            raise stream_failure(reply["error"], "the reply carried an error")
        self._sink.note(first_token_captured=False)
        for choice in reply.get("choices") or ():
            if isinstance(choice, dict):
                choice["delta"] = choice.get("message")
        chunk = _chunk_from(reply)
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                self._report(at_ns, choice.delta)
            self._sink.finish(choice.finish_reason)
        if chunk.model:
            self._sink.note(model_reported=chunk.model)
        report_counts(self._sink, chunk.usage, "prompt_tokens", "completion_tokens")

    def close(self) -> None:
        if not (self._finished or self._done):
            raise CallFailure("error", "stream_interrupted", "the stream ended before the server said that it was done")


class _BegunCall:
    """The call an index stands for at the moment."""

    __slots__ = ("has_arguments", "id", "key", "name")

    def __init__(self, key: str) -> None:
        self.key = key
        self.id = ""
        self.name: str | None = None
        self.has_arguments = False

    def is_followed_by(self, call: _ToolCall, function: _Function) -> bool:
        """Whether a fragment under the same index begins another call, which only a name does.

        Ollama numbers every call 0 and some servers number none: there a new id tells, or where ids are left out, that
        this call has its arguments. A new id without a name tells nothing: some make one up for every fragment.
        """
        if not function.name:
            return False
        if call.id and self.id:
            return call.id[:_MAX_ID_CHARS] != self.id
        return self.has_arguments and (call.index is None or function.name != self.name)


def not_the_protocol(data: bytes, protocol: str) -> CallFailure:
    """A 200 whose body is something else: a proxy's page, another API."""
    head = data[:200].decode("utf-8", "replace").strip()
    return CallFailure("error", "invalid_response", f"the reply is not {protocol}: {head!r}")


def report_counts(sink: Sink, usage: Any, input_name: str, output_name: str) -> int | None:
    """Token counts under a protocol's names for them. What is no count is as if not said. Returns the output's."""
    if not isinstance(usage, dict):
        return None
    inputs, outputs = usage.get(f"{input_name}_details"), usage.get(f"{output_name}_details")
    said = {
        "input_tokens": usage.get(input_name),
        "output_tokens": usage.get(output_name),
        "cached_tokens": inputs.get("cached_tokens") if isinstance(inputs, dict) else None,
        "reasoning_tokens": outputs.get("reasoning_tokens") if isinstance(outputs, dict) else None,
    }
    counts = {name: as_count(value, MAX_TOKENS) for name, value in said.items()}
    if strange := [name for name, value in said.items() if value is not None and counts[name] is None]:
        sink.note(warning=f"usage: what the server sent as {', '.join(strange)} is no count of tokens")
    sink.usage(**counts)
    return counts["output_tokens"]


def _chunk_from(reply: dict[str, Any]) -> _Chunk:
    choices = (
        [_choice_from(c) for c in reply.get("choices") or () if isinstance(c, dict)]
        if isinstance(reply.get("choices"), list)
        else []
    )
    usage = reply.get("usage")
    return _Chunk(
        choices=choices,
        usage=usage if isinstance(usage, dict) else None,
        error=reply.get("error"),
        model=_string(reply.get("model")),
    )


def _choice_from(choice: dict[str, Any]) -> _Choice:
    index = choice.get("index")
    return _Choice(
        delta=_delta_from(choice["delta"]) if isinstance(choice.get("delta"), dict) else None,
        finish_reason=_string(choice.get("finish_reason")),
        index=index if isinstance(index, int) else 0,
    )


def _delta_from(delta: dict[str, Any]) -> _Delta:
    calls = delta.get("tool_calls")
    text, thinking = _content(delta.get("content"))
    return _Delta(
        content=text,
        reasoning=thinking or _string(delta.get("reasoning")),
        reasoning_content=_string(delta.get("reasoning_content")),
        refusal=_string(delta.get("refusal")),
        tool_calls=[_call_from(c) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else None,
    )


def _call_from(call: dict[str, Any]) -> _ToolCall:
    function = call.get("function")
    index = call.get("index")
    if not isinstance(function, dict):
        return _ToolCall()
    return _ToolCall(
        id=_string(call.get("id")),
        index=index if isinstance(index, int) and not isinstance(index, bool) else None,
        function=_Function(name=_string(function.get("name")), arguments=arguments_text(function.get("arguments"))),
    )


def arguments_text(arguments: Any) -> str | None:
    """The text of arguments, which some servers send as an object; too deep to be written, they are no arguments."""
    if arguments is None or isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments)
    except RecursionError:
        return "nested too deeply"


def _content(content: Any) -> tuple[str | None, str | None]:
    """Content is a string, or a list of parts (text, thinking) as some servers send."""
    if not isinstance(content, list):
        return _string(content), None
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, dict):
            (thoughts if part.get("type") == "thinking" else texts).append(_string(part.get("text")) or "")
    return "".join(texts) or None, "".join(thoughts) or None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class ChatServer(HttpServer):
    """What `openai_chat`, `ollama_openai` and `embedded` build on: they differ in where the server is, no more."""

    async def attempt(self, call: Call, sink: Sink) -> None:
        reader = ChatReader(sink, call.model)
        await self.post("/chat/completions", chat_body(call, self.extra_body), sink, reader, call.timeout_s)


DEFAULT_BASE_URL = "http://localhost:8080/v1"


def create(settings: ProviderSettings) -> Provider:
    """A server the user configured; `local = true` in its table says that it runs on the user's own machine."""
    return ChatServer(
        settings, base_url=settings.base_url or DEFAULT_BASE_URL, local=bool(settings.extra.get("local", False))
    )
