"""A server under load in figures. Whoever makes the load asks here when to stop, and whoever reads it what it was."""

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
    WithinSlo,
)
from clawgauge.stats.proportions import Z95, student_t_quantile, wilson_interval
from clawgauge.stats.quantiles import describe

# The share of requests that must be within all SLOs, and what factor of throughput more clients must bring to pay.
ATTAINED, GAIN = 0.95, 1.05
# The least that tells anything; and how much makes a p95 rest on more than the longest call, where that is soon had.
MIN_CALLS, _MIN_S, _SURE_CALLS, _SURE_S = 8, 2.0, 60, 10.0
# How far off the means of a step may be at 95%: its throughput, and its first token.
_TIGHT_RATE, _TIGHT_TTFT = 0.02, 0.04
_FAR = 3 * 1.4826  # times the median of what calls of a step are off: who is further off was held up by something
_NEVER_MS = 2.0**60  # in the place of what never came: longer than any time on record


class Sample(NamedTuple):
    """One call, in milliseconds since the load began; its first token and its end count from when it was sent."""

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
        return self.queued_ms + self.e2e_ms

    @property
    def ended_ms(self) -> float:
        return self.due_ms + self.cycle_ms

    @property
    def tpot_ms(self) -> float | None:
        """Time per token after the first piece, by the server's count of tokens, else by the pieces that came.

        The tokens of the first piece took their time before it: they are left out, as many as its share of all
        characters tells. A record of an earlier version does not have that share; there one token is left out."""
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
        """With its times counted from when it was due."""
        ttft_ms = None if self.ttft_ms is None else self.ttft_ms + self.queued_ms
        return self._replace(queued_ms=0.0, ttft_ms=ttft_ms, e2e_ms=self.cycle_ms)

    def keeps(self, limits: dict[str, float], ease: float = 1.0) -> bool:
        seen = {name: getattr(self, name) for name in limits}
        return self.ok and all(x is not None and x <= limits[name] * ease for name, x in seen.items())


def has_answer(record: Any) -> bool:
    """Whether a call under load was answered: all of the few tokens it may have can be thought."""
    thought = record.failure_type == "empty_response" and record.timings_us.ttft is not None
    return record.availability_status == "ok" and (record.success or thought)


