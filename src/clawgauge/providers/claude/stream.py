"""Claude Code's stream-json as typed lines, folded into calls on a `Sink`, token counts and one outcome."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
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
    stop_reason: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[Block] = []
    usage: Any = None


class ApiEvent(msgspec.Struct):
    """One event of the Messages API's own stream, passed on by the CLI."""

    type: str = ""
    index: int = 0
    message: Message | None = None
    content_block: Block | None = None
    delta: Block | None = None
    usage: Any = None


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
    """What a line of stdout holds: nothing for kinds we do not use. Raises `ValueError` for what cannot be read.

    For what a strict decoder refuses, the standard library reads lone surrogates, and with `replace` any byte;
    `--output-format json` wraps a list.
    """
    try:
        return [_decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in items):
            raise ValueError("not an object")
        return [msgspec.convert(item, Line) for item in items if item.get("type") in _KINDS]
    except (msgspec.ValidationError, RecursionError, TypeError) as fault:
        raise ValueError(f"not a line of stream-json: {fault}") from fault


def count(holder: Any, name: str) -> int | None:
    """The token count of that name, where there is one."""
    return as_count(holder.get(name), MAX_TOKENS) if isinstance(holder, dict) else None


def number(value: Any) -> float | None:
    """A finite, non-negative number, or None."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    return None


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class TokenTally:
    """The counts of the reply under way, and the sums of those before it."""

    def __init__(self) -> None:
        self._current: dict[str, Any] = {}
        self._before: Counter[str] = Counter()

    def next_reply(self) -> None:
        self._before.update({name: count(self._current, name) or 0 for name in _COUNTS})
        self._current.clear()

    def note(self, usage: Any) -> None:
        """Counts of the reply under way. The API repeats them as they grow, and leaves out what did not change."""
        if isinstance(usage, dict):
            self._current.update({name: value for name, value in usage.items() if value is not None})

    def settle(self, usage: Any) -> None:
        """The CLI's own sums, which stand for everything noted before."""
        if any(count(usage, name) for name in ("input_tokens", "output_tokens")):  # zeros are the CLI's filler
            self._current = dict(usage)
            self._before.clear()

    def report(self, sink: Sink) -> None:
        """The counts over all replies so far; what the one under way does not tell is not told."""
        told = {name: count(self._current, name) for name in _COUNTS}
        totals = {name: n + self._before[name] for name, n in told.items() if n is not None}
        cached, created = totals.get("cache_read_input_tokens"), totals.get("cache_creation_input_tokens")
        uncached = totals.get("input_tokens")
        sink.usage(
            input_tokens=None if uncached is None else uncached + (cached or 0) + (created or 0),
            output_tokens=totals.get("output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=count(self._current.get("output_tokens_details"), "thinking_tokens"),
        )


PLAIN_TEXT_CHARS = 2000

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
ASKS_AGAIN = frozenset({"max_tokens", "model_context_window_exceeded", "tool_use", "refusal"})
# A server that is not Anthropic's may end a reply with calls as if it were any other.
_CALLS_TOOLS = frozenset({"tool_use", "end_turn"})


@dataclass(slots=True)
class StreamOutcome:
    """What was seen apart from the answer itself: all there is to judge the call by, with the exit code.

    `replies` counts those that began, `turns_ended` those that ended and were followed by tools; `reply_open` is true
    in the middle of one.
    """

    result: ResultLine | None = None
    error: AssistantLine | None = None
    limit: dict[str, Any] | None = None
    cut: str | None = None
    tools_refused: str | None = None
    replies: int = 0
    reply_open: bool = False
    turns_ended: int = 0
    plain_text: str = ""


class ClaudeStream:
    """Reads one call's stdout. `done` says that nothing after this line counts.

    `calls` are the tools' calls by id, each with its name and the pieces of its arguments; `last_said_ns` is when the
    model was last heard, and when the call began where it was not.
    `tools` are those on offer: the CLI's name for each, and ours. `max_turns` is what the CLI was told.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        started_ns: int,
        tools: Mapping[str, str] | None = None,
        max_turns: int = 1,
        is_task: bool = False,
    ) -> None:
        self.outcome = StreamOutcome()
        self.calls: dict[str, tuple[str, list[str]]] = {}
        self.last_said_ns = started_ns
        self.said_anything = False
        self._sink = sink
        self._started_ns = started_ns
        self._tools = tools or {}
        self._max_turns = max_turns
        self._is_task = is_task
        self._stopped_ns: int | None = None
        self._called_tool = False
        self._streamed_ids: set[str | None] = set()
        self._whole_ids: set[str | None] = set()
        self._pending_tools: dict[int, Block] = {}
        self._tool_ids: dict[int, str] = {}
        self._tokens = TokenTally()
        self._model: str | None = None
        self._said_text = False

    @property
    def done(self) -> bool:
        outcome = self.outcome
        return outcome.result is not None or outcome.cut is not None or outcome.tools_refused is not None

    @property
    def clock_runs(self) -> bool:
        """Whether the answer is still coming. It is whole before `done` where only the tools and the CLI's sums are."""
        return self._stopped_ns is None

    def settle(self) -> None:
        """Nothing more comes. An answer that is whole does not need the CLI's last word."""
        if not self.done and not self.clock_runs:
            self.outcome.cut = "tool_use"

    def feed(self, at_ns: int, raw: bytes) -> None:
        """Take one line of stdout, which arrived at `at_ns`. A line that cannot be read is never fatal."""
        if self.done or not raw.strip():
            return
        try:
            lines = decode_line(raw)
        except ValueError:
            self.outcome.plain_text = self.outcome.plain_text or raw.decode("utf-8", "replace")[:PLAIN_TEXT_CHARS]
            return
        for line in lines:
            match line:
                case StreamLine(event=event, parent_tool_use_id=None):
                    self._take_event(at_ns, event)
                case AssistantLine(parent_tool_use_id=None):
                    self._take_message(at_ns, line)
                case ResultLine():
                    self._take_result(at_ns, line)
                case SystemLine(subtype="init", tools=tools, mcp_servers=servers) if self._tools:
                    shown = tools if isinstance(tools, list) else []
                    # A model that is not shown the tools must not be judged by them.
                    if missing := [name for name in self._tools if name not in shown]:
                        words = f"{len(missing)} of {len(self._tools)} are missing, servers {servers}"
                        self.outcome.tools_refused = words
                case LimitLine(rate_limit_info={"status": "rejected"} as limit):
                    self.outcome.limit = limit

    def _take_event(self, at_ns: int, event: ApiEvent) -> None:
        match event.type:
            case "message_start" if event.message is not None:
                self._streamed_ids.add(event.message.id)
                self._begin_reply(at_ns, event.message)
            case "content_block_start" if event.content_block is not None:
                self._begin_block(at_ns, event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                self._say(at_ns, text=event.delta.text, thinking=event.delta.thinking)
                if event.delta.partial_json:
                    self._call_tool(at_ns, event.index, event.delta.partial_json)
            case "content_block_stop":
                if event.index in self._pending_tools:
                    self._call_tool(at_ns, event.index, None)
            case "message_delta":
                self._tokens.note(event.usage)
                self._end_reply(at_ns, event.delta.stop_reason if event.delta else None)

    def _begin_reply(self, at_ns: int, message: Message) -> None:
        if self._tools and self.outcome.replies >= self._max_turns:
            self._cut(at_ns, "max_turns")
            return
        self.outcome.replies += 1
        self.outcome.reply_open = True
        self._said_text = self._called_tool = False
        self._pending_tools.clear()
        self._note_model(message.model)
        self._tokens.next_reply()
        self._tokens.note(message.usage)
        if self._is_task:
            self._sink.turn()

    def _begin_block(self, at_ns: int, index: int, block: Block) -> None:
        if block.type == "tool_use":
            self._pending_tools[index] = block
            # Indexes start again with each reply; ids do not.
            self._tool_ids[index] = block.id or f"{self.outcome.replies}.{index}"
        else:
            self._say(at_ns, text=block.text, thinking=block.thinking)

    def _say(self, at_ns: int, *, text: str | None, thinking: str | None) -> None:
        if thinking or text:
            self.said_anything, self.last_said_ns = True, at_ns
        if thinking:
            self._sink.reasoning(at_ns, thinking)
        if text:
            self._said_text = True
            self._sink.text(at_ns, text)

    def _call_tool(self, at_ns: int, index: int, arguments: str | None) -> None:
        self.said_anything, self.last_said_ns = True, at_ns
        self._called_tool = True
        block = self._pending_tools.pop(index, None)
        name = self._tools.get(block.name or "", block.name) if block else None
        if arguments is None and block is not None and block.input:
            arguments = json.dumps(block.input)
        call_id = self._tool_ids.get(index, str(index))
        _, fragments = self.calls.setdefault(call_id, (name or "", []))
        if arguments:
            fragments.append(arguments)
        self._sink.tool_delta(at_ns, call_id, name, arguments)

    def _end_reply(self, at_ns: int, stop_reason: str | None) -> None:
        if stop_reason is None:  # made up by the CLI for a stream that broke
            return
        self.outcome.reply_open = False
        self._finish(stop_reason)
        if self._tools and self._called_tool and stop_reason in _CALLS_TOOLS:
            self.outcome.turns_ended += 1
            self._tokens.report(self._sink)
            if self.outcome.replies >= self._max_turns:
                # The tools still answer, but no model will read it.
                self._stop_clock(at_ns)
        elif stop_reason in ASKS_AGAIN or not self._said_text:
            self._cut(at_ns, stop_reason)

    def _cut(self, at_ns: int, why: str) -> None:
        self.outcome.cut = why
        self._tokens.report(self._sink)
        self._stop_clock(at_ns)

    def _stop_clock(self, at_ns: int) -> None:
        if self._stopped_ns is None:
            self._stopped_ns = at_ns
            self._sink.end(at_ns)

    def _take_message(self, at_ns: int, line: AssistantLine) -> None:
        """A whole message, block by block: a repetition where deltas were seen, all there is from an older CLI."""
        if line.error is not None or line.is_api_error_message or line.message.model == SYNTHETIC_MODEL:
            self.outcome.error = line
            return
        if line.message.id in self._streamed_ids:
            return
        if not self.said_anything:
            self._sink.note(first_token_captured=False)
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
        self.outcome.result = line
        if not line.is_error and line.result and not self.said_anything:
            self._sink.note(first_token_captured=False)
            self._say(at_ns, text=line.result, thinking=None)
        if line.stop_reason is not None and (line.stop_reason == "refusal" or not line.is_error):
            self._finish(line.stop_reason, line.result if line.is_error else None)
        elif line.api_error == "max_output_tokens":
            self._finish("max_tokens")
        elif line.turns_spent:
            self._finish("tool_use")
        self._tokens.settle(line.usage)
        self._tokens.report(self._sink)
        models = line.model_usage if isinstance(line.model_usage, dict) else {}
        if len(models) == 1:
            self._note_model(next(iter(models)))
        cost = number(line.total_cost_usd)
        guessed = any(isinstance(entry, dict) and entry.get("costBasis") == "unknown" for entry in models.values())
        if cost is not None and not guessed:  # for a model it does not know, the CLI makes a price up
            self._sink.note(cost_usd=cost)
        self._stop_clock(at_ns)
        # What the CLI itself cost. Not derivable on errors (API time 0), nor where side calls add to API time.
        api_ms = number(line.duration_api_ms)
        overhead_ms = ((self._stopped_ns or at_ns) - self._started_ns) / 1e6 - (api_ms or 0.0)
        if api_ms and overhead_ms >= 0:
            self._sink.note(cli_overhead_ms=round(overhead_ms))

    def _finish(self, stop_reason: str, words: str | None = None) -> None:
        self._sink.finish(FINISH_REASONS.get(stop_reason, stop_reason))
        if stop_reason == "refusal":
            self._sink.note(refusal=words or "the model stopped with stop_reason refusal")

    def _note_model(self, model: str | None) -> None:
        if self._model is None and model and model != SYNTHETIC_MODEL:
            self._model = model
            self._sink.note(model_reported=model)
