"""Rows in, compact columns out, and all of one target's seen as one.

Categories, and times in whole milliseconds, are tallied: a million records cost the memory of their
distinct values. Rows are taken in batches, column by column: a record costs a few list steps in C
instead of thirty lines of Python. Where that is why something is written as it is, keep it."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from clawgauge.records import (
    NO_TEMPLATE,
    SERVER_PARTS,
    TOO_FEW_TOKENS,
    LatencyStats,
    Percentiles,
    PromptKey,
    Status,
    Target,
)
from clawgauge.run_data.evidence import ObservationCollector
from clawgauge.run_data.row import (
    TIMER_NOISE_US,
    Row,
    answer_channel,
    called_by,
    count_flagged,
    find_tools_unseen,
    is_harm,
    made_native_call,
)
from clawgauge.stats.quantiles import CountedValues, describe
from clawgauge.summary.capacity import LoadCalls

_MAX_DISTINCT_WARNINGS = 100
_NO_CALL: list[tuple[Any, bool]] = [(None, True)]
Family: TypeAlias = Callable[[PromptKey], PromptKey]


class StratumKey(NamedTuple):
    """What the rows of a stratum share. The field names are those of a row."""

    provider: str
    model: str
    thinking_level: str | None
    suite: str
    stretch: int
    cold_start: bool | None
    tps_rule: int | None = None


class Ending(NamedTuple):
    """`n` cells of one prompt that ended alike. But for the first and the last, the field names
    are those of a row."""

    prompt: PromptKey
    availability_status: Status
    success: bool
    failure_type: str | None
    objective_pass: bool | None
    tool_use_success: bool
    expected_tools: tuple[str, ...]
    tools_offered: bool
    finish_reason: str | None
    was_asked: bool = True
    not_judged: str | None = None
    n: int = 1

    @property
    def suite(self) -> str:
        return self.prompt[0]

    @property
    def answered(self) -> bool:
        return self.availability_status == "ok"

    @property
    def is_evidence(self) -> bool:
        """Whether the answer counts for or against the model: not where its check broke."""
        return self.answered and self.not_judged is None

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
    """`n` calls alike on an answered prompt that expects a tool; `channel` is None where there
    was no call at all."""

    prompt: PromptKey
    tools_offered: bool
    channel: str | None
    valid: bool
    n: int


class OfferedAnswer(NamedTuple):
    """`n` answers that dealt alike with the tools a prompt offers; `channel` is the kind of
    their best call, and `called_by` says whether there was a native one at all, or one that was
    only written as text."""

    prompt: PromptKey
    expects_call: bool
    channel: str
    called_by: str
    objective_pass: bool | None
    n: int


_KEY_FIELDS = len(StratumKey._fields)
# A stratum knows its suite: there the prompt's id is enough.
_cell_of = attrgetter(*StratumKey._fields, "prompt_id", *Ending._fields[1:-1])


class Total(NamedTuple):
    """A sum of whole numbers that knows how many terms it has: nothing reported is not the same
    as zero."""

    n: int
    value: int

    @property
    def mean(self) -> float | None:
        return self.value / self.n if self.n else None

    @property
    def known(self) -> int | None:
        return self.value if self.n else None


# The columns of a stratum. Those that are tallied keep every value: whole milliseconds, but for the
# lag of our own loop, which is in microseconds. The first three are fields of a row, and are of
# successful calls alone; `timeout_ms` is what calls took that were cut off.
Tallied: TypeAlias = Literal[
    "e2e_ms", "ttft_ms", "ttfa_ms", "timeout_ms", "lag_us",
    "load", "queue", "prefill", "decode", "wire",
]  # fmt: skip
# Those that are summed up keep their sum and the number of its terms.
Summed: TypeAlias = Literal[
    "input_tokens", "output_tokens", "cached_tokens", "turns", "task_tokens", "harm",
    "retry_waits_ms", "native_calls", "too_few_tokens", "no_template",
]  # fmt: skip
Traced: TypeAlias = Literal["e2e_ms", "ttft_ms", "ttfa_ms", "output_tps"]
_TALLIED: tuple[Tallied, ...] = get_args(Tallied)
_SUMMED: tuple[Summed, ...] = get_args(Summed)
_TRACED: tuple[Traced, ...] = get_args(Traced)
_TIMES: tuple[tuple[Tallied, Callable[[Row], int | None]], ...] = (
    ("e2e_ms", attrgetter("e2e_ms")),
    ("ttft_ms", attrgetter("ttft_ms")),
    ("ttfa_ms", attrgetter("ttfa_ms")),
)
_TOKENS: tuple[tuple[Summed, Callable[[Row], int | None]], ...] = (
    ("input_tokens", attrgetter("input_tokens")),
    ("output_tokens", attrgetter("output_tokens")),
    ("cached_tokens", attrgetter("cached_tokens")),
)
# So many calls of a stratum are known by prompt: enough to tell how much alike those of one prompt
# are.
_TRACED_MAX = 10_000
_trace_of = attrgetter("prompt_id", *_TRACED)
# What a call took that was cut off at its deadline: more than any that was not. No recorded time is
# as long.
BEYOND_MS = 2**60


def _empty_tallies() -> dict[Tallied, Counter[int]]:
    return {column: Counter() for column in _TALLIED}


def _empty_sums() -> dict[Summed, Total]:
    return {column: Total(0, 0) for column in _SUMMED}


@dataclass(slots=True, eq=False)
class Stratum:
    """What rows alike in all fields of a `StratumKey` add up to. An unknown column raises
    KeyError."""

    endings: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    tool_signs: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    offered: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    tallies: dict[Tallied, Counter[int]] = field(default_factory=_empty_tallies)
    sums: dict[Summed, Total] = field(default_factory=_empty_sums)
    traces: list[tuple[Any, ...]] = field(default_factory=list)
    examples: dict[tuple[Status, str | None], str] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)
    output_tps: array[float] = field(default_factory=lambda: array("d"))
    cost_usd: array[float] = field(default_factory=lambda: array("d"))
    n_flagged: int = 0
    started_at_ms: int | None = None
    ended_at_ms: int | None = None

    def add(self, rows: list[Row], endings: Mapping[tuple[Any, ...], int]) -> None:
        """Take in rows that belong here; `endings` are theirs, counted, and tell what need not
        be looked for."""
        self.endings.update(endings)
        kinds = [Ending(*ending) for ending in endings]
        all_succeeded = all(kind.succeeded for kind in kinds)
        succeeded = rows if all_succeeded else [row for row in rows if row.succeeded]
        self._add_times(succeeded)
        self._add_tokens(rows)
        self._add_span(rows)
        self._add_lateness(rows)
        self._add_tasks(rows, succeeded)
        if any(kind.expected_tools or kind.tools_offered for kind in kinds):
            self._add_tools([row for row in rows if row.availability_status == "ok"])
        if not all_succeeded:
            self._add_failures(rows)
        self._add_warnings(rows)

    def _add_tokens(self, rows: list[Row]) -> None:
        for column, read in _TOKENS:
            self._add_up(column, [value for value in map(read, rows) if value is not None])
        self.cost_usd.extend([cost for row in rows if (cost := row.cost_usd) is not None])

    def _add_warnings(self, rows: list[Row]) -> None:
        for row in rows:
            for text in row.warnings:
                if text in self.warnings or len(self.warnings) < _MAX_DISTINCT_WARNINGS:
                    self.warnings[text] += 1

    def _add_up(self, column: Summed, values: list[int]) -> None:
        before = self.sums[column]
        self.sums[column] = Total(before.n + len(values), before.value + sum(values))

    def _add_times(self, succeeded: list[Row]) -> None:
        for column, read in _TIMES:
            values = [value for value in map(read, succeeded) if value is not None]
            self.tallies[column].update(values)
        rates = [rate for row in succeeded if (rate := row.output_tps) is not None]
        self.output_tps.extend(rates)
        server_times = [times for row in succeeded if (times := row.server_us) is not None]
        if server_times:
            for part in SERVER_PARTS:
                whole_ms = [round(times[part] / 1000) for times in server_times if part in times]
                self.tallies[part].update(whole_ms)
        room = _TRACED_MAX - len(self.traces)
        if room:
            self.traces.extend(map(_trace_of, succeeded[:room]))

    def _add_span(self, rows: list[Row]) -> None:
        # A cell that was never sent may carry 0 for its times; 1970 is not when the suite began.
        starts = [value for row in rows if (value := row.started_at_ms)]
        ends = [value for row in rows if (value := row.ended_at_ms)]
        if not starts or not ends:
            return
        if self.started_at_ms is not None:
            starts.append(self.started_at_ms)
        if self.ended_at_ms is not None:
            ends.append(self.ended_at_ms)
        self.started_at_ms = min(starts)
        self.ended_at_ms = max(ends)

    def _add_lateness(self, rows: list[Row]) -> None:
        timings = [timing for row in rows if (timing := row.timings_us) is not None]
        lags = [lag for timing in timings if (lag := timing.lag) is not None]
        self.tallies["lag_us"].update(lags)
        if max(lags, default=0) > TIMER_NOISE_US:
            self.n_flagged += count_flagged(timings)
        # The turns of a task are tries that went well; only a failed one that was followed by
        # another was tried again.
        several = [tries for row in rows if (tries := row.attempts) is not None and len(tries) > 1]
        waits = []
        for tries in several:
            if any(attempt.status != "ok" for attempt in tries[:-1]):
                waits.append(sum(attempt.waited_ms for attempt in tries))
        self._add_up("retry_waits_ms", waits)

    def _add_tasks(self, rows: list[Row], succeeded: list[Row]) -> None:
        tasks = [row for row in succeeded if row.turns is not None]
        if tasks:
            self._add_up("turns", [row.turns or 0 for row in tasks])
            tokens = [value for row in tasks if (value := row.output_tokens) is not None]
            self._add_up("task_tokens", tokens)
        # Whatever else came of a task: harm was done.
        harmful = [row for row in rows if row.turns is not None and is_harm(row.violation)]
        self._add_up("harm", [1] * len(harmful))

    def _add_tools(self, answered: list[Row]) -> None:
        offering = [row for row in answered if row.tools_offered]
        ways = []
        for row in offering:
            # Where a check broke, calls in the text were not looked for.
            if row.not_judged is None:
                channel = answer_channel(row)
                expects_call = bool(row.expected_tools)
                way = (row.prompt_id, expects_call, channel, called_by(row), row.objective_pass)
                ways.append(way)
        self.offered.update(ways)
        unseen = [find_tools_unseen(row) for row in offering]
        self._add_up(TOO_FEW_TOKENS, [int(code == TOO_FEW_TOKENS) for code in unseen])
        self._add_up(NO_TEMPLATE, [int(code == NO_TEMPLATE) for code in unseen])
        self._add_up("native_calls", [int(made_native_call(row)) for row in offering])
        signs = []
        for row in answered:
            if row.expected_tools and row.not_judged is None:
                calls = [(call.channel, call.valid) for call in row.tool_invocations]
                for channel, is_valid in calls or _NO_CALL:
                    signs.append((row.prompt_id, row.tools_offered, channel, is_valid))
        self.tool_signs.update(signs)

    def _add_failures(self, rows: list[Row]) -> None:
        for row in rows:
            if row.error and not row.success:
                self.examples.setdefault((row.availability_status, row.failure_type), row.error)
        cut_off = [row.e2e_ms for row in rows if row.failure_type == "timeout"]
        self.tallies["timeout_ms"].update([value for value in cut_off if value is not None])


class Strata:
    """Sorts rows into strata, as they first appear, and keeps none; with `only`, those of a
    target and prompts."""

    def __init__(self, only: tuple[Target, Collection[PromptKey]] | None = None) -> None:
        self.loads = LoadCalls()
        self.observations = ObservationCollector()
        self._strata: defaultdict[StratumKey, Stratum] = defaultdict(Stratum)
        self._only = only

    def add(self, rows: list[Row], offsets: Sequence[int] = ()) -> None:
        """Take in some rows; their places in the file do not matter here."""
        if self._only is not None:
            target, prompts = self._only
            rows = [row for row in rows if row.prompt in prompts and row.target == target]
        self.loads.add(rows)
        self.observations.add(rows)
        cells = list(map(_cell_of, rows))
        n_by_cell = Counter(cells)
        endings: dict[tuple[Any, ...], dict[tuple[Any, ...], int]] = {}
        for cell, n in n_by_cell.items():
            endings.setdefault(cell[:_KEY_FIELDS], {})[cell[_KEY_FIELDS:]] = n
        shares: dict[tuple[Any, ...], list[Row]] = dict.fromkeys(endings, rows)
        if len(endings) > 1:
            # A batch has few kinds of cell, so that a row costs one look-up.
            shares = {key: [] for key in endings}
            append_by_cell = {cell: shares[cell[:_KEY_FIELDS]].append for cell in n_by_cell}
            for cell, row in zip(cells, rows, strict=True):
                append_by_cell[cell](row)
        for key, share in shares.items():
            self._strata[StratumKey._make(key)].add(share, endings[key])

    def groups(self, planned: Sequence[Target] = ()) -> dict[Target, Group]:
        """One group per target: those planned first, in their order, recorded or not, then
        others as they came."""
        members: dict[Target, dict[StratumKey, Stratum]] = {target: {} for target in planned}
        for key, stratum in self._strata.items():
            target = Target(key.provider, key.model, key.thinking_level)
            members.setdefault(target, {})[key] = stratum
        return {target: Group(target, strata) for target, strata in members.items()}


class Group:
    """One target's strata as one: every way a cell ended, an expected call came, and offered
    tools were used."""

    def __init__(self, target: Target, strata: Mapping[StratumKey, Stratum]) -> None:
        self.target = target
        self.strata = list(strata.items())
        self.suites = list(dict.fromkeys(key.suite for key in strata))
        self.endings: list[Ending] = []
        self.tool_signs: list[ToolSign] = []
        self.offered: list[OfferedAnswer] = []
        for key, stratum in strata.items():
            for (prompt_id, *rest), n in stratum.endings.items():
                self.endings.append(Ending._make([(key.suite, prompt_id), *rest, n]))
            for (prompt_id, *rest), n in stratum.tool_signs.items():
                self.tool_signs.append(ToolSign._make([(key.suite, prompt_id), *rest, n]))
            for (prompt_id, *rest), n in stratum.offered.items():
                self.offered.append(OfferedAnswer._make([(key.suite, prompt_id), *rest, n]))

    def describe(
        self,
        column: Tallied,
        family: Family | None = None,
        *,
        suite: str | None = None,
        cold: bool | None = None,
    ) -> Percentiles:
        """The distribution of a tallied time; with `family`, for which the time has to be
        traced, its intervals know which calls are alike."""
        strata = []
        for key, stratum in self._in(suite):
            if cold is None or key.cold_start is cold:
                strata.append((key, stratum))
        values = CountedValues(_add_up(strata, column))
        if family is None:
            return describe(values)
        return describe(values, _by_family(strata, _traced(column), family).values())

    def describe_rates(self, family: Family | None = None) -> Percentiles:
        """The distribution of tokens a second, of the latest rule alone."""
        strata = [(key, stratum) for key, stratum in self.strata if _rule_of(key) == self.tps_rule]
        rates = [rate for _, stratum in strata for rate in stratum.output_tps]
        if family is None:
            return describe(rates)
        return describe(rates, _by_family(strata, "output_tps", family).values())

    @property
    def tps_rule(self) -> int | None:
        """The rule that the group's tokens a second go by; where records have several, as of a
        run that a later version went on with, the latest. None where there are no rates."""
        rules = [_rule_of(key) for key, stratum in self.strata if stratum.output_tps]
        return max(rules, default=None)

    def latency(self, suite: str | None = None) -> LatencyStats:
        whole = self.describe("e2e_ms", suite=suite)
        return LatencyStats(p50=whole.p50, p95=whole.p95, p99=whole.p99, mean=whole.mean)

    def describe_censored(
        self, family: Family, suite: str | None = None
    ) -> tuple[Percentiles, int | None]:
        """The whole calls and those cut off at a deadline, which took `BEYOND_MS`; and the
        shortest such deadline."""
        strata = self._in(suite)
        cut_off = _add_up(strata, "timeout_ms")
        values = _add_up(strata, "e2e_ms")
        values[BEYOND_MS] += cut_off.total()
        families = _by_family(strata, "e2e_ms", family)
        for ending in self.endings:
            if ending.failure_type == "timeout" and suite in (None, ending.suite):
                families.setdefault(family(ending.prompt), []).extend([BEYOND_MS] * ending.n)
        # Without the timeouts where there were none.
        whole = describe(CountedValues(+values), families.values())
        return whole, min(cut_off, default=None)

    def _in(self, suite: str | None) -> list[tuple[StratumKey, Stratum]]:
        return [(key, stratum) for key, stratum in self.strata if suite in (None, key.suite)]

    def prompt_times_ms(self, column: Traced = "e2e_ms") -> dict[PromptKey, list[float]]:
        """How long the whole calls of each prompt took, or one of their other times, in order."""
        return _by_family(self.strata, column, lambda prompt: prompt)

    def split(self, suites: Collection[str]) -> tuple[Group, Group]:
        """The strata outside of `suites`, and those inside."""
        outside: dict[StratumKey, Stratum] = {}
        inside: dict[StratumKey, Stratum] = {}
        for key, stratum in self.strata:
            if key.suite in suites:
                inside[key] = stratum
            else:
                outside[key] = stratum
        return Group(self.target, outside), Group(self.target, inside)

    def total(self, column: Summed) -> Total:
        totals = [stratum.sums[column] for _, stratum in self.strata]
        return Total(sum(total.n for total in totals), sum(total.value for total in totals))

    def costs_usd(self, suite: str | None = None) -> list[float]:
        return [cost for _, stratum in self._in(suite) for cost in stratum.cost_usd]

    def n_flagged(self) -> int:
        return sum(stratum.n_flagged for _, stratum in self.strata)

    def example(self, status: Status, failure_type: str | None) -> str | None:
        """The words of the first call that ended so; None where none came with any."""
        for _, stratum in self.strata:
            text = stratum.examples.get((status, failure_type))
            if text:
                return text
        return None

    def warnings(self) -> Counter[str]:
        return sum((stratum.warnings for _, stratum in self.strata), Counter())


def _rule_of(key: StratumKey) -> int:
    return key.tps_rule or 1


def _traced(column: Tallied) -> Traced:
    """The same column among those that are traced. Raises KeyError for one that is not."""
    for traced in _TRACED:
        if traced == column:
            return traced
    raise KeyError(column)


def _add_up(strata: Iterable[tuple[StratumKey, Stratum]], column: Tallied) -> Counter[int]:
    whole: Counter[int] = Counter()
    for _, stratum in strata:
        whole.update(stratum.tallies[column])
    return whole


def _by_family(
    strata: Iterable[tuple[StratumKey, Stratum]], column: Traced, family: Family
) -> dict[PromptKey, list[float]]:
    """The traced values of each family, in ascending order."""
    values: dict[PromptKey, list[float]] = {}
    column_index = 1 + _TRACED.index(column)
    for key, stratum in strata:
        for trace in stratum.traces:
            value = trace[column_index]
            if value is not None:
                values.setdefault(family((key.suite, trace[0])), []).append(value)
    return {name: sorted(members) for name, members in values.items()}


def wall_clock_ms(groups: Iterable[Group]) -> int | None:
    """First start to last end within each stretch of a resumed run, summed; the pause between
    stretches is no work."""
    bounds: dict[int, tuple[int, int]] = {}
    for group in groups:
        for key, stratum in group.strata:
            start = stratum.started_at_ms
            end = stratum.ended_at_ms
            if start is not None and end is not None:
                first, last = bounds.get(key.stretch, (start, end))
                bounds[key.stretch] = (min(first, start), max(last, end))
    if not bounds:
        return None
    # A wall clock that was set back must not make a suite take negative time.
    return sum(max(0, last - first) for first, last in bounds.values())
