"""The Responses protocol on the wire: the request body, the streamed events, the whole reply.

llama.cpp's events lack `output_index` and `sequence_number`, so nothing here needs them: fragments of one call are told
apart by `item_id`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink
from clawgauge.providers.chat_wire import count, encode_body, not_the_protocol
from clawgauge.providers.http_errors import stream_failure
from clawgauge.providers.lenient_json import decode_lenient, refuse_crowded
from clawgauge.providers.responses_input import flat_tool_choice, flat_tools, responses_input


class _Event(msgspec.Struct):
    type: str
    delta: Any = None
    item_id: str | None = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    error: Any = None
    code: Any = None
    message: Any = None
    refusal: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode


def responses_body(call: Call, extra: dict[str, Any] | None = None) -> bytes:
    """The request. `store` is off: a benchmark leaves nothing behind on the server."""
    body: dict[str, Any] = {"model": call.model, "input": responses_input(call), "stream": call.stream, "store": False}
    if call.system:
        body["instructions"] = call.system
    if call.max_tokens is not None:
        body["max_output_tokens"] = call.max_tokens
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.thinking_level is not None:
        body["reasoning"] = {"effort": call.thinking_level}
    if call.tools:
        body["tools"] = flat_tools(call)
        if call.tool_choice is not None:
            body["tool_choice"] = flat_tool_choice(call)
    body.update(extra or {})
    return encode_body(body)


class ResponsesReader:
    """Feeds one Responses reply, streamed or whole, to a sink. Implements `http_reply.Reader`."""

    __slots__ = ("_ended", "_max_tokens", "_read_any", "_sink", "_told", "_unread", "model")

    def __init__(self, sink: Sink, model: str, max_tokens: int | None) -> None:
        self.model = model
        self._sink = sink
        self._max_tokens = max_tokens
        self._ended = False
        self._told: set[str] = set()
        self._read_any = False
        self._unread = b""

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        if data.strip() == b"[DONE]":
            if self._unread and not self._read_any:
                raise not_the_protocol(self._unread, "a Responses stream")
            return self._ended
        event = self._decode(name, data)
        if event is None:
            if name == b"error":
                raise stream_failure(data.decode("utf-8", "replace"))
            return False
        match event.type:
            case "response.output_text.delta":
                if isinstance(event.delta, str):
                    self._told.add("text")
                    self._sink.text(at_ns, event.delta)
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                if isinstance(event.delta, str):
                    self._told.add("reasoning")
                    self._sink.reasoning(at_ns, event.delta)
            case "response.output_item.added":
                self._item_added(at_ns, event.item or {})
            case "response.function_call_arguments.delta":
                if isinstance(event.delta, str) and event.delta:
                    self._told.add(event.item_id or "call")
                    self._sink.tool_delta(at_ns, event.item_id or "call", None, event.delta)
            case "response.output_item.done":
                self._item_done(at_ns, event.item or {})
            case "response.refusal.delta":
                if isinstance(event.delta, str):
                    self._told.add("refusal")
                    self._sink.note(refusal=event.delta)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._ended = True
                self._final(at_ns, event.response or {}, failed=event.type == "response.failed")
                return True
            case "error":
                raise stream_failure(event.error or {"code": event.code, "message": event.message})
            case "" if event.error is not None:
                # No event of this protocol, but how chat servers, and gateways before them, say that they failed.
                raise stream_failure(event.error)
        return False

    def _decode(self, name: bytes, data: bytes) -> _Event | None:
        refuse_crowded(data)
        try:
            event = _decode_event(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            lenient = decode_lenient(data)
            if lenient is None:
                self._unread = self._unread or data
                return None
            event = _event_from(lenient, name)
        self._read_any = True
        return event

    def _item_added(self, at_ns: int, item: dict[str, Any]) -> None:
        if item.get("type") == "function_call" and isinstance(item.get("name"), str):
            key = _item_key(item, "call")
            arguments = item.get("arguments")
            if isinstance(arguments, str) and arguments:
                self._told.add(key)
            # Arguments that come neither here nor in deltas come with the item when it is done.
            self._sink.tool_delta(at_ns, key, item["name"], arguments if isinstance(arguments, str) else None)

    def _item_done(self, at_ns: int, item: dict[str, Any]) -> None:
        """What the deltas did not tell: some servers only send an item whole."""
        key = _item_key(item, "call")
        if item.get("type") == "function_call" and key not in self._told:
            self._told.add(key)
            report_item(self._sink, at_ns, item, key)

    def _final(self, at_ns: int, response: dict[str, Any], *, failed: bool) -> None:
        if not self._told:
            # All of it came at the end: that is when it was sent, not when its first token was made.
            self._sink.note(first_token_captured=False)
        for position, item in enumerate(_items(response)):
            key = _item_key(item, str(position))
            told_as = {"message": "text", "reasoning": "reasoning"}.get(_text(item.get("type")), key)
            if told_as not in self._told and not (told_as == "text" and "refusal" in self._told):
                self._told.add(key)
                report_item(self._sink, at_ns, item, key)
        report_response(self._sink, response, self._max_tokens)
        if failed:
            raise stream_failure(response.get("error") or {"message": "the response failed"}, "the response failed")

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data)
        if reply is None:
            raise not_the_protocol(data, "a Responses reply")
        if reply.get("status") == "failed" or (reply.get("error") is not None and "output" not in reply):
            raise stream_failure(reply.get("error") or {"message": "the response failed"}, "the response failed")
        if not isinstance(reply.get("output"), list):
            raise not_the_protocol(data, "a Responses reply")
        self._sink.note(first_token_captured=False)
        for position, item in enumerate(_items(reply)):
            report_item(self._sink, at_ns, item, _item_key(item, str(position)))
        report_response(self._sink, reply, self._max_tokens)

    def close(self) -> None:
        if not self._ended:
            raise CallFailure("error", "stream_interrupted", "the stream ended before response.completed")


def _items(response: dict[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _item_key(item: dict[str, Any], otherwise: str) -> str:
    """What tells an item's fragments from those of others."""
    return _text(item.get("id")) or _text(item.get("call_id")) or otherwise


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def report_item(sink: Sink, at_ns: int, item: dict[str, Any], key: str) -> None:
    """One whole output item: a message with its parts, a function call, or reasoning."""
    kind = item.get("type")
    if kind == "function_call" and isinstance(item.get("name"), str):
        arguments = item.get("arguments")
        sink.tool_delta(at_ns, key, item["name"], arguments if isinstance(arguments, str) else None)
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
    raw = response.get("usage")
    usage = raw if isinstance(raw, dict) else {}
    inputs, outputs = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    output_tokens = count(usage.get("output_tokens"))
    sink.usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=output_tokens,
        cached_tokens=count(inputs.get("cached_tokens")) if isinstance(inputs, dict) else None,
        reasoning_tokens=count(outputs.get("reasoning_tokens")) if isinstance(outputs, dict) else None,
    )
    sink.finish(_finish_reason(response, output_tokens, max_tokens))


def _finish_reason(response: dict[str, Any], output_tokens: int | None, max_tokens: int | None) -> str:
    details = response.get("incomplete_details")
    reason = _text(details.get("reason")) if isinstance(details, dict) else ""
    if response.get("status") == "incomplete":
        return {"max_output_tokens": "length"}.get(reason, reason) or "incomplete"
    if max_tokens is not None and output_tokens is not None and output_tokens >= max_tokens:
        return "length"
    if any(item.get("type") == "function_call" for item in _items(response)):
        return "tool_calls"
    return "stop"


def _event_from(fields: dict[str, Any], name: bytes) -> _Event:
    kind = fields.get("type")
    text = {k: v for k in ("item_id",) if isinstance(v := fields.get(k), str)}
    objects = {k: v for k in ("item", "response") if isinstance(v := fields.get(k), dict)}
    return _Event(
        type=kind if isinstance(kind, str) else name.decode("utf-8", "replace"),
        delta=fields.get("delta"),
        error=fields.get("error"),
        code=fields.get("code"),
        message=fields.get("message"),
        item_id=text.get("item_id"),
        item=objects.get("item"),
        response=objects.get("response"),
    )
