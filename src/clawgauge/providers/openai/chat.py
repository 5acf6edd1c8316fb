"""Chat completions, and what the Responses API has in common with them: past calls, odd events, counts.

A call as messages, the wire's chunks and replies, and the provider of any such server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink, Turn
from clawgauge.providers.http.errors import stream_failure
from clawgauge.providers.http.lenient_json import MAX_VALUES, decode_lenient, fit, refuse_crowded
from clawgauge.providers.http.server import HttpServer
from clawgauge.records import MAX_TOKENS, as_count

_MAX_ID_CHARS = 200
_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


def past_turns(call: Call) -> Iterator[tuple[Turn, list[tuple[str, str, str, str]]]]:
    """Every earlier turn with its calls: the id, name, arguments and answer of each.

    The ids are ours: servers differ in what they send, some send none, and one family takes nothing but nine letters
    and digits. They are counted from the start of the task, so a call keeps its id in every later request.
    """
    ids = (f"call{number:05d}" for number in count(1))
    names = (tool["function"]["name"] for tool in call.tools)
    offered = {name.lower(): name for name in names}
    for turn in call.history:
        calls = []
        for made, answer in zip(turn.calls, turn.answers, strict=True):
            # As it was offered; a name the model made up is sent as servers accept names, or they refuse the request.
            name = offered.get(made.name) or _UNSENDABLE.sub("_", made.name)[:_NAME_CHARS] or "unnamed"
            # Malformed ones go back as none: servers that parse them again would refuse the request, and the answer
            # beside them tells the model what was wrong.
            arguments = json.dumps(made.arguments, ensure_ascii=False) if isinstance(made.arguments, dict) else "{}"
            calls.append((next(ids), name, arguments, answer))
        yield turn, calls


@dataclass(slots=True)
class EventReader:
    """Reads the events of one protocol, the odd ones as far as they can be, and knows a stream that had no other."""

    _decoder: ClassVar[msgspec.json.Decoder[Any]]
    _protocol: ClassVar[str]
    _last_word: ClassVar[str]
    # Whether `[DONE]` ends a stream that has not said why it stopped.
    _done_ends: ClassVar[bool]

    sink: Sink
    model: str
    _ended: bool = field(init=False, default=False)
    _read_any: bool = field(init=False, default=False)
    _unread: bytes = field(init=False, default=b"")

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            # The stream says that it is over: it must have held something of the protocol.
            if self._unread and not self._read_any:
                raise self._not_the_protocol(self._unread)
            return self._ended or self._done_ends
        if len(data) > MAX_VALUES:
            refuse_crowded(data)
        try:
            event = self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            fields = decode_lenient(data)
            if fields is None:
                if name == b"error":
                    raise stream_failure(data.decode("utf-8", "replace")) from None
                self._unread = self._unread or data
                return False
            event = fit(self._decoder.type, fields)
        self._read_any = True
        return self._take(at_ns, name, event, data)

    def _take(self, at_ns: int, name: bytes, event: Any, data: bytes) -> bool:
        """One event, and the bytes it came in. Returns whether it was the last."""
        raise NotImplementedError

    def close(self) -> None:
        if not self._ended:
            raise CallFailure("error", "stream_interrupted", f"the stream ended before {self._last_word}")

    def _not_the_protocol(self, data: bytes) -> CallFailure:
        """A 200 whose body is something else: a proxy's page, another API."""
        head = data[:200].decode("utf-8", "replace").strip()
        return CallFailure("error", "invalid_response", f"the reply is not {self._protocol}: {head!r}")


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


def arguments_text(arguments: Any) -> str | None:
    """The text of arguments, which some servers send as an object; too deep to be written, they are no arguments."""
    if arguments is None or isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments)
    except RecursionError:
        return "nested too deeply"


