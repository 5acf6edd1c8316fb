"""The record of one cell: assembled from what was seen, what it was judged to be, and what it cost.

Nothing here asks anything of a server or writes a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from clawgauge.characters import REPLACEMENT, well_formed
from clawgauge.checks import (
    VALIDATORS_VERSION,
    Judgement,
    judge_answer,
    needs_shell,
    split_thinking,
    unjudged,
)
from clawgauge.errors import CallFailure
from clawgauge.outcomes import CallOutcome, CellOutcome, Reply
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.records import (
    CHECK_FAILED,
    TOO_FEW_TOKENS,
    TOOLS_DROPPED,
    TPS_RULE,
    Attempt,
    Prompt,
    Result,
    Status,
    Target,
    TimingsUs,
    ToolInvocation,
    TranscriptTurn,
)
from clawgauge.records.result import was_sent
from clawgauge.runner.agenda import Cell
from clawgauge.runner.agent_record import judge_made_calls, with_agent
from clawgauge.runner.judging import CheckFailed, JudgeAnswer
from clawgauge.suites.prompt import DEFAULT_MAX_TURNS
from clawgauge.world import engine

# Names and descriptions alone, and more characters to a token than any tokenizer gets: a server
# that counted fewer tokens than this did not send the tools.
_MAX_TOOL_CHARS_PER_TOKEN = 8
_MAX_PROMPT_CHARS_PER_TOKEN = 12
_MIN_CHARS_OF_A_CUT_PROMPT = 4_000
TRANSCRIPT_CAP_BYTES = 131_072
STRING_CAP_BYTES = 16_384
RAW_OUTPUT_CAP_BYTES = 65_536
ERROR_CAP_BYTES = 2_048
LABEL_CAP_CHARS = 256
_REFUSAL_FINISHES = frozenset({"content_filter", "refusal"})
# A program that claims more is not telling a cost.
_MAX_COST_OF_A_CALL_USD = 1_000_000.0


class Source(msgspec.Struct, frozen=True):
    """What all records of a target have in common, and how its calls are priced."""

    run_id: str
    stretch: int
    target: Target
    redact: Callable[[str], str]
    price: Price | None = None
    counts_cached_input: bool = True


class _Ending(msgspec.Struct, frozen=True):
    """How a cell ended: with an answer, or why not."""

    status: Status
    failure_type: str | None = None
    error: str | None = None


class _Verdict(msgspec.Struct, frozen=True):
    """What the answer was judged to be. `judgement` is None where there was nothing to judge."""

    judgement: Judgement | None = None
    judged_by: str | None = None
    not_judged: str | None = None
    error: str | None = None


class _ToolsUnseen(msgspec.Struct, frozen=True):
    """Why the model cannot have seen the tools it was offered, as a code, and the warning."""

    code: str | None = None
    warnings: list[str] = []


class CallCost(msgspec.Struct, frozen=True):
    """What a call cost, and who says so: `reported` by the provider, or the `price_table`."""

    usd: float | None = None
    source: str | None = None


def make_result(
    source: Source, cell: Cell, outcome: CellOutcome, judge: JudgeAnswer | None = judge_answer
) -> Result:
    """The record of a cell, with a verdict where there is an answer to judge.

    With `judge` None nothing is judged. A `judge` that raises `CheckFailed` costs the verdict, and
    nothing of what was seen.
    """
    target = source.target
    prompt = cell.prompt
    call = outcome.call
    reply = call.reply
    text = well_formed(reply.text)
    ending = _find_ending(call, text)
    verdict = _Verdict()
    if ending.failure_type is None and judge is not None:
        verdict = _judge(judge, prompt, text, reply)
    judgement = verdict.judgement or _NO_JUDGEMENT
    error = verdict.error or ending.error
    tools_unseen = _find_tools_unseen(source, prompt, reply)
    transcript = None
    transcript_cut = False
    if call.transcript is not None:
        transcript, transcript_cut = bounded_transcript(call.transcript)
    raw_output = cut_text(text, RAW_OUTPUT_CAP_BYTES)
    raw_output_bytes = len(text.encode())
    reasoning = cut_text(well_formed(reply.reasoning_text), RAW_OUTPUT_CAP_BYTES)
    cost = find_cost(reply, source.price)
    world_seed = None
    if prompt.world is not None:
        world_seed = int(prompt.world.get("seed", 0))
    result = Result(
        run_id=source.run_id,
        stretch=source.stretch,
        provider=target.provider,
        model=target.model,
        thinking_level=target.thinking_level,
        suite=prompt.suite,
        prompt_id=prompt.id,
        prompt_name=prompt.name,
        repeat=cell.repeat,
        draw=cell.draw,
        asked=was_sent(attempt.failure_type for attempt in call.attempts),
        availability_status=ending.status,
        success=ending.failure_type is None,
        failure_type=ending.failure_type,
        error=bounded_error(source.redact, error) if error else None,
        attempts=call.attempts,
        # The answer
        raw_output=raw_output,
        raw_output_bytes=raw_output_bytes,
        raw_output_truncated=raw_output_bytes > RAW_OUTPUT_CAP_BYTES,
        text_repaired=text.count(REPLACEMENT) > reply.text.count(REPLACEMENT),
        reasoning_text=reasoning or None,
        finish_reason=_cut_label(reply.finish_reason),
        model_reported=_cut_label(reply.model_reported),
        turns=None if call.transcript is None else len(call.transcript),
        transcript=transcript,
        transcript_cut=transcript_cut,
        warnings=[
            *reply.warnings,
            *_find_warnings(target, prompt, call),
            *tools_unseen.warnings,
        ],
        # The verdict
        objective_pass=judgement.objective_pass,
        violation=judgement.violation,
        parsed_output=judgement.parsed_output,
        parsed_output_dropped=judgement.parsed_output_dropped,
        tool_calls=judgement.tool_calls,
        tool_call_count=judgement.tool_call_count,
        tool_use_success=judgement.tool_use_success,
        tool_invocations=judgement.tool_invocations,
        tool_channel=judgement.tool_channel if verdict.judgement else None,
        judged_by=verdict.judged_by,
        not_judged=verdict.not_judged,
        expected_tools=prompt.expected_tools,
        tools_offered=bool(prompt.tools),
        tools_unseen=tools_unseen.code,
        world_seed=world_seed,
        engine=engine() if needs_shell(prompt) else None,
        # The times
        started_at_ms=call.started_at_ms,
        ended_at_ms=call.ended_at_ms,
        e2e_ms=round(call.e2e_ns / 1e6),
        total_ms=round(outcome.total_ns / 1e6),
        ttft_ms=_to_ms(reply.ttft_ns),
        ttfa_ms=_to_ms(reply.ttfa_ns),
        timings_us=TimingsUs(
            e2e=round(call.e2e_ns / 1000),
            ttft=_to_us(reply.ttft_ns),
            ttfa=_to_us(reply.ttfa_ns),
            connect=_to_us(reply.connect_ns),
            lag=_to_us(call.lag_ns),
        ),
        server_us=_server_times_us(reply, call.e2e_ns),
        cli_overhead_ms=reply.cli_overhead_ms,
        streamed=outcome.streamed,
        cold_start=outcome.cold_start,
        prompt_prefix=outcome.prompt_prefix,
        load=outcome.load,
        queued_ms=None if outcome.load is None else round(outcome.load.queued_us / 1000),
        # Tokens and cost
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cached_tokens=reply.cached_tokens,
        reasoning_tokens=reply.reasoning_tokens,
        tokens_source="server" if _has_token_counts(reply) else None,
        output_tps=reply.output_tps,
        tps_rule=None if reply.output_tps is None else TPS_RULE,
        cost_usd=cost.usd,
        cost_source=cost.source,
    )
    if reply.agent is None:
        return result
    made = None
    if verdict.judged_by is not None and judge is not None:
        made = judge_made_calls(judge, prompt, text, reply.agent.calls)
    return with_agent(result, reply.agent, made)


# What a record holds in place of a judgement where there was nothing to judge.
_NO_JUDGEMENT = Judgement(
    objective_pass=None,
    parsed_output_dropped=False,
    tool_calls=[],
    tool_call_count=0,
    tool_use_success=False,
    tool_invocations=[],
    tool_channel="none",
)


def _find_ending(call: CallOutcome, text: str) -> _Ending:
    failure = call.failure
    if failure is not None:
        return _Ending(
            status=failure.status,
            failure_type=failure.failure_type,
            error=failure.message or failure.failure_type,
        )
    reply = call.reply
    if split_thinking(text).strip() or reply.native_calls:
        return _Ending(status="ok")
    if reply.agent is not None and reply.agent.calls:
        # The model answered with calls, though none of them reached the tools.
        return _Ending(status="ok")
    if reply.refusal or reply.finish_reason in _REFUSAL_FINISHES:
        error = reply.refusal or f"finish_reason {reply.finish_reason}"
        return _Ending(status="ok", failure_type="refusal", error=error)
    return _Ending(status="ok", failure_type="empty_response")


def _judge(judge: JudgeAnswer, prompt: Prompt, text: str, reply: Reply) -> _Verdict:
    try:
        judgement = judge(prompt, text, reply.native_calls)
    except CheckFailed as fault:
        return _Verdict(
            judgement=unjudged(prompt, reply.native_calls),
            not_judged=CHECK_FAILED,
            error=f"the answer was not judged, because its check failed: {fault}",
        )
    return _Verdict(judgement=judgement, judged_by=VALIDATORS_VERSION)


def _find_tools_unseen(source: Source, prompt: Prompt, reply: Reply) -> _ToolsUnseen:
    """Whether the model cannot have seen the tools. A native call proves that it did."""
    if not prompt.tools or reply.native_calls:
        return _ToolsUnseen()
    if reply.tools_unseen is not None:
        return _ToolsUnseen(code=reply.tools_unseen)  # the provider has warned of it itself
    if not source.counts_cached_input or reply.input_tokens is None:
        return _ToolsUnseen()
    # Servers differ in whether cached tokens are in their count: the sum is the most it can mean.
    n_tokens = reply.input_tokens + (reply.cached_tokens or 0)
    warning = dropped_warning(prompt.tools, n_tokens)
    if warning is None:
        return _ToolsUnseen()
    return _ToolsUnseen(code=TOO_FEW_TOKENS, warnings=[warning])


def dropped_warning(tools: Sequence[Mapping[str, Any]], input_tokens: int | None) -> str | None:
    """The warning, where the server counted too few tokens to have shown the model these tools.

    A count of 0 is unknown: no prompt is empty.
    """
    if not input_tokens:
        return None
    n_chars = 0
    for tool in tools:
        n_chars += sum(map(len, _shown_texts(tool)))
    if input_tokens * _MAX_TOOL_CHARS_PER_TOKEN >= n_chars:
        return None
    return (
        f"{TOOLS_DROPPED} the server counted {input_tokens} tokens for a prompt whose tools alone "
        f"take {n_chars} characters; the model cannot have seen them all"
    )


def _shown_texts(value: Any, key: str = "") -> Iterator[str]:
    """What a model has to be shown of a tool: names, descriptions, arguments, allowed values."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if key == "properties":
                yield str(name)
            yield from _shown_texts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _shown_texts(inner, key)
    elif isinstance(value, str) and key in ("name", "description", "enum"):
        yield value


