"""The figures of a server under load.

They are the same for the search that decides when a step tells enough, and for the summary that is
made of the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import linear_regression, median
from typing import Any, NamedTuple

import msgspec

from clawgauge.records import (
    LEAST_LATER_TOKENS,
    CapacitySummary,
    Knee,
    Percentiles,
    Slo,
    StepSummary,
    TtftFit,
    VisitSummary,
    WithinSlo,
)
from clawgauge.stats.proportions import Z95, Interval, student_t_quantile, wilson_interval
from clawgauge.stats.quantiles import describe
from clawgauge.stats.visits import ATTAINED, N_ROUNDS, LevelRange, average_visits, find_most_within

# The factor of throughput that more clients must bring to pay.
GAIN = 1.05
# The least that tells anything.
MIN_CALLS = 8
_MIN_S = 2.0
# So many calls make a p95 rest on more than the longest of them; a slow step is not held for them.
_SURE_CALLS = 60
_SURE_S = 10.0
# As long as that goes a visit after the first, where calls are slow.
_AGAIN_S = 5.0
# How far off the means of a step may be at 95%: its throughput, and its first token.
_TIGHT_RATE = 0.02
_TIGHT_TTFT = 0.04
# A call is delayed by something else than the load when it is further from the median of its step
# than so many times the median deviation (three standard deviations, were they normal).
_MAX_DEVIATIONS = 3 * 1.4826
_NEVER_MS = 2.0**60  # in the place of what never came: longer than any time on record


class Sample(NamedTuple):
    """One call under load.

    It was due so many milliseconds after the load began, and sent `queued_ms` later; its first
    token and its end count from when it was sent.
    """

    client: int
    due_ms: float
    queued_ms: float
    ttft_ms: float | None
    e2e_ms: float
    ok: bool
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    gaps_us: Sequence[int]
    server_us: Mapping[str, int] | None = None
    hidden_tokens: int = 0
    first_share: float | None = None

    @property
    def cycle_ms(self) -> float:
        """From when it was due until it ended."""
        return self.queued_ms + self.e2e_ms

    @property
    def ended_ms(self) -> float:
        """When it ended, since the load began."""
        return self.due_ms + self.cycle_ms

    @property
    def tpot_ms(self) -> float | None:
        """Time per token after the first piece, by the server's count of tokens.

        Without a count, by the pieces that came; None where there are too few. The tokens of the
        first piece took their time before it: they are left out, as many as its share of all
        characters tells. A record of an earlier version does not have that share; there one token
        is left out.
        """
        if self.ttft_ms is None:
            return None
        if not self.output_tokens:
            n_later: float = len(self.gaps_us)
        elif self.first_share is None:
            n_later = self.output_tokens - self.hidden_tokens - 1
        else:
            n_later = (self.output_tokens - self.hidden_tokens) * (1 - self.first_share)
        if n_later < LEAST_LATER_TOKENS:
            return None
        return (self.e2e_ms - self.ttft_ms) / n_later

    def since_due(self) -> Sample:
        """The call with its times counted from when it was due."""
        ttft_ms = self.ttft_ms
        if ttft_ms is not None:
            ttft_ms += self.queued_ms
        return self._replace(queued_ms=0.0, ttft_ms=ttft_ms, e2e_ms=self.cycle_ms)

    def keeps(self, limits: dict[str, float], ease: float = 1.0) -> bool:
        """Whether the call was answered within all limits, each times `ease`."""
        if not self.ok:
            return False
        for name, limit in limits.items():
            measured: float | None = getattr(self, name)
            if measured is None or measured > limit * ease:
                return False
        return True


def has_answer(record: Any) -> bool:
    """Whether a call under load was answered.

    The few tokens it may have can all be thinking: that is an answer here.
    """
    if record.availability_status != "ok":
        return False
    only_thought = record.failure_type == "empty_response" and record.timings_us.ttft is not None
    return record.success or only_thought


def sample_of(record: Any) -> Sample:
    """A recorded call under load, as a `Result` or as a row of it."""
    load = record.load
    times = record.timings_us
    ttft_ms = None
    hidden_tokens = 0
    if times.ttft is not None:
        ttft_ms = times.ttft / 1000
        # Thinking that was counted but never shown took its time before the first token, which is
        # then the answer's own.
        if times.ttfa == times.ttft:
            hidden_tokens = record.reasoning_tokens or 0
    return Sample(
        client=load.client,
        due_ms=load.due_us / 1000,
        queued_ms=load.queued_us / 1000,
        ttft_ms=ttft_ms,
        e2e_ms=(times.e2e or 0) / 1000,
        ok=has_answer(record),
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        cached_tokens=record.cached_tokens,
        gaps_us=load.gaps_us,
        server_us=record.server_us,
        hidden_tokens=hidden_tokens,
        first_share=load.first_share,
    )


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A visit of a load: when it was steady, and how this program was late meanwhile.

    It is the detail of the event `capacity_step`.
    """

    step: str
    context_tokens: int
    concurrency: int | None = None
    rate: float | None = None
    visit: int = 1
    from_ms: float
    to_ms: float
    pauses: bool = False
    n_dropped: int = 0
    untrusted: str | None = None

    def holds(self, sample: Sample) -> bool:
        """Whether a call is one of the step.

        Of clients in turn these are the calls that ended while the load was steady, of arrivals
        those that were due then.
        """
        at_ms = sample.due_ms
        if self.rate is None:
            at_ms = sample.ended_ms
        return self.from_ms < at_ms <= self.to_ms


