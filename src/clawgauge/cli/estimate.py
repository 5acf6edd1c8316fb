"""What a plan will take: calls, and the time they took here before. A guess is never made up: unknown is said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.errors import RunFolderError
from clawgauge.plan import Plan
from clawgauge.records import Prompt, PromptKey, Target
from clawgauge.reports.clean import one_row
from clawgauge.run_data import Run
from clawgauge.run_data.schedule import carries_verdict
from clawgauge.runner.agenda import cost_budget, make_agenda, tier_pool
from clawgauge.stats.paired import mcnemar_exact
from clawgauge.stats.proportions import binomial_cdf
from clawgauge.stats.tiers import DECIDED_LEVEL, judge_tier_1, tier_1_bounds
from clawgauge.words import format_duration, format_percent, plural

_RUNS_LOOKED_AT = 20
_NATIVE = "native_tools"
STRONG, WEAK = 0.95, 0.3
EXAMPLE_RATES = (STRONG, 0.9, 0.65, WEAK)
# More prompts than this are taken for no more: what these do not decide sits on a border.
_LOOK_AHEAD = 200
_HALF = 0.5
# A tenth fewer pass, and of every five prompts one goes the other way: a drop that is noticed in use.
_DROP, _DISCORDANT = 0.1, 0.2
_P_SEEN = 0.8
PROMPTS_FOR_DROP = 170
"""From so many on, exact McNemar sees that drop with power .8."""


class Foresight(NamedTuple):
    """What asking a model of true rate `rate` is likely to tell: whether it is Tier 1, with the chance `p_decided`.

    Asked only until that is decided, half of such models take at most `median` prompts (None: more than the plan has).
    """

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
            if until_decided and median is None and p_decided >= _HALF:
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
    """The plan as a script reads it."""
    settings, calls, pool = plan.settings, _expected_calls(plan), _tier_prompts(plan)
    n_families = _count_families(pool)
    likely = foresee(n_families, until_decided=settings.until_decided) if pool else []
    return {
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        "repeats": settings.repeats,
        "concurrency": settings.concurrency,
        "interleave": settings.interleave,
        "calls": sum(each.n for each in calls),
        "targets": [{"target": each.label, "calls": each.n, "estimated_s": each.seconds} for each in calls],
        "tier": {
            "prompts": len(pool),
            "families": n_families,
            "until_decided": settings.until_decided,
            "likely": [seen._asdict() for seen in likely],
        },
    }


def plan_lines(plan: Plan) -> list[str]:
    """The plan as a person reads it."""
    settings, calls = plan.settings, _expected_calls(plan)
    n_asked = Counter(prompt.suite for prompt in plan.asked)
    suites = ", ".join(f"{suite.name} ({plural(n_asked[suite.name], 'prompt')})" for suite in plan.suites)
    turns = "; the targets take turns at every prompt" if settings.interleave else ""
    lines = [f"suites: {suites}; repeats: {settings.repeats}; concurrency: {settings.concurrency}{turns}"]
    for each in calls:
        known = "time unknown (not measured here yet)"
        if each.seconds is not None:
            basis = f"as measured here before, {plural(each.n_past, 'call')}"
            known = f"about {format_duration(each.seconds * 1000)} ({basis})"
        lines.append("; ".join([f"  {each.label}: {plural(each.n, 'call')}, {known}", *each.left_out]))
    estimates = [each.seconds for each in calls if each.seconds is not None]
    at_most = "at most " if settings.until_decided else ""
    ending = f", about {format_duration(sum(estimates) * 1000)}" if estimates else ""
    if 0 < len(estimates) < len(calls):
        ending += f", and {len(calls) - len(estimates)} of unknown speed"
    n_calls = sum(each.n for each in calls)
    lines.append(f"in all: {plural(len(calls), 'target')}, {at_most}{plural(n_calls, 'call')}{ending}")
    return [one_row(line).rstrip("\n") for line in lines]


def foresight_lines(plan: Plan) -> list[str]:
    """What the plan can see, as a person reads it: whether it tells the tier, and how small a drop."""
    lines = [_tier_line(plan, pool)] if (pool := _tier_prompts(plan)) else []
    n_prompts = _count_families(prompt for prompt in _first_prompts(plan).values() if carries_verdict(prompt))
    if n_prompts:
        power = format_percent(power_of_drop(min(n_prompts, 2 * _LOOK_AHEAD)))
        # Repeats can only help.
        at_least = "at least " if plan.settings.repeats > 1 and power != "<1%" else ""
        more = f"; {PROMPTS_FOR_DROP} in {format_percent(_P_SEEN)}" if n_prompts < PROMPTS_FOR_DROP else ""
        prompts = plural(n_prompts, "prompt")
        lines.append(f"compare: {prompts} can see a 10-point drop in {at_least}{power} of cases{more}")
    return lines


def _first_prompts(plan: Plan) -> dict[PromptKey, Prompt]:
    """The prompts in the order they are asked, as far as the calls go."""
    pool = tier_pool(plan.prompts) if plan.settings.until_decided else []
    ordered = {prompt.key: prompt for prompt in [*pool, *plan.prompts]}
    return dict(islice(ordered.items(), plan.settings.max_calls))


def _tier_prompts(plan: Plan) -> list[Prompt]:
    asked = _first_prompts(plan)
    return [prompt for prompt in tier_pool(plan.prompts) if prompt.key in asked]


def _count_families(prompts: Iterable[Prompt]) -> int:
    return len({prompt.family for prompt in prompts})


def _tier_line(plan: Plan, pool: list[Prompt]) -> str:
    n_families = _count_families(pool)
    seen = foresee(n_families, until_decided=plan.settings.until_decided)
    # Of how many models of each rate, in a word.
    words = ((0.9, "nearly all"), (0.5, "most"), (0.2, "some"), (0.0, "few"))
    of = {one.rate: next(word for least, word in words if one.p_decided >= least) for one in seen}
    strong, weak = of[STRONG], of[WEAK]
    sure = f"{strong} strong or weak models" if strong == weak else f"{strong} strong models and {weak} weak ones"
    between = ", ".join(f"{word} near {format_percent(rate)}" for rate, word in of.items() if WEAK < rate < STRONG)
    families = f" in {plural(n_families, 'family', 'families')}" if n_families < len(pool) else ""
    half = next((f"; half of the strong within {one.median}" for one in seen if one.rate == STRONG and one.median), "")
    n_native = sum(prompt.suite == _NATIVE for prompt in plan.prompts)
    asks_all = any(info.name == _NATIVE and n_native >= info.n_prompts for info in plan.suites)
    lacking = any(one.p_decided < _P_SEEN for one in seen) and not asks_all
    more = f"; to tell more add `-s {_NATIVE}`" if lacking else ""
    rates = f"right {format_percent(STRONG)} or {format_percent(WEAK)} of the time"
    prompts = f"{plural(len(pool), 'tool prompt')}{families}"
    if not any(one.p_decided for one in seen):
        return f"tier: {prompts} cannot tell whether a model is Tier 1, whatever the answers{more}"
    return f"tier: {prompts} can tell whether it is Tier 1 for {sure} ({rates}), {between}{half}{more}"


class ExpectedCalls(NamedTuple):
    """The `n` calls to a target, and the time they will take if they are as the `n_past` of before."""

    label: str
    n: int
    n_past: int
    seconds: float | None
    left_out: Sequence[str] = ()


def _expected_calls(plan: Plan) -> list[ExpectedCalls]:
    # How many calls to each target succeeded in the newest runs of this folder, and their milliseconds in all.
    n_past: Counter[Target] = Counter()
    total_ms: dict[Target, float] = {}
    runs_dir = Path(plan.settings.runs_dir)
    found = runs_dir.iterdir() if runs_dir.is_dir() else ()
    for folder in sorted((path for path in found if (path / "summary.json").is_file()), reverse=True)[:_RUNS_LOOKED_AT]:
        try:
            summary = Run.open(folder).summary
        except RunFolderError:
            continue
        for group in summary.models if summary else ():
            if group.latency_ms.mean is not None:
                n_past[group.target] += group.n_success
                total_ms[group.target] = total_ms.get(group.target, 0.0) + group.latency_ms.mean * group.n_success
    cost, expected = cost_budget(plan), []
    for target in plan.targets:
        agenda, past, seconds = make_agenda(plan, target, cost), n_past[target], None
        if past:
            seconds = round(total_ms[target] / past * agenda.n_open / 1000 / plan.settings.concurrency, 1)
        expected.append(ExpectedCalls(target.label, agenda.n_open, past, seconds, agenda.left_out))
    return expected
