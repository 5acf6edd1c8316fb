"""The Responses protocol: a call as its input, the events, the whole reply, the provider."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink
from clawgauge.providers.conversation import PastTurn, conversation
from clawgauge.providers.http.errors import decode_lenient, refuse_crowded, stream_failure
from clawgauge.providers.http.events import (
    EventReader,
    arguments_text,
    report_counts,
    sent_arguments,
)
from clawgauge.providers.http.server import HttpServer
from clawgauge.registry import OPENAI_RESPONSES


def responses_input(call: Call) -> str | list[dict[str, Any]]:
    """The `input` of a request: the prompt, or the items of the conversation."""
    if not call.history and not call.messages:
        return call.prompt
    items: list[dict[str, Any]] = []
    for entry in conversation(call):
        if isinstance(entry, str):
            items.append({"type": "message", "role": "user", "content": entry})
        else:
            items += _turn_items(entry)
    return items


def _turn_items(turn: PastTurn) -> list[dict[str, Any]]:
    """The model's message, its calls, and their results."""
    items: list[dict[str, Any]] = []
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        items.append({**message, "content": [part]})
    for past_call in turn.calls:
        items.append(
            {
                "type": "function_call",
                "call_id": past_call.id,
                "name": past_call.name,
                "arguments": sent_arguments(past_call),
            }
        )
    for past_call in turn.calls:
        items.append(
            {
                "type": "function_call_output",
                "call_id": past_call.id,
                "output": past_call.answer,
            }
        )
    return items


def _flatten(definition: Any, kind: str) -> Any:
    """A definition of a chat as this protocol has it.

    A chat nests a function under `function`, a schema under `json_schema`; here its fields stand
    beside `type`.
    """
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
    """Reads the events of a response, or a whole one."""

    _decoder = msgspec.json.Decoder(_Event)
    _protocol = "a Responses reply"
    _last_word = "response.completed"

    # What the request limited the output to.
    _max_tokens: int | None
    # What has been reported so far, by the type of item: ids of messages and of reasoning, keys of
    # calls.
    _reported: defaultdict[str, set[str | None]] = field(
        init=False, default_factory=lambda: defaultdict(set)
    )
    # The calls of the stream: the sink's key for each by its ids; the keys of those whose arguments
    # came with their beginning; the keys of those that are whole.
    _keys: dict[str, str] = field(init=False, default_factory=dict)
    _prefilled: set[str] = field(init=False, default_factory=set)
    _whole: set[str] = field(init=False, default_factory=set)
    _n_calls: int = field(init=False, default=0)

    def _take(self, at_ns: int, name: bytes, event: _Event, data: bytes) -> bool:
        sink = self.sink
        item = event.item or {}
        delta = event.delta if isinstance(event.delta, str) else None
        match event.type or name.decode("utf-8", "replace"):
            case "response.output_text.delta" if delta is not None:
                self._reported["message"].add(event.item_id)
                sink.text(at_ns, delta)
            case "response.reasoning_text.delta" if delta is not None:
                self._reported["reasoning"].add(event.item_id)
                sink.reasoning(at_ns, delta)
            case "response.reasoning_summary_text.delta" if delta is not None:
                if event.item_id not in self._reported["reasoning"]:
                    sink.note(reasoning_streamed=False)
                self._reported["reasoning"].add(event.item_id)
                sink.reasoning(at_ns, delta)
            case "response.refusal.delta" if delta is not None:
                self._reported["message"].add(event.item_id)
                sink.note(refusal=delta)
            case "response.function_call_arguments.delta" if delta:
                self._take_arguments(at_ns, event.item_id, delta, is_whole=False)
            case "response.function_call_arguments.done":
                arguments = arguments_text(event.arguments)
                if arguments:
                    self._take_arguments(at_ns, event.item_id, arguments, is_whole=True)
            case "response.output_item.added" if _is_call(item):
                self._begin_call(at_ns, item)
            case "response.output_item.done" if _is_call(item):
                self._end_call(at_ns, self._find_key(_ids(item)), item)
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

    def _begin_call(self, at_ns: int, item: dict[str, Any]) -> None:
        """A call begins, with its name and maybe with arguments."""
        key = self._find_key(_ids(item), begins=True)
        arguments = arguments_text(item.get("arguments"))
        if arguments:
            self._reported["function_call"].add(key)
            # They are the whole of it, which deltas may repeat, or only its beginning.
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                msgspec.json.decode(arguments)
                self._prefilled.add(key)
        self.sink.tool_delta(at_ns, key, item["name"], arguments)

    def _take_arguments(
        self, at_ns: int, item_id: str | None, arguments: str, *, is_whole: bool
    ) -> None:
        """Arguments of a call that has begun: a piece of them, or all."""
        key = self._find_key((item_id,))
        self._reported["function_call"].add(key)
        if is_whole or key in self._prefilled:
            # A first piece takes the place of arguments that came with the beginning.
            self.sink.tool_whole(at_ns, key, None, arguments)
        else:
            self.sink.tool_delta(at_ns, key, None, arguments)
        self._prefilled.discard(key)

    def _end_call(self, at_ns: int, key: str, item: dict[str, Any]) -> None:
        """A whole call stands for all the pieces before it."""
        self._reported["function_call"].add(key)
        self._whole.add(key)
        self.sink.tool_whole(at_ns, key, item["name"], arguments_text(item.get("arguments")))

    def _find_key(self, ids: tuple[str | None, ...], begins: bool = False) -> str:
        """The key of the call with one of these ids; a new one where there is no such call.

        Without any id it is the call begun last. With `begins`, a call that is whole is not meant.
        """
        usable_ids = [call_id for call_id in ids if call_id]
        key = None
        if not usable_ids and self._n_calls and not begins:
            key = f"call {self._n_calls}"
        for call_id in usable_ids:
            if call_id in self._keys:
                key = self._keys[call_id]
                break
        if key is not None and not (begins and key in self._whole):
            return key
        self._n_calls += 1
        key = f"call {self._n_calls}"
        for call_id in usable_ids:
            self._keys[call_id] = key
        return key

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data)
        if reply is None:
            raise self._not_the_protocol(data)
        is_error = reply.get("error") is not None and "output" not in reply
        if is_error or reply.get("status") == "failed":
            raise _failure(reply)
        if not isinstance(reply.get("output"), list):
            raise self._not_the_protocol(data)
        self._report_response(at_ns, reply)

    def _report_response(self, at_ns: int, response: dict[str, Any]) -> None:
        """Report what neither deltas nor items have; then model, usage, and why it stopped."""
        sink = self.sink
        if not any(self._reported.values()):
            # All of it came at the end: that is when it was sent, not when its first token was
            # made.
            sink.note(first_token_captured=False)
        items = _dicts(response.get("output"))
        n_items = Counter(_text(item.get("type")) for item in items)
        streamed_ids = frozenset(self._keys)
        for item in items:
            kind = _text(item.get("type"))
            if kind == "function_call":
                self._report_listed_call(at_ns, item, streamed_ids, n_items[kind])
            else:
                # By its id; where ids are left out or changed, as many items were reported as
                # there are of this type.
                reported_ids = self._reported[kind]
                is_new = _text(item.get("id")) not in reported_ids
                if is_new and len(reported_ids) < n_items[kind]:
                    self._report_listed_item(at_ns, item, kind)
        if isinstance(response.get("model"), str):
            sink.note(model_reported=response["model"])
        counts = report_counts(sink, response.get("usage"), "input_tokens", "output_tokens")
        sink.finish(self._finish_reason(response, counts.output_tokens, n_items["function_call"]))

    def _report_listed_call(
        self, at_ns: int, item: dict[str, Any], streamed_ids: frozenset[str], n_calls: int
    ) -> None:
        """A call in the list of what the response holds: the last word on one that was streamed."""
        if not _is_call(item):
            return
        ids = _ids(item)
        is_streamed = not streamed_ids.isdisjoint(ids)
        # Where its ids are new, it may still be one of those streamed.
        if is_streamed or self._n_calls < n_calls:
            self._end_call(at_ns, self._find_key(ids, begins=not is_streamed), item)

    def _report_listed_item(self, at_ns: int, item: dict[str, Any], kind: str) -> None:
        """A message or reasoning that was not streamed."""
        for part in _dicts(item.get("content")) + _dicts(item.get("summary")):
            text = _text(part.get("text"))
            if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
                self.sink.note(refusal=part["refusal"])
            elif text and kind == "reasoning":
                self.sink.note(reasoning_streamed=False)
                self.sink.reasoning(at_ns, text)
            elif text:
                self.sink.text(at_ns, text)

    def _finish_reason(
        self, response: dict[str, Any], output_tokens: int | None, n_calls: int
    ) -> str:
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details")
            reason = _text(details.get("reason")) if isinstance(details, dict) else ""
            if reason == "max_output_tokens":
                return "length"
            return reason or "incomplete"
        limit = self._max_tokens
        if limit is not None and output_tokens is not None and output_tokens >= limit:
            # llama.cpp says `completed` for a reply cut by the limit: the count tells.
            return "length"
        return "tool_calls" if n_calls else "stop"


