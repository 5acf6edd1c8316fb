"""A run to be read, and the one view of a recorded line: all its fields but the long texts.

A row's fields stand in the order they have on disk, because the decoder finds the next key fastest
where it expects it. Every addition to the schema document has a default, so older folders decode
too. Who needs more of a line reads the whole `Result` at its offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias

import msgspec

from clawgauge.journal import CellKey, RunReader
from clawgauge.records import (
    NO_TEMPLATE,
    TOO_FEW_TOKENS,
    TOOLS_DROPPED,
    Event,
    Inventory,
    Load,
    Prompt,
    PromptKey,
    Result,
    RunConfig,
    RunSummary,
    Status,
    Target,
)
from clawgauge.records.result import was_sent

# Whatever a damaged line claims, a count or a time is not below nothing and has to fit the 64-bit
# columns it is kept in; beyond, it is unknown.
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# A sum of a million of these must still be a number.
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
# No figure needs these. The decoder compares a key with every name before it gives it up as
# unknown, so a small value costs less under a name of its own than skipped: a twentieth of the time
# a million records take.
Unread: TypeAlias = Any
# How a call came, the best first.
NATIVE = "native"
TEXT = "text"
MALFORMED = "malformed"
MENTION = "mention"
NONE = "none"
# A call could be off by more than is told where this program was later than both.
LATE_US = 1_000
LATE_SHARE = 0.01
# A timer alone is as late as this: it says nothing of a call.
TIMER_NOISE_US = 100
# Enough that a record costs a few list steps in C instead of thirty lines of Python, and few enough
# for a core's own cache: with 512 a million records took a quarter longer.
BATCH_ROWS = 128


class InvocationRow(msgspec.Struct, frozen=True, gc=False):
    channel: str = "mention"
    valid: bool = True


class TimingsRow(msgspec.Struct, frozen=True, gc=False):
    """How late this program's own loop was during a call, and the figures it could have moved."""

    e2e: Whole | None = None
    ttft: Whole | None = None
    ttfa: Whole | None = None
    lag: Whole | None = None


class AttemptRow(msgspec.Struct, frozen=True, gc=False):
    status: str = "ok"
    waited_ms: Whole = 0
    failure_type: str | None = None


class AgentFactsRow(msgspec.Struct, frozen=True, gc=False):
    program: str = ""
    version: str | None = None


class AgentCallRow(msgspec.Struct, frozen=True, gc=False):
    fate: str = ""
    made_channel: str | None = None