class LoadRound(msgspec.Struct, frozen=True, kw_only=True):
    """A round that was begun: the numbers of clients that it visits, in their order.

    It is the detail of the event `capacity_round`.
    """

    context_tokens: int
    visit: int
    concurrency: list[int]


class LoadVisit(NamedTuple):
    """A visit of a load, its calls, and those around it."""

    window: Window
    samples: Sequence[Sample]


class _VisitCalls(NamedTuple):
    """The calls of one visit, and its figures that are not of single calls."""

    window: Window
    inside: list[Sample]
    answered: list[Sample]
    n_asked: int
    n_kept: int
    """How many were within all limits."""
    rate: float
    interval: Interval | None

    @property
    def n_failed(self) -> int:
        return self.n_asked - len(self.answered)


def measure_step(samples: Iterable[Sample], window: Window, slo: Slo) -> StepSummary:
    """What a steady load came to at one visit; `samples` are its calls, and those around it."""
    return measure_visits([LoadVisit(window, list(samples))], slo)


def measure_visits(visits: Sequence[LoadVisit], slo: Slo) -> StepSummary:
    """What one load came to over its visits, of which there is one at least.

    Those in which this program was late have no part in it, unless all are such: the last is all
    there is then.
    """
    limits = slo.limits
    all_visits = [_read_visit(visit, limits) for visit in visits]
    counted = [visit for visit in all_visits if visit.window.untrusted is None]
    if not counted:
        counted = all_visits[-1:]
    window = counted[-1].window
    inside: list[Sample] = []
    answered: list[Sample] = []
    for visit in counted:
        inside += visit.inside
        answered += visit.answered
    n_asked = sum(visit.n_asked for visit in counted)
    n_kept = sum(visit.n_kept for visit in counted)
    n_failed = n_asked - len(answered)
    rate, interval = _average_rates(counted)
    output_tokens = _mean_of(answered, "output_tokens")
    tpot_ms = _distribution(_values_of(answered, "tpot_ms"))
    gaps_ms = [gap_us / 1000 for sample in answered for gap_us in sample.gaps_us]
    has_limits = bool(limits) and n_asked > 0
    is_open = window.rate is not None
    is_growing = is_open and len(inside) > MIN_CALLS and _has_grown(visits[-1], n_asked)
    return StepSummary(
        step=all_visits[0].window.step,
        concurrency=window.concurrency,
        rate=window.rate,
        n=len(inside),
        requests_per_s=rate,
        requests_per_s_ci95=interval,
        output_tokens_per_s=None if output_tokens is None else rate * output_tokens,
        tokens_per_s_user=1000 / tpot_ms.p50 if tpot_ms.p50 else None,
        ttft_ms=_distribution(_values_of(answered, "ttft_ms"), n_failed),
        tpot_ms=tpot_ms,
        itl_ms=_distribution(gaps_ms),
        e2e_ms=_distribution(_values_of(answered, "e2e_ms"), n_failed),
        goodput_per_s=rate * n_kept / max(1, len(answered)) if has_limits else None,
        attained=n_kept / n_asked if has_limits else None,
        n_failed=n_failed,
        n_dropped=sum(visit.window.n_dropped for visit in counted),
        trusted=window.untrusted is None,
        untrusted=window.untrusted,
        growing=is_growing,
        input_tokens=_mean_of(answered, "input_tokens"),
        output_tokens=output_tokens,
        cached_tokens=_mean_of(answered, "cached_tokens"),
        server_ms=_mean_server_ms(answered),
        visits=[_summarize_visit(visit, has_limits=has_limits) for visit in all_visits],
    )


