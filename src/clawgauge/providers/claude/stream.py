"""Claude Code's stream-json as typed lines, and what they tell of a call.

`ClaudeStream` reports the call to a `Sink` and keeps what it is judged by. It also reads the events
of the Messages API, which the CLI passes on.
"""

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
"""The model that the CLI names for a message it wrote itself."""
PLAIN_TEXT_CHARS = 2000

_TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
# After a reply that stopped so, the CLI would ask the model again by itself.
_ASKS_AGAIN = frozenset({"max_tokens", "model_context_window_exceeded", "tool_use", "refusal"})
# How a reply with calls may stop: a server that is not Anthropic's may end it as any other.
_CALLS_TOOLS = frozenset({"tool_use", "end_turn"})


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
    """A whole message, or one that the CLI wrote itself to report an error.

    The latter has an `error`, or a made-up model.
    """

    message: Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    is_api_error_message: bool = False


class ResultLine(msgspec.Struct, tag_field="type", tag="result"):
    """The CLI's last word.

    `subtype` says "success" for API errors too, so it decides nothing about those.
    """

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
        """Whether it stopped because `--max-turns` was reached.

        That is an error to the CLI, not to whoever set it.
        """
        return self.terminal_reason == "max_turns" or self.subtype == "error_max_turns"


class SystemLine(msgspec.Struct, tag_field="type", tag="system"):
    """What the CLI has set up.

    `init` comes before the first request and names the tools the model will see.
    """

    subtype: str = ""
    tools: Any = None
    mcp_servers: Any = None


class LimitLine(msgspec.Struct, tag_field="type", tag="rate_limit_event"):
    """Where a subscription stands; `rejected` means that its usage limit refused the call."""

    rate_limit_info: dict[str, Any]


Line = StreamLine | AssistantLine | ResultLine | SystemLine | LimitLine
_decode = msgspec.json.Decoder(Line).decode
_LINE_TYPES = frozenset(kind.__struct_config__.tag for kind in get_args(Line))