class MadeRow(msgspec.Struct, frozen=True, gc=False):
    objective_pass: bool | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One recorded cell. What does not fit its type is unknown; `CellRow` names the fields that
    must fit."""

    record_type: Literal["result"] = "result"
    run_id: Unread = None
    provider: str
    model: str
    thinking_level: str | None = None
    prompt_id: str
    prompt_name: str = ""
    availability_status: Status
    started_at_ms: Whole | None = None
    ended_at_ms: Whole | None = None
    e2e_ms: Whole | None = None
    ttft_ms: Whole | None = None
    success: bool
    failure_type: str | None = None
    objective_pass: bool | None = None
    violation: str | None = None
    input_tokens: Whole | None = None
    output_tokens: Whole | None = None
    tool_call_count: Unread = None
    tool_use_success: bool = False

    suite: str = ""
    repeat: int = 0
    stretch: Whole = 0
    expected_tools: tuple[str, ...] = ()
    ttfa_ms: Whole | None = None
    timings_us: TimingsRow | None = None
    output_tps: Amount | None = None
    total_ms: Whole | None = None
    attempts: tuple[AttemptRow, ...] | None = None
    streamed: Unread = None
    cold_start: bool | None = None
    finish_reason: str | None = None
    model_reported: str | None = None
    error: str | None = None
    raw_output_bytes: Unread = None
    raw_output_truncated: Unread = None
    text_repaired: Unread = None
    parsed_output_dropped: Unread = None
    reasoning_tokens: Whole | None = None
    cached_tokens: Whole | None = None
    tool_invocations: tuple[InvocationRow, ...] = ()
    tools_offered: bool = False
    tool_channel: str | None = None
    judged_by: str | None = None
    tokens_source: Unread = None
    cost_usd: Amount | None = None
    cost_source: Unread = None
    cli_overhead_ms: Unread = None
    prompt_prefix: Unread = None
    turns: Whole | None = None
    world_seed: Unread = None
    transcript_cut: Unread = None
    warnings: tuple[str, ...] = ()
    engine: Unread = None
    server_us: dict[str, Whole] | None = None
    queued_ms: Unread = None
    load: Load | None = None
    node: Unread = None
    asked: bool | None = None
    tps_rule: Whole | None = None
    tools_unseen: str | None = None
    not_judged: str | None = None
    draw: int = 0
    agent: AgentFactsRow | None = None
    model_ms: Whole | None = None
    tools_ms: Whole | None = None
    harness_ms: Whole | None = None
    harness_parts: Unread = None
    ttft_user_ms: Whole | None = None
    agent_turns: Unread = None
    agent_calls: tuple[AgentCallRow, ...] = ()
    calls_made: Whole | None = None
    calls_run: Whole | None = None
    calls_lost: Whole | None = None
    calls_gained: Whole | None = None
    calls_altered: Whole | None = None
    added_messages: Whole | None = None
    recorder_late: bool | None = None
    made: MadeRow | None = None

    @property
    def was_asked(self) -> bool:
        """As `Result.was_asked`; a record that says nothing of its attempts counts as asked."""
        if self.availability_status == "ok":
            return True
        if self.asked is not None:
            return self.asked
        if self.attempts is None:
            return True
        return was_sent(attempt.failure_type for attempt in self.attempts)

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)

    @property
    def cell(self) -> CellKey:
        return CellKey(
            provider=self.provider,
            model=self.model,
            thinking_level=self.thinking_level,
            suite=self.suite,
            prompt_id=self.prompt_id,
            repeat=self.repeat,
            draw=self.draw,
        )

    @property
    def prompt(self) -> PromptKey:
        return self.suite, self.prompt_id

    @property
    def text(self) -> tuple[str, str, int]:
        """Which text was asked: suite, prompt id, drawing."""
        return self.suite, self.prompt_id, self.draw

    @property
    def succeeded(self) -> bool:
        return self.success and self.availability_status == "ok"


class Collector(Protocol):
    """Whatever counts or picks out the rows of a run."""

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        """Take in the next rows of a run; `offsets` tell where their lines begin, for
        `Run.results_at`."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """What one pass over the rows of a run read. `n_unreadable_lines` whole lines were no record.

    A last line cut short, as in a run that is being written or was killed, is not counted.
    """

    n_rows: int
    n_unreadable_lines: int


class Run:
    """One run folder. Each of its documents is read when it is asked for, and remembered; rows are
    streamed."""

    def __init__(self, reader: RunReader[Row]) -> None:
        self._reader = reader

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(RunReader(path, Row))

    @property
    def path(self) -> Path:
        return self._reader.path

    @property
    def run_id(self) -> str:
        return self._reader.run_id

    @property
    def config(self) -> RunConfig | None:
        """config.json; None where there is none, or where the first harness made it."""
        return self._reader.config

    @property
    def inventory(self) -> Inventory | None:
        return self._reader.inventory

    def inventory_of(self, node: str) -> Inventory | None:
        """The machine of a node of a fleet; without a name, that of this program."""
        return self._reader.inventory_of(node)

    @property
    def summary(self) -> RunSummary | None:
        """summary.json as it was last written: it may be older than the records."""
        return self._reader.summary

    @property
    def started_at_ms(self) -> float:
        return self._reader.started_at_ms

    @property
    def events(self) -> list[Event]:
        return self._reader.events

    @property
    def drawn_prompts(self) -> dict[tuple[str, str, int], Prompt]:
        """The further drawings of prompts that were asked, by suite, id and drawing."""
        return self._reader.drawn_prompts

    def prompts_by_text(self) -> dict[tuple[str, str, int], Prompt]:
        """Every text that the run asked or may have asked: those of config.json are drawing 0."""
        prompts: dict[tuple[str, str, int], Prompt] = {}
        if self.config is not None:
            for prompt in self.config.prompts:
                prompts[prompt.suite, prompt.id, 0] = prompt
        prompts.update(self.drawn_prompts)
        return prompts

    @property
    def first_harness(self) -> bool:
        """Whether the first harness made the folder."""
        return self._reader.first_harness

    def feed(self, *collectors: Collector) -> RowsRead:
        """Go through all rows once, and hand them to every collector."""
        n_rows = 0
        for rows, offsets in self._reader.batches(BATCH_ROWS):
            n_rows += len(rows)
            for collector in collectors:
                collector.add(rows, offsets)
        return RowsRead(n_rows, self._reader.n_unreadable_lines)

    def results_at(self, offsets: Iterable[int]) -> Iterator[tuple[int, Result]]:
        """The whole results whose lines begin at `offsets`, each with its own, in file order."""
        return self._reader.results_at(offsets)


def is_harm(violation: str | None) -> bool:
    return violation is not None and violation.startswith("forbidden_effect")


def channel_kind(channel: str) -> str:
    """`text:<format>` is text whatever the format; a channel of another name is a mention at
    most."""
    if channel in (NATIVE, MALFORMED, NONE):
        return channel
    return TEXT if channel.startswith(TEXT) else MENTION


def text_format(channel: str) -> str:
    return channel.removeprefix("text:")


def called_by(row: Row) -> str:
    """How an answer to a prompt that offers tools called one: `native`, `text` or `none`. A native
    call, malformed or not, is a call; one that is only written as text is counted apart; a command
    in prose is none."""
    kinds = {channel_kind(call.channel) for call in row.tool_invocations}
    if not kinds and row.tool_channel is not None:
        kinds = {channel_kind(row.tool_channel)}
    if NATIVE in kinds or MALFORMED in kinds:
        return NATIVE
    if TEXT in kinds:
        return TEXT
    return NONE


def answer_channel(row: Row) -> str:
    """How an answer's calls came, the best first; worked out from its calls where the record does
    not say."""
    if row.tool_channel is not None:
        return channel_kind(row.tool_channel)
    kinds = set()
    for call in row.tool_invocations:
        kinds.add(channel_kind(call.channel) if call.valid else MALFORMED)
    for kind in (NATIVE, TEXT, MALFORMED, MENTION):
        if kind in kinds:
            return kind
    return NONE


def made_native_call(row: Row) -> bool:
    """Whether an answer has a call that came natively, right or malformed."""
    if row.tool_channel == NATIVE:
        return True
    return any(call.channel == NATIVE for call in row.tool_invocations)


def find_tools_unseen(row: Row) -> str | None:
    """Why the model cannot have seen the tools that a call offered, as a code; None where nothing
    says so.

    A native call proves that it saw them. Records of earlier versions have no code: there the
    warning is the sign, unless the server's count was 0, which is none."""
    if not row.tools_offered or made_native_call(row):
        return None
    if row.tools_unseen is not None:
        return row.tools_unseen
    return _read_old_warning(row)


def _read_old_warning(row: Row) -> str | None:
    """The code of a record that has none, out of the warning that earlier versions wrote."""
    for warning in row.warnings:
        if warning.startswith(TOOLS_DROPPED):
            if "template" in warning:
                return NO_TEMPLATE
            return TOO_FEW_TOKENS if row.input_tokens != 0 else None
    return None


def count_flagged(timings: Iterable[TimingsRow]) -> int:
    """How many of these calls could be off by more than 1 ms or 1%."""
    n_flagged = 0
    for timing in timings:
        lag_us = timing.lag
        if lag_us is None or lag_us <= TIMER_NOISE_US:
            continue
        # The shortest figure that the lag could have moved.
        figure_us = (timing.e2e or 0) if timing.ttft is None else timing.ttft
        if lag_us > LATE_US or lag_us > LATE_SHARE * figure_us:
            n_flagged += 1
    return n_flagged