def _find_warnings(target: Target, prompt: Prompt, call: CallOutcome) -> list[str]:
    warnings = []
    reported = _cut_label(call.reply.model_reported)
    # An alias (`opus`) and a dated name (`gpt-5-2026-01-01`) are the model that was asked for.
    if reported and target.model not in reported and reported not in target.model:
        warnings.append(f"model_mismatch: asked {target.model}, answered by {reported}")
    n_chars = sum(map(len, prompt.texts))
    n_tokens = call.reply.input_tokens
    # A count of 0 is unknown.
    if (
        n_tokens
        and n_chars >= _MIN_CHARS_OF_A_CUT_PROMPT
        and n_tokens * _MAX_PROMPT_CHARS_PER_TOKEN < n_chars
    ):
        warnings.append(
            f"prompt_cut: the server counted {n_tokens} tokens for a prompt of {n_chars} characters"
        )
    turns = call.transcript or []
    max_turns = prompt.max_turns or DEFAULT_MAX_TURNS
    if len(turns) >= max_turns and turns[-1].calls:
        warnings.append(
            f"max_turns: the model was still calling tools in turn {max_turns}, its last"
        )
    return warnings


def bounded_transcript(turns: list[TranscriptTurn]) -> tuple[list[TranscriptTurn], bool]:
    """The turns from the first on that fit, their texts cut; whether anything was left out."""
    room_bytes = TRANSCRIPT_CAP_BYTES
    kept_turns: list[TranscriptTurn] = []
    for turn in turns:
        bounded = _bound_turn(turn)
        room_bytes -= len(msgspec.json.encode(bounded))
        if room_bytes < 0:
            break
        kept_turns.append(bounded)
    return kept_turns, kept_turns != turns


