"""What a plan will take, by calls like these in earlier runs, and what its answers can tell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from clawgauge.cli.decidability import undecidable_lines
from clawgauge.cli.expected_calls import ExpectedCalls, expected_calls
from clawgauge.plan import FIND_CONCURRENCY, NATIVE_SUITE, TEXT_SUITE, Plan
from clawgauge.prices import is_free
from clawgauge.records import DecisionOptions, Prompt, Target
from clawgauge.run_data.schedule import carries_verdict, tier_prompts
from clawgauge.stats.paired import mcnemar_exact
from clawgauge.stats.proportions import binomial_cdf
from clawgauge.stats.tiers import DECIDED_LEVEL, judge_tier_1
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.jobs import find_suites
from clawgauge.words import format_duration, format_money, format_percent, plural

STRONG, BETWEEN, WEAK = 0.95, 0.65, 0.3
EXAMPLE_RATES = (STRONG, 0.9, BETWEEN, WEAK)
"""True pass rates for which it is told whether their tier will be decided."""
# More prompts than this are taken for no more: what these do not decide sits on a border.
_MAX_PROMPTS_FORESEEN = 200
# A tenth fewer pass, and of every five prompts one goes the other way: a drop that is noticed in
# use.
_DROP = 0.1
_DISCORDANT = 0.2
# From so many prompts on, exact McNemar sees that drop with this power.
PROMPTS_FOR_DROP = 170
_GOOD_POWER = 0.8
# How sure a decision is for models of one rate, in words; the first that is reached holds.
_CHANCES = ((0.9, "nearly all"), (0.5, "most"), (0.2, "some"), (0.0, "few"))


class Foresight(NamedTuple):
    """The chance `p_decided` that asking a model of true rate `rate` tells whether it is Tier 1."""

    rate: float
    p_decided: float


def foresee(n_prompts: int, rates: Sequence[float] = EXAMPLE_RATES) -> list[Foresight]:
    """What a plan with `n_prompts` tool prompts, none a variant of another, tells of each rate."""
    n_prompts = min(n_prompts, _MAX_PROMPTS_FORESEEN)
    bounds = _final_bounds(n_prompts)
    return [_foresee_rate(rate, bounds) for rate in rates]


def _final_bounds(n_prompts: int) -> list[tuple[int, int]]:
    """After each answer, at most and at least how many passes decide; only the last answer does."""
    verdicts = [judge_tier_1(n_passed, n_prompts) for n_passed in range(n_prompts + 1)]
    decided_no_at = verdicts.count(False) - 1
    decided_yes_at = n_prompts + 1 - verdicts.count(True)
    undecidable = (-1, n_prompts + 1)
    return [undecidable] * (n_prompts - 1) + [(decided_no_at, decided_yes_at)]


def _foresee_rate(rate: float, bounds: Sequence[tuple[int, int]]) -> Foresight:
    # Where models of this rate stand after n answers, as long as they are undecided: chances by
    # number of passes.
    undecided = [1.0]
    p_decided = 0.0
    for n, (no_at, yes_at) in enumerate(bounds, 1):
        undecided = [
            p_one_less * rate + p_same * (1 - rate)
            for p_one_less, p_same in pairwise([0.0, *undecided, 0.0])
        ]
        for n_passed in range(n + 1):
            if n_passed <= no_at or n_passed >= yes_at:
                p_decided += undecided[n_passed]
                undecided[n_passed] = 0.0
    return Foresight(rate, p_decided)


def power_of_drop(n_prompts: int) -> float:
    """The chance that two runs, each prompt asked once, show that ten points fewer pass.

    By exact McNemar.
    """
    p_better = (_DISCORDANT - _DROP) / 2 / _DISCORDANT
    # Six standard deviations more than can be expected to differ, none do.
    expected = n_prompts * _DISCORDANT
    most = math.ceil(expected + 6 * math.sqrt(expected * (1 - _DISCORDANT)))
    power = 0.0
    n_better = -1
    for n_differing in range(1, min(n_prompts, most) + 1):
        # How few of the prompts that differ may be for the better, that it is more than luck.
        while (
            mcnemar_exact(n_better + 1, n_differing - n_better - 1) <= 1 - DECIDED_LEVEL
            and 2 * n_better + 2 < n_differing
        ):
            n_better += 1
        p_differing = (
            math.comb(n_prompts, n_differing)
            * _DISCORDANT**n_differing
            * (1 - _DISCORDANT) ** (n_prompts - n_differing)
        )
        power += p_differing * binomial_cdf(n_better, n_differing, p_better)
    return power


def plan_facts(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, for --dry-run --json."""
    settings = plan.settings
    calls_by_target = expected_calls(plan)
    targets = []
    for target, calls in calls_by_target.items():
        targets.append(
            {
                "target": target.label,
                "calls": calls.n,
                "estimated_s": calls.seconds,
                "estimated_usd": calls.usd,
            }
        )
    tool_prompts = _tier_prompts(plan, _asked_prompts(plan))
    n_families = len({prompt.family for prompt in tool_prompts})
    likely: list[Foresight] = []
    if tool_prompts and plan.decision is None:
        likely = foresee(n_families)
    return {
        "asked": "list" if plan.decision is None else "decision",
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        "repeats": settings.repeats,
        "concurrency": max(plan.calls_at_once(target) for target in plan.targets),
        "interleave": settings.interleave,
        "calls": sum(calls.n for calls in calls_by_target.values()),
        "targets": targets,
        "tier": {
            "prompts": len(tool_prompts),
            "families": n_families,
            "likely": [foresight._asdict() for foresight in likely],
        },
    }