def decode_line(raw: bytes) -> list[Line]:
    """What a line of stdout holds: nothing for kinds we do not use.

    What a strict decoder refuses is read by the standard library, which takes lone surrogates, and
    any byte with `replace`. `--output-format json` wraps a list. Raises `ValueError` for what
    cannot be read.
    """
    try:
        return [_decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
        items = value if isinstance(value, list) else [value]
        return [msgspec.convert(item, Line) for item in items if item.get("type") in _LINE_TYPES]
    except (msgspec.ValidationError, RecursionError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a line of stream-json: {fault}") from fault


def token_count(holder: Any, name: str) -> int | None:
    """A member of `holder` that is a count of tokens; None for anything else."""
    if not isinstance(holder, dict):
        return None
    return as_count(holder.get(name), MAX_TOKENS)


def number(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


@dataclass(slots=True)
class StreamedToolCall:
    """A call of a tool as far as it has been streamed."""

    name: str
    arguments: list[str] = field(default_factory=list)
    """The pieces of its arguments."""


@dataclass(kw_only=True)
class ClaudeStream:
    """Reads one call's stdout, and reports the call to `sink`."""

    sink: Sink = field(kw_only=False)
    started_ns: int
    tools: Mapping[str, str] = field(default_factory=dict)
    """The tools on offer: the CLI's name for each, and ours."""
    max_turns: int = 1
    is_task: bool = False

    # What was seen apart from the answer itself: all there is to judge the call by, with the exit
    # code.
    result: ResultLine | None = None
    error: AssistantLine | None = None
    limit: dict[str, Any] | None = None
    cut_reason: str | None = None
    """Why reading ended before the CLI did: what it does next is not part of the call."""
    tools_refused: str | None = None
    """How the CLI did not take the tools on offer."""
    plain_text: str = ""
    """The first line that was no stream-json."""
    replies: int = 0
    """How many replies began."""
    turns_ended: int = 0
    """How many replies ended and were followed by tools."""
    reply_open: bool = False
    """Whether a reply is under way."""
    calls: dict[str, StreamedToolCall] = field(default_factory=dict)
    """The calls of tools by id."""
    last_output_ns: int | None = None
    """When the last piece of text, thinking or a call came."""

    _stopped_ns: int | None = None
    # What the reply under way has in it.
    _has_text: bool = False
    _has_call: bool = False
    _tool_blocks: dict[int, Block] = field(default_factory=dict)
    # The ids of messages that came in pieces, and of those that came whole.
    _streamed_ids: set[str | None] = field(default_factory=set)
    _whole_ids: set[str | None] = field(default_factory=set)
    # The counts of the reply under way, and the sums of those before it.
    _usage: dict[str, Any] = field(default_factory=dict)
    _past_usage: Counter[str] = field(default_factory=Counter)
    _model: str | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more is to be read."""
        return (
            self.result is not None or self.cut_reason is not None or self.tools_refused is not None
        )

    @property
    def clock_runs(self) -> bool:
        """Whether the answer is still coming.

        It is whole before `done` where only the tools and the CLI's sums are missing.
        """
        return self._stopped_ns is None

    def settle(self) -> None:
        """Take note that nothing more comes: a whole answer does not need the CLI's last word."""
        if not self.done and not self.clock_runs:
            self.cut_reason = "tool_use"

    def feed(self, at_ns: int, raw: bytes) -> None:
        """Take one line of stdout, which arrived at `at_ns`.

        A line that cannot be read is never fatal.
        """
        if self.done or not raw.strip():
            return
        try:
            lines = decode_line(raw)
        except ValueError:
            if not self.plain_text:
                self.plain_text = raw.decode("utf-8", "replace")[:PLAIN_TEXT_CHARS]
            return
        for line in lines:
            match line:
                case StreamLine(event=event, parent_tool_use_id=None):
                    self.take_event(at_ns, event)
                case AssistantLine(parent_tool_use_id=None):
                    self.take_message(at_ns, line)
                case ResultLine():
                    self._take_result(at_ns, line)
                case SystemLine(subtype="init") if self.tools:
                    self._check_tools(line)
                case LimitLine(rate_limit_info={"status": "rejected"} as limit):
                    self.limit = limit

    def _check_tools(self, line: SystemLine) -> None:
        """A model that is not shown the tools must not be judged by them."""
        shown_tools = line.tools if isinstance(line.tools, list) else []
        missing_tools = [name for name in self.tools if name not in shown_tools]
        if missing_tools:
            counts = f"{len(missing_tools)} of {len(self.tools)}"
            self.tools_refused = f"{counts} are missing, servers {line.mcp_servers}"

    def take_event(self, at_ns: int, event: ApiEvent) -> None:
        """Take one event of the Messages API's stream."""
        match event.type:
            case "message_start" if event.message is not None:
                self._streamed_ids.add(event.message.id)
                self._begin_reply(at_ns, event.message)
            case "content_block_start" if event.content_block is not None:
                self._begin_block(at_ns, event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                self._take_delta(at_ns, event.index, event.delta)
            case "content_block_stop":
                block = self._tool_blocks.get(event.index)
                if block is not None and block.id not in self.calls:
                    # A call without arguments.
                    self._report_call(at_ns, event.index, None)
            case "message_delta":
                self.note_usage(event.usage)
                # Without a reason it was made up by the CLI, for a stream that broke.
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._end_reply(at_ns, event.delta.stop_reason)

    def _begin_reply(self, at_ns: int, message: Message) -> None:
        if self.tools and self.replies >= self.max_turns:
            self._cut(at_ns, "max_turns")
            return
        self.replies += 1
        self.reply_open = True
        self._has_text = False
        self._has_call = False
        self._tool_blocks.clear()
        self._note_model(message.model)
        for name in _TOKEN_COUNTS:
            self._past_usage[name] += token_count(self._usage, name) or 0
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
            self._report_output(at_ns, text=block.text, thinking=block.thinking)

    def _take_delta(self, at_ns: int, index: int, delta: Block) -> None:
        self._report_output(at_ns, text=delta.text, thinking=delta.thinking)
        if delta.signature:
            # Thinking that Anthropic signs may be shown as a summary, and is counted as what it
            # was.
            self.sink.note(reasoning_streamed=False)
        if delta.partial_json:
            self._report_call(at_ns, index, delta.partial_json)

    def _end_reply(self, at_ns: int, stop_reason: str) -> None:
        self.reply_open = False
        self.finish(stop_reason)
        if self.tools and self._has_call and stop_reason in _CALLS_TOOLS:
            self.turns_ended += 1
            self.report_usage()
            if self.replies >= self.max_turns:
                # The tools still answer, but no model will read it.
                self._stop_clock(at_ns)
        elif stop_reason in _ASKS_AGAIN or not self._has_text:
            self._cut(at_ns, stop_reason)

    def _report_output(self, at_ns: int, *, text: str | None, thinking: str | None) -> None:
        if thinking or text:
            self.last_output_ns = at_ns
        if thinking:
            self.sink.reasoning(at_ns, thinking)
        if text:
            self._has_text = True
            self.sink.text(at_ns, text)

    def _report_call(self, at_ns: int, index: int, arguments: str | None) -> None:
        """Report a piece of the call in the block with this index.

        Without `arguments` it is the whole call, as its block has it.
        """
        self.last_output_ns = at_ns
        self._has_call = True
        block = self._tool_blocks.get(index) or Block(id=str(index))
        call_id = block.id or ""
        name = None
        if call_id not in self.calls:
            name = self.tools.get(block.name or "", block.name)
            self.calls[call_id] = StreamedToolCall(name or "")
        if arguments is None and block.input:
            arguments = json.dumps(block.input)
        if arguments:
            self.calls[call_id].arguments.append(arguments)
        self.sink.tool_delta(at_ns, call_id, name, arguments)

    def _cut(self, at_ns: int, reason: str) -> None:
        """End the call here, whatever the CLI goes on with."""
        self.cut_reason = reason
        self.report_usage()
        self._stop_clock(at_ns)

    def _stop_clock(self, at_ns: int) -> None:
        if self._stopped_ns is None:
            self._stopped_ns = at_ns
            self.sink.end(at_ns)

    def take_message(self, at_ns: int, line: AssistantLine) -> None:
        """Take a whole message, block by block.

        It repeats what deltas had, and is all there is from an older CLI.
        """
        message = line.message
        is_synthetic = message.model == SYNTHETIC_MODEL
        if line.error is not None or line.is_api_error_message or is_synthetic:
            self.error = line
            return
        if message.id in self._streamed_ids:
            return
        if self.last_output_ns is None:
            self.sink.note(first_token_captured=False)
        if message.id not in self._whole_ids:
            self._whole_ids.add(message.id)
            self._begin_reply(at_ns, message)
            if self.done:
                return
        for index, block in enumerate(message.content):
            self._begin_block(at_ns, index, block)
            if block.type == "tool_use":
                self._report_call(at_ns, index, None)

    def _take_result(self, at_ns: int, line: ResultLine) -> None:
        self.result = line
        if line.result and not line.is_error and self.last_output_ns is None:
            self.sink.note(first_token_captured=False)
            self._report_output(at_ns, text=line.result, thinking=None)
        self._finish_with_result(line)
        # Its own sums stand for everything noted before; zeros are the CLI's filler.
        if token_count(line.usage, "input_tokens") or token_count(line.usage, "output_tokens"):
            self._usage = dict(line.usage)
            self._past_usage = Counter()
        self.report_usage()
        self._report_models_and_cost(line)
        self._stop_clock(at_ns)
        self._report_overhead(at_ns, line)

    def _finish_with_result(self, line: ResultLine) -> None:
        is_refusal = line.stop_reason == "refusal"
        if line.stop_reason is not None and (is_refusal or not line.is_error):
            self.finish(line.stop_reason, line.result if line.is_error else None)
        elif line.api_error == "max_output_tokens":
            self.finish("max_tokens")
        elif line.turns_spent:
            self.finish("tool_use")

    def _report_models_and_cost(self, line: ResultLine) -> None:
        usage_by_model = line.model_usage if isinstance(line.model_usage, dict) else {}
        if len(usage_by_model) == 1:
            self._note_model(next(iter(usage_by_model)))
        cost_usd = number(line.total_cost_usd)
        if cost_usd is None:
            return
        for usage in usage_by_model.values():
            if isinstance(usage, dict) and usage.get("costBasis") == "unknown":
                # For a model it does not know, the CLI makes a price up.
                return
        self.sink.note(cost_usd=cost_usd)

    def _report_overhead(self, at_ns: int, line: ResultLine) -> None:
        """Report what the CLI itself took.

        It is not known on errors (API time 0), nor where side calls add to API time.
        """
        api_ms = number(line.duration_api_ms)
        if not api_ms:
            return
        stopped_ns = self._stopped_ns or at_ns
        overhead_ms = (stopped_ns - self.started_ns) / 1e6 - api_ms
        if overhead_ms >= 0:
            self.sink.note(cli_overhead_ms=round(overhead_ms))

    def note_usage(self, usage: Any) -> None:
        """Take counts of the reply under way.

        The API repeats them as they grow, and leaves out what did not change.
        """
        if not isinstance(usage, dict):
            return
        for name, value in usage.items():
            if value is not None:
                self._usage[name] = value

    def report_usage(self) -> None:
        """Report the counts over all replies so far.

        A count that the reply under way does not have is not reported.
        """
        totals = {}
        for name in _TOKEN_COUNTS:
            n_tokens = token_count(self._usage, name)
            if n_tokens is not None:
                totals[name] = n_tokens + self._past_usage[name]
        # What was read from the cache or put into it was read as well, and is not in the server's
        # count.
        input_tokens = None
        if "input_tokens" in totals:
            input_tokens = sum(totals.values()) - totals.get("output_tokens", 0)
        output_details = self._usage.get("output_tokens_details")
        self.sink.usage(
            input_tokens=input_tokens,
            output_tokens=totals.get("output_tokens"),
            cached_tokens=totals.get("cache_read_input_tokens"),
            reasoning_tokens=token_count(output_details, "thinking_tokens"),
        )

    def finish(self, stop_reason: str, refusal: str | None = None) -> None:
        """Report why the model stopped. `refusal` are its words, where it refused with any."""
        self.sink.finish(_FINISH_REASONS.get(stop_reason, stop_reason))
        if stop_reason == "refusal":
            self.sink.note(refusal=refusal or "the model stopped with stop_reason refusal")

    def _note_model(self, model: str | None) -> None:
        if self._model is None and model and model != SYNTHETIC_MODEL:
            self._model = model
            self.sink.note(model_reported=model)
