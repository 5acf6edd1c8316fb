"""What a server can carry, as a verdict (how many subagents at once), and beside another time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from clawgauge.records import CapacitySummary, Fit, JobVerdict, StepSummary
from clawgauge.stats.load import carried
from clawgauge.stats.paired import (
    ALPHA,
    NOTICEABLE_CHANGE,
    SMALL_ENOUGH_TO_SEE,
    Shift,
    holm,
)
from clawgauge.stats.proportions import Interval
from clawgauge.stats.visits import compare_visits
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.wording import word_capacity, word_tokens

AT_ONCE = "at once"
A_SECOND = "a second"
TOO_FEW_VISITS = "cannot tell: too few visits"
MIN_VISITS = 3
"""So many visits a side tell how much they differ: two that fell into one mood do not."""
TTFT_P50 = "ttft p50 ms"


def judge_load(capacity: Sequence[CapacitySummary]) -> list[JobVerdict]:
    """How many subagents each target may have at once, for every length of prompt."""
    fits_by_length: dict[str, list[Fit]] = {}
    for entry in capacity:
        if entry.mode == "closed":
            fits_by_length.setdefault(word_tokens(entry.context_tokens), []).append(_judge(entry))
    verdicts = []
    for length, fits in fits_by_length.items():
        # Those that are fit first, else in the order in which they were loaded.
        fits.sort(key=lambda fit: fit.fit != Fitness.YES)
        ranking = []
        for rank, fit in enumerate(fits, start=1):
            ranking.append(msgspec.structs.replace(fit, place=rank))
        job = f"subagents at once, {length}"
        verdicts.append(JobVerdict(job=job, column=length, ranking=ranking))
    return verdicts


def _judge(entry: CapacitySummary) -> Fit:
    n_clients = carried(entry)
    if entry.truncated or entry.refused or n_clients == 0:
        fitness = Fitness.NO
    elif n_clients is None:
        fitness = Fitness.CANNOT_TELL
    else:
        fitness = Fitness.YES
    n_calls = sum(step.n for step in entry.steps)
    return Fit(target=entry.target, fit=fitness.value, why=word_capacity(entry), n=n_calls)


class LoadChange(NamedTuple):
    """One figure of both; `a_to` and `b_to` are the other ends of ranges.

    `verdict` is `changed`, `no change seen` or `cannot tell` with the reason, or tells who may
    carry more. Where visits were compared, `p` is their corrected p-value and `ratio_ci95` the
    interval of B over A.
    """

    target: str
    load: str
    figure: str
    a: float | None
    b: float | None
    verdict: str = ""
    a_to: float | None = None
    b_to: float | None = None
    p: float | None = None
    ratio_ci95: Interval | None = None


class _VisitsOfBoth(NamedTuple):
    """A figure of one load in two runs, and the visits that it rests on."""

    change: LoadChange
    a: list[float]
    b: list[float]


def compare_capacity(
    a: Sequence[CapacitySummary], b: Sequence[CapacitySummary]
) -> Iterator[LoadChange]:
    """Every figure that both have, of the same targets with prompts of the same length under the
    same load."""
    others = {(entry.target, entry.mode, entry.context_tokens): entry for entry in b}
    pairs: list[_VisitsOfBoth] = []
    for entry in a:
        other = others.get((entry.target, entry.mode, entry.context_tokens))
        if other is not None:
            yield from _compare_swaps(entry, other)
            yield from _compare_limits(entry, other)
            pairs += _pair_visits(entry, other)
    yield from _settle(pairs)


def _compare_swaps(a: CapacitySummary, b: CapacitySummary) -> Iterator[LoadChange]:
    for kind, times_a in a.swap_ms.items():
        times_b = b.swap_ms.get(kind)
        if times_b is None:
            continue
        verdict = _tell_apart(times_a.p50_ci95, times_b.p50_ci95)
        yield LoadChange(a.target, kind, TTFT_P50, times_a.p50, times_b.p50, verdict)


def _compare_limits(a: CapacitySummary, b: CapacitySummary) -> Iterator[LoadChange]:
    """How much both carry; the verdict says what keeps the two figures from being compared as they
    are."""
    unbroken = []
    for name, within in (("A", a.within_slo), ("B", b.within_slo)):
        if within is not None and within.broken_at is None:
            unbroken.append(name)
    verdict = f"or more in {' and '.join(unbroken)}" if unbroken else ""
    rules = {entry.tps_rule for entry in (a, b) if entry.tps_rule is not None}
    if a.slo.tpot_ms is not None and len(rules) > 1:
        verdict = "cannot tell: times per token go by another rule"
    length = word_tokens(a.context_tokens)
    if a.mode == "closed":
        yield LoadChange(
            target=a.target,
            load=length,
            figure=AT_ONCE,
            a=carried(a),
            b=carried(b),
            verdict=verdict,
            a_to=_upper_end(a),
            b_to=_upper_end(b),
        )
    elif a.within_slo is not None and b.within_slo is not None:
        rates = (a.within_slo.rate, b.within_slo.rate)
        yield LoadChange(a.target, length, A_SECOND, *rates, verdict)


def _upper_end(entry: CapacitySummary) -> int | None:
    return None if entry.within_slo is None else entry.within_slo.concurrency_to


def _pair_visits(a: CapacitySummary, b: CapacitySummary) -> list[_VisitsOfBoth]:
    """Throughput and first token at every level of load that both have a trusted step of."""
    steps_b = {step.level: step for step in b.steps if step.trusted}
    pairs = []
    for step_a in a.steps:
        step_b = steps_b.get(step_a.level)
        if not step_a.trusted or step_b is None:
            continue
        load = f"{word_tokens(a.context_tokens)}, {step_a.level:g}"
        rate = LoadChange(
            target=a.target,
            load=load,
            figure="requests/s",
            a=step_a.requests_per_s,
            b=step_b.requests_per_s,
        )
        pairs.append(_VisitsOfBoth(rate, _rates_of(step_a), _rates_of(step_b)))
        first_token = LoadChange(
            target=a.target,
            load=load,
            figure=TTFT_P50,
            a=step_a.ttft_ms.p50,
            b=step_b.ttft_ms.p50,
        )
        times_a = _first_tokens_of(step_a)
        times_b = _first_tokens_of(step_b)
        pairs.append(_VisitsOfBoth(first_token, times_a, times_b))
    return pairs


def _rates_of(step: StepSummary) -> list[float]:
    return [visit.requests_per_s for visit in step.trusted_visits]


def _first_tokens_of(step: StepSummary) -> list[float]:
    times_ms = []
    for visit in step.trusted_visits:
        if visit.ttft_p50_ms is not None:
            times_ms.append(visit.ttft_p50_ms)
    return times_ms


def _settle(pairs: Sequence[_VisitsOfBoth]) -> list[LoadChange]:
    """The figures with their verdicts; p-values are corrected for how many are compared."""
    shifts = [_compare_enough(pair.a, pair.b) for pair in pairs]
    corrected = iter(holm([shift.p for shift in shifts if shift is not None]))
    changes = []
    for pair, shift in zip(pairs, shifts, strict=True):
        if shift is None:
            changes.append(pair.change._replace(verdict=TOO_FEW_VISITS))
            continue
        p = next(corrected)
        ratios = None
        if shift.interval is not None:
            ratios = math.exp(shift.interval[0]), math.exp(shift.interval[1])
        verdict = _judge_shift(shift, p)
        changes.append(pair.change._replace(verdict=verdict, p=p, ratio_ci95=ratios))
    return changes


def _compare_enough(a: Sequence[float], b: Sequence[float]) -> Shift | None:
    """B against A; None where one of them has too few visits, or one without an answer."""
    if min(len(a), len(b)) < MIN_VISITS:
        return None
    return compare_visits(a, b)


def _judge_shift(shift: Shift, p: float) -> str:
    """As in every comparison: a move that anybody would notice is never called no change, and
    neither is one that could not have been seen."""
    if p < ALPHA:
        return "changed"
    if abs(math.expm1(shift.estimate)) >= NOTICEABLE_CHANGE:
        return "cannot tell: so large a move may still be luck"
    if shift.interval is not None:
        most = max(abs(end) for end in shift.interval)
        if most > math.log1p(SMALL_ENOUGH_TO_SEE):
            return "cannot tell: the visits differ too much"
    return "no change seen"


def _tell_apart(before: Interval | None, after: Interval | None) -> str:
    """Whether two intervals are apart, in words; empty where one of them is not known."""
    if not before or not after:
        return ""
    # Even two quiet runs of one server may be a hundredth apart.
    is_apart = 1.01 * before[1] < after[0] or 1.01 * after[1] < before[0]
    return "changed" if is_apart else "no change seen"
