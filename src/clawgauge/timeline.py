"""Folds what an attempt reported, stamp by stamp, into one completion: the `Sink` of a provider, and the only place
that knows what a first token is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks.answer import answer_start
from clawgauge.checks.json import JsonRefused, decode_strictly
from clawgauge.checks.validators import MAX_INVOCATIONS
from clawgauge.errors import CallFailure
from clawgauge.records import MAX_TOKENS, Attempt, Load, ToolInvocation, TranscriptTurn

_MAX_NAME_CHARS = 256
# A server that claims more was not counting what it sent.
_MAX_TOKENS_PER_S = 1e9
_MAX_WARNINGS = 20
_NOTED = frozenset({"model_reported", "cost_usd", "cli_overhead_ms", "server_ns"})
TOKEN_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
NOT_EXECUTED = "(not executed)"


class Completion(msgspec.Struct):
    """One attempt as it was seen, whole or broken off. Durations are nanoseconds from the clock's start.

    From `failure` on the runner adds what came of asking, with every try in order. The wall-clock labels are the final
    attempt's; `total_ns` is what the user waited in all, `lag_ns` how late our own loop was, None where nothing was
    sent. `prefix` is the line the prompt was sent with. The pieces of the text came at `stamps_ns`."""

    text: str = ""
    reasoning_text: str = ""
    native_calls: list[ToolInvocation] = []
    started: bool = False
    e2e_ns: int = 0
    ttft_ns: int | None = None
    ttfa_ns: int | None = None
    connect_ns: int | None = None
    output_tps: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    model_reported: str | None = None
    refusal: str = ""
    cost_usd: float | None = None
    cli_overhead_ms: int | None = None
    warnings: list[str] = []
    transcript: list[TranscriptTurn] | None = None
    server_ns: dict[str, int] | None = None
    failure: CallFailure | None = None
    started_at_ms: int = 0
    ended_at_ms: int = 0
    attempts: list[Attempt] = []
    lag_ns: int | None = None
    total_ns: int = 0
    streamed: bool = False
    cold_start: bool | None = None
    prefix: str | None = None
    start_ns: int = 0
    stamps_ns: list[int] = []
    load: Load | None = None


@dataclass(slots=True)
class Timeline:
    """Collects one attempt. Hot path: `text` and `reasoning` only append."""

    # What is told as it will be recorded.
    _told: Completion = field(default_factory=Completion)
    _start_ns: int | None = None
    _end_ns: int | None = None
    _text: list[str] = field(default_factory=list)
    _stamps: list[int] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _first_reasoning_ns: int | None = None
    _first_tool_ns: int | None = None
    _last_ns: int | None = None
    _n_chunks: int = 0
    _calls: dict[int | str, tuple[dict[str, None], list[str]]] = field(default_factory=dict)
    _turns: list[tuple[int, int]] = field(default_factory=list)
    _answers: dict[int | str, str] = field(default_factory=dict)
    _captured: bool = True
    _refusal: list[str] = field(default_factory=list)

    def start(self, at_ns: int) -> None:
        self._start_ns = at_ns

    def connected(self, took_ns: int | None) -> None:
        self._told.connect_ns = took_ns

    def text(self, at_ns: int, piece: str) -> None:
        if piece:
            self._text.append(piece)
            self._stamps.append(at_ns)
            self._last_ns = at_ns
            self._n_chunks += 1

    def reasoning(self, at_ns: int, piece: str) -> None:
        if piece:
            if self._first_reasoning_ns is None:
                self._first_reasoning_ns = at_ns
            self._reasoning.append(piece)
            self._seen(at_ns)

    def tool_delta(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        if self._first_tool_ns is None:
            self._first_tool_ns = at_ns
        # As many as are judged: a call left out here could hide what it did from the verdict on a task.
        if index not in self._calls and len(self._calls) >= MAX_INVOCATIONS:
            return
        names, fragments = self._calls.setdefault(index, ({}, []))
        if name:
            names[name] = None
        if arguments:
            fragments.append(arguments)
        self._seen(at_ns)

    def tool_whole(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        if index not in self._calls:
            self.tool_delta(at_ns, index, name, arguments)
            return
        names, fragments = self._calls[index]
        if name:
            names.clear()
            names[name] = None
        if arguments:
            if not fragments:
                self._seen(at_ns)
            fragments[:] = [arguments]

    def turn(self) -> None:
        self._turns.append((len(self._text), len(self._calls)))

    def tool_answer(self, index: int | str, answer: str) -> None:
        self._answers[index] = answer

    def _seen(self, at_ns: int) -> None:
        self._last_ns = at_ns
        self._n_chunks += 1

    def usage(self, **counts: int | None) -> None:
        for name in TOKEN_COUNTS:
            # A provider may pass on whatever a server sends.
            if type(n := counts.get(name)) is int and 0 <= n < MAX_TOKENS:
                setattr(self._told, name, n)

    def finish(self, reason: str | None) -> None:
        if reason:
            self._told.finish_reason = reason

    def note(self, **facts: Any) -> None:
        if facts.pop("first_token_captured", True) is False:
            self._captured = False
        if refusal := facts.pop("refusal", None):
            self._refusal.append(str(refusal))
        # A server may give cause for the same one with every token.
        warnings = self._told.warnings
        if (warning := str(facts.pop("warning", None) or "")) and len(warnings) < _MAX_WARNINGS:
            warnings += [warning] if warning not in warnings else []
        for name in _NOTED & facts.keys():
            setattr(self._told, name, facts[name])

    def end(self, at_ns: int) -> None:
        self._end_ns = at_ns

    @property
    def n_chars(self) -> int:
        fragments = sum(len(part) for _, parts in self._calls.values() for part in parts)
        return sum(map(len, self._text)) + sum(map(len, self._reasoning)) + fragments

    def fold(self, now_ns: int) -> Completion:
        """The attempt as seen so far. `now_ns` ends the clock of an attempt that was cut off before its own end."""
        start, text = self._start_ns, "".join(self._text)
        calls = [_invocation(names, parts) for names, parts in self._calls.values()]
        done = msgspec.structs.replace(self._told, text=text, native_calls=calls)
        done.reasoning_text, done.refusal = "".join(self._reasoning), "".join(self._refusal)
        if self._turns:
            self._tell_turns(done)
        if start is None:
            return done
        done.started, done.start_ns, done.stamps_ns = True, start, self._stamps
        # A clock that starts after its end (a reply faster than the send callback) is zero, never negative.
        ended_ns = self._end_ns if self._end_ns is not None else now_ns
        # A process may be seen to exit before its last line is read: the answer ends with its last delta at the least.
        done.e2e_ns = max(0, max(ended_ns, self._last_ns or 0) - start)
        if not self._captured:
            return done
        answers_ns = [] if self._first_tool_ns is None else [self._first_tool_ns]
        firsts_ns = [*self._stamps[:1], *answers_ns]
        if self._first_reasoning_ns is not None:
            firsts_ns.append(self._first_reasoning_ns)
        if (offset := answer_start(text)) is not None:
            # It is nearly always in the first piece; thinking is why it may not be.
            ends = [] if offset < len(self._text[0]) else list(accumulate(map(len, self._text)))
            answers_ns.append(self._stamps[bisect_right(ends, offset)])
        if firsts_ns:
            first_ns, last_ns, tokens = min(firsts_ns), self._last_ns or 0, done.output_tokens or 0
            done.ttft_ns = max(0, first_ns - start)
            if self._first_reasoning_ns is None:
                # Reasoning that was counted but never shown took its time before the first token we saw.
                tokens -= done.reasoning_tokens or 0
            # The server's own count, over a span with two chunks in it at least. Between the turns of a task no token
            # is made: the span from first to last would not be theirs.
            if tokens >= 2 and self._n_chunks >= 2 and last_ns > first_ns and len(self._turns) < 2:
                rate = round((tokens - 1) * 1e9 / (last_ns - first_ns), 3)
                done.output_tps = rate if rate < _MAX_TOKENS_PER_S else None
        if answers_ns:
            done.ttfa_ns = max(0, min(answers_ns) - start)
        return done

    def _tell_turns(self, done: Completion) -> None:
        """A task that was run in one attempt: its turns one by one, and the last one's text as the answer."""
        answers = [self._answers.get(index, NOT_EXECUTED) for index in self._calls]
        ends = [*self._turns[1:], (len(self._text), len(self._calls))]
        done.transcript = [
            TranscriptTurn(
                text="".join(self._text[texts:text_end]),
                calls=[msgspec.structs.replace(call, turn=turn) for call in done.native_calls[calls:call_end]],
                answers=answers[calls:call_end],
            )
            for turn, ((texts, calls), (text_end, call_end)) in enumerate(zip(self._turns, ends, strict=True), 1)
        ]
        done.native_calls = [call for turn in done.transcript for call in turn.calls]
        done.text = done.transcript[-1].text


def _invocation(names: Iterable[str], fragments: list[str]) -> ToolInvocation:
    """A native call; arguments that are not a JSON object make it a malformed one, kept as the text they were.

    Strict JSON, as in an answer: what a reader of the record could not read again (NaN, nesting without end) is text.
    """
    raw = well_formed("".join(fragments))
    name = "".join(names)[:_MAX_NAME_CHARS].lower()
    arguments: Any = {}
    valid = bool(name)
    if raw.strip():
        try:
            arguments = decode_strictly(raw)
        except JsonRefused:
            arguments, valid = raw, False
        else:
            valid = valid and isinstance(arguments, dict)
    return ToolInvocation(name=name, arguments=arguments, channel="native", valid=valid)
