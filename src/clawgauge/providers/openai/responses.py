"""The Responses protocol: a call as its input, the streamed events, the whole reply, and OpenAI's provider."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink
from clawgauge.providers.http.errors import stream_failure
from clawgauge.providers.http.lenient_json import decode_lenient, refuse_crowded
from clawgauge.providers.http.server import HttpServer
from clawgauge.providers.openai.chat import EventReader, arguments_text, past_turns, report_counts


def responses_input(call: Call) -> str | list[dict[str, Any]]:
    """The prompt alone, or the prompt and the items of a task's turns since then."""
    if not call.history:
        return call.prompt
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": call.prompt}]
    for turn, calls in past_turns(call):
        if turn.text:
            said = [{"type": "output_text", "text": turn.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": said})
        items += [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            for call_id, name, arguments, _ in calls
        ]
        items += [
            {"type": "function_call_output", "call_id": call_id, "output": answer} for call_id, _, _, answer in calls
        ]
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
    """Feeds one Responses reply, streamed or whole, to a sink. A `Reader`."""

    _decoder = msgspec.json.Decoder(_Event)
    _protocol = "a Responses reply"
    _last_word = "response.completed"
    _done_ends = False

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
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" if delta is not None:
                told["reasoning"].add(event.item_id)
                sink.reasoning(at_ns, delta)
            case "response.refusal.delta" if delta is not None:
                told["message"].add(event.item_id)
                sink.note(refusal=delta)
            case "response.function_call_arguments.delta" if delta:
                key = self._call_key(event.item_id)
                told["function_call"].add(key)
                (sink.tool_whole if key in self._prefilled else sink.tool_delta)(at_ns, key, None, delta)
                self._prefilled.discard(key)
            case "response.function_call_arguments.done" if arguments := arguments_text(event.arguments):
                key = self._call_key(event.item_id)
                told["function_call"].add(key)
                sink.tool_whole(at_ns, key, None, arguments)
            case "response.output_item.added" if _is_call(item):
                self._begin_call(at_ns, item)
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
                raise stream_failure(event.error or {"code": event.code, "message": event.message})
            case "" if event.error is not None:
                # No event of this protocol, but how chat servers, and gateways before them, say that they failed.
                raise stream_failure(event.error)
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

    def _begin_call(self, at_ns: int, item: dict[str, Any]) -> None:
        key, arguments = self._call_key(*_ids(item), begins=True), arguments_text(item.get("arguments"))
        if arguments:
            # The whole of it, which deltas may tell again, or only its beginning.
            self._told["function_call"].add(key)
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                msgspec.json.decode(arguments)
                self._prefilled.add(key)
        self.sink.tool_delta(at_ns, key, item["name"], arguments)

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
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
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
                self._report_item(at_ns, item)
        if isinstance(response.get("model"), str):
            sink.note(model_reported=response["model"])
        output_tokens = report_counts(sink, usage, "input_tokens", "output_tokens")
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details")
            reason = _text(details.get("reason")) if isinstance(details, dict) else ""
            sink.finish({"max_output_tokens": "length"}.get(reason, reason) or "incomplete")
        elif self._max_tokens is not None and output_tokens is not None and output_tokens >= self._max_tokens:
            # llama.cpp says `completed` for a reply cut by the limit: the count tells.
            sink.finish("length")
        else:
            sink.finish("tool_calls" if kinds["function_call"] else "stop")

    def _report_item(self, at_ns: int, item: dict[str, Any]) -> None:
        """A whole message with its parts, or reasoning."""
        content, summary = item.get("content"), item.get("summary")
        for part in [*(content if isinstance(content, list) else []), *(summary if isinstance(summary, list) else [])]:
            if not isinstance(part, dict):
                continue
            if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
                self.sink.note(refusal=part["refusal"])
            elif text := _text(part.get("text")):
                (self.sink.reasoning if item.get("type") == "reasoning" else self.sink.text)(at_ns, text)


def _failure(response: dict[str, Any]) -> CallFailure:
    return stream_failure(response.get("error") or {"message": "the response failed"}, "the response failed")


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and isinstance(item.get("name"), str)


def _ids(item: dict[str, Any]) -> tuple[str, str]:
    return _text(item.get("id")), _text(item.get("call_id"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class ResponsesServer(HttpServer):
    """The Responses API of OpenAI, or of the server at `OPENAI_BASE_URL`.

    Sends a temperature only if asked (reasoning models refuse one), and never a seed.
    """

    default_base_url = "https://api.openai.com/v1"
    takes = frozenset({"temperature"})

    async def attempt(self, call: Call, sink: Sink) -> None:
        body = {
            "model": call.model,
            "input": responses_input(call),
            "stream": call.stream,
            # A benchmark leaves nothing behind on the server.
            "store": False,
            "instructions": call.system or None,
            "max_output_tokens": call.max_tokens,
            "temperature": call.temperature,
            "reasoning": {"effort": call.thinking_level} if call.thinking_level is not None else None,
            # Not strict unless a definition asks for it, as in chat: OpenAI's default makes every argument required.
            "tools": [{"strict": False, **_flat(tool, "function")} for tool in call.tools] or None,
            "tool_choice": _flat(call.tool_choice, "function") if call.tools else None,
            "text": {"format": _flat(call.response_format, "json_schema")} if call.response_format else None,
        }
        await self._post("/responses", body, call, ResponsesReader(sink, call.model, call.max_tokens))


create = ResponsesServer
