"""Anthropic's Messages API: a call as its messages, the events of the reply, the provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, ProviderSettings, Sampling, Sink
from clawgauge.providers.claude.stream import ApiEvent, AssistantLine, Block, ClaudeStream, Message
from clawgauge.providers.conversation import PastTurn, conversation
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.events import EventReader
from clawgauge.providers.http.server import HttpServer
from clawgauge.registry import ANTHROPIC_MESSAGES

# How many tokens of thinking a level may take; they come on top of those of the answer.
_THINKING_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768}
# The API's name for each tool choice of a chat.
_TOOL_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
# More than any reply thinks. What is beyond is not kept, and thinking is off for the rest of the
# task.
_MAX_THINKING_CHARS = 1 << 18
_THINKING_OFF = (
    "thinking_off: the API does not think where a call is forced, nor on from calls whose thinking "
    "it did not sign"
)


@dataclass(frozen=True, slots=True)
class SignedThinking:
    """The thinking of one reply, as content blocks under the API's own signatures.

    The API goes on after a tool call only from thinking that it knows as its own.
    """

    blocks: tuple[Mapping[str, str], ...]


@dataclass(slots=True)
class MessagesReader(EventReader):
    """Reads the events of a message, or a whole one."""

    _decoder = msgspec.json.Decoder(ApiEvent)
    _protocol = "a reply of the Messages API"
    _last_word = "message_stop"

    _stream: ClaudeStream = field(init=False)
    # The pieces of the thinking block under way, and the blocks that are whole.
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


class MessagesServer(HttpServer):
    """Anthropic's API, and servers that speak it."""

    default_base_url = ANTHROPIC_MESSAGES.default_address
    models_path = "/v1/models"
    protocol_headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    key_header = "x-api-key"
    key_format = "{}"
    takes = frozenset({"temperature"})

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.base_url = self.base_url.removesuffix("/v1")

    def sampling(self, call: Call) -> Sampling:
        max_tokens = call.max_tokens or self.default_max_tokens
        temperature = call.temperature
        budget = _thinking_budget(call)
        if budget is not None:
            # The thinking comes on top of the answer, and with it the API takes no temperature but
            # its own.
            max_tokens += budget
            temperature = None
        sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
        return self.override_sampling(sampling)

    def request_path(self, call: Call) -> str:
        return "/v1/messages"

    def settings_body(self, call: Call) -> dict[str, Any]:
        sampling = self.sampling(call)
        thinking = None
        budget = _thinking_budget(call)
        if budget is not None:
            thinking = {"type": "enabled", "budget_tokens": budget}
        return {
            "model": call.model,
            "stream": call.stream,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "thinking": thinking,
        }

    async def attempt(self, call: Call, sink: Sink) -> None:
        output_config = _output_config(call.response_format)
        budget = _thinking_budget(call)
        if budget is None and call.thinking_level in _THINKING_BUDGETS:
            sink.note(warning=_THINKING_OFF)
        tool_choice = None
        if call.tools and call.tool_choice:
            tool_choice = _tool_choice(call.tool_choice)
        body = {
            "system": call.system or None,
            "messages": _messages(call, with_thinking=budget is not None),
            "tools": [_tool(tool["function"]) for tool in call.tools] or None,
            "tool_choice": tool_choice,
            "output_config": output_config,
        }
        await self._post(body, call, MessagesReader(sink, call.model))


def _thinking_budget(call: Call) -> int | None:
    """How many tokens of thinking are sent with a call.

    None where thinking is not asked for, or the API has none.
    """
    budget = _THINKING_BUDGETS.get(call.thinking_level or "")
    is_call_forced = bool(call.tools) and call.tool_choice not in (None, "auto", "none")
    if is_call_forced or _continues_unsigned_calls(call):
        return None
    return budget


def _continues_unsigned_calls(call: Call) -> bool:
    """Whether the model is to go on from calls whose thinking the API did not sign."""
    if call.history:
        return not isinstance(call.history[-1].replay, SignedThinking)
    return bool(call.messages) and not call.prompt and call.messages[-1].role != "user"


def _output_config(response_format: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The form of the answer as the API takes it. Raises `CallFailure` where it takes no such."""
    if response_format is None:
        return None
    if "json_schema" not in response_format:
        message = "this API takes a JSON schema for its answer, no json_object"
        raise CallFailure("error", "invalid_prompt", message)
    schema = response_format["json_schema"]["schema"]
    return {"format": {"type": "json_schema", "schema": schema}}


def _tool_choice(choice: Any) -> dict[str, Any]:
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    return {"type": _TOOL_CHOICES.get(str(choice), choice)}


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    """The definition of a tool, from a chat's."""
    tool = {"name": function["name"]}
    if function.get("description"):
        tool["description"] = function["description"]
    tool["input_schema"] = function.get("parameters") or {"type": "object"}
    return tool


def _messages(call: Call, *, with_thinking: bool) -> list[dict[str, Any]]:
    """What the model is to read, in order.

    Roles take turns: what one says in a row is one message.
    """
    messages: list[dict[str, Any]] = []

    def add(role: str, block: Mapping[str, Any]) -> None:
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"].append(dict(block))

    for entry in conversation(call):
        if isinstance(entry, str):
            add("user", {"type": "text", "text": entry})
            continue
        for block in _turn_blocks(entry, with_thinking):
            add("assistant", block)
        for past_call in entry.calls:
            result = {"type": "tool_result", "tool_use_id": past_call.id}
            add("user", {**result, "content": past_call.answer})
    return messages


def _turn_blocks(turn: PastTurn, with_thinking: bool) -> list[Mapping[str, Any]]:
    """The blocks of one earlier turn of the model: its thinking, its text, its calls."""
    blocks: list[Mapping[str, Any]] = []
    if with_thinking and isinstance(turn.replay, SignedThinking):
        blocks += turn.replay.blocks
    if turn.text.strip():
        blocks.append({"type": "text", "text": turn.text})
    for past_call in turn.calls:
        blocks.append(
            {
                "type": "tool_use",
                "id": past_call.id,
                "name": past_call.name,
                "input": past_call.arguments,
            }
        )
    return blocks
