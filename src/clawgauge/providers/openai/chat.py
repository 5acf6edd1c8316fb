"""Chat completions: a call as its messages, the streamed pieces, the whole reply, the provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.providers.base import Call, Sampling, Sink
from clawgauge.providers.conversation import PastCall, PastTurn, conversation
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.events import (
    EventReader,
    arguments_text,
    report_counts,
    sent_arguments,
)
from clawgauge.providers.http.server import HttpServer
from clawgauge.registry import OPENAI_CHAT

_MAX_ID_CHARS = 200
_MAX_MS = 1e9


def chat_messages(call: Call, *, ollama: bool = False) -> list[dict[str, Any]]:
    """What the model is to read, in order.

    With `ollama` it is as Ollama's own API has it: arguments as objects, results by name.
    """
    messages: list[dict[str, Any]] = []
    if call.system:
        messages.append({"role": "system", "content": call.system})
    for entry in conversation(call):
        if isinstance(entry, str):
            messages.append({"role": "user", "content": entry})
        else:
            messages += _turn_messages(entry, ollama)
    return messages


def _turn_messages(turn: PastTurn, ollama: bool) -> list[dict[str, Any]]:
    """The model's message, and those with the results of its calls."""
    # Empty text rather than null: some chat templates add to it without looking.
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.reasoning:
        # Servers that show reasoning may refuse to go on after a call without it; the others are
        # never sent any.
        message["thinking" if ollama else "reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [_tool_call(past_call, ollama) for past_call in turn.calls]
    messages = [message]
    for past_call in turn.calls:
        result: dict[str, Any] = {"role": "tool"}
        if ollama:
            result["tool_name"] = past_call.name
        else:
            result["tool_call_id"] = past_call.id
        result["content"] = past_call.answer
        messages.append(result)
    return messages


def _tool_call(past_call: PastCall, ollama: bool) -> dict[str, Any]:
    arguments = past_call.arguments if ollama else sent_arguments(past_call)
    function = {"name": past_call.name, "arguments": arguments}
    return {"id": past_call.id, "type": "function", "function": function}


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    """A piece of a message, or a whole one."""

    content: str | list[Any] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    model: str | None = None
    timings: dict[str, Any] | None = None


@dataclass(slots=True)
class _StreamedCall:
    """A call whose pieces are coming."""

    key: str
    """The sink's index for it."""
    id: str = ""
    name: str | None = None
    has_arguments: bool = False


@dataclass(slots=True)
class ChatReader(EventReader):
    """Reads the chunks of a chat completion, or a whole one."""

    _decoder = msgspec.json.Decoder(_Chunk)
    _protocol = "chat completions"
    _last_word = "the server said that it was done"
    _done_ends = True

    # The call under way at each index.
    _calls: dict[int, _StreamedCall] = field(init=False, default_factory=dict)
    _n_calls: int = field(init=False, default=0)
    _has_model: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Chunk, data: bytes) -> bool:
        sink = self.sink
        if event.model and not self._has_model:
            self._has_model = True
            sink.note(model_reported=event.model)
        for choice in event.choices or ():
            # Only the first choice is the answer; n > 1 is never asked for.
            if choice.index:
                continue
            if choice.delta is not None:
                self._report_delta(at_ns, choice.delta)
            if choice.finish_reason:
                self._ended = True
                sink.finish(choice.finish_reason)
        if event.usage is not None:
            report_counts(sink, event.usage, "prompt_tokens", "completion_tokens")
        if event.timings is not None:
            self._report_timings(event.timings)
        # The stream says with `[DONE]` that it is over: the usage comes after the finish reason.
        return False

    def _report_delta(self, at_ns: int, delta: Delta) -> None:
        text = delta.content
        thinking = ""
        if isinstance(text, list):
            text, thinking = _read_parts(text)
        reasoning = delta.reasoning_content or thinking or delta.reasoning
        if reasoning:
            self.sink.reasoning(at_ns, reasoning)
        if text:
            self.sink.text(at_ns, text)
        if delta.refusal:
            self.sink.note(refusal=delta.refusal)
        if delta.tool_calls:
            self._report_calls(at_ns, delta.tool_calls)

    def _report_timings(self, timings: dict[str, Any]) -> None:
        """llama.cpp tells how long it read and wrote.

        How long a call waited for that is in none of it.
        """
        server_ns = {}
        for part, name in (("prefill", "prompt_ms"), ("decode", "predicted_ms")):
            ms = timings.get(name)
            if isinstance(ms, int | float) and 0 <= ms < _MAX_MS:
                server_ns[part] = round(ms * 1e6)
        if server_ns:
            self.sink.note(server_ns=server_ns)

    def _report_calls(self, at_ns: int, calls: list[ToolCall]) -> None:
        """Report the pieces of calls in one delta."""
        for position, call in enumerate(calls):
            function = call.function or Function()
            name = function.name
            arguments = arguments_text(function.arguments)
            if not (name or arguments):
                continue
            index = position if call.index is None else call.index
            call_id = (call.id or "")[:_MAX_ID_CHARS]
            streamed = self._calls.get(index)
            if streamed is None or _begins_another(streamed, call, call_id):
                self._n_calls += 1
                streamed = _StreamedCall(f"call {self._n_calls}")
                self._calls[index] = streamed
            streamed.id = streamed.id or call_id
            streamed.name = name or streamed.name
            streamed.has_arguments = streamed.has_arguments or bool(arguments)
            self.sink.tool_delta(at_ns, streamed.key, name, arguments)

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data) or {}
        choices = reply.get("choices")
        if not isinstance(choices, list | None) or not {"choices", "error"} & reply.keys():
            raise self._not_the_protocol(data)
        if reply.get("error") is not None:
            raise stream_failure(reply["error"], "the reply carried an error")
        self.sink.note(first_token_captured=False)
        # The first choice, with its message as the only delta.
        reply["choices"] = []
        for choice in choices or ():
            if isinstance(choice, dict):
                reply["choices"] = [{**choice, "delta": choice.get("message"), "index": 0}]
                break
        self._take(at_ns, b"", fit(_Chunk, reply), data)


