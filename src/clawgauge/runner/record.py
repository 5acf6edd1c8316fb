"""One cell's record: what was seen, what it is judged to be, what it took, the conversation kept. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from clawgauge.characters import REPLACEMENT, well_formed
from clawgauge.checks import VALIDATORS_VERSION, judge_answer, needs_shell, split_thinking, unjudged
from clawgauge.errors import CallFailure
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.records import (
    CHECK_FAILED,
    TOO_FEW_TOKENS,
    TOOLS_DROPPED,
    TPS_RULE,
    Prompt,
    Result,
    Target,
    TimingsUs,
    TranscriptTurn,
)
from clawgauge.records.result import was_sent
from clawgauge.runner.agenda import Cell
from clawgauge.runner.judging import CheckFailed, JudgeAnswer
from clawgauge.suites.load import DEFAULT_MAX_TURNS
from clawgauge.timeline import TOKEN_COUNTS, Completion
from clawgauge.world import engine

# Words alone, and far more of them to a token than any tokenizer gets: what is below this was not sent.
_TOOL_CHARS_PER_TOKEN_AT_MOST = 8
TRANSCRIPT_CAP_BYTES, STRING_CAP_BYTES, RAW_OUTPUT_CAP_BYTES = 131_072, 16_384, 65_536
ERROR_CAP_BYTES, LABEL_CAP_CHARS = 2_048, 256
# These go into the record under the same name.
_OF_ASKING = ("started_at_ms", "ended_at_ms", "attempts", "streamed", "cold_start")
_AS_SEEN = (*TOKEN_COUNTS, "output_tps", "cli_overhead_ms", *_OF_ASKING)
_NO_ANSWER: dict[str, Any] = dict.fromkeys(("objective_pass", "violation", "parsed_output"))
_UNJUDGED = {**_NO_ANSWER, "tool_calls": [], "tool_call_count": 0, "tool_use_success": False}
_REFUSAL_FINISHES = frozenset({"content_filter", "refusal"})
_CUT_PROMPT_MIN_CHARS, _CHARS_PER_TOKEN_AT_MOST = 4_000, 12
# A program that claims more is not telling a cost.
_MOST_A_CALL_CAN_COST_USD = 1_000_000.0


def dropped_warning(tools: Sequence[Mapping[str, Any]], input_tokens: int | None) -> str | None:
    """The warning, where the server counted too few tokens to have shown the model these tools.

    A count of 0 is none: no prompt is empty."""
    if not input_tokens:
        return None
    chars = sum(len(word) for tool in tools for word in _words(tool))
    if input_tokens * _TOOL_CHARS_PER_TOKEN_AT_MOST >= chars:
        return None
    counted = f"the server counted {input_tokens} tokens for a prompt whose tools alone take {chars} characters"
    return f"{TOOLS_DROPPED} {counted}; the model cannot have seen them all"


def _missed_tools(source: Source, prompt: Prompt, asked: Completion) -> tuple[str | None, list[str]]:
    """Why the model cannot have seen the tools it was offered, as a code, and the warning that says so.

    A native call proves that it did."""
    if not prompt.tools or asked.native_calls:
        return None, []
    if isinstance(asked.tools_unseen, str):
        return asked.tools_unseen, []  # the provider has said so itself
    if not source.counts_cached_input or asked.input_tokens is None:
        return None, []
    # Servers differ in whether cached tokens are in their count: together they are the most that it can mean.
    warning = dropped_warning(prompt.tools, asked.input_tokens + (asked.cached_tokens or 0))
    return (None, []) if warning is None else (TOO_FEW_TOKENS, [warning])


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
    room, kept = TRANSCRIPT_CAP_BYTES, list[TranscriptTurn]()
    for turn in turns:
        text, *answers = (cut_text(well_formed(one), STRING_CAP_BYTES) for one in (turn.text, *turn.answers))
        calls = [call if _fits(call.arguments) else replace(call, arguments=None) for call in turn.calls]
        slim = replace(turn, text=text, calls=calls, answers=answers)
        room -= len(msgspec.json.encode(slim))
        if room < 0:
            break
        kept.append(slim)
    return kept, kept != turns


def _fits(arguments: Any) -> bool:
    try:
        return len(msgspec.json.encode(arguments)) <= STRING_CAP_BYTES
    except ValueError:  # half a surrogate pair cannot be written
        return False


def join_turns(turns: list[Completion], failure: CallFailure | None, transcript: list[TranscriptTurn]) -> Completion:
    """A task's turns as one: first-token times are of the first, the text is of the last, tokens and time are sums."""
    last = turns[-1]
    warnings = [words for turn in turns for words in turn.warnings]
    costs = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
    lags = [turn.lag_ns for turn in turns if turn.lag_ns is not None]
    sums: dict[str, int | None] = {}
    for name in TOKEN_COUNTS:
        # The sum where every turn told its count; a turn that failed may have told none.
        counts = [getattr(turn, name) for turn in turns]
        told = counts[:-1] if failure is not None and counts[-1] is None else counts
        sums[name] = sum(told) if told and None not in told else None
    return replace(
        turns[0], text=last.text, finish_reason=last.finish_reason, refusal=last.refusal, ended_at_ms=last.ended_at_ms,
        reasoning_text="\n\n".join(turn.reasoning_text for turn in turns if turn.reasoning_text),
        native_calls=[made for turn in transcript for made in turn.calls], transcript=transcript,
        attempts=[attempt for turn in turns for attempt in turn.attempts], failure=failure,
        e2e_ns=sum(turn.e2e_ns for turn in turns), lag_ns=max(lags, default=None), cli_overhead_ms=None,
        server_ns=dict(sum((Counter(turn.server_ns or {}) for turn in turns), Counter())) or None,
        cost_usd=sum(costs) if costs else None, warnings=list(dict.fromkeys(warnings)), **sums,
    )  # fmt: skip


