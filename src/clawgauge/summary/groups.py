"""Rows in, compact columns out, and all of one target's seen as one.

Categories, and times in whole milliseconds, are tallied: a million records cost the memory of their distinct values.
Rows are taken in batches, column by column: a record costs a few list steps in C instead of thirty lines of Python."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

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
    """`n` cells of one prompt that ended alike. But for the first and the last, the field names are those of a row."""

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
    """`n` calls alike on an answered prompt that expects a tool; `channel` is None where there was no call at all."""

    prompt: PromptKey
    tools_offered: bool
    channel: str | None
    valid: bool
    n: int


class OfferedAnswer(NamedTuple):
    """`n` answers that dealt alike with the tools a prompt offers; `channel` is the kind of their best call, and
    `called_by` says whether there was a native one at all, or one that was only written as text."""

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
    """A sum of whole numbers that knows how many terms it has: nothing reported is not the same as zero."""

    n: int
    value: int

    @property
    def mean(self) -> float | None:
        return self.value / self.n if self.n else None

    @property
    def known(self) -> int | None:
        return self.value if self.n else None


# The columns of a stratum, by the field of a row they are made of. Times and rates are of successful calls alone.
_TIMES = {name: attrgetter(name) for name in ("e2e_ms", "ttft_ms", "ttfa_ms")}
_TOKENS = {name: attrgetter(name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
# So many calls of a stratum are known by prompt: enough to tell how much alike those of one prompt are.
_TRACED_MAX = 10_000
_TRACED = ("prompt_id", *_TIMES, "output_tps")
_trace_of = attrgetter(*_TRACED)
# What a call took that was cut off at its deadline: more than any that was not. No recorded time is as long.
BEYOND_MS = 2**60


@dataclass(slots=True, eq=False)
class Stratum:
    endings: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    tool_signs: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    offered: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    tallies: defaultdict[str, Counter[int]] = field(default_factory=partial(defaultdict, Counter))
    traces: list[tuple[Any, ...]] = field(default_factory=list)
    n_terms: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[Status, str | None], str] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)
    output_tps: array[float] = field(default_factory=lambda: array("d"))
    cost_usd: array[float] = field(default_factory=lambda: array("d"))
    n_flagged: int = 0
    started_at_ms: int | None = None
    ended_at_ms: int | None = None

    def add(self, rows: list[Row], endings: Mapping[tuple[Any, ...], int]) -> None:
        """Take in rows that belong here; `endings` are theirs, counted, and tell what need not be looked for."""
        self.endings.update(endings)
        kinds = [Ending(*ending) for ending in endings]
        all_succeeded = all(kind.succeeded for kind in kinds)
        succeeded = rows if all_succeeded else [row for row in rows if row.succeeded]
        for name, read in _TIMES.items():
            self.tallies[name].update([value for value in map(read, succeeded) if value is not None])
        for name, read in _TOKENS.items():
            self._add_up(name, [value for value in map(read, rows) if value is not None])
        self.output_tps.extend([rate for row in succeeded if (rate := row.output_tps) is not None])
        if told := [times for row in succeeded if (times := row.server_us) is not None]:
            for part in SERVER_PARTS:
                self.tallies[part].update([round(times[part] / 1000) for times in told if part in times])
        if room := _TRACED_MAX - len(self.traces):
            self.traces.extend(map(_trace_of, succeeded[:room]))
        self.cost_usd.extend([cost for row in rows if (cost := row.cost_usd) is not None])
        # A cell that was never sent may carry 0 for its times; 1970 is not when the suite began.
        starts = [value for row in rows if (value := row.started_at_ms)]
        ends = [value for row in rows if (value := row.ended_at_ms)]
        if starts and ends:
            self.started_at_ms = min(starts if self.started_at_ms is None else [*starts, self.started_at_ms])
            self.ended_at_ms = max(ends if self.ended_at_ms is None else [*ends, self.ended_at_ms])
        self._add_lateness(rows)
        if tasks := [row for row in succeeded if row.turns is not None]:
            self._add_up("turns", [row.turns or 0 for row in tasks])
            self._add_up("task_tokens", [value for row in tasks if (value := row.output_tokens) is not None])
        # Whatever else came of a task: harm was done.
        self._add_up("harm", [1 for row in rows if row.turns is not None and is_harm(row.violation)])
        if any(kind.expected_tools or kind.tools_offered for kind in kinds):
            self._add_tools([row for row in rows if row.availability_status == "ok"])
        if not all_succeeded:
            for row in rows:
                if row.error and not row.success:
                    self.examples.setdefault((row.availability_status, row.failure_type), row.error)
            cut_off = [row.e2e_ms for row in rows if row.failure_type == "timeout"]
            self.tallies["timeout_ms"].update([value for value in cut_off if value is not None])
        for text in [text for row in rows for text in row.warnings]:
            if text in self.warnings or len(self.warnings) < _MAX_DISTINCT_WARNINGS:
                self.warnings[text] += 1

    def _add_up(self, name: str, values: list[int]) -> None:
        self.n_terms[name] += len(values)
        self.sums[name] += sum(values)

    def _add_lateness(self, rows: list[Row]) -> None:
        timings = [timing for row in rows if (timing := row.timings_us) is not None]
        lags = [lag for timing in timings if (lag := timing.lag) is not None]
        self.tallies["lag_us"].update(lags)
        if max(lags, default=0) > TIMER_NOISE_US:
            self.n_flagged += count_flagged(timings)
        # The turns of a task are tries that went well; only a failed one that was followed by another was tried again.
        many = [tries for row in rows if (tries := row.attempts) is not None and len(tries) > 1]
        retried = [tries for tries in many if any(attempt.status != "ok" for attempt in tries[:-1])]
        self._add_up("retry_waits_ms", [sum(attempt.waited_ms for attempt in tries) for tries in retried])

    def _add_tools(self, rows: list[Row]) -> None:
        offering = [row for row in rows if row.tools_offered]
        # Where a check broke, calls in the text were not looked for.
        expecting = [row for row in rows if row.expected_tools and row.not_judged is None]
        ways = []
        for row in offering:
            if row.not_judged is None:
                ways.append(
                    (
                        row.prompt_id,
                        bool(row.expected_tools),
                        answer_channel(row),
                        called_by(row),
                        row.objective_pass,
                    )
                )
        calls = [(r, [(one.channel, one.valid) for one in r.tool_invocations] or _NO_CALL) for r in expecting]
        self.offered.update(ways)
        unseen = [find_tools_unseen(r) for r in offering]
        for code in (TOO_FEW_TOKENS, NO_TEMPLATE):
            self._add_up(code, [int(found == code) for found in unseen])
        self._add_up("native_calls", [int(made_native_call(r)) for r in offering])
        self.tool_signs.update([(r.prompt_id, r.tools_offered, *call) for r, made in calls for call in made])


class Strata:
    """Sorts rows into strata, as they first appear, and keeps none; with `only`, those of a target and prompts."""

    def __init__(self, only: tuple[Target, Collection[PromptKey]] | None = None) -> None:
        self._strata: defaultdict[StratumKey, Stratum] = defaultdict(Stratum)
        self._only, self.loads = only, LoadCalls()

    def add(self, rows: list[Row], offsets: Sequence[int] = ()) -> None:
        """Take in some rows; their places in the file do not matter here."""
        if self._only is not None:
            target, prompts = self._only
            rows = [row for row in rows if row.prompt in prompts and row.target == target]
        self.loads.add(rows)
        cells = list(map(_cell_of, rows))
        kinds = Counter(cells)
        endings: dict[tuple[Any, ...], dict[tuple[Any, ...], int]] = {}
        for cell, n in kinds.items():
            endings.setdefault(cell[:_KEY_FIELDS], {})[cell[_KEY_FIELDS:]] = n
        shares: dict[tuple[Any, ...], list[Row]] = dict.fromkeys(endings, rows)
        if len(endings) > 1:
            # A batch has few kinds of cell, so that a row costs one look-up.
            shares = {key: [] for key in endings}
            take = {cell: shares[cell[:_KEY_FIELDS]].append for cell in kinds}
            for cell, row in zip(cells, rows, strict=True):
                take[cell](row)
        for key, share in shares.items():
            self._strata[StratumKey._make(key)].add(share, endings[key])

    def groups(self, planned: Sequence[Target] = ()) -> dict[Target, Group]:
        """One group per target: those planned first, in their order, recorded or not, then others as they came."""
        members: dict[Target, dict[StratumKey, Stratum]] = {target: {} for target in planned}
        for key, stratum in self._strata.items():
            members.setdefault(Target(key.provider, key.model, key.thinking_level), {})[key] = stratum
        return {target: Group(target, own) for target, own in members.items()}


class Group:
    """One target's strata as one: every way a cell ended, an expected call came, and offered tools were used."""

    def __init__(self, target: Target, strata: Mapping[StratumKey, Stratum]) -> None:
        self.target, self.strata = target, list(strata.items())
        self.endings = list(map(Ending._make, self._count("endings")))
        self.tool_signs = list(map(ToolSign._make, self._count("tool_signs")))
        self.offered = list(map(OfferedAnswer._make, self._count("offered")))
        self.suites = list(dict.fromkeys(key.suite for key in strata))

    def _count(self, kinds: str) -> Iterator[tuple[Any, ...]]:
        for key, stratum in self.strata:
            for (prompt_id, *kind), n in getattr(stratum, kinds).items():
                yield (key.suite, prompt_id), *kind, n

    def describe(
        self, time: str, family: Family | None = None, *, suite: str | None = None, cold: bool | None = None
    ) -> Percentiles:
        """The distribution of a tallied time; with `family` its intervals know which calls are alike."""
        strata = [one for one in self._in(suite) if cold is None or one[0].cold_start is cold]
        if time == "output_tps":
            strata = [one for one in strata if _rule_of(one[0]) == self.tps_rule]
        families = _by_family(strata, time, family) if family else {}
        if time == "output_tps":
            return describe([rate for _, stratum in strata for rate in stratum.output_tps], families.values())
        return describe(CountedValues(_add_up(strata, time)), families.values())

    @property
    def tps_rule(self) -> int | None:
        """The rule that the group's tokens a second go by; where records have several, as of a run that a later
        version went on with, the latest. None where there are no rates."""
        return max((_rule_of(key) for key, stratum in self.strata if stratum.output_tps), default=None)

    def latency(self, suite: str | None = None) -> LatencyStats:
        whole = self.describe("e2e_ms", suite=suite)
        return LatencyStats(p50=whole.p50, p95=whole.p95, p99=whole.p99, mean=whole.mean)

    def describe_censored(self, family: Family, suite: str | None = None) -> tuple[Percentiles, int | None]:
        """The whole calls and those cut off at a deadline, which took `BEYOND_MS`; and the shortest such deadline."""
        strata = self._in(suite)
        cut_off = _add_up(strata, "timeout_ms")
        whole, families = _add_up(strata, "e2e_ms"), _by_family(strata, "e2e_ms", family)
        whole[BEYOND_MS] += cut_off.total()
        for ending in self.endings:
            if ending.failure_type == "timeout" and suite in (None, ending.suite):
                families.setdefault(family(ending.prompt), []).extend([BEYOND_MS] * ending.n)
        return describe(CountedValues(+whole), families.values()), min(cut_off, default=None)

    def _in(self, suite: str | None) -> list[tuple[StratumKey, Stratum]]:
        return [one for one in self.strata if suite in (None, one[0].suite)]

    def prompt_times_ms(self, time: str = "e2e_ms") -> dict[PromptKey, list[float]]:
        """How long the whole calls of each prompt took, or one of their other times, in order."""
        return _by_family(self.strata, time, lambda prompt: prompt)

    def split(self, suites: Collection[str]) -> tuple[Group, Group]:
        inside = {key: stratum for key, stratum in self.strata if key.suite in suites}
        return Group(self.target, {k: s for k, s in self.strata if k not in inside}), Group(self.target, inside)

    def total(self, field: str) -> Total:
        return Total(sum(own.n_terms[field] for _, own in self.strata), sum(own.sums[field] for _, own in self.strata))

    def costs_usd(self, suite: str | None = None) -> list[float]:
        return [cost for _, stratum in self._in(suite) for cost in stratum.cost_usd]

    def n_flagged(self) -> int:
        return sum(stratum.n_flagged for _, stratum in self.strata)

    def example(self, status: Status, failure_type: str | None) -> str | None:
        known = (stratum.examples.get((status, failure_type)) for _, stratum in self.strata)
        return next((words for words in known if words), None)

    def warnings(self) -> Counter[str]:
        return sum((stratum.warnings for _, stratum in self.strata), Counter())


