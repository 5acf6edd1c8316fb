"""Claude Code's stream-json as typed lines, folded into calls on a `Sink`, token counts and one outcome."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from clawgauge.providers.base import Sink
from clawgauge.records import MAX_TOKENS, as_count

SYNTHETIC_MODEL = "<synthetic>"


class Block(msgspec.Struct):
    """A block of a message, whole or as far as it has come; of a delta, what it adds."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    data: str | None = None
    """Of redacted thinking: what it was, for the API alone to read."""
    stop_reason: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[Block] = []
    usage: Any = None
    stop_reason: str | None = None


class ApiEvent(msgspec.Struct):
    """One event of the Messages API's stream, its own or passed on by the CLI."""

    type: str = ""
    index: int = 0
    message: Message | None = None
    content_block: Block | None = None
    delta: Block | None = None
    usage: Any = None
    error: Any = None


class StreamLine(msgspec.Struct, tag_field="type", tag="stream_event"):
    event: ApiEvent
    parent_tool_use_id: str | None = None


class AssistantLine(msgspec.Struct, tag_field="type", tag="assistant"):
    """A whole message, or one the CLI wrote itself to report an error (`error`, or a made-up model)."""

    message: Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    is_api_error_message: bool = False


class ResultLine(msgspec.Struct, tag_field="type", tag="result"):
    """The CLI's last word. `subtype` says "success" for API errors too, so it decides nothing about those."""

    is_error: bool = False
    subtype: str = ""
    result: str | None = None
    errors: list[str] = []
    api_error_status: int | None = None
    api_error: str | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    duration_api_ms: Any = None
    total_cost_usd: Any = None
    usage: Any = None
    model_usage: Any = msgspec.field(default=None, name="modelUsage")

    @property
    def turns_spent(self) -> bool:
        """Whether it stopped because `--max-turns` was reached: an error to the CLI, not to whoever set it."""
        return self.terminal_reason == "max_turns" or self.subtype == "error_max_turns"


class SystemLine(msgspec.Struct, tag_field="type", tag="system"):
    """What the CLI has set up; `init` comes before the first request and names the tools the model will see."""

    subtype: str = ""
    tools: Any = None
    mcp_servers: Any = None


class LimitLine(msgspec.Struct, tag_field="type", tag="rate_limit_event"):
    """Where a subscription stands; `rejected` means that its usage limit refused the call."""

    rate_limit_info: dict[str, Any]


Line = StreamLine | AssistantLine | ResultLine | SystemLine | LimitLine
_decode = msgspec.json.Decoder(Line).decode
_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(Line))


