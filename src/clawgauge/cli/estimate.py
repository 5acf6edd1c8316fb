"""What a plan will take: calls, and the time they took here before; and what it can tell. Unknown is said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.console.plain import word_skip
from clawgauge.errors import RunFolderError
from clawgauge.journal import stat_file
from clawgauge.plan import Plan
from clawgauge.prices import Price, Tokens, cost_usd, is_free
from clawgauge.records import GroupSummary, Prompt, RunSummary, Target
from clawgauge.run_data import Run
from clawgauge.run_data.schedule import carries_verdict
from clawgauge.runner.agenda import cost_budget, make_agenda, tier_pool
from clawgauge.stats.paired import mcnemar_exact
from clawgauge.stats.proportions import binomial_cdf
from clawgauge.stats.tiers import DECIDED_LEVEL, judge_tier_1, tier_1_bounds
from clawgauge.words import format_duration, format_money, format_percent, plural

_RUNS_LOOKED_AT, _NATIVE = 20, "native_tools"
# Of all runs together, the newest first: an estimate is not worth more than a moment's reading.
_MAX_SUMMED_UP_BYTES = 2**25
STRONG, BETWEEN, WEAK = 0.95, 0.65, 0.3
EXAMPLE_RATES = (STRONG, 0.9, BETWEEN, WEAK)
# More prompts than this are taken for no more: what these do not decide sits on a border.
_LOOK_AHEAD = 200
# A tenth fewer pass, and of every five prompts one goes the other way: a drop that is noticed in use.
_DROP, _DISCORDANT = 0.1, 0.2
# From so many prompts on, exact McNemar sees that drop with this power.
PROMPTS_FOR_DROP, _P_SEEN = 170, 0.8


class Foresight(NamedTuple):
    """The chance `p_decided` that asking a model of true rate `rate` tells whether it is Tier 1. Asked only until that
    is decided, half of such models take at most `median` prompts (None: more than the plan has)."""

    rate: float
    median: int | None
    p_decided: float


def foresee(n_prompts: int, rates: Sequence[float] = EXAMPLE_RATES, *, until_decided: bool = False) -> list[Foresight]:
    """One line for each rate, for a plan with `n_prompts` tool prompts that are not variants of each other."""
    n_prompts = min(n_prompts, _LOOK_AHEAD)
    if until_decided:
        bounds = list(tier_1_bounds(n_prompts))
    else:
        told = [judge_tier_1(k, n_prompts) for k in range(n_prompts + 1)]
        bounds = [*[(-1, n_prompts + 1)] * (n_prompts - 1), (told.count(False) - 1, n_prompts + 1 - told.count(True))]
    found = []
    for rate in rates:
        # Where models of this rate stand after n answers, as long as they are undecided: chances by number of passes.
        undecided, p_decided, median = [1.0], 0.0, None
        for n, (no_at, yes_at) in enumerate(bounds, 1):
            undecided = [fewer * rate + same * (1 - rate) for fewer, same in pairwise([0.0, *undecided, 0.0])]
            for k in range(n + 1):
                if k <= no_at or k >= yes_at:
                    p_decided += undecided[k]
                    undecided[k] = 0.0
            if until_decided and median is None and p_decided >= 0.5:
                median = n
        found.append(Foresight(rate, median, p_decided))
    return found


def power_of_drop(n_prompts: int) -> float:
    """The chance that exact McNemar over two runs, each prompt asked once, sees that ten points fewer pass."""
    better = (_DISCORDANT - _DROP) / 2 / _DISCORDANT
    power, few = 0.0, -1
    # Six standard deviations more than can be expected to differ, none do.
    most = n_prompts * _DISCORDANT + 6 * math.sqrt(n_prompts * _DISCORDANT * (1 - _DISCORDANT))
    for n in range(1, min(n_prompts, math.ceil(most)) + 1):
        # How few of n prompts that differ may be for the better, that it is more than luck.
        while mcnemar_exact(few + 1, n - few - 1) <= 1 - DECIDED_LEVEL and 2 * few + 2 < n:
            few += 1
        chance = math.comb(n_prompts, n) * _DISCORDANT**n * (1 - _DISCORDANT) ** (n_prompts - n)
        power += chance * binomial_cdf(few, n, better)
    return power


def plan_facts(plan: Plan) -> dict[str, Any]:
    settings, calls, (_, pool) = plan.settings, expected_calls(plan), _asked_prompts(plan)
    n_families = len({prompt.family for prompt in pool})
    likely = foresee(n_families, until_decided=settings.until_decided) if pool else []
    tier = {"prompts": len(pool), "families": n_families, "until_decided": settings.until_decided}
    return {
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        **{name: getattr(settings, name) for name in ("repeats", "concurrency", "interleave")},
        "calls": sum(each.n for each in calls.values()),
        "targets": [
            {"target": target.label, "calls": each.n, "estimated_s": each.seconds, "estimated_usd": each.usd}
            for target, each in calls.items()
        ],
        "tier": tier | {"likely": [seen._asdict() for seen in likely]},
    }


def plan_lines(plan: Plan) -> list[str]:
    settings, calls = plan.settings, expected_calls(plan)
    n_asked = Counter(prompt.suite for prompt in plan.asked)
    suites = ", ".join(f"{suite.name} ({plural(n_asked[suite.name], 'prompt')})" for suite in plan.suites)
    turns = "; the targets take turns at every prompt" if settings.interleave else ""
    lines = [f"suites: {suites}; repeats: {settings.repeats}; concurrency: {settings.concurrency}{turns}"]
    for target, each in calls.items():
        unpriced = each.usd is None and not is_free(plan.provider(target.provider).describe())
        known = f"time {'and cost ' if unpriced else ''}unknown (not measured here yet)"
        if each.seconds is not None:
            cost = ", cost unknown" if unpriced else _word_usd([each])
            past = plural(each.n_past, "call")
            known = f"about {format_duration(each.seconds * 1000)}{cost} (as measured here before, {past})"
        lines.append("; ".join([f"  {target.label}: {plural(each.n, 'call')}, {known}", *each.left_out]))
    estimates = [each.seconds for each in calls.values() if each.seconds is not None]
    at_most = "at most " if settings.until_decided else ""
    ending = f", about {format_duration(sum(estimates) * 1000)}{_word_usd(calls.values())}" if estimates else ""
    if 0 < len(estimates) < len(calls):
        ending += f", and {len(calls) - len(estimates)} of unknown speed"
    n_calls = sum(each.n for each in calls.values())
    return [*lines, f"in all: {plural(len(calls), 'target')}, {at_most}{plural(n_calls, 'call')}{ending}"]


def _word_usd(calls: Iterable[ExpectedCalls]) -> str:
    known = [each.usd for each in calls if each.usd is not None]
    return f" and {format_money(sum(known))}" if known else ""


def foresight_lines(plan: Plan) -> list[str]:
    asked, pool = _asked_prompts(plan)
    lines = [_tier_line(plan, pool)] if pool else []
    n_prompts = len({prompt.family for prompt in asked if carries_verdict(prompt)})
    if n_prompts:
        power = format_percent(power_of_drop(min(n_prompts, 2 * _LOOK_AHEAD)))
        at_least = "at least " if plan.settings.repeats > 1 and power != "<1%" else ""
        more = f"; {PROMPTS_FOR_DROP} prompts in {format_percent(_P_SEEN)}" if n_prompts < PROMPTS_FOR_DROP else ""
        shown = plural(n_prompts, "prompt shows", "prompts show")
        lines.append(f"compare: if a model drops by 10 points, {shown} it in {at_least}{power} of cases{more}")
    return lines


def _asked_prompts(plan: Plan) -> tuple[list[Prompt], list[Prompt]]:
    """The prompts in the order they are asked, as far as the calls go; and those of them that a tier rests on."""
    pool = tier_pool(plan.prompts)
    ordered = {prompt.key: prompt for prompt in [*(pool if plan.settings.until_decided else ()), *plan.prompts]}
    asked = dict(islice(ordered.items(), plan.settings.max_calls))
    return list(asked.values()), [prompt for prompt in pool if prompt.key in asked]


def _tier_line(plan: Plan, pool: list[Prompt]) -> str:
    n_families = len({prompt.family for prompt in pool})
    seen = foresee(n_families, until_decided=plan.settings.until_decided)
    families = f" in {plural(n_families, 'family', 'families')}" if n_families < len(pool) else ""
    prompts = f"{plural(len(pool), 'tool prompt')}{families}"
    n_native = sum(prompt.suite == _NATIVE for prompt in plan.prompts)
    asks_all = any(info.name == _NATIVE and n_native >= info.n_prompts for info in plan.suites)
    more = f"; `-s {_NATIVE}` asks more" if any(one.p_decided < _P_SEEN for one in seen) and not asks_all else ""
    if not any(one.p_decided for one in seen):
        return f"tier: {prompts} cannot tell whether a model is Tier 1, whatever the answers{more}"
    levels = ((0.9, "nearly all"), (0.5, "most"), (0.2, "some"), (0.0, "few"))
    of = {one.rate: next(word for least, word in levels if one.p_decided >= least) for one in seen}
    strong, weak, between = of[STRONG], of[WEAK], of[BETWEEN]
    sure = f"{strong} strong and weak models" if strong == weak else f"{strong} strong models, {weak} weak ones"
    median = next(one.median for one in seen if one.rate == STRONG)
    half = f"; half of the strong need at most {median}" if median else ""
    return f"tier: {prompts} give a clear answer for {sure} and {between} in between{half}{more}"


class ExpectedCalls(NamedTuple):
    """The `n` calls to a target, and what they will take and cost if they are as the `n_past` of before."""

    n: int
    n_past: int
    seconds: float | None
    usd: float | None
    left_out: Sequence[str]


def expected_calls(plan: Plan) -> dict[Target, ExpectedCalls]:
    """What is left to ask of each target, with what is known of such calls from the newest runs."""
    known: dict[Target, list[GroupSummary]] = {target: [] for target in plan.targets}
    runs_dir = Path(plan.settings.runs_dir)
    found = runs_dir.iterdir() if runs_dir.is_dir() else ()
    folders = sorted((path for path in found if (path / "summary.json").is_file()), reverse=True)
    for summary in _past_summaries(folders[:_RUNS_LOOKED_AT]):
        if summary.capacity:
            continue
        for group in summary.models:
            if group.target in known and group.latency_ms.mean is not None:
                known[group.target].append(group)
    cost, expected = cost_budget(plan), {}
    for target, groups in known.items():
        agenda, seconds, call_usd = make_agenda(plan, target, cost), None, None
        n, n_past = agenda.n_open, sum(group.n_success for group in groups)
        if n_past:
            past_ms = sum((group.latency_ms.mean or 0.0) * group.n_success for group in groups)
            seconds = round(past_ms / n_past * n / 1000 / plan.settings.concurrency, 3)
            call_usd = _call_usd(groups, plan.prices.get(target))
        usd = None if call_usd is None else round(call_usd * n, 6)
        left_out = [word_skip(skip.detail) for skip in agenda.skipped]
        expected[target] = ExpectedCalls(n, n_past, seconds, usd, left_out)
    return expected


def _past_summaries(folders: Sequence[Path]) -> Iterator[RunSummary]:
    """The figures of earlier runs, without those that would have to be made anew from more records
    than may be read."""
    if not folders:
        return
    # Loaded only here: `run --help` need not wait for it.
    from clawgauge.summary import summarize_folder
    from clawgauge.summary.stored import read_summary

    bytes_left = _MAX_SUMMED_UP_BYTES
    for folder in folders:
        try:
            summary = read_summary(Run.open(folder))
            results = stat_file(folder, "results.jsonl")
            if summary is None and results is not None and results.st_size <= bytes_left:
                bytes_left -= results.st_size
                summary = summarize_folder(folder)
        except RunFolderError:
            continue
        if summary is not None:
            yield summary


def _call_usd(groups: Sequence[GroupSummary], price: Price | None) -> float | None:
    """A call at today's price and as many tokens as before, else at what it came to before."""
    counted = [group for group in groups if group.output_tokens is not None and group.n_success]
    if price is not None and counted:
        n = sum(group.n_success for group in counted)
        names = ("input_tokens", "output_tokens", "cached_tokens")
        means = (sum(getattr(group, name) or 0 for group in counted) // n for name in names)
        if (usd := cost_usd(price, Tokens(*means))) is not None:
            return usd
    costs = [group.cost for group in groups if group.cost is not None]
    return sum(cost.usd for cost in costs) / sum(cost.n_priced for cost in costs) if costs else None