def _bound_turn(turn: TranscriptTurn) -> TranscriptTurn:
    calls = []
    for call in turn.calls:
        calls.append(call if _fits(call.arguments) else replace(call, arguments=None))
    return replace(
        turn,
        text=cut_text(well_formed(turn.text), STRING_CAP_BYTES),
        calls=calls,
        answers=[cut_text(well_formed(answer), STRING_CAP_BYTES) for answer in turn.answers],
    )


def _fits(arguments: Any) -> bool:
    try:
        return len(msgspec.json.encode(arguments)) <= STRING_CAP_BYTES
    except ValueError:  # half a surrogate pair cannot be written
        return False


def join_turns(
    turns: Sequence[CallOutcome], failure: CallFailure | None, transcript: list[TranscriptTurn]
) -> CallOutcome:
    """The turns of a task as one call.

    First-token times are those of the first turn, the text is that of the last, tokens and
    durations are sums.
    """
    attempts: list[Attempt] = []
    lags_ns: list[int] = []
    for turn in turns:
        attempts += turn.attempts
        if turn.lag_ns is not None:
            lags_ns.append(turn.lag_ns)
    native_calls: list[ToolInvocation] = []
    for record in transcript:
        native_calls += record.calls
    # A turn that failed may have reported no counts.
    reply = _join_replies(
        [turn.reply for turn in turns], native_calls, last_may_lack_counts=failure is not None
    )
    return CallOutcome(
        reply=reply,
        failure=failure,
        attempts=attempts,
        started_at_ms=turns[0].started_at_ms,
        ended_at_ms=turns[-1].ended_at_ms,
        e2e_ns=sum(turn.e2e_ns for turn in turns),
        lag_ns=max(lags_ns, default=None),
        transcript=transcript,
    )


