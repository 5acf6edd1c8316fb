"""Differences prompt by prompt, how likely luck alone makes them, and the prompts that changed sides.

A machine has moods that last for minutes. Calls made side by side (`run --interleave`) share them, so the ratios of
their times can be told from luck; with three runs a side the moods can be measured. With less, nobody can tell a model
from a mood."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from clawgauge.compare.findings import (
    Flip,
    PairComparison,
    Paired,
    PairedRate,
    PairedShift,
    Unanswered,
    Verdict,
)
from clawgauge.compare.sides import Family, Pair, PromptTally, RunSide, SharedPrompt
from clawgauge.records import PromptKey
from clawgauge.stats import paired as stats
from clawgauge.stats.proportions import Cluster
from clawgauge.stats.quantiles import percentile
from clawgauge.words import cut_text, plural

# A figure of A's and of B's, prompt by prompt.
Sides: TypeAlias = Sequence[tuple[float, float]]
MAX_ANSWER_CHARS, MAX_ANSWERS, MIN_RUNS = 4_000, 50, 3
# In points of a rate, as a share of a time or of tokens: what is noticed in use, and the largest change that may go
# unseen where "no change seen" is said.
NOTICEABLE_CHANGE, SMALL_ENOUGH_TO_SEE = 0.10, 0.25
_HINT = "ask both in one run (run --interleave), or make three runs a side and compare A1,A2,A3 B1,B2,B3 (run folders)"
Outcome: TypeAlias = Callable[[PromptTally], Cluster]
# What each rate counts. An empty answer is an answer, and no pass; of what was planned, so is no answer.
OUTCOMES: Mapping[str, Outcome] = {
    "objective_pass_rate": lambda tally: Cluster(tally.n_passed, tally.n_judged),
    "pass_rate_scheduled": lambda tally: Cluster(
        tally.n_passed, max(tally.n_planned, tally.n_recorded) - tally.n_unjudged
    ),
    **dict.fromkeys(
        ("restraint", "tasks", "agreement"), lambda tally: Cluster(tally.n_passed, tally.n_answered)
    ),
    "tool_use_rate": lambda tally: Cluster(tally.n_tool_successes, tally.n_answered),
    "in_context": lambda tally: Cluster(tally.n_passed, tally.n_judged),
}


def measure_rate(
    prompts: Sequence[SharedPrompt], outcome: Outcome, family: Family, *, fixed_size: bool = True
) -> Callable[[float], PairedRate]:
    """The rates of both sides over the prompts that have a trial on both, as a measurement at a level.

    Without `fixed_size` the results themselves decided how many prompts there are: no interval, and no verdict."""
    trials = [(family(prompt.key_a), outcome(prompt.a), outcome(prompt.b)) for prompt in prompts]
    trials = [(key, a, b) for key, a, b in trials if a.trials and b.trials]
    rates_a, rates_b = (
        [a.passes / a.trials for _, a, _ in trials],
        [b.passes / b.trials for _, _, b in trials],
    )
    changes = [y - x for x, y in zip(rates_a, rates_b, strict=True)]
    totals: dict[PromptKey, stats.Moved] = {}
    for (key, _, _), change in zip(trials, changes, strict=True):
        before = totals.get(key, stats.Moved(0.0, 0))
        totals[key] = stats.Moved(before.total + change, before.n_prompts + 1)
    moved = list(totals.values())
    only_a, only_b = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    single = len(moved) == len(trials) and all(a.trials == b.trials == 1 for _, a, b in trials)
    p = (
        stats.mcnemar_exact(only_a, only_b)
        if single
        else stats.sign_flip_p([one.total for one in moved])
    )
    difference = math.fsum(one.total for one in moved) / len(trials) if trials else None

    def at(alpha: float) -> PairedRate:
        interval, smallest, reason = (
            None,
            None,
            "the results of a side decided how many prompts it was asked",
        )
        if fixed_size:
            interval = stats.paired_rate_interval(moved, single=single, alpha=alpha)
            smallest = stats.smallest_rate_change(moved, alpha=alpha)
            few = plural(len(moved), "independent prompt is", "independent prompts are")
            reason = f"{few} too few to tell any change from luck"
        return PairedRate(
            n_prompts=len(trials), only_a=only_a, only_b=only_b, difference=difference, p=p, p_holm=p,
            n_trials_a=sum(a.trials for _, a, _ in trials), n_trials_b=sum(b.trials for _, _, b in trials),
            rate_a=math.fsum(rates_a) / len(trials) if trials else None,
            rate_b=math.fsum(rates_b) / len(trials) if trials else None,
            ci95=stats.agree(interval, p, difference or 0.0, alpha=alpha) if interval else None,
            test="mcnemar_exact" if single else "sign_flip",
            smallest_change=smallest, reason=reason if smallest is None else None,
        )  # fmt: skip

    return at


def measure_tokens(prompts: Sequence[SharedPrompt]) -> Callable[[float], PairedShift]:
    counts = [(prompt.a.output_tokens, prompt.b.output_tokens) for prompt in prompts]
    moved = [(stats.median(a), stats.median(b)) for a, b in counts if len(a) and len(b)]
    return lambda alpha: _measure_shift(moved, test="sign", alpha=alpha)


def _measure_shift(
    moved: Sides, *, alpha: float, test: Literal["sign"] | None = None, reason: str | None = None
) -> PairedShift:
    """By the signs of the differences; without a `test` they are described, and nothing is told from luck."""
    differences = sorted(b - a for a, b in moved)
    ratios = sorted(b / a for a, b in moved if a > 0)
    # A prompt that did not move speaks for no change, here as in the interval: that keeps the two of one mind.
    n_against = len(moved) - max(sum(d < 0 for d in differences), sum(d > 0 for d in differences))
    p = (
        stats.mcnemar_exact(n_against, len(moved) - n_against)
        if test and 2 * n_against < len(moved)
        else 1.0
    )
    interval = stats.median_interval(differences, alpha=alpha) if test else None
    ratio_interval = stats.median_interval(ratios, alpha=alpha) if test else None
    return _shift(
        moved, p, test=test, reason=reason, difference=percentile(differences, 0.5), ci95=interval,
        ratio=percentile(ratios, 0.5), ratio_ci95=ratio_interval,
        smallest_change=stats.smallest_ratio_change(ratio_interval, alpha=alpha),
    )  # fmt: skip


def _shift(moved: Sides, p: float, *, reason: str | None = None, **found: Any) -> PairedShift:
    few = f"{plural(len(moved), 'prompt is', 'prompts are')} too few to tell any change from luck"
    return PairedShift(
        n_prompts=len(moved), p=p, p_holm=p,
        median_a=percentile(sorted(a for a, _ in moved), 0.5), median_b=percentile(sorted(b for _, b in moved), 0.5),
        n_lower=sum(b < a for a, b in moved), n_higher=sum(b > a for a, b in moved),
        reason=few if found["test"] and found["ci95"] is None else reason, **found,
    )  # fmt: skip


def measure_times(
    a: RunSide, b: RunSide, pair: Pair, values: Callable[[PromptTally], Sequence[float]], place: int
) -> Callable[[float], PairedShift]:
    """One time of a pair as a measurement at a level; `place` is where a call made side by side has it."""
    if a is b and a.interleaved:
        paired = [both for shared in pair.shared if (both := _side_by_side(shared, place))]
        logs = [math.log(y / x) for x, y in paired]
        if logs:
            return lambda alpha: _as_ratio(
                paired, stats.signed_rank(logs, alpha=alpha), "side_by_side", alpha
            )
        return lambda alpha: _measure_shift(
            [], alpha=alpha, reason="no prompt was timed side by side"
        )
    moved = [
        (stats.median(x), stats.median(y))
        for s in pair.shared
        if len(x := values(s.a)) and len(y := values(s.b))
    ]
    n = min(len(a.runs), len(b.runs))
    reason = "no prompt was timed in every run"
    if n >= MIN_RUNS:
        levels = _run_levels(a, b, pair, values)
        if levels[0]:
            return lambda alpha: _as_ratio(
                moved, stats.compare_run_means(*levels, alpha=alpha), "between_runs", alpha
            )
    else:
        told = "one run a side" if n == 1 else f"{n} runs a side"
        if a is b:
            told = f"the targets were asked one after the other{'' if n == 1 else f' in only {n} runs'}, which"
        reason = f"{told} cannot tell a model from its machine's mood: {_HINT}"
    return lambda alpha: _measure_shift(moved, alpha=alpha, reason=reason)


def _side_by_side(shared: SharedPrompt, place: int) -> tuple[float, float] | None:
    """A's time and B's, moved by the median ratio of the calls that were made side by side; None where there were none.

    Who went first was drawn for each pair: without a difference either sign is as likely, whatever the machine did."""
    calls_a, calls_b = shared.a.moments, shared.b.moments
    both = [
        (calls_a[key][place] or 0, calls_b[key][place] or 0)
        for key in calls_a.keys() & calls_b.keys()
    ]
    timed = [(x, y) for x, y in both if x > 0 and y > 0]
    if not timed:
        return None
    ratio = math.exp(stats.median([math.log(y / x) for x, y in timed]))
    level = stats.median([x for x, _ in timed])
    return level, timed[0][1] if len(timed) == 1 else level * ratio


def _run_levels(
    a: RunSide, b: RunSide, pair: Pair, values: Callable[[PromptTally], Sequence[float]]
) -> tuple[list[float], list[float]]:
    """How slow each run was: the median, over the prompts that every run has timed, of the logarithm of a time against
    the prompt's mean of all runs; with no such prompt, both are empty."""
    columns: list[list[float]] = []
    n_runs = len(a.runs) + len(b.runs)
    for shared in pair.shared:
        tallies = [run[pair.a].get(shared.key_a) for run in a.by_run if pair.a in run]
        tallies += [run[pair.b].get(shared.key_b) for run in b.by_run if pair.b in run]
        timed = [
            stats.median(times)
            for tally in tallies
            if tally is not None and len(times := values(tally))
        ]
        if len(timed) == n_runs and min(timed) > 0:
            logs = [math.log(time) for time in timed]
            mean = math.fsum(logs) / n_runs
            columns.append([log - mean for log in logs])
    levels = [stats.median(level) for level in zip(*columns, strict=True)]
    return levels[: len(a.runs)], levels[len(a.runs) :]


