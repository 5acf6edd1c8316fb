"""What a server can carry: in a sentence, as a verdict (how many subagents at once), and beside another time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clawgauge.records import CapacitySummary, Fit, JobVerdict, StepSummary
from clawgauge.stats.load import keeps_slo
from clawgauge.words import format_latency, plural, rounded

_LIMITS = {
    "slots": " Limited by its slots: the rest wait in line.", "prefill": " Limited by prefill.",
    "decode": " Limited by decoding.", "refusals": " More are refused.",
}  # fmt: skip
AT_ONCE, A_SECOND = "at once", "a second"
_WINDOW = "raise its context window (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx; llama.cpp: -c; embedded: context)"


def word_tokens(n: float) -> str:
    """`16k`, `1.5k`, `300`: k is 1,000."""
    return f"{n / 1000:g}k" if n >= 1000 else f"{n:g}"


def carried(entry: CapacitySummary) -> int | None:
    """How many clients a target may have at once: as many as keep the SLO, else as many as pay; None if unknown."""
    if entry.within_slo is not None:
        return entry.within_slo.concurrency
    return entry.knee.concurrency if entry.knee else None


def word_capacity(entry: CapacitySummary) -> str:
    """`6 at once at 16k: first token p95 1.70 s, 41 tokens/s each; at 8 it breaks your 2.00 s. Limited by prefill.`"""
    length, steps, within = word_tokens(entry.context_tokens), entry.steps, entry.within_slo
    if entry.swap_ms:
        known = [f"{kind} {format_latency(ms.p50)}" for kind, ms in entry.swap_ms.items() if ms.p50 is not None]
        return f"first token {', '.join(known)} (change: right after another model)"
    if entry.truncated:
        kept = f" to {entry.counted_tokens} tokens" if entry.truncated_by == "count" else ""
        return f"prompts of {length} tokens are SILENTLY TRUNCATED{kept} by the server: {_WINDOW}"
    if entry.refused or not steps:
        return f"prompts of {length} tokens are refused: {entry.refused}" if entry.refused else "nothing was measured"
    because = _LIMITS.get(entry.knee.limited_by, "") if entry.knee else ""
    closed, n_late = entry.mode == "closed", sum(not step.trusted for step in steps)
    at, unit = (carried(entry), "at once") if closed else (within and within.rate, "requests a second")
    if at == 0:
        return f"not even {steps[0].level:g} {unit} at {length} keeps your limits: {_word_step(steps[0])}.{because}"
    step = next((one for one in steps if one.level == at), steps[-1])
    load, told = f"{step.level:g} {unit} at {length}", _word_step(step)
    if within is None or at is None:
        late = "no limit seen: " if keeps_slo(step) else "cannot tell, too many calls failed: "
        if n_late:
            late = f"cannot tell, this program was late in {n_late} of {plural(len(steps), 'step')}: "
        queue = "; the queue grew all the time" if step.growing else ""
        if closed:
            load = f"{late}{load}" if at is None else f"up to {load} before it slows down"
        return f"{load}: {step.requests_per_s:.3g} requests/s, {told}{queue}.{because}"
    if within.broken_at is None:
        return f"{step.level:g} {unit} or more at {length}: {told}.{because}"
    broken = next(one for one in steps if one.level == within.broken_at)
    # The limit that is broken first.
    limits = [f"{format_latency(most)}{' a token' * (name == 'tpot_ms')}" for name, most in entry.slo.limits.items()
              if (seen := getattr(broken, name)).beyond or (seen.p95 or 0.0) > most]  # fmt: skip
    return f"{load}: {told}; at {within.broken_at:.3g} it breaks your {[*limits, 'limits'][0]}.{because}"


def _word_step(step: StepSummary) -> str:
    each = "" if step.tokens_per_s_user is None else f", {rounded(step.tokens_per_s_user)} tokens/s each"
    failed = f", {step.n_failed} of {step.n + step.n_dropped} failed" if step.n_failed else ""
    first, beyond = step.ttft_ms.p95, "over " if "p95" in step.ttft_ms.beyond else ""
    return f"{'no first token' if first is None else f'first token p95 {beyond}{format_latency(first)}'}{each}{failed}"


def judge_load(capacity: Sequence[CapacitySummary]) -> list[JobVerdict]:
    """How many subagents each target may have at once, for every length of prompt."""
    found: dict[str, list[Fit]] = {}
    for entry in [entry for entry in capacity if entry.mode == "closed"]:
        n, n_calls = carried(entry), sum(step.n for step in entry.steps)
        fit = "no" if entry.truncated or entry.refused or n == 0 else "cannot_tell" if n is None else "yes"
        fits = found.setdefault(word_tokens(entry.context_tokens), [])
        fits.append(Fit(target=entry.target, fit=fit, why=word_capacity(entry), n=n_calls))
        fits.sort(key=lambda one: one.fit != "yes")
    return [JobVerdict(job=f"subagents at once, {at}", column=at, ranking=fits) for at, fits in found.items()]


class LoadChange(NamedTuple):
    """One figure of both. `verdict` is `changed` where the 95% intervals are apart, or tells who may carry more."""

    target: str
    load: str
    figure: str
    a: float | None
    b: float | None
    verdict: str = ""


def compare_capacity(a: Sequence[CapacitySummary], b: Sequence[CapacitySummary]) -> Iterator[LoadChange]:
    """Every figure that both have, of the same targets with prompts of the same length under the same load."""
    others = {(one.target, one.mode, one.context_tokens): one for one in b}
    for one in a:
        if (other := others.get((one.target, one.mode, one.context_tokens))) is None:
            continue
        length, loads = word_tokens(one.context_tokens), {step.level: step for step in other.steps if step.trusted}
        for kind in [kind for kind in one.swap_ms if kind in other.swap_ms]:
            cold, again = one.swap_ms[kind], other.swap_ms[kind]
            verdict = _apart(cold.p50_ci95, again.p50_ci95)
            yield LoadChange(one.target, kind, "ttft p50 ms", cold.p50, again.p50, verdict)
        unseen = [name for name, x in (("A", one.within_slo), ("B", other.within_slo)) if x and x.broken_at is None]
        verdict = f"or more in {' and '.join(unseen)}" if unseen else ""
        rules = {entry.tps_rule for entry in (one, other) if entry.tps_rule is not None}
        if one.slo.tpot_ms is not None and len(rules) > 1:
            verdict = "cannot tell: times per token go by another rule"
        if one.mode == "closed":
            yield LoadChange(one.target, length, AT_ONCE, carried(one), carried(other), verdict)
        elif one.within_slo and other.within_slo:
            yield LoadChange(one.target, length, A_SECOND, one.within_slo.rate, other.within_slo.rate, verdict)
        for x, y in [(step, loads[step.level]) for step in one.steps if step.trusted and step.level in loads]:
            for figure, was, now, before, after in (
                ("requests/s", x.requests_per_s, y.requests_per_s, x.requests_per_s_ci95, y.requests_per_s_ci95),
                ("ttft p50 ms", x.ttft_ms.p50, y.ttft_ms.p50, x.ttft_ms.p50_ci95, y.ttft_ms.p50_ci95),
            ):
                yield LoadChange(one.target, f"{length}, {x.level:g}", figure, was, now, _apart(before, after))


def _apart(before: tuple[float, float] | None, after: tuple[float, float] | None) -> str:
    if not before or not after:
        return ""
    # Even two quiet runs of one server may be a hundredth apart.
    return "changed" if 1.01 * before[1] < after[0] or 1.01 * after[1] < before[0] else "no change seen"