def decode_line(raw: bytes) -> list[Line]:
    """What a line of stdout holds: nothing for kinds we do not use. Raises `ValueError` for what cannot be read. For
    what a strict decoder refuses, the standard library reads lone surrogates, and with `replace` any byte;
    `--output-format json` wraps a list."""
    try:
        return [_decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
        items = value if isinstance(value, list) else [value]
        return [msgspec.convert(item, Line) for item in items if item.get("type") in _KINDS]
    except (msgspec.ValidationError, RecursionError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a line of stream-json: {fault}") from fault


def count(holder: Any, name: str) -> int | None:
    return as_count(holder.get(name), MAX_TOKENS) if isinstance(holder, dict) else None


def number(value: Any) -> float | None:
    """A finite, non-negative number, or None."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if is_one else None


PLAIN_TEXT_CHARS = 2000
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls"}
_FINISH_REASONS |= dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length")
_ASKS_AGAIN = frozenset({"max_tokens", "model_context_window_exceeded", "tool_use", "refusal"})
# A server that is not Anthropic's may end a reply with calls as if it were any other.
_CALLS_TOOLS = frozenset({"tool_use", "end_turn"})


@dataclass(kw_only=True)
class ClaudeStream:
    """Reads one call's stdout. `tools` are those on offer: the CLI's name for each, and ours."""

    sink: Sink = field(kw_only=False)
    started_ns: int
    tools: Mapping[str, str] = field(default_factory=dict)
    max_turns: int = 1
    is_task: bool = False

    # What was seen apart from the answer itself: all there is to judge the call by, with the exit code.
    result: ResultLine | None = None
    error: AssistantLine | None = None
    limit: dict[str, Any] | None = None
    cut: str | None = None
    tools_refused: str | None = None
    plain_text: str = ""
    # How many replies began, and how many ended and were followed by tools; whether one is under way.
    replies: int = 0
    turns_ended: int = 0
    reply_open: bool = False
    # The tools' calls by id, each with its name and the pieces of its arguments.
    calls: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    last_said_ns: int | None = None

    _stopped_ns: int | None = None
    _called_tool: bool = False
    _said_text: bool = False
    _streamed_ids: set[str | None] = field(default_factory=set)
    _whole_ids: set[str | None] = field(default_factory=set)
    _tool_blocks: dict[int, Block] = field(default_factory=dict)
    # The counts of the reply under way, and the sums of those before it.
    _usage: dict[str, Any] = field(default_factory=dict)
    _spent: Counter[str] = field(default_factory=Counter)
    _model: str | None = None

    @property
    def done(self) -> bool:
        return self.result is not None or self.cut is not None or self.tools_refused is not None

    @property
    def clock_runs(self) -> bool:
        """Whether the answer is still coming. It is whole before `done` where only the tools and the CLI's sums are."""
        return self._stopped_ns is None

    def settle(self) -> None:
        """Nothing more comes. An answer that is whole does not need the CLI's last word."""
        if not self.done and not self.clock_runs:
            self.cut = "tool_use"

    def feed(self, at_ns: int, raw: bytes) -> None:
        """Take one line of stdout, which arrived at `at_ns`. A line that cannot be read is never fatal."""
        if self.done or not raw.strip():
            return
        try:
            lines = decode_line(raw)
        except ValueError:
            self.plain_text = self.plain_text or raw.decode("utf-8", "replace")[:PLAIN_TEXT_CHARS]
            return
        for line in lines:
            match line:
                case StreamLine(event=event, parent_tool_use_id=None):
                    self.take_event(at_ns, event)
                case AssistantLine(parent_tool_use_id=None):
                    self.take_message(at_ns, line)
                case ResultLine():
                    self._take_result(at_ns, line)
                case SystemLine(subtype="init", tools=tools, mcp_servers=servers) if self.tools:
                    shown = tools if isinstance(tools, list) else []
                    # A model that is not shown the tools must not be judged by them.
                    if missing := [name for name in self.tools if name not in shown]:
                        self.tools_refused = f"{len(missing)} of {len(self.tools)} are missing, servers {servers}"
                case LimitLine(rate_limit_info={"status": "rejected"} as limit):
                    self.limit = limit

    def take_event(self, at_ns: int, event: ApiEvent) -> None:
        match event.type:
            case "message_start" if event.message is not None:
                self._streamed_ids.add(event.message.id)
                self._begin_reply(at_ns, event.message)
            case "content_block_start" if event.content_block is not None:
                self._begin_block(at_ns, event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                self._say(at_ns, text=event.delta.text, thinking=event.delta.thinking)
                if event.delta.signature:
                    # Thinking that Anthropic signs may be shown as a summary, and is counted as what it was.
                    self.sink.note(reasoning_streamed=False)
                if event.delta.partial_json:
                    self._call_tool(at_ns, event.index, event.delta.partial_json)
            case "content_block_stop":
                block = self._tool_blocks.get(event.index)
                if block is not None and block.id not in self.calls:
                    self._call_tool(at_ns, event.index, None)
            case "message_delta":
                self.note_usage(event.usage)
                reason = event.delta.stop_reason if event.delta else None
                if reason is None:  # made up by the CLI for a stream that broke
                    return
                self.reply_open = False
                self.finish(reason)
                if self.tools and self._called_tool and reason in _CALLS_TOOLS:
                    self.turns_ended += 1
                    self.report_usage()
                    if self.replies >= self.max_turns:
                        # The tools still answer, but no model will read it.
                        self._stop_clock(at_ns)
                elif reason in _ASKS_AGAIN or not self._said_text:
                    self._cut(at_ns, reason)

    def _begin_reply(self, at_ns: int, message: Message) -> None:
        if self.tools and self.replies >= self.max_turns:
            self._cut(at_ns, "max_turns")
            return
        self.replies, self.reply_open = self.replies + 1, True
        self._said_text = self._called_tool = False
        self._tool_blocks.clear()
        self._note_model(message.model)
        self._spent.update({name: count(self._usage, name) or 0 for name in _COUNTS})
        self._usage = {}
        self.note_usage(message.usage)
        if self.is_task:
            self.sink.turn()

    def _begin_block(self, at_ns: int, index: int, block: Block) -> None:
        if block.type == "tool_use":
            # Indexes start again with each reply; ids do not.
            block.id = block.id or f"{self.replies}.{index}"
            self._tool_blocks[index] = block
        elif block.type == "redacted_thinking":
            self.sink.note(reasoning_streamed=False)
        else:
            self._say(at_ns, text=block.text, thinking=block.thinking)

    def _say(self, at_ns: int, *, text: str | None, thinking: str | None) -> None:
        if thinking or text:
            self.last_said_ns = at_ns
        if thinking:
            self.sink.reasoning(at_ns, thinking)
        if text:
            self._said_text = True
            self.sink.text(at_ns, text)

    def _call_tool(self, at_ns: int, index: int, arguments: str | None) -> None:
        self.last_said_ns, self._called_tool = at_ns, True
        block = self._tool_blocks.get(index) or Block(id=str(index))
        call_id, name = block.id or "", None
        if call_id not in self.calls:
            name = self.tools.get(block.name or "", block.name)
            self.calls[call_id] = (name or "", [])
        if arguments is None and block.input:
            arguments = json.dumps(block.input)
        if arguments:
            self.calls[call_id][1].append(arguments)
        self.sink.tool_delta(at_ns, call_id, name, arguments)

    def _cut(self, at_ns: int, why: str) -> None:
        self.cut = why
        self.report_usage()
        self._stop_clock(at_ns)

    def _stop_clock(self, at_ns: int) -> None:
        if self._stopped_ns is None:
            self._stopped_ns = at_ns
            self.sink.end(at_ns)

    def take_message(self, at_ns: int, line: AssistantLine) -> None:
        """A whole message, block by block: a repetition where deltas were seen, all there is from an older CLI."""
        if line.error is not None or line.is_api_error_message or line.message.model == SYNTHETIC_MODEL:
            self.error = line
        if self.error is line or line.message.id in self._streamed_ids:
            return
        if self.last_said_ns is None:
            self.sink.note(first_token_captured=False)
        if line.message.id not in self._whole_ids:
            self._whole_ids.add(line.message.id)
            self._begin_reply(at_ns, line.message)
            if self.done:
                return
        for index, block in enumerate(line.message.content):
            self._begin_block(at_ns, index, block)
            if block.type == "tool_use":
                self._call_tool(at_ns, index, None)

    def _take_result(self, at_ns: int, line: ResultLine) -> None:
        self.result = line
        if not line.is_error and line.result and self.last_said_ns is None:
            self.sink.note(first_token_captured=False)
            self._say(at_ns, text=line.result, thinking=None)
        if line.stop_reason is not None and (line.stop_reason == "refusal" or not line.is_error):
            self.finish(line.stop_reason, line.result if line.is_error else None)
        elif line.api_error == "max_output_tokens" or line.turns_spent:
            self.finish("max_tokens" if line.api_error == "max_output_tokens" else "tool_use")
        # Its own sums stand for everything noted before; zeros are the CLI's filler.
        if any(count(line.usage, name) for name in ("input_tokens", "output_tokens")):
            self._usage, self._spent = dict(line.usage), Counter()
        self.report_usage()
        models = line.model_usage if isinstance(line.model_usage, dict) else {}
        if len(models) == 1:
            self._note_model(next(iter(models)))
        cost = number(line.total_cost_usd)
        guessed = any(isinstance(entry, dict) and entry.get("costBasis") == "unknown" for entry in models.values())
        if cost is not None and not guessed:  # for a model it does not know, the CLI makes a price up
            self.sink.note(cost_usd=cost)
        self._stop_clock(at_ns)
        # What the CLI itself cost. Not derivable on errors (API time 0), nor where side calls add to API time.
        api_ms = number(line.duration_api_ms)
        overhead_ms = ((self._stopped_ns or at_ns) - self.started_ns) / 1e6 - (api_ms or 0.0)
        if api_ms and overhead_ms >= 0:
            self.sink.note(cli_overhead_ms=round(overhead_ms))

    def note_usage(self, usage: Any) -> None:
        """Counts of the reply under way. The API repeats them as they grow, and leaves out what did not change."""
        if isinstance(usage, dict):
            self._usage.update({name: value for name, value in usage.items() if value is not None})

    def report_usage(self) -> None:
        """The counts over all replies so far; what the one under way does not tell is not told."""
        told = {name: count(self._usage, name) for name in _COUNTS}
        totals = {name: n + self._spent[name] for name, n in told.items() if n is not None}
        # What was read from the cache or put into it was read as well, and is not in the server's count.
        inputs = sum(n for name, n in totals.items() if name != "output_tokens") if "input_tokens" in totals else None
        thought = count(self._usage.get("output_tokens_details"), "thinking_tokens")
        outputs, cached = totals.get("output_tokens"), totals.get("cache_read_input_tokens")
        self.sink.usage(input_tokens=inputs, output_tokens=outputs, cached_tokens=cached, reasoning_tokens=thought)

    def finish(self, stop_reason: str, words: str | None = None) -> None:
        self.sink.finish(_FINISH_REASONS.get(stop_reason, stop_reason))
        if stop_reason == "refusal":
            self.sink.note(refusal=words or "the model stopped with stop_reason refusal")

    def _note_model(self, model: str | None) -> None:
        if self._model is None and model and model != SYNTHETIC_MODEL:
            self._model = model
            self.sink.note(model_reported=model)
