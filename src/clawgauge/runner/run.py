"""Runs targets one after another, or in turns, in a fixed order: two runs of one plan can be laid side by side."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, nullcontext
from itertools import islice
from typing import TypeAlias

import msgspec

from clawgauge.checks import load_judges
from clawgauge.host.inventory import count_usable_cores
from clawgauge.host.snapshot import PeakSampler, take_snapshot
from clawgauge.journal import resource_tag
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Provider
from clawgauge.records import Resources, RunOptions, Target
from clawgauge.runner.agenda import cost_budget, interleaved_order, make_agenda
from clawgauge.runner.clock import ClientClock, Clock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.target import TargetRun

_PEAKS = ("peak_memory_bytes", "peak_process_bytes", "peak_vram_bytes", "energy_j")

Work: TypeAlias = Callable[[RunContext, Mapping[Target, TargetRun], ClientClock], Awaitable[None]]
"""What else than a plan's cells is asked of targets that are ready to be."""


async def run(
    plan: Plan, folder: RunFolder, observer: Observer, clock: Clock | None = None, work: Work | None = None
) -> None:
    """Ask every open cell of every target, or do `work` instead; cancellation abandons what is in flight."""
    # Compiling while calls are out would hold up the loop that stamps their bytes.
    load_judges()
    settings, stretch = plan.settings, plan.work.stretch
    cost = cost_budget(plan)
    context = RunContext(plan, folder, observer, clock or Clock(), cost, random.Random(settings.seed))
    options = {name: getattr(settings, name) for name in RunOptions.__struct_fields__}
    context.event("stretch_started", None, stretch=stretch, options=options)
    outcome = "interrupted"
    try:
        for targets in [plan.targets] if settings.interleave else [[target] for target in plan.targets]:
            if folder.wants_more:
                await _run_targets(context, targets, work)
        outcome = "finished" if folder.wants_more else outcome
    finally:
        context.judge.close()
        detail: dict[str, object] = {"stretch": stretch, "outcome": outcome}
        if cost is not None:
            detail["unrecorded_usd"] = cost.unrecorded_usd
        n_given_up = len(context.in_flight) + folder.count_lost_calls()
        # A capacity run that goes to its end gives up the calls of a step that is over.
        if n_given_up and (work is None or outcome == "interrupted"):
            detail["given_up"] = n_given_up
            observer.calls_given_up(n_given_up)
        context.event("stretch_ended", None, **detail)


async def _run_targets(context: RunContext, targets: list[Target], work: Work | None = None) -> None:
    """Targets, side by side if there are several, each between two snapshots, the first before its model is loaded. Of
    targets that take turns nobody can tell whose the memory and the energy were."""
    plan, agendas = context.plan, {}
    for target in targets:
        agenda = make_agenda(plan, target, context.cost, await plan.provider(target.provider).find_window(target.model))
        if agenda.n_open or work is not None:
            agendas[target] = agenda
        else:
            context.report_stops(target, agenda)
    if not agendas:
        return
    async with AsyncExitStack() as stack:
        providers, before = {}, {}
        for target, agenda in agendas.items():
            context.observer.target_started(target, agenda.n_open)
            provider = providers[target] = await stack.enter_async_context(plan.create_provider(target.provider))
            before[target] = await _look(context, target, provider, "before")
        clock = ClientClock(cores=count_usable_cores(), load_1m=next(iter(before.values())).load_1m)
        sampler = None if plan.settings.interleave else PeakSampler(pids=provider.pids, environ=plan.environ)
        runs = {t: TargetRun(context, t, providers[t], agenda, clock) for t, agenda in agendas.items()}
        try:
            with sampler or nullcontext(), clock:
                if work is not None:
                    await work(context, runs, clock)
                else:
                    await (_take_turns(context, runs) if plan.settings.interleave else runs[target].ask())
        finally:
            for target, provider in providers.items():
                looks = {"before": before[target], "after": await _look(context, target, provider, "after")}
                seen = {f"resources_{moment}": msgspec.to_builtins(look) for moment, look in looks.items()}
                seen |= {name: sampler and getattr(sampler, name) for name in _PEAKS}
                context.event("target_finished", target, **seen, clock=clock.describe())
    for target in agendas:
        context.observer.target_finished(target)


async def _take_turns(context: RunContext, runs: Mapping[Target, TargetRun]) -> None:
    """Every prompt is put to all targets before the next; with --concurrency N, N prompts are under way at once."""
    for run in runs.values():
        await run.get_ready()
    rounds = interleaved_order(context.plan, context.folder.run_id)

    async def work(at_most: int | None = None) -> None:
        for cell, targets in islice(rounds, at_most):
            for target in targets:
                if target in runs:
                    await runs[target].ask_next(cell)

    # The first calls go alone, as they do for one target.
    await work(1)
    async with asyncio.TaskGroup() as group:
        for _ in range(context.plan.settings.concurrency):
            group.create_task(work())
    for run in runs.values():
        await run.finish()


async def _look(context: RunContext, target: Target, provider: Provider, moment: str) -> Resources:
    """What the machine is doing, which is written down; of the looks before a run and its resumptions the first."""
    text, figures = await asyncio.to_thread(take_snapshot, await provider.loaded_models(), environ=context.plan.environ)
    name = f"resources_{resource_tag(target)}_{moment}.txt"
    if moment == "after" or not context.folder.has(name):
        context.folder.write(name, text)
    return figures
