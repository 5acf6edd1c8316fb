"""What passed between an agent program and its model: an entry for each request, with times."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.outcomes import AgentLedger

# More calls than any task takes; a flood of them must not fill the memory.
_MAX_CALLS = 1000


@dataclass(slots=True)
class WireCall:
    """A native call that a model made, as far as it has come."""

    at_ns: int
    names: dict[str, None] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "".join(self.names)

    @property
    def arguments_text(self) -> str:
        return "".join(self.pieces)

    def arguments(self) -> tuple[Any, bool]:
        """The arguments, and whether they are an object; the text where they cannot be read."""
        text = self.arguments_text
        if not text.strip():
            return {}, True
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            return text, False
        return arguments, isinstance(arguments, dict)


@dataclass(slots=True)
class WireTurn:
    """One request of a program to its model, and the reply. It is the `Sink` of that reply.

    All times are `time.perf_counter_ns()`.
    """

    arrived_ns: int
    """When the request had been read whole."""
    n_user_messages: int = 0
    sent_ns: int | None = None
    connect_ns: int | None = None
    first_byte_ns: int | None = None
    end_ns: int | None = None
    status: int | None = None
    failure: CallFailure | None = None
    client_left: bool = False
    is_extra: bool = False
    """Whether it was one too many, and was not passed on."""
    texts: list[tuple[int, str]] = field(default_factory=list)
    reasonings: list[tuple[int, str]] = field(default_factory=list)
    calls: dict[int | str, WireCall] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    refusals: list[str] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    model_reported: str | None = None
    tools_unseen: str | None = None
    first_token_captured: bool = True
    reasoning_streamed: bool = True

    @property
    def answer_text(self) -> str:
        return "".join(piece for _, piece in self.texts)

    @property
    def is_whole(self) -> bool:
        """Whether the model's reply came to its end."""
        return self.failure is None and self.end_ns is not None and not self.client_left

    def first_token_ns(self) -> int | None:
        """When the first piece of the reply came, on whichever channel; None where none did."""
        times_ns = [at_ns for at_ns, _ in (*self.texts[:1], *self.reasonings[:1])]
        times_ns += [call.at_ns for call in self.calls.values()]
        if not times_ns or not self.first_token_captured:
            return None
        return min(times_ns)

    # The reader reports to these, as to any `Sink`.

    def start(self, at_ns: int) -> None:
        self.sent_ns = at_ns

    def connected(self, took_ns: int | None) -> None:
        self.connect_ns = took_ns

    def text(self, at_ns: int, piece: str) -> None:
        if piece:
            self.texts.append((at_ns, piece))

    def reasoning(self, at_ns: int, piece: str) -> None:
        if piece:
            self.reasonings.append((at_ns, piece))

    def tool_delta(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        call = self.calls.get(index)
        if call is None:
            if len(self.calls) >= _MAX_CALLS:
                return
            call = WireCall(at_ns)
            self.calls[index] = call
        if name:
            call.names[name] = None
        if arguments:
            call.pieces.append(arguments)

    def tool_whole(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        call = self.calls.get(index)
        if call is None:
            self.tool_delta(at_ns, index, name, arguments)
            return
        if name:
            call.names = {name: None}
        if arguments:
            call.pieces = [arguments]

    def turn(self) -> None:
        """A reply is one turn; no reader of one reports another."""

    def tool_answer(self, index: int | str, answer: str) -> None:
        """What tools answered is in the tools' own log."""

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        if input_tokens is not None:
            self.input_tokens = input_tokens
        if output_tokens is not None:
            self.output_tokens = output_tokens
        if cached_tokens is not None:
            self.cached_tokens = cached_tokens
        if reasoning_tokens is not None:
            self.reasoning_tokens = reasoning_tokens

    def finish(self, reason: str | None) -> None:
        self.finish_reason = reason or self.finish_reason

    def replay(self, state: object) -> None:
        """The program keeps what has to go back."""

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
            self.model_reported = model_reported
        if tools_unseen is not None:
            self.tools_unseen = tools_unseen
        if refusal:
            self.refusals.append(refusal)
        if warning:
            self.warnings[warning] = None
        if not first_token_captured:
            self.first_token_captured = False
        if not reasoning_streamed:
            self.reasoning_streamed = False

    def agent(self, ledger: AgentLedger) -> None:
        """A reply on the wire is no agent's."""

    def end(self, at_ns: int) -> None:
        self.end_ns = at_ns


def covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    """How much time these spans cover together; what overlaps counts once."""
    total_ns = 0
    covered_until_ns = 0
    for begin_ns, end_ns in sorted(spans):
        begin_ns = max(begin_ns, covered_until_ns)
        if end_ns > begin_ns:
            total_ns += end_ns - begin_ns
            covered_until_ns = end_ns
    return total_ns