def first_line(plan: Plan, expected: Mapping[Target, ExpectedCalls]) -> str:
    """What a run is about to do, in one line: how many calls, how long, at what cost."""
    extent = f"asking {plural(len(plan.asked), 'prompt')}"
    if plan.decision is not None:
        extent = f"asking {_word_extent(plan.decision)}"
    total = _total_line(list(expected.values()), is_expected=plan.decision is not None)
    return f"{extent}; {total}{_word_search(plan, expected.values())}"


def _word_search(plan: Plan, expected: Iterable[ExpectedCalls]) -> str:
    """How far a run may go on to find the best; nothing of one that does not."""
    if plan.decision is None or not plan.decision.best:
        return ""
    n_at_most = max(calls.n_at_most for calls in expected)
    n_calls = plural(n_at_most, "call")
    return f"; then on until the best is known, with {n_calls} to a target in all at most"


def plan_lines(plan: Plan) -> list[str]:
    """What is asked, of whom, how long it will take and what it will cost."""
    settings = plan.settings
    n_by_suite = Counter(prompt.suite for prompt in plan.asked)
    suites = ", ".join(_word_suite(plan, suite.name, n_by_suite) for suite in plan.suites)
    turns = "; the targets take turns at every prompt" if settings.interleave else ""
    extent = f"repeats: {settings.repeats}"
    if plan.decision is not None:
        extent = f"asked {_word_extent(plan.decision)}"
    lines = [f"suites: {suites}; {extent}; concurrency: {_word_concurrency(plan)}{turns}"]
    calls_by_target = expected_calls(plan)
    for target, calls in calls_by_target.items():
        about = "" if plan.decision is None else "about "
        n_calls = plural(calls.n, "call")
        line = f"  {target.label}: {about}{n_calls}, {_expectation(plan, target, calls)}"
        lines.append("; ".join([line, *calls.left_out]))
    total = _total_line(list(calls_by_target.values()), is_expected=plan.decision is not None)
    lines.append(f"{total}{_word_search(plan, calls_by_target.values())}")
    return lines


def _word_suite(plan: Plan, name: str, n_by_suite: Mapping[str, int]) -> str:
    """`core (66 prompts)`, and of one that few are asked when."""
    n_prompts = plural(n_by_suite[name], "prompt")
    if name == _find_reserve(plan):
        n_prompts += ", where a model takes no tools"
    return f"{name} ({n_prompts})"


def _find_reserve(plan: Plan) -> str | None:
    """The suite that a run asks only of a target that takes no tools, where it has one."""
    if plan.decision is None or not plan.decision.jobs:
        return None
    known_jobs = BUILT_IN | dict(plan.jobs)
    needed: set[str] = set()
    for name in plan.decision.jobs:
        if name in known_jobs:
            needed.update(find_suites(known_jobs[name]))
    return None if TEXT_SUITE in needed else TEXT_SUITE


def _word_extent(decision: DecisionOptions) -> str:
    """Until what is decided a run asks."""
    if not decision.jobs:
        return "until all that these prompts can decide is decided"
    return f"until decided: {', '.join(decision.jobs)}"


def _word_concurrency(plan: Plan) -> str:
    if plan.settings.concurrency != FIND_CONCURRENCY:
        return str(plan.settings.concurrency)
    most = max(plan.calls_at_once(target) for target in plan.targets)
    return "1" if most == 1 else f"up to {most}, found as it goes"


def _expectation(plan: Plan, target: Target, calls: ExpectedCalls) -> str:
    """Time and cost of a target's calls, as far as they are known."""
    model_provider = plan.providers.model_target(target).provider
    described = plan.provider(model_provider).describe()
    is_cost_unknown = calls.usd is None and not is_free(described)
    if calls.seconds is None and calls.usd is not None:
        guess = f"about {format_money(calls.usd)} by the price list"
        return f"{guess}, time unknown (not measured here yet)"
    if calls.seconds is None:
        and_cost = "and cost " if is_cost_unknown else ""
        return f"time {and_cost}unknown (not measured here yet)"
    time = format_duration(calls.seconds * 1000)
    cost = ", cost unknown" if is_cost_unknown else _word_usd([calls])
    if calls.is_by_price_list:
        cost += " by the price list"
    return f"about {time}{cost} (as measured here before, {plural(calls.n_past, 'call')})"