def _begins_another(streamed: _StreamedCall, call: ToolCall, call_id: str) -> bool:
    """Whether this piece begins another call under the index of `streamed`.

    Only one with a name can. Ollama numbers every call 0 and some servers number none: there a new
    id tells, or where ids are left out, that the call before has its arguments. A new id without a
    name tells nothing: some servers make one up for every piece.
    """
    name = call.function.name if call.function is not None else None
    if not name:
        return False
    if call_id and streamed.id:
        return call_id != streamed.id
    return streamed.has_arguments and (call.index is None or name != streamed.name)


def _read_parts(parts: list[Any]) -> tuple[str, str]:
    """The text and the thinking in a list of parts, which some servers send instead of a string."""
    texts = []
    thinking = []
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            continue
        if part.get("type") == "thinking":
            thinking.append(part["text"])
        else:
            texts.append(part["text"])
    return "".join(texts), "".join(thinking)


class ChatServer(HttpServer):
    """What `openai_chat`, `ollama_openai` and `embedded` build on.

    They differ in where the server is, no more.
    """

    default_base_url = OPENAI_CHAT.default_address
    sampling_names = {
        "temperature": ("temperature",),
        # OpenAI takes the second alone for its reasoning models.
        "max_tokens": ("max_tokens", "max_completion_tokens"),
        "seed": ("seed",),
    }

    def request_path(self, call: Call) -> str:
        return "/chat/completions"

    def settings_body(self, call: Call) -> dict[str, Any]:
        return chat_settings(call, self.sampling(call))

    async def attempt(self, call: Call, sink: Sink) -> None:
        body = {
            "messages": chat_messages(call),
            "response_format": call.response_format,
            "tools": call.tools or None,
            "tool_choice": call.tool_choice if call.tools else None,
        }
        await self._post(body, call, ChatReader(sink, call.model))


def chat_settings(call: Call, sampling: Sampling) -> dict[str, Any]:
    """The settings of a chat completion; None is not sent."""
    return {
        "model": call.model,
        "stream": call.stream,
        "stream_options": {"include_usage": True} if call.stream else None,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "reasoning_effort": call.thinking_level,
    }
