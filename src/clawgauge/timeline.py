"""Collects what a provider reports of one attempt, with times, and makes a `Reply` of it.

`Timeline` is the `Sink` of an attempt. It is the only place that knows what a first token is.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks.answer import answer_start, split_thinking
from clawgauge.checks.json import JsonRefused, decode_strictly
from clawgauge.checks.judgement import MAX_INVOCATIONS
from clawgauge.outcomes import AgentLedger, Reply
from clawgauge.records import LEAST_LATER_TOKENS, MAX_TOKENS, ToolInvocation, TranscriptTurn

_MAX_NAME_CHARS = 256
# A server that claims more was not counting what it sent.
_MAX_TOKENS_PER_S = 1e9
_MAX_WARNINGS = 20
NOT_EXECUTED = "(not executed)"


class _Piece(NamedTuple):
    """A piece of a native call: when it came, and how many characters it had."""

    at_ns: int
    n_chars: int


@dataclass(slots=True)
class _StreamedCall:
    """A native call as far as it has been streamed."""

    # A server may repeat the name with every piece: each spelling counts once.
    names: dict[str, None] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


class _TurnStart(NamedTuple):
    """Where a turn of a task begins among all pieces of text and all calls of the attempt."""

    n_texts: int
    n_calls: int


class _OutputRate(NamedTuple):
    first_share: float | None = None
    tokens_per_s: float | None = None


@dataclass(slots=True)
class Timeline:
    """Collects one attempt. `text` and `reasoning` are the hot path: they only check and append.

    What is of another type than `Sink` says raises `TypeError`.
    """

    _start_ns: int | None = None
    _end_ns: int | None = None
    _connect_ns: int | None = None
    _texts: list[str] = field(default_factory=list)
    _text_times_ns: list[int] = field(default_factory=list)
    _reasonings: list[str] = field(default_factory=list)
    _reasoning_times_ns: list[int] = field(default_factory=list)
    _call_pieces: list[_Piece] = field(default_factory=list)
    _calls: dict[int | str, _StreamedCall] = field(default_factory=dict)
    _turn_starts: list[_TurnStart] = field(default_factory=list)
    _tool_answers: dict[int | str, str] = field(default_factory=dict)
    _refusals: list[str] = field(default_factory=list)
    _first_token_captured: bool = True
    _reasoning_streamed: bool = True
    _input_tokens: int | None = None
    _output_tokens: int | None = None
    _cached_tokens: int | None = None
    _reasoning_tokens: int | None = None
    _finish_reason: str | None = None
    _model_reported: str | None = None
    _cost_usd: float | None = None
    _cli_overhead_ms: int | None = None
    _server_ns: dict[str, int] | None = None
    _tools_unseen: str | None = None
    _warnings: list[str] = field(default_factory=list)
    _replay: object = None
    _agent: AgentLedger | None = None

    def start(self, at_ns: int) -> None:
        _check_type("the start", at_ns, int, float)
        self._start_ns = at_ns

    def connected(self, took_ns: int | None) -> None:
        if took_ns is not None:
            _check_type("the time of connecting", took_ns, int, float)
        self._connect_ns = took_ns

    def text(self, at_ns: int, piece: str) -> None:
        if piece:
            if not isinstance(piece, str):
                raise _wrong_type("text", piece, str)
            self._texts.append(piece)
            self._text_times_ns.append(at_ns)

    def reasoning(self, at_ns: int, piece: str) -> None:
        if piece:
            if not isinstance(piece, str):
                raise _wrong_type("reasoning", piece, str)
            self._reasonings.append(piece)
            self._reasoning_times_ns.append(at_ns)

    def tool_delta(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        _check_call(name, arguments)
        self._call_pieces.append(_Piece(at_ns, len(name or "") + len(arguments or "")))
        call = self._calls.get(index)
        if call is None:
            # As many as are judged: a call left out here could hide what it did from the verdict.
            if len(self._calls) >= MAX_INVOCATIONS:
                return
            call = _StreamedCall()
            self._calls[index] = call
        if name:
            call.names[name] = None
        if arguments:
            call.arguments.append(arguments)

    def tool_whole(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        call = self._calls.get(index)
        if call is None:
            self.tool_delta(at_ns, index, name, arguments)
            return
        _check_call(name, arguments)
        if name:
            call.names = {name: None}
        if arguments:
            if not call.arguments:
                self._call_pieces.append(_Piece(at_ns, len(arguments)))
            call.arguments = [arguments]

    def turn(self) -> None:
        self._turn_starts.append(_TurnStart(len(self._texts), len(self._calls)))

    def tool_answer(self, index: int | str, answer: str) -> None:
        _check_type("the answer of a tool", answer, str)
        self._tool_answers[index] = answer

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        if _is_count(input_tokens):
            self._input_tokens = input_tokens
        if _is_count(output_tokens):
            self._output_tokens = output_tokens
        if _is_count(cached_tokens):
            self._cached_tokens = cached_tokens
        if _is_count(reasoning_tokens):
            self._reasoning_tokens = reasoning_tokens

    def finish(self, reason: str | None) -> None:
        if not reason:
            return
        _check_type("finish reason", reason, str)
        self._finish_reason = reason

    def replay(self, state: object) -> None:
        self._replay = state

    def note(
        self,
        *,
        model_reported: str | None = None,
        cost_usd: float | None = None,
        cli_overhead_ms: int | None = None,
        server_ns: dict[str, int] | None = None,
        tools_unseen: str | None = None,
        refusal: str | None = None,
        warning: str | None = None,
        first_token_captured: bool = True,
        reasoning_streamed: bool = True,
    ) -> None:
        if model_reported is not None:
            _check_type("model_reported", model_reported, str)
            self._model_reported = model_reported
        if cost_usd is not None:
            _check_type("cost_usd", cost_usd, int, float)
            self._cost_usd = cost_usd
        if cli_overhead_ms is not None:
            _check_type("cli_overhead_ms", cli_overhead_ms, int)
            self._cli_overhead_ms = cli_overhead_ms
        if server_ns is not None:
            _check_type("server_ns", server_ns, dict)
            for duration_ns in server_ns.values():
                _check_type("server_ns", duration_ns, int)
            self._server_ns = server_ns
        if tools_unseen is not None:
            _check_type("tools_unseen", tools_unseen, str)
            self._tools_unseen = tools_unseen
        if refusal:
            self._refusals.append(str(refusal))
        if warning:
            self._add_warning(str(warning))
        if first_token_captured is False:
            self._first_token_captured = False
        if reasoning_streamed is False:
            self._reasoning_streamed = False

    def _add_warning(self, warning: str) -> None:
        # A server may give cause for the same one with every token.
        if warning not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append(warning)

    def agent(self, ledger: AgentLedger) -> None:
        self._agent = ledger

    def end(self, at_ns: int) -> None:
        _check_type("the end", at_ns, int, float)
        self._end_ns = at_ns

    @property
    def n_chars(self) -> int:
        n_chars = sum(map(len, self._texts)) + sum(map(len, self._reasonings))
        for call in self._calls.values():
            n_chars += sum(map(len, call.arguments))
        return n_chars

    def fold(self, now_ns: int) -> Reply:
        """The attempt as seen so far. `now_ns` is its end where it was cut off before its own."""
        text = "".join(self._texts)
        calls = [_make_invocation(call) for call in self._calls.values()]
        transcript = None
        answer_text = text
        if self._turn_starts:
            transcript = self._split_turns(calls)
            calls = [call for turn in transcript for call in turn.calls]
            answer_text = transcript[-1].text
        e2e_ns = 0
        ttft_ns = None
        ttfa_ns = None
        output_rate = _OutputRate()
        if self._start_ns is not None:
            e2e_ns = self._measure_e2e_ns(self._start_ns, now_ns)
            if self._first_token_captured:
                ttft_ns = _elapsed_ns(self._start_ns, self._first_times_ns())
                ttfa_ns = _elapsed_ns(self._start_ns, self._first_answer_times_ns(text))
                output_rate = self._measure_output_rate(answer_text)
        if self._agent is not None:
            ttft_ns = _agent_ttft_ns(self._agent)
            ttfa_ns = None
            if ttft_ns is not None and self._agent.first_sent_ns is not None:
                answer_times_ns = self._first_answer_times_ns(text)
                ttfa_ns = _elapsed_ns(self._agent.first_sent_ns, answer_times_ns)
        return Reply(
            text=answer_text,
            reasoning_text="".join(self._reasonings),
            native_calls=calls,
            refusal="".join(self._refusals),
            finish_reason=self._finish_reason,
            transcript=transcript,
            replay=self._replay,
            started=self._start_ns is not None,
            start_ns=self._start_ns or 0,
            e2e_ns=e2e_ns,
            ttft_ns=ttft_ns,
            ttfa_ns=ttfa_ns,
            connect_ns=self._connect_ns,
            piece_times_ns=self._text_times_ns,
            first_share=output_rate.first_share,
            server_ns=self._server_ns,
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            cached_tokens=self._cached_tokens,
            reasoning_tokens=self._reasoning_tokens,
            output_tps=output_rate.tokens_per_s,
            model_reported=self._model_reported,
            cost_usd=self._cost_usd,
            cli_overhead_ms=self._cli_overhead_ms,
            tools_unseen=self._tools_unseen,
            warnings=self._warnings,
            agent=self._agent,
        )

    def _measure_e2e_ns(self, start_ns: int, now_ns: int) -> int:
        end_ns = now_ns if self._end_ns is None else self._end_ns
        # A process may be seen to exit before its last line is read: the answer ends with its
        # last piece at the least.
        last_times_ns = [end_ns, *self._text_times_ns[-1:], *self._reasoning_times_ns[-1:]]
        for piece in self._call_pieces[-1:]:
            last_times_ns.append(piece.at_ns)
        # A reply may be faster than the callback that starts the clock: never negative.
        return max(0, max(last_times_ns) - start_ns)

    def _first_times_ns(self) -> list[int]:
        """When the first piece of each channel came: text, reasoning, tool calls."""
        times_ns = [*self._text_times_ns[:1], *self._reasoning_times_ns[:1]]
        for piece in self._call_pieces[:1]:
            times_ns.append(piece.at_ns)
        return times_ns

    def _first_answer_times_ns(self, text: str) -> list[int]:
        """When the answer itself began: its first call, its first visible text after thinking."""
        times_ns = [piece.at_ns for piece in self._call_pieces[:1]]
        offset = answer_start(text)
        if offset is not None:
            times_ns.append(self._time_of_offset_ns(offset))
        return times_ns

    def _time_of_offset_ns(self, offset: int) -> int:
        """When the character at this offset of the text came."""
        if offset < len(self._texts[0]):
            return self._text_times_ns[0]
        piece_ends = list(accumulate(map(len, self._texts)))
        return self._text_times_ns[bisect_right(piece_ends, offset)]

    def _measure_output_rate(self, answer_text: str) -> _OutputRate:
        """Tokens a second by rule 2, and the share of the answer that the first piece held.

        The rate is the server's own count over the span from the first piece to the last, without
        the tokens of the first piece, which took their time before it. How many those are is told
        by its share of all characters. Pieces that were read at one moment are one piece.
        """
        pieces = [piece for piece in self._call_pieces if piece.n_chars]
        first_times_ns = [piece.at_ns for piece in pieces]
        last_times_ns = [piece.at_ns for piece in pieces]
        n_chars = sum(piece.n_chars for piece in pieces)
        streams = (
            (self._text_times_ns, self._texts),
            (self._reasoning_times_ns, self._reasonings),
        )
        for times_ns, texts in streams:
            first_times_ns += times_ns[:1]
            last_times_ns += times_ns[-1:]
            n_chars += sum(map(len, texts))
        if not n_chars:
            return _OutputRate()
        first_ns = min(first_times_ns)
        span_ns = max(last_times_ns) - first_ns
        n_first_chars = sum(piece.n_chars for piece in pieces if piece.at_ns <= first_ns)
        for times_ns, texts in streams:
            n_first_chars += _count_chars_until(first_ns, times_ns, texts)
        first_share = n_first_chars / n_chars
        rate = None
        # Between the turns of a task no token is made: the span from first to last is not theirs.
        # Of a native call a server streams the name and the arguments, and none of the tokens
        # around them: how many these are, and when they were made, nobody saw.
        has_gaps = len(self._turn_starts) > 1 or bool(self._call_pieces)
        if not has_gaps and not self._holds_unseen_reasoning(answer_text):
            rate = _tokens_per_s(self._output_tokens or 0, first_share, span_ns)
        return _OutputRate(first_share, rate)

    def _holds_unseen_reasoning(self, answer_text: str) -> bool:
        """Whether the count of tokens holds reasoning that was not streamed, or only summed up.

        When those tokens were made nobody saw.
        """
        if self._reasoning_tokens == 0:
            return False
        if not self._reasoning_streamed:
            return True
        if self._reasoning_tokens is None or self._reasonings:
            return False
        # It may be in the text itself.
        return len(split_thinking(answer_text)) == len(answer_text)

    def _split_turns(self, calls: list[ToolInvocation]) -> list[TranscriptTurn]:
        """The turns of a task that the provider ran in one attempt."""
        answers = [self._tool_answers.get(index, NOT_EXECUTED) for index in self._calls]
        ends = [*self._turn_starts[1:], _TurnStart(len(self._texts), len(self._calls))]
        turns: list[TranscriptTurn] = []
        for start, end in zip(self._turn_starts, ends, strict=True):
            number = len(turns) + 1
            turn_calls = []
            for call in calls[start.n_calls : end.n_calls]:
                turn_calls.append(msgspec.structs.replace(call, turn=number))
            turn = TranscriptTurn(
                text="".join(self._texts[start.n_texts : end.n_texts]),
                calls=turn_calls,
                answers=answers[start.n_calls : end.n_calls],
            )
            turns.append(turn)
        return turns


def _is_count(value: object) -> bool:
    """Whether this is a number of tokens; a provider may pass on whatever a server sends."""
    return type(value) is int and 0 <= value < MAX_TOKENS


def _check_type(name: str, value: object, *types: type) -> None:
    """Raise `TypeError` where a provider reports something of another type than it must."""
    if not isinstance(value, types):
        raise _wrong_type(name, value, *types)


def _check_call(name: str | None, arguments: str | None) -> None:
    if name is not None:
        _check_type("the name of a call", name, str)
    if arguments is not None:
        _check_type("the arguments of a call", arguments, str)


def _wrong_type(name: str, value: object, *types: type) -> TypeError:
    expected = " or ".join(type_.__name__ for type_ in types)
    quoted = repr(value)[:_MAX_NAME_CHARS]
    return TypeError(
        f"the provider reported {name} as {type(value).__name__}, it must be {expected}: {quoted}"
    )


def _agent_ttft_ns(agent: AgentLedger) -> int | None:
    """From the program's first request to the first piece of its reply."""
    if agent.first_sent_ns is None or agent.first_token_ns is None:
        return None
    return max(0, agent.first_token_ns - agent.first_sent_ns)