class Source(msgspec.Struct, frozen=True):
    """Whose record it is: what all cells of a target have in common."""

    run_id: str
    stretch: int
    target: Target
    redact: Callable[[str], str]
    price: Price | None = None
    counts_cached_input: bool = True


def answered_result(source: Source, cell: Cell, asked: Completion, judge: JudgeAnswer | None = judge_answer) -> Result:
    """The record of a cell that was asked; with a verdict where there is an answer to judge. A `judge` that raises
    `CheckFailed` costs the verdict, and nothing of what was seen."""
    target, prompt = source.target, cell.prompt
    text, reasoning = well_formed(asked.text), well_formed(asked.reasoning_text)
    status, failure_type, error = "ok", None, None
    if (failure := asked.failure) is not None:
        status, failure_type, error = failure.status, failure.failure_type, failure.message or failure.failure_type
    elif not split_thinking(text).strip() and not asked.native_calls:
        refused = asked.refusal or asked.finish_reason in _REFUSAL_FINISHES
        failure_type = "refusal" if refused else "empty_response"
        error = asked.refusal or f"finish_reason {asked.finish_reason}" if refused else None
    verdict = _UNJUDGED
    if failure_type is None and judge is not None:
        try:
            verdict = {**asdict(judge(prompt, text, asked.native_calls)), "judged_by": VALIDATORS_VERSION}
        except CheckFailed as fault:
            verdict = {**asdict(unjudged(prompt, asked.native_calls)), "not_judged": CHECK_FAILED}
            error = f"the answer was not judged, because its check failed: {fault}"
    # Nothing is ever estimated: where there is a count, it is the server's.
    counted = any(getattr(asked, name) is not None for name in TOKEN_COUNTS)
    tools_unseen, missed_warnings = _missed_tools(source, prompt, asked)
    raw_bytes, turns = len(text.encode()), asked.transcript
    transcript, transcript_cut = (None, False) if turns is None else bounded_transcript(turns)
    is_priced = source.price is not None or asked.cost_usd is not None
    cost, cost_source = call_cost(asked, source.price) if is_priced else (None, None)
    # The final attempt's times; null where nothing was seen.
    ns = {"ttft": asked.ttft_ns, "ttfa": asked.ttfa_ns, "connect": asked.connect_ns, "lag": asked.lag_ns}
    us = {name: None if one is None else round(one / 1000) for name, one in ns.items()}
    server = dict(asked.server_ns or {})
    if "total" in server:
        server["wire"] = max(0, asked.e2e_ns - server.pop("total"))
    return Result(
        run_id=source.run_id, stretch=source.stretch, **asdict(target),
        suite=prompt.suite, prompt_id=prompt.id, prompt_name=prompt.name, repeat=cell.repeat,
        availability_status=status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
        success=failure_type is None, failure_type=failure_type,
        expected_tools=prompt.expected_tools, tools_offered=bool(prompt.tools),
        # Bounded: a record too long to be read again would be a lost answer.
        raw_output=text if raw_bytes <= RAW_OUTPUT_CAP_BYTES else cut_text(text, RAW_OUTPUT_CAP_BYTES),
        raw_output_bytes=raw_bytes, raw_output_truncated=raw_bytes > RAW_OUTPUT_CAP_BYTES,
        text_repaired=text is not asked.text and text.count(REPLACEMENT) > asked.text.count(REPLACEMENT),
        reasoning_text=cut_text(reasoning, RAW_OUTPUT_CAP_BYTES) if reasoning else None,
        error=bounded_error(source.redact, error) if error else None,
        finish_reason=asked.finish_reason and asked.finish_reason[:LABEL_CAP_CHARS],
        model_reported=asked.model_reported and asked.model_reported[:LABEL_CAP_CHARS],
        warnings=[*asked.warnings, *_warnings(target, prompt, asked), *missed_warnings],
        tools_unseen=tools_unseen,
        tokens_source="server" if counted else None, cost_usd=cost, cost_source=cost_source,
        turns=None if turns is None else len(turns), transcript=transcript, transcript_cut=transcript_cut,
        world_seed=None if prompt.world is None else int(prompt.world.get("seed", 0)),
        engine=engine() if needs_shell(prompt) else None, prompt_prefix=asked.prefix,
        asked=was_sent(attempt.failure_type for attempt in asked.attempts),
        load=asked.load, queued_ms=None if asked.load is None else round(asked.load.queued_us / 1000),
        e2e_ms=round(asked.e2e_ns / 1e6), total_ms=round(asked.total_ns / 1e6),
        ttft_ms=None if asked.ttft_ns is None else round(asked.ttft_ns / 1e6),
        ttfa_ms=None if asked.ttfa_ns is None else round(asked.ttfa_ns / 1e6),
        timings_us=TimingsUs(e2e=round(asked.e2e_ns / 1000), **us),
        server_us={part: round(one / 1000) for part, one in server.items()} or None,
        tps_rule=None if asked.output_tps is None else TPS_RULE,
        **{name: getattr(asked, name) for name in _AS_SEEN}, **verdict,
    )  # fmt: skip


