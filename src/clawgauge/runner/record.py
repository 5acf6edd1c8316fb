"""One cell's record: what was seen, what it is judged to be, what it took, the conversation kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clawgauge.characters import REPLACEMENT, well_formed
from clawgauge.checks import VALIDATORS_VERSION, Judgement, judge_answer, split_thinking
from clawgauge.errors import CallFailure
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.records import TOOLS_DROPPED, Attempt, Prompt, Result, Target, TimingsUs, ToolInvocation, TranscriptTurn
from clawgauge.runner.agenda import Cell
from clawgauge.suites.load import DEFAULT_MAX_TURNS
from clawgauge.timeline import TOKEN_COUNTS, Completion
from clawgauge.world import engine

# Words alone, without any of the punctuation a server may write them with, and far more of them to a token than any
# tokenizer gets: what is below this was not sent.
_TOOL_CHARS_PER_TOKEN_AT_MOST = 8
TRANSCRIPT_CAP_BYTES = 131_072
STRING_CAP_BYTES = 16_384
RAW_OUTPUT_CAP_BYTES = 65_536
ERROR_CAP_BYTES = 2_048
LABEL_CAP_CHARS = 256
# What a provider reports goes into the record under the same name.
_AS_REPORTED = (*TOKEN_COUNTS, "output_tps", "cli_overhead_ms")
_UNJUDGED: dict[str, Any] = {
    "objective_pass": None,
    "violation": None,
    "parsed_output": None,
    "tool_calls": [],
    "tool_call_count": 0,
    "tool_use_success": False,
}
_REFUSAL_FINISHES = frozenset({"content_filter", "refusal"})
_CUT_PROMPT_MIN_CHARS = 4_000
_CHARS_PER_TOKEN_AT_MOST = 12
# A program that claims more is not telling a cost.
_MOST_A_CALL_CAN_COST_USD = 1_000_000.0


def dropped_warning(tools: Sequence[Mapping[str, Any]], input_tokens: int | None) -> str | None:
    """The warning, where the server counted too few tokens to have shown the model these tools."""
    if input_tokens is None:
        return None
    chars = sum(len(word) for tool in tools for word in _words(tool))
    if input_tokens * _TOOL_CHARS_PER_TOKEN_AT_MOST >= chars:
        return None
    return (
        f"{TOOLS_DROPPED} the server counted {input_tokens} tokens for a prompt whose tools alone take {chars} "
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
    room, cut = TRANSCRIPT_CAP_BYTES, False
    kept: list[TranscriptTurn] = []
    for turn in turns:
        texts = [cut_text(well_formed(text), STRING_CAP_BYTES)[0] for text in (turn.text, *turn.answers)]
        calls = [
            call if _fits(call.arguments) else msgspec.structs.replace(call, arguments=None) for call in turn.calls
        ]
        slim = msgspec.structs.replace(turn, text=texts[0], calls=calls, answers=texts[1:])
        room -= len(msgspec.json.encode(slim))
        if room < 0:
            return kept, True
        cut = cut or slim != turn
        kept.append(slim)
    return kept, cut


def _fits(arguments: Any) -> bool:
    try:
        return len(msgspec.json.encode(arguments)) <= STRING_CAP_BYTES
    except ValueError:  # half a surrogate pair cannot be written
        return False


JudgeAnswer: TypeAlias = Callable[[Prompt, str, list[ToolInvocation]], Judgement]


class Asked(msgspec.Struct, frozen=True):
    """What came of asking: the final attempt, and every try in order. Of a task: all its turns together.

    The wall-clock labels and `e2e_ns` are the final attempt's; `total_ns` is what the user waited in all, `lag_ns` how
    late our own loop was, None where nothing was sent. `prefix` is the line the prompt was sent with.
    """

    completion: Completion
    failure: CallFailure | None
    e2e_ns: int
    started_at_ms: int
    ended_at_ms: int
    attempts: list[Attempt]
    lag_ns: int | None = None
    total_ns: int = 0
    streamed: bool = False
    cold_start: bool | None = None
    prefix: str | None = None


class Source(msgspec.Struct, frozen=True):
    """Whose record it is: what all cells of a target have in common."""

    run_id: str
    stretch: int
    target: Target
    redact: Callable[[str], str]
    price: Price | None = None


def answered_result(source: Source, cell: Cell, asked: Asked, judge: JudgeAnswer = judge_answer) -> Result:
    """The record of a cell that was asked; with a verdict where there is an answer to judge."""
    target, prompt, completion = source.target, cell.prompt, asked.completion
    text, reasoning = well_formed(completion.text), well_formed(completion.reasoning_text)
    status, failure_type, error = _outcome(completion, text, asked.failure)
    verdict = _UNJUDGED
    if failure_type is None:
        judged = msgspec.structs.asdict(judge(prompt, text, completion.native_calls))
        verdict = {**judged, "judged_by": VALIDATORS_VERSION}
    # Nothing is ever estimated: where there is a count, it is the server's.
    counts = [getattr(completion, name) for name in TOKEN_COUNTS]
    raw_output, raw_bytes, truncated = cut_text(text, RAW_OUTPUT_CAP_BYTES)
    turns, transcript_cut = completion.transcript, False
    transcript = turns
    if turns is not None:
        transcript, transcript_cut = bounded_transcript(turns)
    cost, cost_source = call_cost(completion, source.price)
    return Result(
        run_id=source.run_id,
        provider=target.provider,
        model=target.model,
        thinking_level=target.thinking_level,
        prompt_id=prompt.id,
        prompt_name=prompt.name,
        availability_status=status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
        started_at_ms=asked.started_at_ms,
        ended_at_ms=asked.ended_at_ms,
        success=failure_type is None,
        failure_type=failure_type,
        raw_output=raw_output,
        suite=prompt.suite,
        repeat=cell.repeat,
        stretch=source.stretch,
        expected_tools=prompt.expected_tools,
        attempts=asked.attempts,
        streamed=asked.streamed,
        cold_start=asked.cold_start,
        # Bounded: a record too long to be read again would be a lost answer.
        finish_reason=completion.finish_reason and completion.finish_reason[:LABEL_CAP_CHARS],
        model_reported=completion.model_reported and completion.model_reported[:LABEL_CAP_CHARS],
        error=bounded_error(source.redact, error) if error else None,
        raw_output_bytes=raw_bytes,
        raw_output_truncated=truncated,
        text_repaired=text is not completion.text and text.count(REPLACEMENT) > completion.text.count(REPLACEMENT),
        reasoning_text=cut_text(reasoning, RAW_OUTPUT_CAP_BYTES)[0] if reasoning else None,
        tools_offered=bool(prompt.tools),
        tokens_source=None if all(count is None for count in counts) else "server",
        cost_usd=cost,
        cost_source=cost_source,
        prompt_prefix=asked.prefix,
        turns=None if turns is None else len(turns),
        world_seed=None if prompt.world is None else int(prompt.world.get("seed", 0)),
        engine=engine() if prompt.needs_shell else None,
        transcript=transcript,
        transcript_cut=transcript_cut,
        warnings=[*completion.warnings, *_warnings(target, prompt, completion)],
        **{name: getattr(completion, name) for name in _AS_REPORTED},
        **_timings(asked),
        **verdict,
    )


def _timings(asked: Asked) -> dict[str, Any]:
    """The final attempt's times in milliseconds, and in microseconds beside; null where nothing was seen."""
    seen = asked.completion
    told_ns = {"ttft": seen.ttft_ns, "ttfa": seen.ttfa_ns, "connect": seen.connect_ns, "lag": asked.lag_ns}
    told_us = {name: None if ns is None else round(ns / 1000) for name, ns in told_ns.items()}
    return {
        "e2e_ms": to_ms(asked.e2e_ns),
        "ttft_ms": None if seen.ttft_ns is None else to_ms(seen.ttft_ns),
        "ttfa_ms": None if seen.ttfa_ns is None else to_ms(seen.ttfa_ns),
        "timings_us": TimingsUs(e2e=round(asked.e2e_ns / 1000), **told_us),
        "total_ms": to_ms(asked.total_ns),
    }