def _elapsed_ns(start_ns: int, times_ns: list[int]) -> int | None:
    """From the start to the first of these times; None where there is none."""
    if not times_ns:
        return None
    return max(0, min(times_ns) - start_ns)


def _count_chars_until(until_ns: int, times_ns: list[int], texts: list[str]) -> int:
    n_chars = 0
    for at_ns, text in zip(times_ns, texts, strict=True):
        if at_ns > until_ns:
            break
        n_chars += len(text)
    return n_chars


def _tokens_per_s(n_tokens: int, first_share: float, span_ns: int) -> float | None:
    """The rate of the tokens after the first piece; None where there are too few to tell."""
    n_later = n_tokens * (1 - first_share)
    if n_tokens < 2 or span_ns <= 0 or n_later < LEAST_LATER_TOKENS:
        return None
    rate = round(n_later * 1e9 / span_ns, 3)
    return rate if rate < _MAX_TOKENS_PER_S else None


def _make_invocation(call: _StreamedCall) -> ToolInvocation:
    """A native call. Arguments that are not a JSON object make it malformed; their text is kept.

    JSON is read strictly, as in an answer: what a reader of the record could not read again (NaN,
    nesting without end) is text.
    """
    name = "".join(call.names)[:_MAX_NAME_CHARS].lower()
    raw = well_formed("".join(call.arguments))
    if not raw.strip():
        return ToolInvocation(name=name, arguments={}, channel="native", valid=bool(name))
    try:
        arguments: Any = decode_strictly(raw)
    except JsonRefused:
        return ToolInvocation(name=name, arguments=raw, channel="native", valid=False)
    valid = bool(name) and isinstance(arguments, dict)
    return ToolInvocation(name=name, arguments=arguments, channel="native", valid=valid)