def sample_of(record: Any) -> Sample:
    """A recorded call under load, whole or as a row."""
    load = record.load
    times = record.timings_us
    # Thinking that was counted but never shown took its time before the first token, which is then the answer's own.
    hidden = (record.reasoning_tokens or 0) if times.ttft is not None and times.ttfa == times.ttft else 0
    return Sample(
        client=load.client,
        due_ms=load.due_us / 1000,
        queued_ms=load.queued_us / 1000,
        ttft_ms=times.ttft and times.ttft / 1000,
        e2e_ms=(times.e2e or 0) / 1000,
        ok=has_answer(record),
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        cached_tokens=record.cached_tokens,
        gaps_us=load.gaps_us,
        server_us=record.server_us,
        hidden_tokens=hidden,
        first_share=load.first_share,
    )


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A step: its load, when it was steady, how this program was late meanwhile. An event has it as it is."""

    step: str
    context_tokens: int
    concurrency: int | None = None
    rate: float | None = None
    from_ms: float
    to_ms: float
    pauses: bool = False
    n_dropped: int = 0
    untrusted: str | None = None

    def holds(self, sample: Sample) -> bool:
        """Of clients in turn, what ended while the load was steady; of arrivals, what was due then."""
        return self.from_ms < (sample.ended_ms if self.rate is None else sample.due_ms) <= self.to_ms


def measure_step(samples: Iterable[Sample], window: Window, slo: Slo) -> StepSummary:
    """What a steady load came to. Of clients that ask again at once the rate is their number over the mean time."""
    everyone, limits = list(samples), slo.limits
    mine = [one for one in everyone if window.holds(one)]
    good = [one for one in mine if one.ok]
    seconds, n_asked = (window.to_ms - window.from_ms) / 1000, len(mine) + window.n_dropped
    n_failed, n_kept = n_asked - len(good), sum(one.keeps(limits) for one in mine)
    rate = sum(one.ok and window.from_ms < one.ended_ms <= window.to_ms for one in everyone) / max(seconds, 1e-3)
    interval = None
    if window.concurrency is not None and not window.pauses and good and not n_failed:
        mean, error = _mean_error([max(0.001, one.cycle_ms) for one in good])
        rate, off = 1000 * window.concurrency / mean, min(1.0, error / mean)
        interval = (rate * (1 - off), rate * (1 + off))
    values: dict[str, list[float]] = {
        name: [x for one in good if (x := getattr(one, name)) is not None]
        for name in ("ttft_ms", "tpot_ms", "e2e_ms", "input_tokens", "output_tokens", "cached_tokens")
    }
    figures: dict[str, Any] = {name: _mean(values[name]) for name in values if name.endswith("tokens")}
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        figures[name] = _distribution(values[name], 0 if name == "tpot_ms" else n_failed)
    parts = [one.server_us for one in good if one.server_us is not None]
    figures["server_ms"] = {
        part: (_mean([told[part] for told in parts if part in told]) or 0.0) / 1000
        for part in dict.fromkeys(part for told in parts for part in told)
    }
    tokens, tpot_ms = figures["output_tokens"], figures["tpot_ms"].p50
    return StepSummary(
        step=window.step, concurrency=window.concurrency, rate=window.rate, n=len(mine), requests_per_s=rate,
        requests_per_s_ci95=interval, output_tokens_per_s=None if tokens is None else rate * tokens,
        tokens_per_s_user=1000 / tpot_ms if tpot_ms else None, n_failed=n_failed, n_dropped=window.n_dropped,
        itl_ms=_distribution([gap / 1000 for one in good for gap in one.gaps_us]),
        goodput_per_s=rate * n_kept / max(1, len(good)) if limits and n_asked else None,
        attained=n_kept / n_asked if limits and n_asked else None,
        trusted=window.untrusted is None, untrusted=window.untrusted,
        growing=window.rate is not None and len(mine) > MIN_CALLS and _has_grown(everyone, window, n_asked), **figures,
    )  # fmt: skip


def _has_grown(samples: Iterable[Sample], window: Window, n_asked: int) -> bool:
    """Whether more calls were out at the end of a window than at its start, by more than chance has it come and go."""
    spans = [(one.due_ms, one.ended_ms) for one in samples]
    before, after = (sum(due <= at < ended for due, ended in spans) for at in (window.from_ms, window.to_ms))
    more = after + window.n_dropped - before
    return more > (1 - 1 / GAIN) * n_asked and more > 2 * math.sqrt(before + after)


def is_enough(samples: Sequence[Sample], concurrency: int, seconds: float, slo: Slo) -> bool:
    """Whether a step tells enough: all clients were answered, the means are tight, the SLO is kept or it is not."""
    n, limits = len(samples), slo.limits
    if n < max(MIN_CALLS, concurrency) or seconds < _MIN_S or (n < _SURE_CALLS and seconds < _SURE_S):
        return False
    if n >= 4 * max(_SURE_CALLS, concurrency):
        return True
    first = [one.ttft_ms for one in samples if one.ok and one.ttft_ms is not None]
    for values, tight in (([one.cycle_ms for one in samples], _TIGHT_RATE), (first, _TIGHT_TTFT)):
        mean, error = _mean_error(values)
        if error > tight * mean:
            return False
    # Far below its limits, a few calls tell enough.
    if not limits or n >= _SURE_CALLS or all(one.keeps(limits, ease=0.8) for one in samples):
        return True
    low, high = wilson_interval(sum(one.keeps(limits) for one in samples), n) or (0.0, 1.0)
    return not low <= ATTAINED <= high


def keeps_slo(step: StepSummary) -> bool:
    """Whether enough requests were within all SLOs; without any, whether enough were answered."""
    answered = 1 - step.n_failed / max(1, step.n + step.n_dropped)
    return (answered if step.attained is None else step.attained) >= ATTAINED


def carried(entry: CapacitySummary) -> int | None:
    """How many clients a target may have at once: as many as keep the SLO, else as many as pay; None if unknown."""
    if entry.within_slo is not None:
        return entry.within_slo.concurrency
    return entry.knee.concurrency if entry.knee else None


def find_knee(steps: Iterable[StepSummary]) -> Knee | None:
    """The fewest clients with nearly all the throughput; None where more of them still brought more."""
    told = sorted((s for s in steps if s.trusted and s.concurrency and s.requests_per_s), key=lambda s: s.level)
    best = max((step.requests_per_s for step in told), default=0.0)
    knee = next((step for step in told if step.requests_per_s * GAIN >= best), None)
    if knee is None or knee is told[-1]:
        return None
    return Knee(int(knee.level), best, _find_limit(told[0], knee, told[-1], best))


def _find_limit(alone: StepSummary, knee: StepSummary, most: StepSummary, best: float) -> str:
    """What more clients run into: who refuses them, or where a call's time goes that it did not take alone.

    A server that tells where the time went is believed; of another, what its first tokens and their pace tell."""
    if most.n_failed > (1 - ATTAINED) * most.n:
        return "refusals"
    first, at_knee, last = (step.ttft_ms.p50 or 0.0 for step in (alone, knee, most))
    slower = ((most.tpot_ms.mean or 0.0) - (alone.tpot_ms.mean or 0.0)) * ((most.output_tokens or 1) - 1)
    reads, waits = first, last - first
    if "prefill" in alone.server_ms and "prefill" in most.server_ms:
        before, after = alone.server_ms, most.server_ms
        reading = after["prefill"] - before["prefill"]
        if "decode" in before and "decode" in after:
            slower = after["decode"] - before["decode"]
        # Who shares an engine reads more slowly; who waits for a free one reads as fast as alone.
        waits, reads = waits - reading, after["prefill"]
        if reading > max(waits, slower):
            return "prefill"
    if slower > waits:
        return "decode"
    # One engine that is always reading: so many first tokens a second, each as long as a lone one takes.
    return "prefill" if best * reads / 1000 * GAIN * GAIN >= 1 and at_knee > 1.1 * first else "slots"


def find_within_slo(steps: Iterable[StepSummary], slo: Slo) -> WithinSlo | None:
    """The most that keeps the SLO, below the least that does not; None without an SLO, or without a step to trust."""
    told = sorted((step for step in steps if step.trusted), key=lambda step: step.level)
    if not slo.limits or not told:
        return None
    broken = next((place for place, step in enumerate(told) if not keeps_slo(step)), len(told))
    most, at = told[broken - 1].level if broken else 0, told[broken].level if broken < len(told) else None
    return WithinSlo(rate=most, broken_at=at) if told[0].rate else WithinSlo(concurrency=int(most), broken_at=at)


def fit_ttft(steps: Iterable[Sequence[tuple[float, float]]]) -> TtftFit | None:
    """(tokens, milliseconds) of the usual lone calls of each step as a straight line; None without two lengths."""
    points = list[tuple[float, float]]()
    for step in filter(None, steps):
        middle = median(y for _, y in step)
        most = _FAR * median(abs(y - middle) for _, y in step)
        points += [(x, y) for x, y in step if abs(y - middle) <= most]
    n, mean_x = len(points), _mean([x for x, _ in points]) or 0.0
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    if n < 3 or spread <= 0.01 * n * mean_x**2:
        return None
    slope, fixed = linear_regression(*zip(*points, strict=True))
    residual = math.fsum((y - fixed - slope * x) ** 2 for x, y in points) / (n - 2)
    t = student_t_quantile(0.975, n - 2)
    off, fixed_off = 1000 * t * math.sqrt(residual / spread), t * math.sqrt(residual * (1 / n + mean_x**2 / spread))
    per_1k = 1000 * slope
    return TtftFit(n, fixed, per_1k, (fixed - fixed_off, fixed + fixed_off), (per_1k - off, per_1k + off))


def _distribution(values: Sequence[float], n_lost: int = 0) -> Percentiles:
    """The values, and so many that never came, which have no part in the mean."""
    if not values:
        return Percentiles(n=n_lost)
    found, most = describe([*values, *[_NEVER_MS] * n_lost]), max(values)
    told: dict[str, Any] = {"p50": found.p50, "p95": found.p95, "p99": found.max if found.n < 100 else found.p99}
    beyond = [name for name, value in told.items() if value > most]
    told |= dict.fromkeys(beyond, most) | {f"{name}_ci95": None for name in told if n_lost}
    return msgspec.structs.replace(found, mean=_mean(values), max=most, beyond=beyond, **told)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _mean_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its interval at 95%."""
    n, mean = len(values), _mean(values) or 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / max(1, n - 1)
    return mean, Z95 * math.sqrt(variance / n) if n > 1 else mean