def _read_visit(visit: LoadVisit, limits: dict[str, float]) -> _VisitCalls:
    window, samples = visit
    inside = [sample for sample in samples if window.holds(sample)]
    answered = [sample for sample in inside if sample.ok]
    n_asked = len(inside) + window.n_dropped
    n_kept = sum(sample.keeps(limits) for sample in inside)
    rate, interval = _measure_rate(samples, answered, window, n_asked - len(answered))
    return _VisitCalls(
        window=window,
        inside=inside,
        answered=answered,
        n_asked=n_asked,
        n_kept=n_kept,
        rate=rate,
        interval=interval,
    )


def _summarize_visit(visit: _VisitCalls, *, has_limits: bool) -> VisitSummary:
    first_tokens_ms = _distribution(_values_of(visit.answered, "ttft_ms"), visit.n_failed)
    return VisitSummary(
        visit=visit.window.visit,
        step=visit.window.step,
        n=len(visit.inside),
        requests_per_s=visit.rate,
        ttft_p50_ms=first_tokens_ms.p50,
        attained=visit.n_kept / visit.n_asked if has_limits and visit.n_asked else None,
        n_failed=visit.n_failed,
        untrusted=visit.window.untrusted,
    )


def _average_rates(visits: Sequence[_VisitCalls]) -> tuple[float, Interval | None]:
    """The requests a second over all visits, and their interval where there is one."""
    if len(visits) == 1:
        return visits[0].rate, visits[0].interval
    rates = [visit.rate for visit in visits]
    average = average_visits(rates)
    if average is None:  # nothing was answered at a visit
        return math.fsum(rates) / len(rates), None
    return average.rate, average.interval


def _measure_rate(
    all_samples: Sequence[Sample], answered: Sequence[Sample], window: Window, n_failed: int
) -> tuple[float, Interval | None]:
    """The requests a second, and their interval where there is one.

    Of clients that ask again at once the rate is their number over the mean time.
    """
    if window.concurrency is not None and not window.pauses and answered and not n_failed:
        mean_ms, error_ms = _mean_error([max(0.001, sample.cycle_ms) for sample in answered])
        rate = 1000 * window.concurrency / mean_ms
        off = min(1.0, error_ms / mean_ms)
        return rate, (rate * (1 - off), rate * (1 + off))
    n_ended = 0
    for sample in all_samples:
        if sample.ok and window.from_ms < sample.ended_ms <= window.to_ms:
            n_ended += 1
    seconds = (window.to_ms - window.from_ms) / 1000
    return n_ended / max(seconds, 1e-3), None


def _values_of(samples: Iterable[Sample], name: str) -> list[float]:
    """One figure of every sample that has it."""
    values = []
    for sample in samples:
        value: float | None = getattr(sample, name)
        if value is not None:
            values.append(value)
    return values


def _mean_of(samples: Iterable[Sample], name: str) -> float | None:
    return _mean(_values_of(samples, name))


def _mean_server_ms(samples: Iterable[Sample]) -> dict[str, float]:
    """Where the time went, as the server tells.

    The mean of each part over the calls that have it.
    """
    parts_us: dict[str, list[float]] = {}
    for sample in samples:
        for part, us in (sample.server_us or {}).items():
            parts_us.setdefault(part, []).append(us)
    return {part: (_mean(values) or 0.0) / 1000 for part, values in parts_us.items()}


def _has_grown(visit: LoadVisit, n_asked: int) -> bool:
    """Whether more calls were under way at the end of a window than at its start.

    More by chance alone does not count.
    """
    window, samples = visit
    n_before = 0
    n_after = 0
    for sample in samples:
        if sample.due_ms <= window.from_ms < sample.ended_ms:
            n_before += 1
        if sample.due_ms <= window.to_ms < sample.ended_ms:
            n_after += 1
    n_more = n_after + window.n_dropped - n_before
    return n_more > (1 - 1 / GAIN) * n_asked and n_more > 2 * math.sqrt(n_before + n_after)


def is_enough_again(n_calls: int, concurrency: int, seconds: float) -> bool:
    """Whether so many clients were held for long enough at a visit after the first.

    Such a visit is short: what matters is how much one differs from the next.
    """
    if n_calls < max(MIN_CALLS, concurrency) or seconds < _MIN_S:
        return False
    return n_calls >= _SURE_CALLS or seconds >= _AGAIN_S