def bounded_error(redact: Callable[[str], str], words: str) -> str:
    """What went wrong in the server's words: redacted, repaired, at most 2 KB."""
    return cut_text(redact(well_formed(words)), ERROR_CAP_BYTES)


def cut_text(text: str, cap_bytes: int) -> str:
    """The text within `cap_bytes` of UTF-8, cut on a code point."""
    encoded = text.encode()
    return text if len(encoded) <= cap_bytes else encoded[:cap_bytes].decode("utf-8", "ignore")


def call_cost(completion: Completion, price: Price | None) -> tuple[float | None, str | None]:
    """What the call cost and who says so: the provider itself first, else the price table. Never a guess."""
    told = completion.cost_usd
    if isinstance(told, int | float) and 0 <= told <= _MOST_A_CALL_CAN_COST_USD:
        return told, "reported"
    if price is None:
        return None, None
    cost = cost_usd(price, Tokens(completion.input_tokens, completion.output_tokens, completion.cached_tokens))
    return cost, None if cost is None else "price_table"


def _warnings(target: Target, prompt: Prompt, completion: Completion) -> list[str]:
    found = []
    reported = completion.model_reported and completion.model_reported[:LABEL_CAP_CHARS]
    # An alias (`opus`) and a dated name (`gpt-5-2026-01-01`) are the model that was asked for.
    if reported and target.model not in reported and reported not in target.model:
        found.append(f"model_mismatch: asked {target.model}, answered by {reported}")
    chars, tokens = sum(map(len, prompt.texts)), completion.input_tokens
    # A count of 0 is none.
    if tokens and chars >= _CUT_PROMPT_MIN_CHARS and tokens * _CHARS_PER_TOKEN_AT_MOST < chars:
        found.append(f"prompt_cut: the server counted {tokens} tokens for a prompt of {chars} characters")
    turns, max_turns = completion.transcript or [], prompt.max_turns or DEFAULT_MAX_TURNS
    if len(turns) >= max_turns and turns[-1].calls:
        found.append(f"max_turns: the model was still calling tools in turn {max_turns}, its last")
    return found