def _as_ratio(
    moved: Sides, found: stats.Shift, test: Literal["side_by_side", "between_runs"], alpha: float
) -> PairedShift:
    """What was found in logarithms as a ratio, and in milliseconds of a call as long as A's median."""
    level = percentile(sorted(x for x, _ in moved), 0.5) or 0.0
    ratio, ratio_interval = math.exp(found.estimate), None
    if found.interval is not None:
        low, high = stats.agree(found.interval, found.p, found.estimate, alpha=alpha)
        ratio_interval = math.exp(low), math.exp(high)
    smallest = stats.smallest_ratio_change(ratio_interval, alpha=alpha)
    return _shift(
        moved, found.p, test=test, ratio=ratio, ratio_ci95=ratio_interval, difference=level * (ratio - 1),
        ci95=None if ratio_interval is None else (level * (ratio_interval[0] - 1), level * (ratio_interval[1] - 1)),
        smallest_change=smallest if found.smallest is None else math.expm1(found.smallest),
    )  # fmt: skip


Measured = TypeVar("Measured", PairedRate, PairedShift)


def settle(measurements: Sequence[Callable[[float], Measured]]) -> list[Measured]:
    """One figure of all the pairs that are shown, each with its verdict: p-values and intervals corrected by Holm."""
    found = [measure(stats.ALPHA) for measure in measurements]
    settled = []
    for one, measure, p_holm in zip(
        found, measurements, stats.holm([one.p for one in found]), strict=True
    ):
        strict = one
        if len(found) > 1:
            strict = measure(stats.holm_level(one.p, p_holm, len(found)))
        verdict, reason = _judge(one, p_holm, strict)
        told: dict[str, Any] = (
            {"ratio_ci_holm": strict.ratio_ci95} if isinstance(strict, PairedShift) else {}
        )
        told |= {"ci_holm": strict.ci95, "smallest_change": strict.smallest_change}
        settled.append(
            msgspec.structs.replace(one, p_holm=p_holm, verdict=verdict, reason=reason, **told)
        )
    return settled


