"""Anthropic's Messages API: a call as its messages, the events of the reply, and the provider of any such server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, PastTurn, ProviderSettings, Sampling, Sink, conversation
from clawgauge.providers.claude.stream import ApiEvent, AssistantLine, Block, ClaudeStream, Message
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.events import EventReader
from clawgauge.providers.http.server import HttpServer, apply_extra_body
from clawgauge.registry import PROVIDER_TYPES

# How many tokens of thinking a level may take; they come on top of those of the answer.
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
# More than any reply thinks; what is beyond is not kept, and thinking is off for the rest of a task.
_MAX_THINKING_CHARS = 1 << 18


@dataclass(frozen=True, slots=True)
class SignedThinking:
    """The thinking of one reply, as content blocks under the API's own signatures.

    The API goes on after a tool call only from thinking that it knows as its own.
    """

    blocks: tuple[Mapping[str, str], ...]


@dataclass(slots=True)
class MessagesReader(EventReader):
    """Feeds one reply to a sink."""

    _decoder = msgspec.json.Decoder(ApiEvent)
    _protocol = "a reply of the Messages API"
    _last_word = "message_stop"

    _stream: ClaudeStream = field(init=False)
    _thinking: list[str] = field(init=False, default_factory=list)
    _thinking_blocks: list[Mapping[str, str]] = field(init=False, default_factory=list)
    _n_thinking_chars: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._stream = ClaudeStream(self.sink, started_ns=0)

    def _take(self, at_ns: int, name: bytes, event: ApiEvent, data: bytes) -> bool:
        event.type = event.type or name.decode("utf-8", "replace")
        if event.type == "error":
            raise stream_failure(decode_lenient(data))
        self._stream.take_event(at_ns, event)
        if event.content_block is not None:
            self._collect_redacted_thinking(event.content_block)
        if event.delta is not None:
            self._collect_thinking(event.delta)
        if event.type == "message_delta":
            self._ended = event.delta is not None and event.delta.stop_reason is not None
            self._stream.report_usage()
            if self._ended:
                self._report_thinking()
        return event.type == "message_stop" and self._ended

    def _collect_thinking(self, block: Block) -> None:
        """Thinking comes in pieces, and its signature closes the block."""
        if block.thinking:
            self._thinking.append(block.thinking)
        if block.signature:
            thinking = "".join(self._thinking)
            self._thinking.clear()
            self._add_block(type="thinking", thinking=thinking, signature=block.signature)

    def _collect_redacted_thinking(self, block: Block) -> None:
        if block.type == "redacted_thinking" and block.data:
            self._add_block(type="redacted_thinking", data=block.data)

    def _add_block(self, **block: str) -> None:
        self._n_thinking_chars += sum(map(len, block.values()))
        if self._n_thinking_chars > _MAX_THINKING_CHARS:
            # Half of the thinking would not be accepted: all of it is dropped.
            self._thinking_blocks.clear()
        else:
            self._thinking_blocks.append(block)

    def _report_thinking(self) -> None:
        """Report all blocks of the reply together, and forget them: a stream may end many times."""
        if self._thinking_blocks:
            self.sink.replay(SignedThinking(tuple(self._thinking_blocks)))
            self._thinking_blocks.clear()

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data) or {}
        if reply.get("error") is not None:
            raise stream_failure(reply["error"], "the reply carried an error")
        if not isinstance(reply.get("content"), list):
            raise self._not_the_protocol(data)
        message = fit(Message, reply)
        self._stream.take_message(at_ns, AssistantLine(message=message))
        for block in message.content:
            self._collect_redacted_thinking(block)
            self._collect_thinking(block)
        self._report_thinking()
        self._stream.report_usage()
        self._stream.finish(message.stop_reason or "end_turn")


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": function.get("parameters") or {"type": "object"}}


class MessagesServer(HttpServer):
    default_base_url = PROVIDER_TYPES["anthropic_messages"].default_address
    models_path = "/v1/models"
    protocol_headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    key_header, key_format = "x-api-key", "{}"
    takes = frozenset({"temperature"})

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.base_url = self.base_url.removesuffix("/v1")

    def _thinking_budget(self, call: Call) -> int | None:
        """How many tokens of thinking are sent with a call; None where thinking is not asked, or the API has none."""
        budget = _BUDGETS.get(call.thinking_level or "")
        if budget is None:
            return None
        is_forced = bool(call.tools) and call.tool_choice not in (None, "auto", "none")
        return None if is_forced or _continues_unsigned_calls(call) else budget

    def sampling(self, call: Call) -> Sampling:
        wished = Sampling(
            temperature=call.temperature,
            max_tokens=call.max_tokens or self.default_max_tokens,
        )
        if (budget := self._thinking_budget(call)) is not None:
            # The thinking comes on top of the answer, and with it the API takes no temperature but its own.
            wished = Sampling(max_tokens=(wished.max_tokens or 0) + budget)
        return apply_extra_body(wished, self.extra_body, self.sampling_names)

    async def attempt(self, call: Call, sink: Sink) -> None:
        said = list(conversation(call))
        form = call.response_format
        budget = self._thinking_budget(call)
        sampling = self.sampling(call)
        if form is not None and "json_schema" not in form:
            raise CallFailure("error", "invalid_prompt", "this API takes a JSON schema for its answer, no json_object")
        if budget is None and call.thinking_level in _BUDGETS:
            why = "where a call is forced, nor on from calls whose thinking it did not sign"
            sink.note(warning=f"thinking_off: the API does not think {why}")
        schema = {"type": "json_schema", "schema": form["json_schema"]["schema"]} if form else None
        choice = {"type": _CHOICES.get(str(call.tool_choice), call.tool_choice)}
        if isinstance(call.tool_choice, dict):
            choice = {"type": "tool", "name": call.tool_choice["function"]["name"]}
        body = {
            "model": call.model,
            "system": call.system or None,
            "stream": call.stream,
            "messages": _messages(said, with_thinking=budget is not None),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
            "tools": [_tool(tool["function"]) for tool in call.tools] or None,
            "tool_choice": choice if call.tools and call.tool_choice else None,
            "output_config": {"format": schema} if schema else None,
        }
        await self._post("/v1/messages", body, call, MessagesReader(sink, call.model))


def _continues_unsigned_calls(call: Call) -> bool:
    """Whether the model is to go on from calls whose thinking the API did not sign."""
    if call.history:
        return not isinstance(call.history[-1].replay, SignedThinking)
    return bool(call.messages) and not call.prompt and call.messages[-1].role != "user"


def _messages(said: list[str | PastTurn], *, with_thinking: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    def say(role: str, *blocks: dict[str, Any]) -> None:
        """Roles take turns: what one says in a row is one message."""
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"] += blocks

    for turn in said:
        if isinstance(turn, str):
            say("user", {"type": "text", "text": turn})
            continue
        if with_thinking and isinstance(turn.replay, SignedThinking):
            say("assistant", *map(dict, turn.replay.blocks))
        if turn.text.strip():
            say("assistant", {"type": "text", "text": turn.text})
        for one in turn.calls:
            say("assistant", {"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments})
        for one in turn.calls:
            say("user", {"type": "tool_result", "tool_use_id": one.id, "content": one.answer})
    return messages
