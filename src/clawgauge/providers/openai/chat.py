"""Chat completions: a call as its messages, the streamed pieces, the whole reply, and the provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.providers.base import Call, Sink, conversation
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.events import EventReader, arguments_text, report_counts, sent_arguments
from clawgauge.providers.http.server import HttpServer
from clawgauge.registry import PROVIDER_TYPES

_MAX_ID_CHARS = 200


def chat_messages(call: Call, *, ollama: bool = False) -> list[dict[str, Any]]:
    """What the model is to read, in order; `ollama`, as its own API has it: arguments as objects, results by name."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": call.system}] if call.system else []
    for said in conversation(call):
        if isinstance(said, str):
            messages.append({"role": "user", "content": said})
            continue
        # Empty text rather than null: some chat templates add to it without looking.
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        if said.reasoning:
            # Servers that show reasoning may refuse to go on after a call without it; the others are never sent any.
            message["thinking" if ollama else "reasoning_content"] = said.reasoning
        messages.append(message)
        for one in said.calls:
            function = {"name": one.name, "arguments": one.arguments if ollama else sent_arguments(one)}
            message.setdefault("tool_calls", []).append({"id": one.id, "type": "function", "function": function})
            named = {"tool_name": one.name} if ollama else {"tool_call_id": one.id}
            messages.append({"role": "tool", **named, "content": one.answer})
    return messages


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
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
class ChatReader(EventReader):
    _decoder = msgspec.json.Decoder(_Chunk)
    _protocol = "chat completions"
    _last_word = "the server said that it was done"
    _done_ends = True

    _calls: dict[int, _BegunCall] = field(init=False, default_factory=dict)
    _n_calls: int = field(init=False, default=0)
    _model_seen: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Chunk, data: bytes) -> bool:
        sink = self.sink
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
        if event.timings is not None:
            # llama.cpp tells how long it read and wrote; how long a call waited for that is in none of it.
            told = {"prefill": event.timings.get("prompt_ms"), "decode": event.timings.get("predicted_ms")}
            known = {name: ms for name, ms in told.items() if isinstance(ms, int | float) and 0 <= ms < 1e9}
            sink.note(server_ns={name: round(ms * 1e6) for name, ms in known.items()} or None)
        return False

    def _report_calls(self, at_ns: int, calls: list[ToolCall]) -> None:
        """Fragments of calls, by their index. Only one with a name can begin another call under the same index. Ollama
        numbers every call 0 and some servers number none: there a new id tells, or where ids are left out, that the
        call before has its arguments. A new id without a name tells nothing: some make one up for every fragment."""
        for position, call in enumerate(calls):
            function = call.function or Function()
            name, arguments = function.name, arguments_text(function.arguments)
            if not (name or arguments):
                continue
            index, call_id = position if call.index is None else call.index, (call.id or "")[:_MAX_ID_CHARS]
            begun = self._calls.get(index)
            if begun is None or not name:
                is_another = False
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
        whole = [told for told in choices or () if isinstance(told, dict)][:1]
        reply["choices"] = [{**told, "delta": told.get("message"), "index": 0} for told in whole]
        self._take(at_ns, b"", fit(_Chunk, reply), data)


@dataclass(slots=True)
class _BegunCall:
    key: str
    id: str = ""
    name: str | None = None
    has_arguments: bool = False


def _parts(content: list[Any]) -> tuple[str, str]:
    """The text and the thinking in a list of parts, which some servers send instead of a string."""
    parts = [part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    text, thinking = ("".join(p["text"] for p in parts if (p.get("type") == "thinking") is it) for it in (False, True))
    return text, thinking


class ChatServer(HttpServer):
    """What `openai_chat`, `ollama_openai` and `embedded` build on: they differ in where the server is, no more."""

    default_base_url = PROVIDER_TYPES["openai_chat"].default_address
    sampling_names = {
        "temperature": ("temperature",),
        # OpenAI takes the second alone for its reasoning models.
        "max_tokens": ("max_tokens", "max_completion_tokens"),
        "seed": ("seed",),
    }

    async def attempt(self, call: Call, sink: Sink) -> None:
        sampling = self.sampling(call)
        body = {
            "model": call.model,
            "messages": chat_messages(call),
            "stream": call.stream,
            "stream_options": {"include_usage": True} if call.stream else None,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "reasoning_effort": call.thinking_level,
            "response_format": call.response_format,
            "tools": call.tools or None,
            "tool_choice": call.tool_choice if call.tools else None,
        }
        await self._post("/chat/completions", body, call, ChatReader(sink, call.model))