def _judge(measured: Paired, p_holm: float, strict: Paired) -> tuple[Verdict, str | None]:
    """The verdict, and why where nothing can be told. A move that anybody would notice is never called no change, and
    neither is what could not have been seen. `strict` is measured at the level that Holm's correction leaves."""
    if measured.reason is not None or measured.difference is None:
        return "cannot_tell", measured.reason
    if p_holm < stats.ALPHA:
        return "changed", None
    moved = measured.difference
    unit = " points"
    if isinstance(measured, PairedShift):
        moved = 0.0 if measured.ratio is None else measured.ratio - 1
        unit = "%"
    smallest = strict.smallest_change
    if smallest is not None:
        sees_enough = smallest <= SMALL_ENOUGH_TO_SEE
    else:
        # Ratios that are all the same have an interval without width; else no change at all could be found.
        sees_enough = isinstance(strict, PairedShift) and strict.ratio_ci95 is not None
    # 0.85 − 0.95 is not −0.1 in floats.
    is_large = abs(moved) >= NOTICEABLE_CHANGE - 1e-9
    if not is_large and sees_enough:
        return "no_change_seen", None
    reason = "so large a move may still be luck" if is_large else "this comparison is too small"
    if smallest:
        size = f"{math.ceil(smallest * 100)}{unit}"
        reason += f": only a change of {size} or more is found in 4 of 5 cases here"
    return "cannot_tell", reason


