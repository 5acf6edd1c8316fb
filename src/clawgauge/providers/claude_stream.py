"""Claude Code's stream-json, line by line, as calls on a `Sink` and one outcome.

Owns: what is model text and what is the CLI's own, which reply counts, tokens, cost and the end of the clock. Refuses:
processes, clocks (each line comes with its stamp) and verdicts; what an error means is decided in `claude_failures`.

One call is one reply. The CLI answers some ends of a reply by asking the model again in words of its own ("Output token
limit hit. Resume directly…"): such an end is the end of the call (`StreamOutcome.cut`), and the CLI has to be stopped.

`input_tokens` is the whole prompt: the API's uncached, cache-read and cache-written tokens together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from clawgauge.providers.base import Sink
from clawgauge.providers.claude_wire import (
    SYNTHETIC_MODEL,
    ApiEvent,
    AssistantLine,
    ContentBlock,
    LimitInfo,
    LimitLine,
    Line,
    Message,
    ResultLine,
    StreamLine,
    count,
    decode_line,
    number,
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


@dataclass(slots=True)
class StreamOutcome:
    """What was seen apart from the answer itself: all there is to judge the call by, with the exit code."""

    result: ResultLine | None = None
    error: AssistantLine | None = None
    limit: LimitInfo | None = None
    cut: str | None = None
    replies: int = 0
    bad_lines: int = 0
    plain_text: str = ""


class ClaudeStream:
    """Reads one call's stdout. `done` says that nothing after this line counts."""

    def __init__(self, sink: Sink, *, started_ns: int) -> None:
        self.outcome = StreamOutcome()
        self._sink = sink
        self._started_ns = started_ns
        self._streamed_ids: set[str | None] = set()
        self._whole_ids: set[str | None] = set()
        self._pending_tools: dict[int, ContentBlock] = {}
        self._tool_ids: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._model: str | None = None
        self._said_anything = False
        self._said_text = False

    @property
    def done(self) -> bool:
        return self.outcome.result is not None or self.outcome.cut is not None

    def feed(self, at_ns: int, raw: bytes) -> None:
        """Take one line of stdout, which arrived at `at_ns`. Lines that cannot be read are counted, never fatal."""
        if self.done or not raw.strip():
            return
        try:
            lines = decode_line(raw)
        except ValueError:
            self.outcome.bad_lines += 1
            self.outcome.plain_text = self.outcome.plain_text or raw.decode("utf-8", "replace")[:PLAIN_TEXT_CHARS]
            return
        for line in lines:
            self._take(at_ns, line)

    def _take(self, at_ns: int, line: Line) -> None:
        match line:
            case StreamLine(event=event, parent_tool_use_id=None):
                self._take_event(at_ns, event)
            case AssistantLine(parent_tool_use_id=None):
                self._take_message(at_ns, line)
            case ResultLine():
                self._take_result(at_ns, line)
            case LimitLine(rate_limit_info=limit) if limit.status == "rejected":
                self.outcome.limit = limit

    def _take_event(self, at_ns: int, event: ApiEvent) -> None:
        match event.type:
            case "message_start" if event.message is not None:
                self._begin_reply(event.message)
                self._streamed_ids.add(event.message.id)
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
                self._note_usage(event.usage)
                self._end_reply(at_ns, event.delta.stop_reason if event.delta else None)

    def _begin_reply(self, message: Message) -> None:
        self.outcome.replies += 1
        self._said_text = False
        self._pending_tools.clear()
        self._note_model(message.model)
        self._note_usage(message.usage)

    def _begin_block(self, at_ns: int, index: int, block: ContentBlock) -> None:
        if block.type == "tool_use":
            self._pending_tools[index] = block
            # Indexes start again with each reply; ids do not.
            self._tool_ids[index] = block.id or f"{self.outcome.replies}.{index}"
        else:
            self._say(at_ns, text=block.text, thinking=block.thinking)

    def _say(self, at_ns: int, *, text: str | None, thinking: str | None) -> None:
        if thinking:
            self._said_anything = True
            self._sink.reasoning(at_ns, thinking)
        if text:
            self._said_anything = self._said_text = True
            self._sink.text(at_ns, text)

    def _call_tool(self, at_ns: int, index: int, arguments: str | None) -> None:
        self._said_anything = True
        block = self._pending_tools.pop(index, None)
        name = block.name if block else None
        if arguments is None and block is not None and block.input:
            arguments = json.dumps(block.input)
        self._sink.tool_delta(at_ns, self._tool_ids.get(index, index), name, arguments)

    def _end_reply(self, at_ns: int, stop_reason: str | None) -> None:
        if stop_reason is None:  # made up by the CLI for a stream that broke
            return
        self._finish(stop_reason)
        if stop_reason in ASKS_AGAIN or not self._said_text:
            self.outcome.cut = stop_reason
            self._report_usage()
            self._sink.end(at_ns)

    def _take_message(self, at_ns: int, line: AssistantLine) -> None:
        """A whole message, block by block: a repetition where deltas were seen, all there is from an older CLI."""
        if line.is_synthetic:
            self.outcome.error = line
            return
        if line.message.id in self._streamed_ids:
            return
        if not self._said_anything:
            self._sink.note(first_token_captured=False)
        if line.message.id not in self._whole_ids:
            self._whole_ids.add(line.message.id)
            self._begin_reply(line.message)
        for index, block in enumerate(line.message.content):
            self._begin_block(at_ns, index, block)
            if block.type == "tool_use":
                self._call_tool(at_ns, index, None)

    def _take_result(self, at_ns: int, line: ResultLine) -> None:
        self.outcome.result = line
        if not line.is_error and line.result and not self._said_anything:
            self._sink.note(first_token_captured=False)
            self._say(at_ns, text=line.result, thinking=None)
        if line.stop_reason is not None and (line.stop_reason == "refusal" or not line.is_error):
            self._finish(line.stop_reason, line.result if line.is_error else None)
        elif line.api_error == "max_output_tokens":
            self._finish("max_tokens")
        if any(count(line.usage, name) for name in ("input_tokens", "output_tokens")):  # zeros are the CLI's filler
            self._usage = dict(line.usage)
        self._report_usage()
        if isinstance(line.model_usage, dict) and len(line.model_usage) == 1:
            self._note_model(next(iter(line.model_usage)))
        self._note_cost(line)
        self._note_overhead(at_ns, line)
        self._sink.end(at_ns)

    def _finish(self, stop_reason: str, words: str | None = None) -> None:
        self._sink.finish(FINISH_REASONS.get(stop_reason, stop_reason))
        if stop_reason == "refusal":
            self._sink.note(refusal=words or "the model stopped with stop_reason refusal")

    def _note_model(self, model: str | None) -> None:
        if self._model is None and model and model != SYNTHETIC_MODEL:
            self._model = model
            self._sink.note(model_reported=model)

    def _note_usage(self, usage: Any) -> None:
        """The API repeats its counts as they grow, and leaves out what did not change."""
        if isinstance(usage, dict):
            self._usage.update({name: value for name, value in usage.items() if value is not None})

    def _report_usage(self) -> None:
        uncached, cached = count(self._usage, "input_tokens"), count(self._usage, "cache_read_input_tokens")
        prompt = None
        if uncached is not None:
            prompt = uncached + (cached or 0) + (count(self._usage, "cache_creation_input_tokens") or 0)
        self._sink.usage(
            input_tokens=prompt,
            output_tokens=count(self._usage, "output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=count(self._usage.get("output_tokens_details"), "thinking_tokens"),
        )

    def _note_cost(self, line: ResultLine) -> None:
        cost = number(line.total_cost_usd)
        models = line.model_usage.values() if isinstance(line.model_usage, dict) else ()
        guessed = any(isinstance(entry, dict) and entry.get("costBasis") == "unknown" for entry in models)
        if cost is not None and not guessed:  # for a model it does not know, the CLI makes a price up
            self._sink.note(cost_usd=cost)

    def _note_overhead(self, at_ns: int, line: ResultLine) -> None:
        """What the CLI itself cost. Not derivable on errors (API time 0), nor where side calls add to API time."""
        api_ms = number(line.duration_api_ms)
        overhead_ms = (at_ns - self._started_ns) / 1e6 - (api_ms or 0.0)
        if api_ms and overhead_ms >= 0:
            self._sink.note(cli_overhead_ms=round(overhead_ms))
