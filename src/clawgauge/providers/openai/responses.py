"""The Responses protocol: a call as its input, the streamed events, the whole reply, and OpenAI's provider."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink, conversation
from clawgauge.providers.http.errors import decode_lenient, refuse_crowded, stream_failure
from clawgauge.providers.http.events import EventReader, arguments_text, report_counts, sent_arguments
from clawgauge.providers.http.server import HttpServer
from clawgauge.registry import PROVIDER_TYPES


def responses_input(call: Call) -> str | list[dict[str, Any]]:
    if not call.history and not call.messages:
        return call.prompt
    items: list[dict[str, Any]] = []
    for said in conversation(call):
        if isinstance(said, str):
            items.append({"type": "message", "role": "user", "content": said})
            continue
        if said.text:
            parts = [{"type": "output_text", "text": said.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": parts})
        items += [
            {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": sent_arguments(one)}
            for one in said.calls
        ]
        items += [{"type": "function_call_output", "call_id": one.id, "output": one.answer} for one in said.calls]
    return items


def _flat(definition: Any, kind: str) -> Any:
    """A chat nests a function under `function`, a schema under `json_schema`; here its fields stand beside `type`."""
    if isinstance(definition, dict) and isinstance(definition.get(kind), dict):
        return {"type": kind, **definition[kind]}
    return definition


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    item_id: str | None = None
    item: dict[str, Any] | None = None
    arguments: Any = None
    response: dict[str, Any] | None = None
    error: Any = None
    code: Any = None
    message: Any = None


@dataclass(slots=True)
class ResponsesReader(EventReader):
    _decoder = msgspec.json.Decoder(_Event)
    _protocol = "a Responses reply"
    _last_word = "response.completed"

    _max_tokens: int | None
    # What has been told so far, by the type of item: ids of messages and reasoning, keys of calls.
    _told: defaultdict[str, set[str | None]] = field(init=False, default_factory=lambda: defaultdict(set))
    # The calls of the stream: the sink's key for each by its ids, and the keys of those whose arguments came with
    # their beginning, and of those that are whole.
    _keys: dict[str, str] = field(init=False, default_factory=dict)
    _prefilled: set[str] = field(init=False, default_factory=set)
    _whole: set[str] = field(init=False, default_factory=set)
    _n_calls: int = field(init=False, default=0)

    def _take(self, at_ns: int, name: bytes, event: _Event, data: bytes) -> bool:
        sink, told, item = self.sink, self._told, event.item or {}
        delta = event.delta if isinstance(event.delta, str) else None
        match event.type or name.decode("utf-8", "replace"):
            case "response.output_text.delta" if delta is not None:
                told["message"].add(event.item_id)
                sink.text(at_ns, delta)
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" as kind if delta is not None:
                if "summary" in kind and event.item_id not in told["reasoning"]:
                    sink.note(reasoning_streamed=False)
                told["reasoning"].add(event.item_id)
                sink.reasoning(at_ns, delta)
            case "response.refusal.delta" if delta is not None:
                told["message"].add(event.item_id)
                sink.note(refusal=delta)
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done" as kind:
                if arguments := arguments_text(event.arguments) if kind.endswith("done") else delta:
                    key = self._call_key(event.item_id)
                    told["function_call"].add(key)
                    is_whole = kind.endswith("done") or key in self._prefilled
                    (sink.tool_whole if is_whole else sink.tool_delta)(at_ns, key, None, arguments)
                    self._prefilled.discard(key)
            case "response.output_item.added" if _is_call(item):
                key, arguments = self._call_key(*_ids(item), begins=True), arguments_text(item.get("arguments"))
                if arguments:
                    # The whole of it, which deltas may tell again, or only its beginning.
                    told["function_call"].add(key)
                    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                        msgspec.json.decode(arguments)
                        self._prefilled.add(key)
                sink.tool_delta(at_ns, key, item["name"], arguments)
            case "response.output_item.done" if _is_call(item):
                self._end_call(at_ns, self._call_key(*_ids(item)), item)
            case "response.completed" | "response.incomplete" | "response.failed" as kind:
                self._ended = True
                response = event.response or {}
                self._report_response(at_ns, response)
                if kind == "response.failed":
                    raise _failure(response)
                return True
            case "error":
                raise stream_failure({"code": event.code, "message": event.message})
        return False

    def _call_key(self, *ids: str | None, begins: bool = False) -> str:
        """The call with one of these ids, or without any the one begun last; a new one where there is none."""
        named = [name for name in ids if name]
        last = [f"call {self._n_calls}"] if self._n_calls and not begins else []
        known = [self._keys[name] for name in named if name in self._keys] if named else last
        if known and not (begins and known[0] in self._whole):
            return known[0]
        self._n_calls += 1
        key = f"call {self._n_calls}"
        self._keys.update(dict.fromkeys(named, key))
        return key

    def _end_call(self, at_ns: int, key: str, item: dict[str, Any]) -> None:
        """Whatever is whole stands for all the fragments before it."""
        self._told["function_call"].add(key)
        self._whole.add(key)
        self.sink.tool_whole(at_ns, key, item["name"], arguments_text(item.get("arguments")))

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data)
        if reply is None:
            raise self._not_the_protocol(data)
        if reply.get("status") == "failed" or (reply.get("error") is not None and "output" not in reply):
            raise _failure(reply)
        if not isinstance(reply.get("output"), list):
            raise self._not_the_protocol(data)
        self._report_response(at_ns, reply)

    def _report_response(self, at_ns: int, response: dict[str, Any]) -> None:
        """What neither deltas nor items told, all of it where there were none; model, usage and why it stopped."""
        sink, output, usage = self.sink, response.get("output"), response.get("usage")
        if not any(self._told.values()):
            # All of it came at the end: that is when it was sent, not when its first token was made.
            sink.note(first_token_captured=False)
        items = _dicts(output)
        kinds = Counter(_text(item.get("type")) for item in items)
        streamed = frozenset(self._keys)
        for item in items:
            kind = _text(item.get("type"))
            if kind == "function_call":
                known = not streamed.isdisjoint(_ids(item))
                # Where its ids are new, it may still be one of those told.
                if _is_call(item) and (known or self._n_calls < kinds[kind]):
                    self._end_call(at_ns, self._call_key(*_ids(item), begins=not known), item)
            # By its id; where ids are left out or changed, as many items were told as there are of this type.
            elif _text(item.get("id")) not in self._told[kind] and len(self._told[kind]) < kinds[kind]:
                for part in (part for name in ("content", "summary") for part in _dicts(item.get(name))):
                    if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
                        sink.note(refusal=part["refusal"])
                    elif text := _text(part.get("text")):
                        if kind == "reasoning":
                            sink.note(reasoning_streamed=False)
                            sink.reasoning(at_ns, text)
                        else:
                            sink.text(at_ns, text)
        if isinstance(response.get("model"), str):
            sink.note(model_reported=response["model"])
        output_tokens = report_counts(sink, usage, "input_tokens", "output_tokens").output_tokens
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details")
            reason = _text(details.get("reason")) if isinstance(details, dict) else ""
            sink.finish({"max_output_tokens": "length"}.get(reason, reason) or "incomplete")
        elif self._max_tokens is not None and output_tokens is not None and output_tokens >= self._max_tokens:
            # llama.cpp says `completed` for a reply cut by the limit: the count tells.
            sink.finish("length")
        else:
            sink.finish("tool_calls" if kinds["function_call"] else "stop")


def _failure(response: dict[str, Any]) -> CallFailure:
    return stream_failure(response.get("error") or {"message": "the response failed"}, "the response failed")


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and isinstance(item.get("name"), str)


def _ids(item: dict[str, Any]) -> tuple[str, str]:
    return _text(item.get("id")), _text(item.get("call_id"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class ResponsesServer(HttpServer):
    """Sends a temperature only if asked (reasoning models refuse one), and never a seed."""

    default_base_url = PROVIDER_TYPES["openai_responses"].default_address
    takes = frozenset({"temperature"})
    sampling_names = {"temperature": ("temperature",), "max_tokens": ("max_output_tokens",), "seed": ("seed",)}

    async def attempt(self, call: Call, sink: Sink) -> None:
        sampling = self.sampling(call)
        body = {
            "model": call.model,
            "instructions": call.system or None,
            "input": responses_input(call),
            "stream": call.stream,
            # A benchmark leaves nothing behind on the server.
            "store": False,
            "max_output_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "reasoning": {"effort": call.thinking_level} if call.thinking_level is not None else None,
            # Not strict unless a definition asks for it, as in chat: OpenAI's default makes every argument required.
            "tools": [{"strict": False, **_flat(tool, "function")} for tool in call.tools] or None,
            "tool_choice": _flat(call.tool_choice, "function") if call.tools else None,
            "text": {"format": _flat(call.response_format, "json_schema")} if call.response_format else None,
        }
        await self._post("/responses", body, call, ResponsesReader(sink, call.model, sampling.max_tokens))
