"""Rows in, compact columns out: the accumulation that a summary's figures are later read from.

Owns: what is kept of each record (32 bytes of numbers, and a share in a tally) and how it is gathered fast. Refuses:
rates, percentiles and words; those are worked out once, at the end, from what is kept here.

A stratum holds rows alike in target, suite, stretch and cold start. Whatever is a category rather than a number is one
key of the stratum's tally, so a million records cost as much memory there as a hundred. Rows are taken in batches,
column by column: a record then costs a few list steps in C instead of thirty lines of Python.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from clawgauge.records import Status
from clawgauge.summary.rows import SummaryRow

_BATCH_ROWS = 512
_MAX_DISTINCT_WARNINGS = 100

FailureKey: TypeAlias = tuple[Status, str | None]


class StratumKey(NamedTuple):
    """What the rows of a stratum share. The field names are those of a row."""

    provider: str
    model: str
    thinking_level: str | None
    suite: str
    stretch: int
    cold_start: bool | None


class Ending(NamedTuple):
    """How a cell ended, without its numbers. The field names are those of a row."""

    prompt_id: str
    availability_status: Status
    success: bool
    failure_type: str | None
    objective_pass: bool | None
    tool_use_success: bool
    expected_tools: tuple[str, ...]
    tools_offered: bool
    finish_reason: str | None
    model_reported: str | None

    @property
    def answered(self) -> bool:
        return self.availability_status == "ok"

    @property
    def succeeded(self) -> bool:
        return self.answered and self.success

    @property
    def judged(self) -> bool:
        return self.succeeded and self.objective_pass is not None

    @property
    def passed(self) -> bool:
        return self.succeeded and self.objective_pass is True


class ToolSign(NamedTuple):
    """One call on an answered prompt that expects a tool; `channel` is None where there was no call at all."""

    prompt_id: str
    tools_offered: bool
    channel: str | None
    valid: bool


_stratum_of = attrgetter(*StratumKey._fields)
_ending_of = attrgetter(*Ending._fields)


class Total:
    """A sum that knows how many terms it has: nothing reported is not the same as zero."""

    __slots__ = ("n", "value")

    def __init__(self) -> None:
        self.n = 0
        self.value: Any = 0

    def add(self, values: list[Any]) -> None:
        self.n += len(values)
        self.value += sum(values)


class Stratum:
    """Rows alike in target, suite, stretch and cold start. Times are of successful calls, totals of all."""

    __slots__ = (
        "cost_usd",
        "e2e_ms",
        "ended_at_ms",
        "endings",
        "examples",
        "input_tokens",
        "output_tokens",
        "output_tps",
        "started_at_ms",
        "tool_signs",
        "ttfa_ms",
        "ttft_ms",
        "turns",
        "warnings",
    )

    def __init__(self) -> None:
        self.endings: Counter[tuple[Any, ...]] = Counter()
        self.tool_signs: Counter[tuple[Any, ...]] = Counter()
        self.examples: dict[FailureKey, str | None] = {}
        self.warnings: Counter[str] = Counter()
        self.e2e_ms, self.ttft_ms, self.ttfa_ms = array("q"), array("q"), array("q")
        self.output_tps = array("d")
        self.started_at_ms: int | None = None
        self.ended_at_ms: int | None = None
        self.input_tokens, self.output_tokens, self.cost_usd, self.turns = Total(), Total(), Total(), Total()

    def add(self, rows: list[SummaryRow]) -> None:
        """Take in rows that belong here."""
        self.endings.update(map(_ending_of, rows))
        succeeded = [row for row in rows if row.success and row.availability_status == "ok"]
        self.e2e_ms.extend([value for row in succeeded if (value := row.e2e_ms) is not None])
        self.ttft_ms.extend([value for row in succeeded if (value := row.ttft_ms) is not None])
        self.ttfa_ms.extend([value for row in succeeded if (value := row.ttfa_ms) is not None])
        self.output_tps.extend([rate for row in succeeded if (rate := row.output_tps) is not None])
        self.turns.add([value for row in succeeded if (value := row.turns) is not None])
        self.input_tokens.add([value for row in rows if (value := row.input_tokens) is not None])
        self.output_tokens.add([value for row in rows if (value := row.output_tokens) is not None])
        self.cost_usd.add([cost for row in rows if (cost := row.cost_usd) is not None])
        self._add_span(rows)
        self._add_tool_signs([row for row in rows if row.expected_tools and row.availability_status == "ok"])
        if len(succeeded) < len(rows):
            self._add_examples([row for row in rows if not row.success])
        if warned := [row for row in rows if row.warnings]:
            self._add_warnings(warned)

    def _add_span(self, rows: list[SummaryRow]) -> None:
        # A cell that was never sent may carry 0 for its times; 1970 is not when the suite began.
        starts = [value for row in rows if (value := row.started_at_ms)]
        ends = [value for row in rows if (value := row.ended_at_ms)]
        if starts and ends:
            first, last = min(starts), max(ends)
            self.started_at_ms = first if self.started_at_ms is None else min(first, self.started_at_ms)
            self.ended_at_ms = last if self.ended_at_ms is None else max(last, self.ended_at_ms)

    def _add_tool_signs(self, rows: list[SummaryRow]) -> None:
        self.tool_signs.update(
            [
                (row.prompt_id, row.tools_offered, call.channel, call.valid)
                for row in rows
                for call in row.tool_invocations
            ]
        )
        self.tool_signs.update(
            [(row.prompt_id, row.tools_offered, None, True) for row in rows if not row.tool_invocations]
        )

    def _add_examples(self, rows: list[SummaryRow]) -> None:
        for row in rows:
            key = (row.availability_status, row.failure_type)
            if self.examples.get(key) is None:
                self.examples[key] = row.error

    def _add_warnings(self, rows: list[SummaryRow]) -> None:
        for row in rows:
            for text in row.warnings:
                if text in self.warnings or len(self.warnings) < _MAX_DISTINCT_WARNINGS:
                    self.warnings[text] += 1

    def settle(self) -> None:
        """Sort the latencies once, at the end: a sort that later merges such runs has almost nothing left to do."""
        self.e2e_ms = array("q", sorted(self.e2e_ms))


def stratify(rows: Iterable[SummaryRow]) -> dict[StratumKey, Stratum]:
    """Sort rows into strata, in the order the strata first appear; reads `rows` once and keeps none of them."""
    strata: dict[tuple[Any, ...], Stratum] = {}
    source = iter(rows)
    while batch := list(islice(source, _BATCH_ROWS)):
        shares: dict[tuple[Any, ...], list[SummaryRow]] = {}
        for key, row in zip(map(_stratum_of, batch), batch, strict=True):
            if key in shares:
                shares[key].append(row)
            else:
                shares[key] = [row]
        for key, share in shares.items():
            if key not in strata:
                strata[key] = Stratum()
            strata[key].add(share)
    for stratum in strata.values():
        stratum.settle()
    return {StratumKey._make(key): stratum for key, stratum in strata.items()}
