"""Runs targets one after another: order, preparation, snapshots around each. No I/O of its own.

The order of a run is fixed (targets as planned, then repeats, suites and prompts as planned), so that two runs of one
plan can be laid side by side.
"""

from __future__ import annotations

import asyncio
import random

import msgspec

from clawgauge.checks.detection.lazy_pattern import compile_patterns
from clawgauge.host.inventory import count_usable_cores
from clawgauge.host.snapshot import PeakSampler, take_snapshot
from clawgauge.journal import resource_tag
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Provider
from clawgauge.records import Resources, Target
from clawgauge.runner.agenda import Agenda, cost_budget, make_agenda
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
        for target in plan.targets:
            agenda = make_agenda(plan, target, cost)
            if agenda.n_open:
                await _run_target(context, target, agenda)
            else:
                context.tell_outcomes(target, agenda)
        outcome = "finished"
    finally:
        context.judge.close()
        spent = {} if cost is None else {"unrecorded_usd": cost.unrecorded_usd}
        context.event("stretch_ended", None, stretch=stretch, outcome=outcome, **spent)


async def _run_target(context: RunContext, target: Target, agenda: Agenda) -> None:
    """One target between two resource snapshots, the first taken before its model is loaded."""
    context.observer.target_started(target, agenda.n_open)
    plan, folder, tag = context.plan, context.folder, resource_tag(target)
    async with plan.provider_for(target) as provider:
        before_text, before = await _look(provider, plan)
        if not folder.has(f"resources_{tag}_before.txt"):
            folder.write(f"resources_{tag}_before.txt", before_text)
        sampler = PeakSampler(pids=provider.pids, environ=plan.environ)
        clock = ClientClock(cores=count_usable_cores(), load_1m=before.load_1m)
        try:
            with sampler, clock:
                await TargetRun(context, target, provider, agenda, clock).ask()
        finally:
            after_text, after = await _look(provider, plan)
            folder.write(f"resources_{tag}_after.txt", after_text)
            context.event(
                "target_finished",
                target,
                resources_before=msgspec.to_builtins(before),
                resources_after=msgspec.to_builtins(after),
                peak_memory_bytes=sampler.peak_memory_bytes,
                peak_process_bytes=sampler.peak_process_bytes,
                peak_vram_bytes=sampler.peak_vram_bytes,
                energy_j=sampler.energy_j,
                clock=clock.describe(),
            )
    context.observer.target_finished(target)


async def _look(provider: Provider, plan: Plan) -> tuple[str, Resources]:
    loaded = await provider.loaded_models()
    return await asyncio.to_thread(take_snapshot, loaded, environ=plan.environ)