def find_flips(prompts: Sequence[SharedPrompt]) -> list[Flip]:
    flips = []
    for prompt in prompts:
        before, after = prompt.a, prompt.b
        if before.n_judged and after.n_judged and before.passes != after.passes:
            flip = Flip(
                suite=prompt.key[0], prompt_id=prompt.key[1], prompt_name=after.name or before.name,
                direction="lost" if before.passes else "gained",
                passes_a=before.n_passed, trials_a=before.n_judged, passes_b=after.n_passed, trials_b=after.n_judged,
                violation=after.violation if before.passes else before.violation,
            )  # fmt: skip
            flips.append(flip)
    return sorted(flips, key=lambda flip: flip.direction != "lost")


def find_unanswered(prompts: Sequence[SharedPrompt]) -> list[Unanswered]:
    """Prompts with a success on one side and none on the other: no pair, and easily overlooked."""
    found = []
    for prompt in prompts:
        answered_a, answered_b = (
            t.n_judged > 0 or len(t.e2e_ms) > 0 or t.n_cold > 0 for t in (prompt.a, prompt.b)
        )
        silent = prompt.b if answered_a else prompt.a
        # What was not planned was left out on purpose, because the tier was already decided.
        if answered_a != answered_b and (silent.n_planned or silent.n_recorded):
            suite, prompt_id = prompt.key
            why = silent.failure_type or "not asked"
            missing_in: Literal["a", "b"] = "b" if answered_a else "a"
            found.append(
                Unanswered(
                    suite=suite, prompt_id=prompt_id, missing_in=missing_in, failure_type=why
                )
            )
    return found


def add_answers(
    a: RunSide,
    b: RunSide,
    prompts: Sequence[Sequence[SharedPrompt]],
    pairs: Sequence[PairComparison],
) -> list[PairComparison]:
    """The pairs with both answers of their flips: on each side the first that has its verdict. A run is read once."""
    places: list[list[tuple[int | None, int | None]]] = []
    for shared, pair in zip(prompts, pairs, strict=True):
        tallies = {prompt.key: (prompt.a, prompt.b) for prompt in shared}
        flips = [
            (*tallies[one.suite, one.prompt_id], one.direction == "lost")
            for one in pair.flips[:MAX_ANSWERS]
        ]
        places.append([(x.first_at.get(lost), y.first_at.get(not lost)) for x, y, lost in flips])
    texts_a = _read_answers(a, [x for mine in places for x, _ in mine])
    texts_b = _read_answers(b, [y for mine in places for _, y in mine])
    told = []
    for pair, mine in zip(pairs, places, strict=True):
        texts = [{"answer_a": texts_a.get(x), "answer_b": texts_b.get(y)} for x, y in mine]
        flips_told = [
            msgspec.structs.replace(flip, **both)
            for flip, both in zip(pair.flips, texts, strict=False)
        ]
        told.append(msgspec.structs.replace(pair, flips=[*flips_told, *pair.flips[len(mine) :]]))
    return told


def _read_answers(side: RunSide, offsets: Sequence[int | None]) -> dict[int | None, str]:
    known = [offset for offset in offsets if offset is not None]
    results = side.results_at(known) if known else ()
    return {offset: cut_text(result.raw_output, MAX_ANSWER_CHARS) for offset, result in results}
