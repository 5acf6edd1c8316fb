"""Anthropic's Messages API: a call as its messages, the events of the reply, and the provider of any such server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, PastTurn, ProviderSettings, Sampling, Sink, conversation
from clawgauge.providers.claude.stream import ApiEvent, AssistantLine, Block, ClaudeStream, Message
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.server import HttpServer, apply_extra_body
from clawgauge.providers.openai.chat import EventReader

# How many tokens of thinking a level may take; they come on top of those of the answer.
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_MAX_SIGNED, _MAX_SIGNED_CHARS = 1_024, 1 << 18
Signed: TypeAlias = dict[str, list[tuple[str, str]]]


@dataclass(slots=True)
class MessagesReader(EventReader):
    """Feeds one reply to a sink, and its signed thinking to `signed`."""

    _decoder = msgspec.json.Decoder(ApiEvent)
    _protocol = "a reply of the Messages API"
    _last_word = "message_stop"

    _signed: Signed
    _stream: ClaudeStream = field(init=False)
    _thinking: list[str] = field(init=False, default_factory=list)
    _blocks: list[tuple[str, str]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._stream = ClaudeStream(self.sink, started_ns=0)

    def _take(self, at_ns: int, name: bytes, event: ApiEvent, data: bytes) -> bool:
        kind = event.type = event.type or name.decode("utf-8", "replace")
        if kind == "error":
            raise stream_failure(decode_lenient(data))
        self._stream.take_event(at_ns, event)
        self._keep_signed(event.delta or Block())
        if kind == "message_delta":
            self._ended = event.delta is not None and event.delta.stop_reason is not None
            self._stream.report_usage()
            self._remember_signed()
        return kind == "message_stop" and self._ended

    def _keep_signed(self, block: Block) -> None:
        self._thinking.append(block.thinking or "")
        if block.signature:
            self._blocks.append(("".join(self._thinking), block.signature))
            self._thinking.clear()

    def _remember_signed(self) -> None:
        """Once for all blocks of a reply: a stream may have as many as it likes."""
        blocks, self._blocks = self._blocks, []
        if blocks and sum(len(thought) + len(signature) for thought, signature in blocks) <= _MAX_SIGNED_CHARS:
            self._signed["".join(thought for thought, _ in blocks)] = blocks
            if len(self._signed) > _MAX_SIGNED:
                del self._signed[next(iter(self._signed))]

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
            self._keep_signed(block)
        self._remember_signed()
        self._stream.report_usage()
        self._stream.finish(message.stop_reason or "end_turn")


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": function.get("parameters") or {"type": "object"}}


class MessagesServer(HttpServer):
    default_base_url = "https://api.anthropic.com"
    models_path = "/v1/models"
    own_headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    key_header, key_format = "x-api-key", "{}"
    takes = frozenset({"temperature"})

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.base_url = self.base_url.removesuffix("/v1")
        # By all that a reply thought: the API goes on after a call only from thinking that it knows as its own.
        self._signed: Signed = {}

    def _thinking_budget(self, call: Call) -> int | None:
        """How many tokens of thinking are sent with a call; None where thinking is not asked, or the API has none."""
        budget = _BUDGETS.get(call.thinking_level or "")
        if budget is None:
            return None
        is_forced = bool(call.tools) and call.tool_choice not in (None, "auto", "none")
        return None if is_forced or self._goes_on_unsigned(call) else budget

    def _goes_on_unsigned(self, call: Call) -> bool:
        """Whether the last that was said are calls whose thinking the API did not sign."""
        if call.history:
            return call.history[-1].reasoning not in self._signed
        ends_with_calls = bool(call.messages) and not call.prompt and call.messages[-1].role != "user"
        return ends_with_calls and "" not in self._signed

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
            "messages": self._messages(said, with_thinking=bool(budget)),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
            "tools": [_tool(tool["function"]) for tool in call.tools] or None,
            "tool_choice": choice if call.tools and call.tool_choice else None,
            "output_config": {"format": schema} if schema else None,
        }
        await self._post("/v1/messages", body, call, MessagesReader(sink, call.model, self._signed))

    def _messages(self, said: list[str | PastTurn], *, with_thinking: bool) -> list[dict[str, Any]]:
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
            for thought, signature in self._signed.get(turn.reasoning, ()) if with_thinking else ():
                say("assistant", {"type": "thinking", "thinking": thought, "signature": signature})
            if turn.text.strip():
                say("assistant", {"type": "text", "text": turn.text})
            for one in turn.calls:
                say("assistant", {"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments})
            for one in turn.calls:
                say("user", {"type": "tool_result", "tool_use_id": one.id, "content": one.answer})
        return messages
