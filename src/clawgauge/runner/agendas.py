"""The agenda of a target: a planned list, or what the answers decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from clawgauge.plan import EarlierAnswers, Plan
from clawgauge.records import DecisionOptions, Job, Prompt, Target
from clawgauge.run_data.asking_order import order_sources
from clawgauge.run_data.evidence import CALLS, TEXT_CALLS, find_pools
from clawgauge.runner.agenda import (
    Agenda,
    Budget,
    CallBudget,
    CostBudget,
    OpenCells,
    Outcome,
    TimeBudget,
    leave_out,
)
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.decision import Decisions

AnyAgenda: TypeAlias = Agenda | DecisionAgenda


def make_agenda(
    plan: Plan,
    target: Target,
    cost: CostBudget | None = None,
    window: int | None = None,
    takes_tools: bool | None = None,
) -> AnyAgenda:
    """What a target is asked.

    The `cost` budget is the whole run's: what one target spends, the next has not. `window` is the
    model's context window in tokens, and `takes_tools` whether it takes any, where these are known.
    """
    settings = plan.settings
    earlier = plan.work.answers.get(target, EarlierAnswers())
    cells = OpenCells(plan.asked, settings.repeats)
    if plan.decision is None and plan.work.done:
        cells.drop(lambda cell: cell.key(target) in plan.work.done)
    skipped, left_out = leave_out(plan, target, cells, window)
    budgets: list[Budget] = []
    if cost is not None and target not in plan.free:
        budgets.append(cost)
    if settings.max_calls is not None:
        budgets.append(CallBudget(settings.max_calls, earlier.n_calls))
    if settings.max_time_s is not None and plan.capacity is None:
        budgets.append(TimeBudget(settings.max_time_s))
    if plan.decision is None:
        return Agenda(cells, budgets, skipped)
    prompts = [prompt for prompt in plan.asked if prompt.key not in left_out]
    return _make_decision_agenda(
        plan, plan.decision, target, prompts, earlier, budgets, skipped, takes_tools
    )


def _make_decision_agenda(
    plan: Plan,
    decision: DecisionOptions,
    target: Target,
    prompts: Sequence[Prompt],
    earlier: EarlierAnswers,
    budgets: list[Budget],
    skipped: Sequence[Outcome],
    takes_tools: bool | None,
) -> DecisionAgenda:
    known_jobs = BUILT_IN | dict(plan.jobs)
    pools = find_pools(prompts, known_jobs)
    versions = {suite.name: suite.version for suite in plan.suites}
    sources = order_sources(prompts, pools, versions, decision.order, plan.drawings.n_drawings)
    leftovers: list[Prompt] = []
    jobs: Mapping[str, Job] = {}
    if decision.jobs:
        jobs = {name: known_jobs[name] for name in decision.jobs if name in known_jobs}
        decisions = Decisions(jobs)
    else:
        if pools.pools[CALLS].prompts:
            # What shows calls in writing decides nothing beside native calls: it is asked in full.
            sources = [source for source in sources if TEXT_CALLS not in source.pools]
        fed_pools = {pool for source in sources for pool in source.pools}
        decisions = Decisions(known_jobs, only_pools=fed_pools)
        needed = {text.prompt.key for source in sources for text in source.texts}
        leftovers = [prompt for prompt in prompts if prompt.key not in needed]
    return DecisionAgenda(
        sources=sources,
        pools=pools,
        jobs=jobs,
        decisions=decisions,
        drawings=plan.drawings,
        calls_ahead=decision.calls_ahead.get(target.label, 1),
        budgets=budgets,
        recorded=earlier.observations,
        leftovers=leftovers,
        skipped=skipped,
        takes_tools=takes_tools,
    )
