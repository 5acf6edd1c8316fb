"""The Responses protocol: a call as its input, the streamed events, the whole reply, and OpenAI's provider."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import msgspec

from clawgauge.providers.base import Call, Sink
from clawgauge.providers.http.errors import stream_failure
from clawgauge.providers.http.lenient_json import decode_lenient, refuse_crowded
from clawgauge.providers.http.server import HttpServer
from clawgauge.providers.openai.chat import EventReader, arguments_text, encode_body, past_turns, report_counts


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


def _flat(definition: Any, kind: str = "function") -> Any:
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


class ResponsesReader(EventReader[_Event]):
    """Feeds one Responses reply, streamed or whole, to a sink. A `Reader`."""

    __slots__ = ("_calls", "_max_tokens", "_told")
    _kind = _Event
    _decode = msgspec.json.Decoder(_Event).decode
    _protocol = "a Responses reply"
    _last_word = "response.completed"
    _done_ends = False

    def __init__(self, sink: Sink, model: str, max_tokens: int | None) -> None:
        super().__init__(sink, model)
        self._max_tokens = max_tokens
        # The ids of the items that deltas have told, by the type of item.
        self._told: dict[str, set[str | None]] = {"message": set(), "reasoning": set()}
        self._calls = _StreamedCalls(sink)

    def _take(self, at_ns: int, name: bytes, event: _Event, data: bytes) -> bool:
        delta = event.delta if isinstance(event.delta, str) else None
        match event.type or name.decode("utf-8", "replace"):
            case "response.output_text.delta" if delta is not None:
                self._told["message"].add(event.item_id)
                self._sink.text(at_ns, delta)
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" if delta is not None:
                self._told["reasoning"].add(event.item_id)
                self._sink.reasoning(at_ns, delta)
            case "response.refusal.delta" if delta is not None:
                self._told["message"].add(event.item_id)
                self._sink.note(refusal=delta)
            case "response.function_call_arguments.delta" if delta:
                self._calls.delta(at_ns, event.item_id, delta)
            case "response.function_call_arguments.done":
                self._calls.arguments_done(at_ns, event.item_id, event.arguments)
            case "response.output_item.added":
                self._calls.added(at_ns, event.item or {})
            case "response.output_item.done":
                self._calls.done(at_ns, event.item or {})
            case "response.completed" | "response.incomplete" | "response.failed" as kind:
                self._ended = True
                self._final(at_ns, event.response or {}, failed=kind == "response.failed")
                return True
            case "error":
                raise stream_failure(event.error or {"code": event.code, "message": event.message})
            case "" if event.error is not None:
                # No event of this protocol, but how chat servers, and gateways before them, say that they failed.
                raise stream_failure(event.error)
        return False

    def _final(self, at_ns: int, response: dict[str, Any], *, failed: bool) -> None:
        """What neither deltas nor items told: some servers only send the response whole."""
        if not (self._calls.told or any(self._told.values())):
            # All of it came at the end: that is when it was sent, not when its first token was made.
            self._sink.note(first_token_captured=False)
        items = _items(response)
        kinds = Counter(_text(item.get("type")) for item in items)
        for item in items:
            kind = _text(item.get("type"))
            if kind == "function_call":
                self._calls.final(at_ns, item, kinds[kind])
                continue
            # By its id; where ids are left out or changed, as many items were told as there are of this type.
            told = self._told.get(kind, set())
            if _text(item.get("id")) not in told and len(told) < kinds[kind]:
                report_item(self._sink, at_ns, item, "")
        report_response(self._sink, response, self._max_tokens)
        if failed:
            raise stream_failure(response.get("error") or {"message": "the response failed"}, "the response failed")

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data)
        if reply is None:
            raise self._not_the_protocol(data)
        if reply.get("status") == "failed" or (reply.get("error") is not None and "output" not in reply):
            raise stream_failure(reply.get("error") or {"message": "the response failed"}, "the response failed")
        if not isinstance(reply.get("output"), list):
            raise self._not_the_protocol(data)
        self._sink.note(first_token_captured=False)
        for position, item in enumerate(_items(reply)):
            report_item(self._sink, at_ns, item, str(position))
        report_response(self._sink, reply, self._max_tokens)


class _StreamedCalls:
    """The function calls of one stream. Fragments are told as they come; whatever is whole stands for all of them."""

    __slots__ = ("_done", "_keys", "_last", "_n_calls", "_prefilled", "_sink", "told")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._keys: dict[str, str] = {}
        self._n_calls = 0
        self._last = ""
        self._prefilled: set[str] = set()
        self._done: set[str] = set()
        self.told = False

    def added(self, at_ns: int, item: dict[str, Any]) -> None:
        if not _is_call(item):
            return
        ids = _ids(item)
        key = self._find(*ids) if ids else None
        if key is None or key in self._done:
            key = self._begin(*ids)
        arguments = arguments_text(item.get("arguments"))
        if arguments:
            # The whole of it, which deltas may tell again, or only its beginning.
            self.told = True
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                msgspec.json.decode(arguments)
                self._prefilled.add(key)
        self._sink.tool_delta(at_ns, key, item["name"], arguments)

    def delta(self, at_ns: int, item_id: str | None, fragment: str) -> None:
        self.told = True
        key = self._find(item_id) or self._begin(item_id)
        if key in self._prefilled:
            self._prefilled.discard(key)
            self._sink.tool_whole(at_ns, key, None, fragment)
        else:
            self._sink.tool_delta(at_ns, key, None, fragment)

    def arguments_done(self, at_ns: int, item_id: str | None, arguments: Any) -> None:
        if whole := arguments_text(arguments):
            self.told = True
            self._sink.tool_whole(at_ns, self._find(item_id) or self._begin(item_id), None, whole)

    def done(self, at_ns: int, item: dict[str, Any]) -> None:
        if _is_call(item):
            self.told = True
            key = self._find(*_ids(item)) or self._begin(*_ids(item))
            self._done.add(key)
            self._sink.tool_whole(at_ns, key, item["name"], arguments_text(item.get("arguments")))

    def final(self, at_ns: int, item: dict[str, Any], n_calls: int) -> None:
        """A call of the response at the end; where its ids are new, it may still be one of those told."""
        known = any(name in self._keys for name in _ids(item))
        if _is_call(item) and (known or self._n_calls < n_calls):
            self.done(at_ns, item)

    def _find(self, *names: str | None) -> str | None:
        """The call of this name; without one, the call that was begun last."""
        if not any(names):
            return self._last or None
        return next((self._keys[name] for name in names if name in self._keys), None)

    def _begin(self, *names: str | None) -> str:
        self._n_calls += 1
        self._last = f"call {self._n_calls}"
        self._keys.update({name: self._last for name in names if name})
        return self._last


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and isinstance(item.get("name"), str)


def _ids(item: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in (_text(item.get("id")), _text(item.get("call_id"))) if name)


def _items(response: dict[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def report_item(sink: Sink, at_ns: int, item: dict[str, Any], key: str) -> None:
    """One whole output item: a message with its parts, a function call, or reasoning."""
    kind = item.get("type")
    if kind == "function_call" and isinstance(item.get("name"), str):
        sink.tool_delta(at_ns, key, item["name"], arguments_text(item.get("arguments")))
        return
    content, summary = item.get("content"), item.get("summary")
    parts = (content if isinstance(content, list) else []) + (summary if isinstance(summary, list) else [])
    for part in parts:
        if not isinstance(part, dict):
            continue
        text = part.get("text")
        if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
            sink.note(refusal=part["refusal"])
        elif isinstance(text, str) and text:
            (sink.reasoning if kind == "reasoning" else sink.text)(at_ns, text)


def report_response(sink: Sink, response: dict[str, Any], max_tokens: int | None) -> None:
    """Model, usage and why it stopped. llama.cpp says `completed` for a reply cut by the limit: the count tells."""
    if isinstance(response.get("model"), str):
        sink.note(model_reported=response["model"])
    output_tokens = report_counts(sink, response.get("usage"), "input_tokens", "output_tokens")
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = _text(details.get("reason")) if isinstance(details, dict) else ""
        sink.finish({"max_output_tokens": "length"}.get(reason, reason) or "incomplete")
    elif max_tokens is not None and output_tokens is not None and output_tokens >= max_tokens:
        sink.finish("length")
    else:
        calls = any(item.get("type") == "function_call" for item in _items(response))
        sink.finish("tool_calls" if calls else "stop")


class ResponsesServer(HttpServer):
    """The Responses API of OpenAI, or of the server at `OPENAI_BASE_URL`.

    Sends a temperature only if asked (reasoning models refuse one), and never a seed.
    """

    default_base_url = "https://api.openai.com/v1"
    takes = frozenset({"temperature"})

    async def attempt(self, call: Call, sink: Sink) -> None:
        self.require_key()
        # Not strict unless a definition asks for it, as in chat: OpenAI's default here makes every argument required.
        flat = [_flat(tool) for tool in call.tools]
        tools = [{"strict": False, **tool} if isinstance(tool, dict) else tool for tool in flat]
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
            "tools": tools or None,
            "tool_choice": _flat(call.tool_choice) if call.tools else None,
            "text": {"format": _flat(call.response_format, "json_schema")} if call.response_format else None,
        }
        reader = ResponsesReader(sink, call.model, call.max_tokens)
        payload = encode_body(body, self.extra_body)
        url = f"{self.base_url}/responses"
        await self._client.exchange(url, payload, sink=sink, reader=reader, timeout_s=call.timeout_s)


create = ResponsesServer