def is_enough(samples: Sequence[Sample], concurrency: int, seconds: float, slo: Slo) -> bool:
    """Whether so many clients were held for long enough at their first visit.

    They were when each of them was answered, the means are tight, and it is clear whether the SLO
    is kept.
    """
    n = len(samples)
    if n < max(MIN_CALLS, concurrency) or seconds < _MIN_S:
        return False
    if n < _SURE_CALLS and seconds < _SURE_S:
        return False
    if n >= 4 * max(_SURE_CALLS, concurrency):
        return True
    cycles_ms = [sample.cycle_ms for sample in samples]
    first_tokens_ms = _values_of([sample for sample in samples if sample.ok], "ttft_ms")
    if not _is_tight(cycles_ms, _TIGHT_RATE) or not _is_tight(first_tokens_ms, _TIGHT_TTFT):
        return False
    limits = slo.limits
    if not limits or n >= _SURE_CALLS:
        return True
    # Far below its limits, a few calls tell enough.
    if all(sample.keeps(limits, ease=0.8) for sample in samples):
        return True
    n_kept = sum(sample.keeps(limits) for sample in samples)
    low, high = wilson_interval(n_kept, n) or (0.0, 1.0)
    return not low <= ATTAINED <= high


def _is_tight(values: Sequence[float], share: float) -> bool:
    """Whether the mean is off by no more than this share of it."""
    mean, error = _mean_error(values)
    return error <= share * mean


def keeps_slo(step: StepSummary) -> bool:
    """Whether enough requests were within all SLOs; without any, whether enough were answered."""
    if step.attained is not None:
        return step.attained >= ATTAINED
    n_asked = max(1, step.n + step.n_dropped)
    return 1 - step.n_failed / n_asked >= ATTAINED


def carried(entry: CapacitySummary) -> int | None:
    """How many clients a target may have at once, or None where that is not known.

    As many as keep the SLO; without one as many as bring more throughput.
    """
    if entry.within_slo is not None:
        return entry.within_slo.concurrency
    if entry.knee is not None:
        return entry.knee.concurrency
    return None


def find_knee(steps: Iterable[StepSummary]) -> Knee | None:
    """The fewest clients with nearly all the throughput.

    None where more of them still brought more.
    """
    measured = [step for step in steps if step.trusted and step.concurrency and step.requests_per_s]
    measured.sort(key=lambda step: step.level)
    if not measured:
        return None
    best = max(step.requests_per_s for step in measured)
    knee = next(step for step in measured if step.requests_per_s * GAIN >= best)
    if knee is measured[-1]:
        return None
    limited_by = _find_limit(measured[0], knee, measured[-1], best)
    return Knee(int(knee.level), best, limited_by)


def _find_limit(alone: StepSummary, knee: StepSummary, most: StepSummary, best: float) -> str:
    """What more clients run into: refusals, or what a call's time goes to that it did not take
    alone.

    A server that tells where the time went is believed; of another one, the times of its first
    tokens and their pace tell. `best` is the highest throughput.
    """
    if most.n_failed > (1 - ATTAINED) * most.n:
        return "refusals"
    first_ms = alone.ttft_ms.p50 or 0.0
    first_at_knee_ms = knee.ttft_ms.p50 or 0.0
    first_at_most_ms = most.ttft_ms.p50 or 0.0
    slower_per_token_ms = (most.tpot_ms.mean or 0.0) - (alone.tpot_ms.mean or 0.0)
    slower_decode_ms = slower_per_token_ms * ((most.output_tokens or 1) - 1)
    reads_ms = first_ms
    waits_ms = first_at_most_ms - first_ms
    before = alone.server_ms
    after = most.server_ms
    if "prefill" in before and "prefill" in after:
        slower_prefill_ms = after["prefill"] - before["prefill"]
        if "decode" in before and "decode" in after:
            slower_decode_ms = after["decode"] - before["decode"]
        # A call that shares an engine is read more slowly; one that waits for a free engine is read
        # as fast as alone.
        waits_ms -= slower_prefill_ms
        reads_ms = after["prefill"]
        if slower_prefill_ms > max(waits_ms, slower_decode_ms):
            return "prefill"
    if slower_decode_ms > waits_ms:
        return "decode"
    # One engine that is always reading makes so many first tokens a second, each as long as a lone
    # one takes.
    is_always_reading = best * reads_ms / 1000 * GAIN * GAIN >= 1
    if is_always_reading and first_at_knee_ms > 1.1 * first_ms:
        return "prefill"
    return "slots"


def find_within_slo(steps: Iterable[StepSummary], slo: Slo, n_rounds: int = 1) -> WithinSlo | None:
    """The most that keeps the SLO, and the least that does not.

    A range where clients were visited in `n_rounds` of two or more. None without an SLO, or
    without a step to trust.
    """
    trusted = sorted((step for step in steps if step.trusted), key=lambda step: step.level)
    if not slo.limits or not trusted:
        return None
    if n_rounds > 1:
        return _find_range_within(trusted, n_rounds)
    most: float = 0
    broken_at: float | None = None
    for step in trusted:
        if not keeps_slo(step):
            broken_at = step.level
            break
        most = step.level
    if trusted[0].rate:
        return WithinSlo(rate=most, broken_at=broken_at)
    return WithinSlo(concurrency=int(most), broken_at=broken_at)