def _join_replies(
    replies: Sequence[Reply], native_calls: list[ToolInvocation], *, last_may_lack_counts: bool
) -> Reply:
    reasoning_texts: list[str] = []
    costs_usd: list[float] = []
    server_ns: Counter[str] = Counter()
    # Each of them once, in their order.
    warnings: dict[str, None] = {}
    for reply in replies:
        if reply.reasoning_text:
            reasoning_texts.append(reply.reasoning_text)
        if reply.cost_usd is not None:
            costs_usd.append(reply.cost_usd)
        server_ns.update(reply.server_ns or {})
        warnings.update(dict.fromkeys(reply.warnings))

    def sum_counts(counts: list[int | None]) -> int | None:
        return _sum_counts(counts, last_may_lack_counts)

    last = replies[-1]
    return replace(
        replies[0],
        text=last.text,
        reasoning_text="\n\n".join(reasoning_texts),
        native_calls=native_calls,
        refusal=last.refusal,
        finish_reason=last.finish_reason,
        input_tokens=sum_counts([reply.input_tokens for reply in replies]),
        output_tokens=sum_counts([reply.output_tokens for reply in replies]),
        cached_tokens=sum_counts([reply.cached_tokens for reply in replies]),
        reasoning_tokens=sum_counts([reply.reasoning_tokens for reply in replies]),
        server_ns=dict(server_ns) or None,
        cost_usd=sum(costs_usd) if costs_usd else None,
        cli_overhead_ms=None,
        warnings=list(warnings),
    )


def _sum_counts(counts: list[int | None], last_may_lack: bool) -> int | None:
    """The sum where every turn has its count; the last one may do without where it failed."""
    if last_may_lack and counts[-1] is None:
        counts = counts[:-1]
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total if counts else None


def find_cost(reply: Reply, price: Price | None) -> CallCost:
    """What a call cost: what the provider reports, else by the price table. Never a guess."""
    reported = reply.cost_usd
    if isinstance(reported, int | float) and 0 <= reported <= _MAX_COST_OF_A_CALL_USD:
        return CallCost(usd=reported, source="reported")
    if price is None:
        return CallCost()
    usd = cost_usd(price, Tokens(reply.input_tokens, reply.output_tokens, reply.cached_tokens))
    if usd is None:
        return CallCost()
    return CallCost(usd=usd, source="price_table")


def bounded_error(redact: Callable[[str], str], message: str) -> str:
    """What went wrong in the server's words: redacted, repaired, at most 2 KB."""
    return cut_text(redact(well_formed(message)), ERROR_CAP_BYTES)


def cut_text(text: str, cap_bytes: int) -> str:
    """The text within `cap_bytes` of UTF-8, cut between two code points."""
    encoded = text.encode()
    if len(encoded) <= cap_bytes:
        return text
    return encoded[:cap_bytes].decode("utf-8", "ignore")


def _cut_label(label: str | None) -> str | None:
    return None if label is None else label[:LABEL_CAP_CHARS]


def _has_token_counts(reply: Reply) -> bool:
    counts = (
        reply.input_tokens,
        reply.output_tokens,
        reply.cached_tokens,
        reply.reasoning_tokens,
    )
    return any(count is not None for count in counts)


def _server_times_us(reply: Reply, e2e_ns: int) -> dict[str, int] | None:
    """Where the server says the time went; `wire` is what it does not account for."""
    times_ns = dict(reply.server_ns or {})
    if "total" in times_ns:
        times_ns["wire"] = max(0, e2e_ns - times_ns.pop("total"))
    if not times_ns:
        return None
    return {part: round(duration_ns / 1000) for part, duration_ns in times_ns.items()}


def _to_ms(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else round(duration_ns / 1e6)


def _to_us(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else round(duration_ns / 1000)