def _failure(response: dict[str, Any]) -> CallFailure:
    error = response.get("error") or {"message": "the response failed"}
    return stream_failure(error, "the response failed")


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call" and isinstance(item.get("name"), str)


def _ids(item: dict[str, Any]) -> tuple[str, str]:
    """A call has two ids, its item's and its own; either may be missing."""
    return _text(item.get("id")), _text(item.get("call_id"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class ResponsesServer(HttpServer):
    """Sends a temperature only if asked (reasoning models refuse one), and never a seed."""

    default_base_url = OPENAI_RESPONSES.default_address
    takes = frozenset({"temperature"})
    sampling_names = {
        "temperature": ("temperature",),
        "max_tokens": ("max_output_tokens",),
        "seed": ("seed",),
    }

    def request_path(self, call: Call) -> str:
        return "/responses"

    def settings_body(self, call: Call) -> dict[str, Any]:
        sampling = self.sampling(call)
        reasoning = None
        if call.thinking_level is not None:
            reasoning = {"effort": call.thinking_level}
        return {
            "model": call.model,
            "stream": call.stream,
            # A benchmark leaves nothing behind on the server.
            "store": False,
            "max_output_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "reasoning": reasoning,
        }

    async def attempt(self, call: Call, sink: Sink) -> None:
        # Not strict unless a definition asks for it, as in chat: OpenAI's default makes every
        # argument required.
        tools = [{"strict": False, **_flatten(tool, "function")} for tool in call.tools]
        tool_choice = _flatten(call.tool_choice, "function") if call.tools else None
        text = None
        if call.response_format:
            text = {"format": _flatten(call.response_format, "json_schema")}
        body = {
            "instructions": call.system or None,
            "input": responses_input(call),
            "tools": tools or None,
            "tool_choice": tool_choice,
            "text": text,
        }
        reader = ResponsesReader(sink, call.model, self.sampling(call).max_tokens)
        await self._post(body, call, reader)