def bounded_error(redact: Callable[[str], str], words: str) -> str:
    """What went wrong in the server's words: redacted, repaired, at most 2 KB."""
    return cut_text(redact(well_formed(words)), ERROR_CAP_BYTES)[0]


def cut_text(text: str, cap_bytes: int) -> tuple[str, int, bool]:
    """The text within `cap_bytes` of UTF-8, cut on a code point; its full size; whether it was cut."""
    encoded = text.encode("utf-8")
    if len(encoded) <= cap_bytes:
        return text, len(encoded), False
    return encoded[:cap_bytes].decode("utf-8", "ignore"), len(encoded), True


def to_ms(duration_ns: int) -> int:
    """Rounded milliseconds; 0 is a measurement."""
    return round(duration_ns / 1_000_000)


def call_cost(completion: Completion, price: Price | None) -> tuple[float | None, str | None]:
    """What the call cost and who says so: the provider itself first, else the price table. Never a guess."""
    told = completion.cost_usd
    if isinstance(told, int | float) and 0 <= told <= _MOST_A_CALL_CAN_COST_USD:
        return told, "reported"
    if price is None:
        return None, None
    cost = cost_usd(price, Tokens(completion.input_tokens, completion.output_tokens, completion.cached_tokens))
    return cost, None if cost is None else "price_table"


def _outcome(completion: Completion, text: str, failure: CallFailure | None) -> tuple[str, str | None, str | None]:
    """Status, failure type and the words for it; no failure type where there is an answer."""
    if failure is not None:
        return failure.status, failure.failure_type, failure.message or failure.failure_type
    if split_thinking(text).strip() or completion.native_calls:
        return "ok", None, None
    if completion.refusal or completion.finish_reason in _REFUSAL_FINISHES:
        return "ok", "refusal", completion.refusal or f"finish_reason {completion.finish_reason}"
    return "ok", "empty_response", None


def _warnings(target: Target, prompt: Prompt, completion: Completion) -> list[str]:
    found = []
    reported = completion.model_reported and completion.model_reported[:LABEL_CAP_CHARS]
    # An alias (`opus`) and a dated name (`gpt-5-2026-01-01`) are the model that was asked for.
    if reported and target.model not in reported and reported not in target.model:
        found.append(f"model_mismatch: asked {target.model}, answered by {reported}")
    chars, tokens = len(prompt.prompt), completion.input_tokens
    if tokens is not None and chars >= _CUT_PROMPT_MIN_CHARS and tokens * _CHARS_PER_TOKEN_AT_MOST < chars:
        found.append(f"prompt_cut: the server counted {tokens} tokens for a prompt of {chars} characters")
    told = any(warning.startswith(TOOLS_DROPPED) for warning in completion.warnings)
    if prompt.tools and not told and completion.transcript is None:
        found += filter(None, [dropped_warning(prompt.tools, tokens)])
    turns, max_turns = completion.transcript or [], prompt.max_turns or DEFAULT_MAX_TURNS
    if len(turns) >= max_turns and turns[-1].calls:
        found.append(f"max_turns: the model was still calling tools in turn {max_turns}, its last")
    return found
