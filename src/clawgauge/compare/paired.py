"""Differences prompt by prompt, how likely luck alone makes them, and the prompts that changed sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.compare.findings import Flip, PairComparison, PairedRate, PairedShift, Unanswered
from clawgauge.compare.pairing import SharedPrompt, label_prompt
from clawgauge.compare.tallies import PromptTally, RunSide
from clawgauge.stats import (
    PairedDifference,
    holm,
    mcnemar_exact,
    paired_difference,
    percentile,
    percentile_interval,
    sign_flip_p,
)
from clawgauge.words import cut_text

Numbers: TypeAlias = Sequence[float]
# The sign test and the order-statistic interval can say nothing at 95% of fewer; a Student interval only seems to.
MIN_PROMPTS_FOR_INTERVAL = 6
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


def pair_rates(prompts: Sequence[SharedPrompt], outcome: Outcome, *, fixed_size: bool = True) -> PairedRate:
    """The rates of both sides over the prompts that have a trial on both.

    Without `fixed_size` the results themselves decided how many prompts there are, and no interval is given.
    """
    trials = [(outcome(prompt.a), outcome(prompt.b)) for prompt in prompts]
    trials = [(a, b) for a, b in trials if a.n and b.n]
    rates_a, rates_b = [a.k / a.n for a, _ in trials], [b.k / b.n for _, b in trials]
    difference = paired_difference(rates_b, rates_a)
    only_a = sum(x > y for x, y in zip(rates_a, rates_b, strict=True))
    only_b = sum(y > x for x, y in zip(rates_a, rates_b, strict=True))
    single = all(a.n == b.n == 1 for a, b in trials)
    p = mcnemar_exact(only_a, only_b) if single else sign_flip_p([y - x for x, y in zip(rates_a, rates_b, strict=True)])
    return PairedRate(
        n_prompts=len(trials),
        n_trials_a=sum(a.n for a, _ in trials),
        n_trials_b=sum(b.n for _, b in trials),
        rate_a=_mean(rates_a),
        rate_b=_mean(rates_b),
        difference=difference.mean,
        ci95=_interval(difference) if fixed_size else None,
        only_a=only_a,
        only_b=only_b,
        test="mcnemar_exact" if single else "sign_flip",
        p=p,
        p_holm=p,
    )


def _interval(difference: PairedDifference) -> tuple[float, float] | None:
    """The interval of a difference of rates, which cannot be beyond ±1, where there are prompts enough for one."""
    # Prompts that all moved alike leave no spread, and an interval of no width would claim certainty.
    if difference.ci95 is None or not difference.error or difference.n < MIN_PROMPTS_FOR_INTERVAL:
        return None
    return max(-1.0, difference.ci95[0]), min(1.0, difference.ci95[1])


def pair_shift(prompts: Sequence[SharedPrompt], values: Callable[[PromptTally], Numbers]) -> PairedShift:
    """How far a figure moved over the prompts that have it on both sides; of repeats, the median one counts."""
    pairs = [(values(prompt.a), values(prompt.b)) for prompt in prompts]
    medians = [(_median(a), _median(b)) for a, b in pairs if len(a) and len(b)]
    differences = sorted(b - a for a, b in medians)
    ratios = sorted(b / a for a, b in medians if a > 0)
    n_lower, n_higher = sum(d < 0 for d in differences), sum(d > 0 for d in differences)
    p = mcnemar_exact(n_lower, n_higher)
    return PairedShift(
        n_prompts=len(medians),
        median_a=percentile(sorted(a for a, _ in medians), 0.5),
        median_b=percentile(sorted(b for _, b in medians), 0.5),
        difference=percentile(differences, 0.5),
        ci95=percentile_interval(differences, 0.5),
        ratio=percentile(ratios, 0.5),
        ratio_ci95=percentile_interval(ratios, 0.5),
        n_lower=n_lower,
        n_higher=n_higher,
        p=p,
        p_holm=p,
        n_cold_left_out=sum(prompt.a.n_cold + prompt.b.n_cold for prompt in prompts),
    )


def correct_rates(by_pair: Sequence[Mapping[str, PairedRate]]) -> list[dict[str, PairedRate]]:
    """Holm's correction of each rate over all the pairs that are shown."""
    corrected: list[dict[str, PairedRate]] = [{} for _ in by_pair]
    for name in dict.fromkeys(name for rates in by_pair for name in rates):
        places = [place for place, rates in enumerate(by_pair) if name in rates]
        for place, p in zip(places, holm([by_pair[place][name].p for place in places]), strict=True):
            corrected[place][name] = msgspec.structs.replace(by_pair[place][name], p_holm=p)
    return corrected


def correct_shifts(shifts: Sequence[PairedShift]) -> list[PairedShift]:
    """Holm's correction of one figure over all the pairs that are shown."""
    adjusted = holm([shift.p for shift in shifts])
    return [msgspec.structs.replace(shift, p_holm=p) for shift, p in zip(shifts, adjusted, strict=True)]


def _median(values: Numbers) -> float:
    middle = percentile(sorted(values), 0.5)
    return math.nan if middle is None else middle


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
