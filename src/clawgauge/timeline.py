"""Folds what an attempt reported, stamp by stamp, into one completion: the `Sink` of a provider, and the only place
that knows what a first token is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks.answer import answer_start, split_thinking
from clawgauge.checks.json import JsonRefused, decode_strictly
from clawgauge.checks.validators import MAX_INVOCATIONS
from clawgauge.errors import CallFailure
from clawgauge.records import LEAST_LATER_TOKENS, MAX_TOKENS, Attempt, Load, ToolInvocation, TranscriptTurn

_MAX_NAME_CHARS = 256
# A server that claims more was not counting what it sent.
_MAX_TOKENS_PER_S = 1e9
_MAX_WARNINGS = 20
_NOTED: dict[str, type | tuple[type, ...]] = {
    "model_reported": str,
    "cost_usd": (int, float),
    "cli_overhead_ms": int,
    "server_ns": dict,
    "tools_unseen": str,
}
TOKEN_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
NOT_EXECUTED = "(not executed)"


class _Piece(NamedTuple):
    at_ns: int
    n_chars: int


class Completion(msgspec.Struct):
    """One attempt as it was seen, whole or broken off. Durations are nanoseconds from the clock's start.

    From `failure` on the runner adds what came of asking, with every try in order. The wall-clock labels are the final
    attempt's; `total_ns` is what the user waited in all, `lag_ns` how late our own loop was, None where nothing was
    sent. `prefix` is the line the prompt was sent with. The pieces of the text came at `stamps_ns`; `first_share` is
    the share of all that was streamed (text, reasoning, calls) that came with the very first piece."""

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
    tools_unseen: str | None = None
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
    first_share: float | None = None
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
    _reasoning_stamps: list[int] = field(default_factory=list)
    # Of each fragment of a call, when it came and how many characters it had.
    _tool_pieces: list[_Piece] = field(default_factory=list)
    _reasoning_withheld: bool = False
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

    def reasoning(self, at_ns: int, piece: str) -> None:
        if piece:
            self._reasoning.append(piece)
            self._reasoning_stamps.append(at_ns)

    def tool_delta(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        self._tool_pieces.append(_Piece(at_ns, len(name or "") + len(arguments or "")))
        # As many as are judged: a call left out here could hide what it did from the verdict on a task.
        if index not in self._calls and len(self._calls) >= MAX_INVOCATIONS:
            return
        names, fragments = self._calls.setdefault(index, ({}, []))
        if name:
            names[name] = None
        if arguments:
            fragments.append(arguments)

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
                self._tool_pieces.append(_Piece(at_ns, len(arguments)))
            fragments[:] = [arguments]

    def turn(self) -> None:
        self._turns.append((len(self._text), len(self._calls)))

    def tool_answer(self, index: int | str, answer: str) -> None:
        self._answers[index] = answer

    def usage(self, **counts: int | None) -> None:
        for name in TOKEN_COUNTS:
            # A provider may pass on whatever a server sends.
            if type(n := counts.get(name)) is int and 0 <= n < MAX_TOKENS:
                setattr(self._told, name, n)

    def finish(self, reason: str | None) -> None:
        if reason:
            if not isinstance(reason, str):
                raise TypeError(f"a provider said why a model stopped as {type(reason).__name__}")
            self._told.finish_reason = reason

    def note(self, **facts: Any) -> None:
        if facts.pop("first_token_captured", True) is False:
            self._captured = False
        if facts.pop("reasoning_streamed", True) is False:
            self._reasoning_withheld = True
        if refusal := facts.pop("refusal", None):
            self._refusal.append(str(refusal))
        # A server may give cause for the same one with every token.
        warnings = self._told.warnings
        if (warning := str(facts.pop("warning", None) or "")) and len(warnings) < _MAX_WARNINGS:
            warnings += [warning] if warning not in warnings else []
        for name in _NOTED.keys() & facts.keys():
            value = facts[name]
            parts = value.values() if name == "server_ns" and isinstance(value, dict) else ()
            is_right = value is None or isinstance(value, _NOTED[name])
            if not is_right or not all(isinstance(part, int) for part in parts):
                raise TypeError(f"a provider noted {name} as {value!r}"[:_MAX_NAME_CHARS])
            setattr(self._told, name, value)

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
        done.started = True
        done.start_ns = start
        done.stamps_ns = self._stamps
        # A clock that starts after its end (a reply faster than the send callback) is zero, never negative.
        ended_ns = self._end_ns if self._end_ns is not None else now_ns
        # A process may be seen to exit before its last line is read: the answer ends with its last delta at the least.
        lasts_ns = [*self._stamps[-1:], *self._reasoning_stamps[-1:], *(at_ns for at_ns, _ in self._tool_pieces[-1:])]
        done.e2e_ns = max(0, max([ended_ns, *lasts_ns]) - start)
        if not self._captured:
            return done
        answers_ns = [at_ns for at_ns, _ in self._tool_pieces[:1]]
        firsts_ns = [*self._stamps[:1], *self._reasoning_stamps[:1], *answers_ns]
        if (offset := answer_start(text)) is not None:
            # It is nearly always in the first piece; thinking is why it may not be.
            ends = [] if offset < len(self._text[0]) else list(accumulate(map(len, self._text)))
            answers_ns.append(self._stamps[bisect_right(ends, offset)])
        if firsts_ns:
            done.ttft_ns = max(0, min(firsts_ns) - start)
            self._rate_output(done)
        if answers_ns:
            done.ttfa_ns = max(0, min(answers_ns) - start)
        return done

    def _rate_output(self, done: Completion) -> None:
        """Tokens a second, by rule 2: the server's own count over the span from the first piece to the last, without
        the tokens of the first piece, which took their time before it. How many those are is told by its share of all
        characters. Pieces that were read at one moment are one piece."""
        streams = ((self._stamps, self._text), (self._reasoning_stamps, self._reasoning))
        calls = [piece for piece in self._tool_pieces if piece.n_chars]
        firsts_ns = [piece.at_ns for piece in calls]
        lasts_ns = [piece.at_ns for piece in calls]
        n_chars = sum(piece.n_chars for piece in calls)
        for stamps, texts in streams:
            firsts_ns += stamps[:1]
            lasts_ns += stamps[-1:]
            n_chars += sum(map(len, texts))
        if not n_chars:
            return
        first_ns = min(firsts_ns)
        last_ns = max(lasts_ns)
        n_first_chars = sum(piece.n_chars for piece in calls if piece.at_ns <= first_ns)
        for stamps, texts in streams:
            for at_ns, text in zip(stamps, texts, strict=True):
                if at_ns > first_ns:
                    break
                n_first_chars += len(text)
        done.first_share = n_first_chars / n_chars
        tokens = done.output_tokens or 0
        # Between the turns of a task no token is made: the span from first to last would not be theirs.
        if tokens < 2 or last_ns <= first_ns or len(self._turns) > 1 or self._holds_unseen_reasoning(done):
            return
        n_later = tokens * (1 - done.first_share)
        if n_later < LEAST_LATER_TOKENS:
            return
        rate = round(n_later * 1e9 / (last_ns - first_ns), 3)
        done.output_tps = rate if rate < _MAX_TOKENS_PER_S else None

    def _holds_unseen_reasoning(self, done: Completion) -> bool:
        """Whether the server's count of tokens has reasoning in it that was never streamed, or only a summary of it:
        when those tokens were made nobody saw."""
        if done.reasoning_tokens == 0:
            return False
        if self._reasoning_withheld:
            return True
        if done.reasoning_tokens is None or self._reasoning:
            return False
        # It may be in the text itself.
        return len(split_thinking(done.text)) == len(done.text)

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
