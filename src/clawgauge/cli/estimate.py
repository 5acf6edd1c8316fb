"""What a plan will take: calls, and the time they took here before. A guess is never made up: unknown is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.errors import RunFolderError
from clawgauge.journal import read_summary
from clawgauge.plan import Plan
from clawgauge.records import Target
from clawgauge.reports.clean import one_row
from clawgauge.runner.agenda import cost_budget, make_agenda, tier_pool
from clawgauge.stats import DECIDED_LEVEL, TIER_1_RATE, TIER_2_RATE
from clawgauge.words import format_duration, format_percent, plural

_RUNS_LOOKED_AT = 20
EXAMPLE_RATES = (0.95, 0.9, 0.65, 0.3)
# A model that takes more than this to decide sits on a border, where no number of prompts is enough.
_LOOK_AHEAD = 200
_HALF = 0.5


class Foresight(NamedTuple):
    """What asking a model of true rate `rate` is likely to take.

    Half of such models are decided within `median` prompts (None: not within 200), and the share `p_decided` within
    as many as the plan has.
    """

    rate: float
    median: int | None
    p_decided: float


def foresee(n_prompts: int, rates: Sequence[float] = EXAMPLE_RATES) -> list[Foresight]:
    """One line for each rate, for a plan with `n_prompts` tool prompts."""
    # Where models of each rate stand after n answers, as long as they are undecided: chances by number of passes.
    undecided = {rate: [1.0] for rate in rates}
    p_decided, in_plan, median = dict.fromkeys(rates, 0.0), dict.fromkeys(rates, 0.0), dict[float, int]()
    low, high = _one_more([1.0], TIER_2_RATE), _one_more([1.0], TIER_1_RATE)
    for n in range(1, _LOOK_AHEAD + 1):
        # The posterior after n answers is read from Bin(n + 1, ·) at the two borders.
        low, high = _one_more(low, TIER_2_RATE), _one_more(high, TIER_1_RATE)
        borders = zip(accumulate(low[:-1]), accumulate(high[:-1]), strict=True)
        decided = [max(p1, 1.0 - below_2, below_2 - p1) >= DECIDED_LEVEL for below_2, p1 in borders]
        for rate in rates:
            reached = _one_more(undecided[rate], rate)
            undecided[rate] = [0.0 if is_over else p for p, is_over in zip(reached, decided, strict=True)]
            p_decided[rate] += sum(compress(reached, decided))
            if p_decided[rate] >= _HALF:
                median.setdefault(rate, n)
        if n <= n_prompts:
            in_plan = dict(p_decided)
        elif len(median) == len(rates):
            break
    return [Foresight(rate, median.get(rate), in_plan[rate]) for rate in rates]


def _one_more(chances: list[float], rate: float) -> list[float]:
    """The chances of k passes after one more trial."""
    failed = [p * (1 - rate) for p in chances]
    passed = [p * rate for p in chances]
    return [a + b for a, b in zip([*failed, 0.0], [0.0, *passed], strict=True)]


def plan_facts(plan: Plan) -> dict[str, Any]:
    """The plan as a script reads it."""
    calls = _expected_calls(plan)
    n_prompts = len(tier_pool(plan.prompts))
    return {
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        "repeats": plan.settings.repeats,
        "concurrency": plan.settings.concurrency,
        "interleave": plan.settings.interleave,
        "calls": sum(each.n for each in calls),
        "targets": [{"target": each.label, "calls": each.n, "estimated_s": each.seconds} for each in calls],
        "tier": {
            "prompts": n_prompts,
            "until_decided": plan.settings.until_decided,
            "likely": [seen._asdict() for seen in foresee(n_prompts)] if n_prompts else [],
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
        left_out = f"; {each.n_skipped} left out: longer than the model's window" if each.n_skipped else ""
        lines.append(f"  {each.label}: {plural(each.n, 'call')}, {known}{left_out}")
    estimates = [each.seconds for each in calls if each.seconds is not None]
    at_most = "at most " if settings.until_decided else ""
    ending = f", about {format_duration(sum(estimates) * 1000)}" if estimates else ""
    if 0 < len(estimates) < len(calls):
        ending += f", and {len(calls) - len(estimates)} of unknown speed"
    n_calls = sum(each.n for each in calls)
    lines.append(f"in all: {plural(len(calls), 'target')}, {at_most}{plural(n_calls, 'call')}{ending}")
    return [one_row(line).rstrip("\n") for line in lines]


def tier_lines(plan: Plan) -> list[str]:
    """Whether the plan is likely to settle the tier, as a person reads it; nothing for a plan without tool prompts."""
    n_prompts = len(tier_pool(plan.prompts))
    if not n_prompts:
        return []
    told = [
        (format_percent(seen.p_decided), format_percent(seen.rate), "over 200" if seen.median is None else seen.median)
        for seen in foresee(n_prompts)
    ]
    p_decided, rate, half = told[0]
    settled = f"settle it for {p_decided} of models right {rate} of the time"
    rest = "".join(f", {p_decided} at {rate} ({half})" for p_decided, rate, half in told[1:])
    return [f"tier: {plural(n_prompts, 'tool prompt')}, which {settled} (half of these within {half}){rest}"]


class ExpectedCalls(NamedTuple):
    """The `n` calls to a target, and the time they will take if they are as the `n_past` of before."""

    label: str
    n: int
    n_past: int
    seconds: float | None
    n_skipped: int = 0


def _expected_calls(plan: Plan) -> list[ExpectedCalls]:
    n_past, total_ms = past_calls(plan.runs_dir)
    cost, expected = cost_budget(plan), []
    for target in plan.targets:
        agenda, past, seconds = make_agenda(plan, target, cost), n_past[target], None
        if past:
            seconds = round(total_ms[target] / past * agenda.n_open / 1000 / plan.settings.concurrency, 1)
        expected.append(ExpectedCalls(target.label, agenda.n_open, past, seconds, agenda.n_skipped))
    return expected


def past_calls(runs_dir: Path) -> tuple[Counter[Target], dict[Target, float]]:
    """How many calls to each target succeeded in the newest runs of this folder, and their milliseconds in all."""
    n_calls: Counter[Target] = Counter()
    total_ms: dict[Target, float] = {}
    found = runs_dir.iterdir() if runs_dir.is_dir() else ()
    for folder in sorted((path for path in found if (path / "summary.json").is_file()), reverse=True)[:_RUNS_LOOKED_AT]:
        try:
            summary = read_summary(folder)
        except RunFolderError:
            continue
        for group in summary.models if summary else ():
            if group.latency_ms.mean is not None:
                n_calls[group.target] += group.n_success
                total_ms[group.target] = total_ms.get(group.target, 0.0) + group.latency_ms.mean * group.n_success
    return n_calls, total_ms