def _find_range_within(steps: Sequence[StepSummary], n_rounds: int) -> WithinSlo:
    """The range of the most clients that keep the SLO; `steps` in the order of their levels."""
    attained = {}
    for step in steps:
        shares = [visit.attained for visit in step.trusted_visits if visit.attained is not None]
        attained[step.level] = shares
    measured = find_most_within(attained)
    broken_at = next((step.level for step in steps if step.level > measured.high), None)
    most = measured
    if is_range_thin(steps, n_rounds):
        most = _widen(measured, [step.level for step in steps])
    return WithinSlo(concurrency=int(most.low), concurrency_to=int(most.high), broken_at=broken_at)


def is_range_thin(steps: Iterable[StepSummary], n_rounds: int) -> bool:
    """Whether a range rests on fewer visits than it should: rounds were not made, or visits that
    cannot be trusted were left out."""
    if n_rounds < N_ROUNDS:
        return True
    return any(step.trusted and len(step.trusted_visits) < len(step.visits) for step in steps)


def _widen(measured: LevelRange, levels: Sequence[float]) -> LevelRange:
    """A range of too few visits, wider by the next level that was tried at each end."""
    low = max((level for level in levels if level < measured.low), default=measured.low)
    high = min((level for level in levels if level > measured.high), default=measured.high)
    return LevelRange(low=low, high=high)


def fit_ttft(steps: Iterable[Sequence[tuple[float, float]]]) -> TtftFit | None:
    """The first token of lone calls as a straight line over the length of their prompts.

    Each step has (tokens, milliseconds) of its calls. None without two lengths.
    """
    points: list[tuple[float, float]] = []
    for step in steps:
        points += _leave_out_delayed(step)
    n = len(points)
    mean_x = _mean([x for x, _ in points]) or 0.0
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    if n < 3 or spread <= 0.01 * n * mean_x**2:
        return None
    slope, fixed_ms = linear_regression(*zip(*points, strict=True))
    residual = math.fsum((y - fixed_ms - slope * x) ** 2 for x, y in points) / (n - 2)
    t = student_t_quantile(0.975, n - 2)
    per_1k_ms = 1000 * slope
    per_1k_off_ms = 1000 * t * math.sqrt(residual / spread)
    fixed_off_ms = t * math.sqrt(residual * (1 / n + mean_x**2 / spread))
    return TtftFit(
        n=n,
        fixed_ms=fixed_ms,
        ms_per_1k_tokens=per_1k_ms,
        fixed_ms_ci95=(fixed_ms - fixed_off_ms, fixed_ms + fixed_off_ms),
        ms_per_1k_tokens_ci95=(per_1k_ms - per_1k_off_ms, per_1k_ms + per_1k_off_ms),
    )


def _leave_out_delayed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a step without those that something else than the load has delayed."""
    if not points:
        return []
    usual = median(y for _, y in points)
    max_deviation = _MAX_DEVIATIONS * median(abs(y - usual) for _, y in points)
    return [(x, y) for x, y in points if abs(y - usual) <= max_deviation]


def _distribution(values: Sequence[float], n_lost: int = 0) -> Percentiles:
    """The values, and so many that never came, which have no part in the mean."""
    if not values:
        return Percentiles(n=n_lost)
    longest = max(values)
    described = describe([*values, *[_NEVER_MS] * n_lost])
    # Of fewer than 100 calls p99 is the longest.
    p99 = described.max if described.n < 100 else described.p99
    beyond = []
    for name, value in (("p50", described.p50), ("p95", described.p95), ("p99", p99)):
        if value is not None and value > longest:
            beyond.append(name)
    distribution = msgspec.structs.replace(
        described,
        p50=_limit(described.p50, longest),
        p95=_limit(described.p95, longest),
        p99=_limit(p99, longest),
        mean=_mean(values),
        max=longest,
        beyond=beyond,
    )
    if not n_lost:
        return distribution
    return msgspec.structs.replace(distribution, p50_ci95=None, p95_ci95=None, p99_ci95=None)


def _limit(value: float | None, longest: float) -> float | None:
    return None if value is None else min(value, longest)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _mean_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its interval at 95%; of a single value, that value."""
    n = len(values)
    mean = _mean(values) or 0.0
    if n <= 1:
        return mean, mean
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, Z95 * math.sqrt(variance / n)
