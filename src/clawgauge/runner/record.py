"""One cell's record: what was seen, what it is judged to be, what it took, the conversation kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clawgauge.checks import VALIDATORS_VERSION, Judgement, judge_answer, split_thinking
from clawgauge.errors import CallFailure
from clawgauge.journal import repair_text
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.records import Attempt, Prompt, Result, Target, TimingsUs, ToolInvocation, TranscriptTurn
from clawgauge.suites.tools import DEFAULT_MAX_TURNS
from clawgauge.timeline import Completion
from clawgauge.world import engine

# Words alone, without any of the punctuation a server may write them with, and far more of them to a token than any
# tokenizer gets: what is below this was not sent.
_TOOL_CHARS_PER_TOKEN_AT_MOST = 8
TRANSCRIPT_CAP_BYTES = 131_072
STRING_CAP_BYTES = 16_384
RAW_OUTPUT_CAP_BYTES = 65_536
ERROR_CAP_BYTES = 2_048
LABEL_CAP_CHARS = 256
_REFUSAL_FINISHES = frozenset({"content_filter", "refusal"})
_CUT_PROMPT_MIN_CHARS = 4_000
_CHARS_PER_TOKEN_AT_MOST = 12
# A program that claims more is not telling a cost.
_MOST_A_CALL_CAN_COST_USD = 1_000_000.0


def dropped_warning(tools: Sequence[Mapping[str, Any]], input_tokens: int | None) -> str | None:
    """The warning, where the server counted too few tokens to have shown the model these tools."""
    if not tools or input_tokens is None:
        return None
    chars = sum(len(word) for tool in tools for word in _words(tool))
    if input_tokens * _TOOL_CHARS_PER_TOKEN_AT_MOST >= chars:
        return None
    return (
        f"tools_dropped: the server counted {input_tokens} tokens for a prompt whose tools alone take {chars} "
        "characters; the model cannot have seen them all"
    )


def _words(value: Any, key: str = "") -> Iterator[str]:
    """What a model has to be shown of a definition: names, descriptions, argument names and allowed values."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if key == "properties":
                yield str(name)
            yield from _words(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner, key)
    elif isinstance(value, str) and key in ("name", "description", "enum"):
        yield value


def bounded_transcript(turns: list[TranscriptTurn]) -> tuple[list[TranscriptTurn], bool]:
    """The turns from the first on that fit, each text within its own cap; whether anything was left out."""
    room = TRANSCRIPT_CAP_BYTES
    kept: list[TranscriptTurn] = []
    cut = False
    for turn in turns:
        slim = _slim(turn)
        room -= len(msgspec.json.encode(slim))
        if room < 0:
            return kept, True
        cut = cut or slim != turn
        kept.append(slim)
    return kept, cut


def _slim(turn: TranscriptTurn) -> TranscriptTurn:
    return msgspec.structs.replace(
        turn,
        text=_cut(turn.text),
        calls=[_slim_call(call) for call in turn.calls],
        answers=[_cut(answer) for answer in turn.answers],
    )


def _slim_call(call: ToolInvocation) -> ToolInvocation:
    return call if _fits(call.arguments) else msgspec.structs.replace(call, arguments=None)


def _fits(arguments: Any) -> bool:
    try:
        return len(msgspec.json.encode(arguments)) <= STRING_CAP_BYTES
    except ValueError:  # half a surrogate pair cannot be written
        return False


def _cut(text: str) -> str:
    text = repair_text(text)[0]
    return text.encode()[:STRING_CAP_BYTES].decode("utf-8", "ignore")


Judge: TypeAlias = Callable[[Prompt, str, list[ToolInvocation]], Judgement]


class CellContext(msgspec.Struct, frozen=True):
    """What identifies a cell's record and does not depend on the answer."""

    run_id: str
    target: Target
    prompt: Prompt
    repeat: int
    stretch: int
    redact: Callable[[str], str]
    prompt_prefix: str | None = None
    price: Price | None = None


class Timing(msgspec.Struct, frozen=True):
    """The final attempt's wall-clock labels, its duration, what the user waited in all, and how late our own loop was.

    `lag_ns` is None where nothing was sent.
    """

    started_at_ms: int
    ended_at_ms: int
    e2e_ns: int
    total_ns: int
    streamed: bool
    cold_start: bool | None
    lag_ns: int | None = None