def _rule_of(key: StratumKey) -> int:
    return key.tps_rule or 1


def _add_up(strata: Iterable[tuple[StratumKey, Stratum]], time: str) -> Counter[int]:
    whole: Counter[int] = Counter()
    for _, stratum in strata:
        whole.update(stratum.tallies[time])
    return whole


def _by_family(strata: Iterable[tuple[StratumKey, Stratum]], time: str, family: Family) -> dict[PromptKey, list[float]]:
    """The traced values of each family, in ascending order."""
    values: dict[PromptKey, list[float]] = {}
    column = _TRACED.index(time)
    for key, stratum in strata:
        for trace in stratum.traces:
            if trace[column] is not None:
                values.setdefault(family((key.suite, trace[0])), []).append(trace[column])
    return {name: sorted(members) for name, members in values.items()}


def wall_clock_ms(groups: Iterable[Group]) -> int | None:
    """First start to last end within each stretch of a resumed run, summed; the pause between stretches is no work."""
    bounds: dict[int, tuple[int, int]] = {}
    for key, stratum in (one for group in groups for one in group.strata):
        start, end = stratum.started_at_ms, stratum.ended_at_ms
        if start is not None and end is not None:
            first, last = bounds.get(key.stretch, (start, end))
            bounds[key.stretch] = min(first, start), max(last, end)
    # A wall clock that was set back must not make a suite take negative time.
    return sum(max(0, last - first) for first, last in bounds.values()) if bounds else None
