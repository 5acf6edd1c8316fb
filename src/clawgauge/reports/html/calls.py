"""What the page says of every call: how it ended, a row for the list, the details that open."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from clawgauge.records import Attempt, Prompt, Result, ToolInvocation, TranscriptTurn
from clawgauge.reports.agents import describe_cell
from clawgauge.reports.html.texts import Text, TextStore, show_json
from clawgauge.reports.words import shown_ms
from clawgauge.run_data import Row
from clawgauge.run_data.calls import reason_of

_MAX_WHY_CHARS = 240
_MAX_TOOLS_CHARS = 120

# The codes of outcomes: each is the place of its name in OUTCOMES.
PASS, FAIL, ANSWERED, NO_ANSWER, ERROR, RATE_LIMITED, AUTH_ERROR, UNAVAILABLE, NOT_ASKED = range(9)
OUTCOMES = (
    "pass",
    "fail",
    "no_verdict",
    "no_answer",
    "error",
    "rate_limited",
    "auth_error",
    "unavailable",
    "not_asked",
)
_OUTCOME_BY_STATUS = {
    "ok": NO_ANSWER,
    "error": ERROR,
    "rate_limited": RATE_LIMITED,
    "auth_error": AUTH_ERROR,
    "skipped_unavailable": UNAVAILABLE,
}


def classify(call: Row | Result) -> int:
    """The code of a call's outcome: its verdict where it was answered, else why it was not."""
    if not call.was_asked:
        return NOT_ASKED
    if not call.success:
        return _OUTCOME_BY_STATUS[call.availability_status]
    if call.objective_pass is None:
        return ANSWERED
    return PASS if call.objective_pass else FAIL


class CallRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A call in the list. `target` and `prompt` are numbers, `why` and `tools` the numbers of
    strings (-1 for none), times are milliseconds. A call that is `sampled` is drawn in the
    charts."""

    target: int
    prompt: int
    repeat: int
    outcome: int
    why: int
    e2e: float | None
    ttft: float | None
    ttfa: float | None
    tps: float | None
    tokens_in: int | None
    tokens_out: int | None
    cold: int | None
    tools: int
    started: int | None
    attempts: int
    cost: float | None
    sampled: int


class CallColumns:
    """Grows by one row a call; `details` takes what is too long for a row."""

    def __init__(self, details: TextStore) -> None:
        self._rows: list[CallRow] = []
        # Each string once; calls name it by its number.
        self._numbers_by_string: dict[str, int] = {}
        self._details = details

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, result: Result, target: int, prompt: int, *, sampled: bool) -> None:
        exact = result.timings_us
        row = CallRow(
            target=target,
            prompt=prompt,
            repeat=result.repeat,
            outcome=classify(result),
            why=self._number(reason_of(result), _MAX_WHY_CHARS),
            e2e=shown_ms(exact.e2e, result.e2e_ms),
            ttft=shown_ms(exact.ttft, result.ttft_ms),
            ttfa=shown_ms(exact.ttfa, result.ttfa_ms),
            tps=_round(result.output_tps, 1),
            tokens_in=result.input_tokens,
            tokens_out=result.output_tokens,
            cold=_as_flag(result.cold_start),
            tools=self._number(", ".join(result.tool_calls), _MAX_TOOLS_CHARS),
            started=result.started_at_ms,
            attempts=len(result.attempts),
            cost=_round(result.cost_usd, 6),
            sampled=int(sampled),
        )
        self._rows.append(row)
        self._details.add(_describe_result(result))

    def _number(self, text: str | None, limit: int) -> int:
        """The number of a string, which is cut; -1 for none."""
        if not text:
            return -1
        shortened = text if len(text) <= limit else f"{text[: limit - 1]}…"
        return self._numbers_by_string.setdefault(shortened, len(self._numbers_by_string))

    def as_json(self) -> dict[str, Any]:
        """A column for each field of a row. One that says the same of every call is that alone."""
        columns: dict[str, Any] = {}
        for field in msgspec.structs.fields(CallRow):
            values = [getattr(row, field.name) for row in self._rows]
            is_constant = bool(values) and values.count(values[0]) == len(values)
            columns[field.encode_name] = {"every": values[0]} if is_constant else values
        return {"n": len(self), "columns": columns, "strings": list(self._numbers_by_string)}


def _as_flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _round(value: float | None, digits: int) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def describe_prompt(prompt: Prompt) -> dict[str, Any]:
    """The texts of a prompt, as the page shows them; of the user's own context nothing but its
    name."""
    messages = "\n\n".join(str(message) for message in prompt.messages)
    system = "(your own context)" if prompt.in_context else prompt.system or ""
    detail: dict[str, Any] = {
        "prompt": Text(prompt.prompt),
        "messages": Text(messages),
        "system": Text(system),
        "validator": Text(show_json(prompt.validator)),
    }
    if prompt.tools and not prompt.in_context:
        detail["tools"] = Text(show_json(prompt.tools))
    if prompt.world:
        detail["world"] = Text(show_json(prompt.world))
    detail["category"] = prompt.category or ""
    detail["maxTurns"] = prompt.max_turns
    return {key: value for key, value in detail.items() if value}


def _describe_result(result: Result) -> dict[str, Any]:
    """What opens of a call. What is empty is left out."""
    timings = result.timings_us
    is_other_model = result.model_reported != result.model
    parsed = None
    if result.parsed_output is not None:
        parsed = Text(show_json(result.parsed_output))
    detail: dict[str, Any] = {
        "answer": Text(result.raw_output),
        "reasoning": Text(result.reasoning_text or ""),
        "answerBytes": result.raw_output_bytes if result.raw_output_truncated else None,
        "error": Text(result.error or ""),
        "warnings": _texts(result.warnings),
        "agent": _texts(describe_cell(result)),
        "violation": Text(result.violation or ""),
        "failure": result.failure_type,
        "parsed": parsed,
        "attempts": [_describe_attempt(attempt) for attempt in result.attempts],
        "calls": [_describe_invocation(call) for call in result.tool_invocations],
        "channel": result.tool_channel,
        "expectedTools": _texts(result.expected_tools),
        "toolUse": int(result.tool_use_success) if result.expected_tools else None,
        "transcript": [_describe_turn(turn) for turn in result.transcript or ()],
        "transcriptCut": int(result.transcript_cut) or None,
        "turns": result.turns,
        "total": result.total_ms,
        "connect": _in_ms(timings.connect),
        "lag": _in_ms(timings.lag),
        "finish": result.finish_reason,
        "reported": result.model_reported if is_other_model else None,
        "cached": result.cached_tokens,
        "reasoningTokens": result.reasoning_tokens,
        "overhead": result.cli_overhead_ms,
        "costSource": result.cost_source,
        "prefix": Text(result.prompt_prefix or ""),
        "repaired": int(result.text_repaired) or None,
    }
    return {key: value for key, value in detail.items() if value not in (None, "", [])}


def _in_ms(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1000


def _texts(strings: list[str]) -> list[Text]:
    return [Text(string) for string in strings]


def _describe_attempt(attempt: Attempt) -> list[Any]:
    return [
        attempt.status,
        attempt.failure_type,
        attempt.e2e_ms,
        attempt.waited_ms,
        attempt.http_status,
        attempt.retry_after_s,
        Text(attempt.error or ""),
    ]


def _describe_turn(turn: TranscriptTurn) -> list[Any]:
    return [
        Text(turn.text),
        [_describe_invocation(call) for call in turn.calls],
        _texts(turn.answers),
        turn.output_tokens,
        turn.e2e_ms,
    ]


def _describe_invocation(call: ToolInvocation) -> list[Any]:
    arguments = "" if call.arguments is None else show_json(call.arguments)
    return [Text(call.name), Text(arguments), call.channel, int(call.valid), call.turn]
