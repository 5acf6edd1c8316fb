"""Differences prompt by prompt, how likely luck alone makes them, and the prompts that changed sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from clawgauge.compare.findings import Flip, PairComparison, PairedRate, PairedShift, Unanswered, Verdict
from clawgauge.compare.pairing import SharedPrompt, label_prompt
from clawgauge.compare.tallies import PromptTally, RunSide
from clawgauge.records import PromptKey
from clawgauge.stats.paired import (
    ALPHA,
    Moved,
    agree,
    holm,
    mcnemar_exact,
    median,
    median_interval,
    paired_rate_interval,
    sign_flip_p,
    smallest_rate_change,
    smallest_ratio_change,
)
from clawgauge.stats.quantiles import percentile
from clawgauge.words import cut_text

Numbers: TypeAlias = Sequence[float]
MAX_ANSWER_CHARS = 4_000
MAX_ANSWERS = 50
NOT_ASKED = "not asked"


class Trials(NamedTuple):
    """k of n repeats of one prompt."""

    k: int
    n: int


Outcome: TypeAlias = Callable[[PromptTally], Trials]


def judged(tally: PromptTally) -> Trials:
    """Passes among the calls with a verdict."""
    return Trials(tally.n_passed, tally.n_judged)


def answered(tally: PromptTally) -> Trials:
    """Passes among the answered calls: an empty answer is an answer, and no pass."""
    return Trials(tally.n_passed, tally.n_answered)


def used_tool(tally: PromptTally) -> Trials:
    """Calls of an expected tool among the answered calls."""
    return Trials(tally.n_tool_successes, tally.n_answered)


def scheduled(tally: PromptTally) -> Trials:
    """Passes among the calls that were to be made: no answer is no pass."""
    return Trials(tally.n_passed, tally.n_scheduled)


def measure_rate(
    prompts: Sequence[SharedPrompt],
    outcome: Outcome,
    family: Callable[[PromptKey], PromptKey],
    *,
    fixed_size: bool = True,
) -> Callable[[float], PairedRate]:
    """The rates of both sides over the prompts that have a trial on both, as a measurement at a level.

    Prompts of one `family` move together. Without `fixed_size` the results themselves decided how many prompts there
    are: no interval is given then, and no verdict.
    """
    trials = [(family(prompt.key_a), outcome(prompt.a), outcome(prompt.b)) for prompt in prompts]
    trials = [(key, a, b) for key, a, b in trials if a.n and b.n]
    rates_a, rates_b = [a.k / a.n for _, a, _ in trials], [b.k / b.n for _, _, b in trials]
    totals: dict[PromptKey, Moved] = {}
    for (key, _, _), x, y in zip(trials, rates_a, rates_b, strict=True):
        before = totals.get(key, Moved(0.0, 0))
        totals[key] = Moved(before.total + y - x, before.n_prompts + 1)
    moved = list(totals.values())
    only_a = sum(x > y for x, y in zip(rates_a, rates_b, strict=True))
    only_b = sum(y > x for x, y in zip(rates_a, rates_b, strict=True))
    single = len(moved) == len(trials) and all(a.n == b.n == 1 for _, a, b in trials)
    p = mcnemar_exact(only_a, only_b) if single else sign_flip_p([one.total for one in moved])
    difference = math.fsum(one.total for one in moved) / len(trials) if trials else None

    def at(alpha: float) -> PairedRate:
        interval = paired_rate_interval(moved, single=single, alpha=alpha) if fixed_size else None
        smallest = smallest_rate_change(moved, alpha=alpha) if fixed_size else None
        reason = None if fixed_size else "the results of a side decided how many prompts it was asked"
        if fixed_size and smallest is None:
            reason = f"{len(moved)} independent prompts are too few to tell any change from luck"
        return PairedRate(
            n_prompts=len(trials),
            n_trials_a=sum(a.n for _, a, _ in trials),
            n_trials_b=sum(b.n for _, _, b in trials),
            rate_a=_mean(rates_a),
            rate_b=_mean(rates_b),
            difference=difference,
            ci95=agree(interval, p, difference or 0.0, alpha=alpha) if interval else None,
            only_a=only_a,
            only_b=only_b,
            test="mcnemar_exact" if single else "sign_flip",
            p=p,
            p_holm=p,
            smallest_change=smallest,
            reason=reason,
        )

    return at


def measure_tokens(prompts: Sequence[SharedPrompt]) -> Callable[[float], PairedShift]:
    """Output tokens over the prompts that have them on both sides; of repeats, the median one counts."""
    counts = [(prompt.a.output_tokens, prompt.b.output_tokens) for prompt in prompts]
    moved = [(median(a), median(b)) for a, b in counts if len(a) and len(b)]
    return lambda alpha: measure_shift(moved, test="sign", alpha=alpha)


def measure_shift(
    moved: Sequence[tuple[float, float]],
    *,
    alpha: float,
    test: Literal["sign"] | None = None,
    reason: str | None = None,
) -> PairedShift:
    """How far a figure moved over prompts, given A's and B's of each, by the signs of the differences.

    Without a `test` the differences are described, and nothing is told from luck.
    """
    differences = sorted(b - a for a, b in moved)
    ratios = sorted(b / a for a, b in moved if a > 0)
    n_lower, n_higher = sum(d < 0 for d in differences), sum(d > 0 for d in differences)
    # A prompt that did not move speaks for no change, here as in the interval: that keeps the two of one mind.
    n_against = len(moved) - max(n_lower, n_higher)
    p = mcnemar_exact(n_against, len(moved) - n_against) if test and 2 * n_against < len(moved) else 1.0
    interval = median_interval(differences, alpha=alpha) if test else None
    ratio_interval = median_interval(ratios, alpha=alpha) if test else None
    if test and interval is None:
        reason = f"{len(moved)} prompts are too few to tell any change from luck"
    return PairedShift(
        n_prompts=len(moved),
        median_a=percentile(sorted(a for a, _ in moved), 0.5),
        median_b=percentile(sorted(b for _, b in moved), 0.5),
        difference=percentile(differences, 0.5),
        ci95=interval,
        ratio=percentile(ratios, 0.5),
        ratio_ci95=ratio_interval,
        n_lower=n_lower,
        n_higher=n_higher,
        p=p,
        p_holm=p,
        test=test,
        smallest_change=smallest_ratio_change(ratio_interval, alpha=alpha),
        reason=reason,
    )


Measured = TypeVar("Measured", PairedRate, PairedShift)


def settle(measurements: Sequence[Callable[[float], Measured]]) -> list[Measured]:
    """One figure of all the pairs that are shown, each with its verdict: p-values and intervals corrected by Holm."""
    found = [measure(ALPHA) for measure in measurements]
    settled = []
    for one, measure, p_holm in zip(found, measurements, holm([one.p for one in found]), strict=True):
        # An interval at the level of this pair's own step leaves out 0 just where the corrected p is below 5%.
        strict = one if len(found) == 1 else measure(ALPHA * one.p / p_holm if p_holm < 1 else ALPHA / len(found))
        verdict: Verdict = "changed" if p_holm < ALPHA else "no_change_seen"
        if one.reason is not None or one.difference is None:
            verdict = "cannot_tell"
        settled.append(
            msgspec.structs.replace(
                one, p_holm=p_holm, ci_holm=strict.ci95, verdict=verdict, smallest_change=strict.smallest_change
            )
        )
    return settled


def _mean(values: Numbers) -> float | None:
    return math.fsum(values) / len(values) if values else None


def find_flips(prompts: Sequence[SharedPrompt]) -> list[Flip]:
    """Prompts that most repeats passed on one side and not on the other: the lost ones first."""
    flips = [_flip(prompt) for prompt in prompts if _passes(prompt.a) is not None and _passes(prompt.b) is not None]
    return sorted((flip for flip in flips if flip is not None), key=lambda flip: flip.direction != "lost")


def _flip(prompt: SharedPrompt) -> Flip | None:
    before, after = prompt.a, prompt.b
    if _passes(before) == _passes(after):
        return None
    lost = bool(_passes(before))
    suite, prompt_id = prompt.key_a if prompt.key_a[0] else prompt.key_b
    return Flip(
        suite=suite,
        prompt_id=prompt_id,
        prompt_name=after.name or before.name,
        direction="lost" if lost else "gained",
        passes_a=before.n_passed,
        trials_a=before.n_judged,
        passes_b=after.n_passed,
        trials_b=after.n_judged,
        violation=after.violation if lost else before.violation,
    )


def _passes(tally: PromptTally) -> bool | None:
    return 2 * tally.n_passed > tally.n_judged if tally.n_judged else None


def find_unanswered(prompts: Sequence[SharedPrompt]) -> list[Unanswered]:
    """Prompts with a success on one side and none on the other: no pair, and easily overlooked."""
    found = []
    for prompt in prompts:
        answered_a, answered_b = _has_success(prompt.a), _has_success(prompt.b)
        if answered_a == answered_b:
            continue
        silent = prompt.b if answered_a else prompt.a
        if not silent.n_scheduled:
            # Left out on purpose, because the tier was already decided.
            continue
        suite, prompt_id = prompt.key_a if prompt.key_a[0] else prompt.key_b
        found.append(
            Unanswered(
                suite=suite,
                prompt_id=prompt_id,
                missing_in="b" if answered_a else "a",
                failure_type=silent.failure_type or NOT_ASKED,
            )
        )
    return found


def _has_success(tally: PromptTally) -> bool:
    return tally.n_judged > 0 or len(tally.e2e_ms) > 0 or tally.n_cold > 0


def add_answers(
    a: RunSide, b: RunSide, prompts: Sequence[Sequence[SharedPrompt]], found: Sequence[PairComparison]
) -> list[PairComparison]:
    """The flips of every pair with both answers: on each side the first that has the verdict of the side."""
    places = [_place_flips(shared, pair.flips) for shared, pair in zip(prompts, found, strict=True)]
    answers_a = _read_answers(a, [at_a for shown in places for at_a, _ in shown])
    answers_b = _read_answers(b, [at_b for shown in places for _, at_b in shown])
    compared = []
    for pair, shown in zip(found, places, strict=True):
        flips = [
            msgspec.structs.replace(flip, answer_a=answers_a.get(at_a), answer_b=answers_b.get(at_b))
            for flip, (at_a, at_b) in zip(pair.flips, shown, strict=False)
        ]
        compared.append(msgspec.structs.replace(pair, flips=[*flips, *pair.flips[len(flips) :]]))
    return compared


def _place_flips(prompts: Sequence[SharedPrompt], flips: Sequence[Flip]) -> list[tuple[int | None, int | None]]:
    """Where the two answers of each flip that is to show them begin."""
    keys = {shared.label: shared for shared in prompts}
    shown = [(flip.direction == "lost", keys[label_prompt((flip.suite, flip.prompt_id))]) for flip in flips]
    return [(s.a.first_at.get(lost), s.b.first_at.get(not lost)) for lost, s in shown[:MAX_ANSWERS]]


def _read_answers(side: RunSide, offsets: Iterable[int | None]) -> dict[int | None, str]:
    known = [offset for offset in offsets if offset is not None]
    return (
        {offset: cut_text(result.raw_output, MAX_ANSWER_CHARS) for offset, result in side.results_at(known)}
        if known
        else {}
    )