def _total_line(calls_of_targets: Sequence[ExpectedCalls], *, is_expected: bool) -> str:
    about = "about " if is_expected else ""
    n_calls = sum(calls.n for calls in calls_of_targets)
    line = f"in all: {plural(len(calls_of_targets), 'target')}, {about}{plural(n_calls, 'call')}"
    times_s = [calls.seconds for calls in calls_of_targets if calls.seconds is not None]
    if times_s:
        line += f", about {format_duration(sum(times_s) * 1000)}{_word_usd(calls_of_targets)}"
    else:
        costs = [calls.usd for calls in calls_of_targets if calls.usd is not None]
        line += f", about {format_money(sum(costs))}" if costs else ""
        line += ", time unknown" if n_calls else ""
    n_unknown = len(calls_of_targets) - len(times_s)
    if times_s and n_unknown:
        line += f", and {n_unknown} of unknown speed"
    return line


def _word_usd(calls_of_targets: Iterable[ExpectedCalls]) -> str:
    """` and $0.12`, for those of the calls whose cost is known; nothing where none is."""
    costs = [calls.usd for calls in calls_of_targets if calls.usd is not None]
    return f" and {format_money(sum(costs))}" if costs else ""


def foresight_lines(plan: Plan) -> list[str]:
    """What the answers will be able to tell, whatever they are."""
    if plan.decision is not None:
        return undecidable_lines(plan)
    asked = _asked_prompts(plan)
    tool_prompts = _tier_prompts(plan, asked)
    lines = []
    if tool_prompts:
        lines.append(_tier_line(plan, tool_prompts))
    n_prompts = len({prompt.family for prompt in asked if carries_verdict(prompt)})
    if n_prompts:
        lines.append(_compare_line(n_prompts, plan.settings.repeats))
    return lines


def _asked_prompts(plan: Plan) -> list[Prompt]:
    """The prompts in the order they are asked, as far as the calls go."""
    return list(plan.prompts)[: plan.settings.max_calls]


def _tier_prompts(plan: Plan, asked: Iterable[Prompt]) -> list[Prompt]:
    """Those of the prompts that a tier rests on."""
    asked_keys = {prompt.key for prompt in asked}
    return [prompt for prompt in tier_prompts(plan.prompts) if prompt.key in asked_keys]


def _compare_line(n_prompts: int, repeats: int) -> str:
    """How likely a comparison of two such runs sees a drop."""
    power = format_percent(power_of_drop(min(n_prompts, 2 * _MAX_PROMPTS_FORESEEN)))
    at_least = "at least " if repeats > 1 and power != "<1%" else ""
    show = plural(n_prompts, "prompt shows", "prompts show")
    line = f"compare: if a model drops by 10 points, {show} it in {at_least}{power} of cases"
    if n_prompts < PROMPTS_FOR_DROP:
        line += f"; {PROMPTS_FOR_DROP} prompts in {format_percent(_GOOD_POWER)}"
    return line


def _tier_line(plan: Plan, tool_prompts: Sequence[Prompt]) -> str:
    """For which models the tool prompts will tell whether they are Tier 1."""
    n_families = len({prompt.family for prompt in tool_prompts})
    foresights = foresee(n_families)
    prompts = plural(len(tool_prompts), "tool prompt")
    if n_families < len(tool_prompts):
        prompts += f" in {plural(n_families, 'family', 'families')}"
    more = ""
    is_unsure = any(foresight.p_decided < _GOOD_POWER for foresight in foresights)
    if is_unsure and not _asks_all_native_tools(plan):
        more = f"; `-s {NATIVE_SUITE}` asks more"
    if not any(foresight.p_decided for foresight in foresights):
        return f"tier: {prompts} cannot tell whether a model is Tier 1, whatever the answers{more}"
    by_rate = {foresight.rate: foresight for foresight in foresights}
    strong = _word_chance(by_rate[STRONG])
    weak = _word_chance(by_rate[WEAK])
    clear = f"{strong} strong models, {weak} weak ones"
    if strong == weak:
        clear = f"{strong} strong and weak models"
    between = _word_chance(by_rate[BETWEEN])
    return f"tier: {prompts} give a clear answer for {clear} and {between} in between{more}"


def _word_chance(foresight: Foresight) -> str:
    for at_least, word in _CHANCES:
        if foresight.p_decided >= at_least:
            return word
    raise AssertionError("a chance is never below 0")


def _asks_all_native_tools(plan: Plan) -> bool:
    n_asked = sum(prompt.suite == NATIVE_SUITE for prompt in plan.prompts)
    return any(suite.name == NATIVE_SUITE and n_asked >= suite.n_prompts for suite in plan.suites)