class _Outcome(msgspec.Struct, frozen=True):
    status: str
    success: bool
    failure_type: str | None
    error: str | None


def answered_result(
    context: CellContext,
    completion: Completion,
    failure: CallFailure | None,
    attempts: list[Attempt],
    timing: Timing,
    judge: Judge = judge_answer,
) -> Result:
    """The record of a cell that was asked."""
    text, repaired = repair_text(completion.text)
    reasoning, _ = repair_text(completion.reasoning_text)
    outcome = _outcome(completion, text, failure)
    raw_output, raw_bytes, truncated = cut_text(text, RAW_OUTPUT_CAP_BYTES)
    target, prompt = context.target, context.prompt
    verdict = judge(prompt, text, completion.native_calls) if outcome.success else None
    transcript, transcript_cut = None, False
    if completion.transcript is not None:
        transcript, transcript_cut = bounded_transcript(completion.transcript)
    cost, cost_source = call_cost(completion, context.price)
    return Result(
        run_id=context.run_id,
        provider=target.provider,
        model=target.model,
        thinking_level=target.thinking_level,
        prompt_id=prompt.id,
        prompt_name=prompt.name,
        availability_status=outcome.status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
        started_at_ms=timing.started_at_ms,
        ended_at_ms=timing.ended_at_ms,
        e2e_ms=to_ms(timing.e2e_ns),
        ttft_ms=to_ms_or_none(completion.ttft_ns),
        success=outcome.success,
        failure_type=outcome.failure_type,
        objective_pass=verdict.objective_pass if verdict else None,
        violation=verdict.violation if verdict else None,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        raw_output=raw_output,
        parsed_output=verdict.parsed_output if verdict else None,
        tool_calls=verdict.tool_calls if verdict else [],
        tool_call_count=verdict.tool_call_count if verdict else 0,
        tool_use_success=verdict.tool_use_success if verdict else False,
        suite=prompt.suite,
        repeat=context.repeat,
        stretch=context.stretch,
        expected_tools=prompt.expected_tools,
        ttfa_ms=to_ms_or_none(completion.ttfa_ns),
        timings_us=_timings_us(completion, timing),
        output_tps=completion.output_tps,
        total_ms=to_ms(timing.total_ns),
        attempts=attempts,
        streamed=timing.streamed,
        cold_start=timing.cold_start,
        finish_reason=bounded_label(completion.finish_reason),
        model_reported=bounded_label(completion.model_reported),
        error=bounded_error(context, outcome.error),
        raw_output_bytes=raw_bytes,
        raw_output_truncated=truncated,
        text_repaired=repaired,
        parsed_output_dropped=verdict.parsed_output_dropped if verdict else False,
        reasoning_text=cut_text(reasoning, RAW_OUTPUT_CAP_BYTES)[0] if reasoning else None,
        reasoning_tokens=completion.reasoning_tokens,
        cached_tokens=completion.cached_tokens,
        tool_invocations=verdict.tool_invocations if verdict else [],
        tools_offered=bool(prompt.tools),
        tool_channel=verdict.tool_channel if verdict else None,
        judged_by=VALIDATORS_VERSION if verdict else None,
        tokens_source=_tokens_source(completion),
        cost_usd=cost,
        cost_source=cost_source,
        cli_overhead_ms=completion.cli_overhead_ms,
        prompt_prefix=context.prompt_prefix,
        turns=None if completion.transcript is None else len(completion.transcript),
        world_seed=None if prompt.world is None else world_seed(prompt.world),
        engine=engine() if prompt.world is not None or prompt.validator.get("type") == "effect" else None,
        transcript=transcript,
        transcript_cut=transcript_cut,
        warnings=[*completion.warnings, *_warnings(target, prompt, completion)],
    )


def skipped_result(context: CellContext, failure: CallFailure, now_ms: int, cold_start: bool | None) -> Result:
    """The record of a cell that was not asked, because the target had already shown that it cannot answer."""
    timing = Timing(now_ms, now_ms, 0, 0, streamed=False, cold_start=cold_start)
    return answered_result(context, Completion(), failure, [], timing)


