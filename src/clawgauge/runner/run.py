"""Runs targets one after another, or in turns: order, preparation, snapshots around each. No I/O of its own.

The order of a run is fixed (targets as planned, then repeats, suites and prompts as planned), so that two runs of one
plan can be laid side by side. With --interleave the targets take turns at every prompt, in an order drawn for each.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import islice

import msgspec

from clawgauge.checks.detection.lazy_pattern import compile_patterns
from clawgauge.host.inventory import count_usable_cores
from clawgauge.host.snapshot import PeakSampler, take_snapshot
from clawgauge.journal import resource_tag
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Provider
from clawgauge.records import Resources, Target
from clawgauge.runner.agenda import Agenda, Cell, cost_budget, interleaved_order, make_agenda
from clawgauge.runner.clock import ClientClock, Clock
from clawgauge.runner.target import Observer, RunContext, TargetRun


async def run(plan: Plan, folder: RunFolder, observer: Observer, clock: Clock | None = None) -> None:
    """Ask every open cell of every target. Returns when all are recorded; cancellation abandons what is in flight."""
    # Compiling while calls are out would hold up the loop that stamps their bytes.
    compile_patterns()
    settings, stretch = plan.settings, plan.work.stretch
    cost = cost_budget(plan)
    context = RunContext(plan, folder, observer, clock or Clock(), cost, random.Random(settings.seed))
    context.event("stretch_started", None, stretch=stretch, options=msgspec.to_builtins(settings.recorded()))
    outcome = "interrupted"
    try:
        if settings.interleave:
            await _run_in_turns(context)
        else:
            for target in plan.targets:
                if (agenda := _open_agenda(context, target)) is not None:
                    await _run_target(context, target, agenda)
        outcome = "finished"
    finally:
        context.judge.close()
        spent = {} if cost is None else {"unrecorded_usd": cost.unrecorded_usd}
        context.event("stretch_ended", None, stretch=stretch, outcome=outcome, **spent)


def _open_agenda(context: RunContext, target: Target) -> Agenda | None:
    """What a target is to be asked; where that is nothing, it is said why."""
    agenda = make_agenda(context.plan, target, context.cost)
    if agenda.n_open:
        return agenda
    context.tell_outcomes(target, agenda)
    return None


async def _run_target(context: RunContext, target: Target, agenda: Agenda) -> None:
    """One target between two resource snapshots, the first taken before its model is loaded."""
    context.observer.target_started(target, agenda.n_open)
    async with context.plan.provider(target.provider) as provider:
        before = await _look(context, target, provider, "before")
        sampler = PeakSampler(pids=provider.pids, environ=context.plan.environ)
        clock = ClientClock(cores=count_usable_cores(), load_1m=before.load_1m)
        try:
            with sampler, clock:
                await TargetRun(context, target, provider, agenda, clock).ask()
        finally:
            await _look_after(context, target, provider, before, clock, sampler)
    context.observer.target_finished(target)


async def _run_in_turns(context: RunContext) -> None:
    """All targets side by side, each between two snapshots around the whole; whose the memory and energy were, nobody
    can tell.
    """
    agendas = {t: agenda for t in context.plan.targets if (agenda := _open_agenda(context, t)) is not None}
    if not agendas:
        return
    async with AsyncExitStack() as stack:
        providers, before = {}, {}
        for target, agenda in agendas.items():
            context.observer.target_started(target, agenda.n_open)
            provider = providers[target] = await stack.enter_async_context(context.plan.provider(target.provider))
            before[target] = await _look(context, target, provider, "before")
        clock = ClientClock(cores=count_usable_cores(), load_1m=next(iter(before.values())).load_1m)
        try:
            with clock:
                await _take_turns(context, {t: TargetRun(context, t, providers[t], agendas[t], clock) for t in agendas})
        finally:
            for target, provider in providers.items():
                await _look_after(context, target, provider, before[target], clock, None)
    for target in agendas:
        context.observer.target_finished(target)


async def _take_turns(context: RunContext, runs: Mapping[Target, TargetRun]) -> None:
    """Every prompt is put to all targets before the next; with --concurrency N, N prompts are under way at once."""
    for run in runs.values():
        await run.get_ready()
    rounds = interleaved_order(context.plan, context.folder.run_id)

    async def ask_round(cell: Cell, targets: list[Target]) -> None:
        for target in targets:
            if target in runs:
                await runs[target].ask_next(cell)

    async def work() -> None:
        for cell, targets in rounds:
            await ask_round(cell, targets)

    # The first calls go alone, as they do for one target.
    for cell, targets in islice(rounds, 1):
        await ask_round(cell, targets)
    async with asyncio.TaskGroup() as group:
        for _ in range(context.plan.settings.concurrency):
            group.create_task(work())
    for run in runs.values():
        await run.finish()


async def _look(context: RunContext, target: Target, provider: Provider, moment: str) -> Resources:
    """What the machine is doing, which is written down; of the looks before a run and its resumptions the first."""
    loaded = await provider.loaded_models()
    text, figures = await asyncio.to_thread(take_snapshot, loaded, environ=context.plan.environ)
    name = f"resources_{resource_tag(target)}_{moment}.txt"
    if moment == "after" or not context.folder.has(name):
        context.folder.write(name, text)
    return figures


async def _look_after(
    context: RunContext,
    target: Target,
    provider: Provider,
    before: Resources,
    clock: ClientClock,
    sampler: PeakSampler | None,
) -> None:
    after = await _look(context, target, provider, "after")
    context.event(
        "target_finished",
        target,
        resources_before=msgspec.to_builtins(before),
        resources_after=msgspec.to_builtins(after),
        peak_memory_bytes=sampler and sampler.peak_memory_bytes,
        peak_process_bytes=sampler and sampler.peak_process_bytes,
        peak_vram_bytes=sampler and sampler.peak_vram_bytes,
        energy_j=sampler and sampler.energy_j,
        clock=clock.describe(),
    )
