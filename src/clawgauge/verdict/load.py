"""What a server can carry, as a verdict (how many subagents at once), and beside another time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from clawgauge.records import CapacitySummary, Fit, JobVerdict, StepSummary
from clawgauge.stats.load import carried
from clawgauge.stats.proportions import Interval
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.wording import word_capacity, word_tokens

AT_ONCE = "at once"
A_SECOND = "a second"


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
        for place, fit in enumerate(fits, start=1):
            ranking.append(msgspec.structs.replace(fit, place=place))
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
    """One figure of both. `verdict` is `changed` where the 95% intervals are apart, or tells who
    may carry more."""

    target: str
    load: str
    figure: str
    a: float | None
    b: float | None
    verdict: str = ""


def compare_capacity(
    a: Sequence[CapacitySummary], b: Sequence[CapacitySummary]
) -> Iterator[LoadChange]:
    """Every figure that both have, of the same targets with prompts of the same length under the
    same load."""
    others = {(entry.target, entry.mode, entry.context_tokens): entry for entry in b}
    for entry in a:
        other = others.get((entry.target, entry.mode, entry.context_tokens))
        if other is None:
            continue
        yield from _compare_swaps(entry, other)
        yield from _compare_limits(entry, other)
        yield from _compare_steps(entry, other)


def _compare_swaps(a: CapacitySummary, b: CapacitySummary) -> Iterator[LoadChange]:
    for kind, times_a in a.swap_ms.items():
        times_b = b.swap_ms.get(kind)
        if times_b is None:
            continue
        verdict = _tell_apart(times_a.p50_ci95, times_b.p50_ci95)
        yield LoadChange(a.target, kind, "ttft p50 ms", times_a.p50, times_b.p50, verdict)


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
        yield LoadChange(a.target, length, AT_ONCE, carried(a), carried(b), verdict)
    elif a.within_slo is not None and b.within_slo is not None:
        rates = (a.within_slo.rate, b.within_slo.rate)
        yield LoadChange(a.target, length, A_SECOND, *rates, verdict)


def _compare_steps(a: CapacitySummary, b: CapacitySummary) -> Iterator[LoadChange]:
    """Throughput and first token at every level of load that both have a trusted step of."""
    steps_b = {step.level: step for step in b.steps if step.trusted}
    for step_a in a.steps:
        step_b = steps_b.get(step_a.level)
        if step_a.trusted and step_b is not None:
            load = f"{word_tokens(a.context_tokens)}, {step_a.level:g}"
            yield from _compare_step(a.target, load, step_a, step_b)


def _compare_step(target: str, load: str, a: StepSummary, b: StepSummary) -> Iterator[LoadChange]:
    verdict = _tell_apart(a.requests_per_s_ci95, b.requests_per_s_ci95)
    yield LoadChange(target, load, "requests/s", a.requests_per_s, b.requests_per_s, verdict)
    verdict = _tell_apart(a.ttft_ms.p50_ci95, b.ttft_ms.p50_ci95)
    yield LoadChange(target, load, "ttft p50 ms", a.ttft_ms.p50, b.ttft_ms.p50, verdict)


def _tell_apart(before: Interval | None, after: Interval | None) -> str:
    """Whether two intervals are apart, in words; empty where one of them is not known."""
    if not before or not after:
        return ""
    # Even two quiet runs of one server may be a hundredth apart.
    is_apart = 1.01 * before[1] < after[0] or 1.01 * after[1] < before[0]
    return "changed" if is_apart else "no change seen"