def chat_messages(call: Call) -> list[dict[str, Any]]:
    """What the model is to read, in order."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": call.system}] if call.system else []
    messages.append({"role": "user", "content": call.prompt})
    for turn, calls in past_turns(call) if call.history else ():
        # Empty text rather than null: some chat templates add to it without looking.
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.reasoning:
            # Servers that show reasoning may refuse to go on after a call without it; the others are never sent any.
            message["reasoning_content"] = turn.reasoning
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments, _ in calls
        ]
        messages.append(message)
        messages += [{"role": "tool", "tool_call_id": call_id, "content": answer} for call_id, _, _, answer in calls]
    return messages


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[Any] | None = None
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


@dataclass(slots=True)
class ChatReader(EventReader):
    """Feeds one chat reply, streamed or whole, to a sink. A `Reader`."""

    _decoder = msgspec.json.Decoder(_Chunk)
    _protocol = "chat completions"
    _last_word = "the server said that it was done"
    _done_ends = True

    _calls: dict[int, _BegunCall] = field(init=False, default_factory=dict)
    _n_calls: int = field(init=False, default=0)
    _model_seen: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Chunk, data: bytes) -> bool:
        sink = self.sink
        if event.error is not None:
            raise stream_failure(event.error)
        if name == b"error":
            raise stream_failure(decode_lenient(data) or data.decode("utf-8", "replace"))
        if event.model and not self._model_seen:
            self._model_seen = True
            sink.note(model_reported=event.model)
        for choice in event.choices or ():
            # Only the first choice is the answer; n > 1 is never asked for.
            if choice.index:
                continue
            if (delta := choice.delta) is not None:
                text, thinking = _parts(delta.content) if isinstance(delta.content, list) else (delta.content, "")
                if reasoning := delta.reasoning_content or thinking or delta.reasoning:
                    sink.reasoning(at_ns, reasoning)
                if text:
                    sink.text(at_ns, text)
                if delta.refusal:
                    sink.note(refusal=delta.refusal)
                if delta.tool_calls:
                    self._report_calls(at_ns, delta.tool_calls)
            if choice.finish_reason:
                self._ended = True
                sink.finish(choice.finish_reason)
        if event.usage is not None:
            report_counts(sink, event.usage, "prompt_tokens", "completion_tokens")
        return False

    def _report_calls(self, at_ns: int, calls: list[_ToolCall]) -> None:
        """Fragments of calls, by their index. Only one with a name can begin another call under the same index.

        Ollama numbers every call 0 and some servers number none: there a new id tells, or where ids are left out, that
        the call before has its arguments. A new id without a name tells nothing: some make one up for every fragment.
        """
        for position, call in enumerate(calls):
            function = call.function or _Function()
            name, arguments = function.name, arguments_text(function.arguments)
            if not (name or arguments):
                continue
            index, call_id = position if call.index is None else call.index, (call.id or "")[:_MAX_ID_CHARS]
            begun = self._calls.get(index)
            if begun is None or not name:
                is_another = begun is None
            elif call_id and begun.id:
                is_another = call_id != begun.id
            else:
                is_another = begun.has_arguments and (call.index is None or name != begun.name)
            if begun is None or is_another:
                self._n_calls += 1
                begun = self._calls[index] = _BegunCall(f"call {self._n_calls}")
            begun.id = begun.id or call_id
            begun.name = name or begun.name
            begun.has_arguments = begun.has_arguments or bool(arguments)
            self.sink.tool_delta(at_ns, begun.key, name, arguments)

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data) or {}
        choices = reply.get("choices")
        if not {"choices", "error"} & reply.keys() or not isinstance(choices, list | None):
            raise self._not_the_protocol(data)
        if reply.get("error") is not None:
            raise stream_failure(reply["error"], "the reply carried an error")
        self.sink.note(first_token_captured=False)
        for told in choices or ():
            if isinstance(told, dict):
                told["delta"] = told.get("message")
        chunk = fit(_Chunk, reply)
        chunk.choices = (chunk.choices or [])[:1]
        for choice in chunk.choices:
            choice.index = 0
        self._take(at_ns, b"", chunk, data)


@dataclass(slots=True)
class _BegunCall:
    """The call an index stands for at the moment."""

    key: str
    id: str = ""
    name: str | None = None
    has_arguments: bool = False


def _parts(content: list[Any]) -> tuple[str, str]:
    """The text and the thinking in a list of parts, which some servers send instead of a string."""
    texts = {"thinking": "", "": ""}
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts["thinking" if part.get("type") == "thinking" else ""] += part["text"]
    return texts[""], texts["thinking"]


class ChatServer(HttpServer):
    """What `openai_chat`, `ollama_openai` and `embedded` build on: they differ in where the server is, no more."""

    default_base_url = "http://localhost:8080/v1"

    async def attempt(self, call: Call, sink: Sink) -> None:
        body = {
            "model": call.model,
            "messages": chat_messages(call),
            "stream": call.stream,
            "stream_options": {"include_usage": True} if call.stream else None,
            "max_tokens": call.max_tokens,
            "temperature": call.temperature,
            "seed": call.seed,
            "reasoning_effort": call.thinking_level,
            "tools": call.tools or None,
            "tool_choice": call.tool_choice if call.tools else None,
            "response_format": call.response_format,
        }
        await self._post("/chat/completions", body, call, ChatReader(sink, call.model))


create = ChatServer