def bounded_error(context: CellContext, words: str | None) -> str | None:
    """What went wrong in the server's words: redacted, repaired, at most 2 KB."""
    if not words:
        return None
    return cut_text(context.redact(repair_text(words)[0]), ERROR_CAP_BYTES)[0]


def bounded_label(words: str | None) -> str | None:
    """A server's own word for something. Bounded: a record too long to be read again would be a lost answer."""
    return None if words is None else words[:LABEL_CAP_CHARS]


def cut_text(text: str, cap_bytes: int) -> tuple[str, int, bool]:
    """The text within `cap_bytes` of UTF-8, cut on a code point; its full size; whether it was cut."""
    encoded = text.encode("utf-8")
    if len(encoded) <= cap_bytes:
        return text, len(encoded), False
    return encoded[:cap_bytes].decode("utf-8", "ignore"), len(encoded), True


def to_ms(duration_ns: int) -> int:
    """Rounded milliseconds; 0 is a measurement."""
    return round(duration_ns / 1_000_000)


def to_ms_or_none(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else to_ms(duration_ns)


def world_seed(spec: Mapping[str, Any]) -> int:
    """The seed of a task's world: part of its specification, 0 where that names none."""
    return int(spec.get("seed", 0))


def _timings_us(completion: Completion, timing: Timing) -> TimingsUs:
    def micro(duration_ns: int | None) -> int | None:
        return None if duration_ns is None else round(duration_ns / 1000)

    return TimingsUs(
        e2e=round(timing.e2e_ns / 1000),
        ttft=micro(completion.ttft_ns),
        ttfa=micro(completion.ttfa_ns),
        connect=micro(completion.connect_ns),
        lag=micro(timing.lag_ns),
    )


def _tokens_source(completion: Completion) -> str | None:
    """Whose count it is. Nothing is ever estimated, so there is one answer where there is a count."""
    counts = (completion.input_tokens, completion.output_tokens, completion.cached_tokens, completion.reasoning_tokens)
    return "server" if any(count is not None for count in counts) else None


def call_cost(completion: Completion, price: Price | None) -> tuple[float | None, str | None]:
    """What the call cost and who says so: the provider itself first, else the price table. Never a guess."""
    told = completion.cost_usd
    if isinstance(told, int | float) and 0 <= told <= _MOST_A_CALL_CAN_COST_USD:
        return told, "reported"
    if price is None:
        return None, None
    cost = cost_usd(price, Tokens(completion.input_tokens, completion.output_tokens, completion.cached_tokens))
    return cost, None if cost is None else "price_table"


def _outcome(completion: Completion, text: str, failure: CallFailure | None) -> _Outcome:
    if failure is not None:
        return _Outcome(failure.status, False, failure.failure_type, failure.message or failure.failure_type)
    if split_thinking(text).strip() or completion.native_calls:
        return _Outcome("ok", True, None, None)
    if completion.refusal or completion.finish_reason in _REFUSAL_FINISHES:
        return _Outcome("ok", False, "refusal", completion.refusal or f"finish_reason {completion.finish_reason}")
    return _Outcome("ok", False, "empty_response", None)


def _warnings(target: Target, prompt: Prompt, completion: Completion) -> list[str]:
    found = []
    reported = bounded_label(completion.model_reported)
    # An alias (`opus`) and a dated name (`gpt-5-2026-01-01`) are the model that was asked for.
    if reported and target.model not in reported and reported not in target.model:
        found.append(f"model_mismatch: asked {target.model}, answered by {reported}")
    chars, tokens = len(prompt.prompt), completion.input_tokens
    if tokens is not None and chars >= _CUT_PROMPT_MIN_CHARS and tokens * _CHARS_PER_TOKEN_AT_MOST < chars:
        found.append(f"prompt_cut: the server counted {tokens} tokens for a prompt of {chars} characters")
    told = any(warning.startswith("tools_dropped:") for warning in completion.warnings)
    if not told and completion.transcript is None and (dropped := dropped_warning(prompt.tools, tokens)):
        found.append(dropped)
    turns, max_turns = completion.transcript or [], prompt.max_turns or DEFAULT_MAX_TURNS
    if len(turns) >= max_turns and turns[-1].calls:
        found.append(f"max_turns: the model was still calling tools in turn {max_turns}, its last")
    return found
