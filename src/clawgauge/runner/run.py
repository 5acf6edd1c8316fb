"""Runs targets one after another, or in turns, in a fixed order.

Two runs of one plan can be laid side by side.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from itertools import islice
from typing import TypeAlias

import msgspec

from clawgauge.checks import load_judges
from clawgauge.host.machine import count_usable_cores
from clawgauge.host.peak import PeakSampler
from clawgauge.host.snapshot import take_snapshot
from clawgauge.journal import resource_tag
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan, runs_alone
from clawgauge.providers.base import Provider
from clawgauge.records import Resources, Target
from clawgauge.runner.agenda import Cell, cost_budget, interleaved_order
from clawgauge.runner.agendas import AnyAgenda, make_agenda
from clawgauge.runner.best import BestSearch
from clawgauge.runner.clock import ClientClock, Clock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.runner.target import TargetRun
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.best import TOLD_APART

Work: TypeAlias = Callable[[RunContext, Mapping[Target, TargetRun], ClientClock], Awaitable[None]]
"""What else than a plan's cells is asked of targets that are ready to be asked."""


async def run(
    plan: Plan,
    folder: RunFolder,
    observer: Observer,
    clock: Clock | None = None,
    work: Work | None = None,
) -> None:
    """Ask every open cell of every target, or do `work` instead.

    Cancellation abandons what is in flight.
    """
    # Compiling while calls are out would hold up the loop that stamps their bytes.
    load_judges()
    settings = plan.settings
    cost = cost_budget(plan)
    context = RunContext(
        plan=plan,
        folder=folder,
        observer=observer,
        clock=clock or Clock(),
        cost=cost,
        rng=random.Random(settings.seed),
    )
    stretch = plan.work.stretch
    options = msgspec.structs.asdict(settings.recorded())
    context.event("stretch_started", None, stretch=stretch, options=options)
    rounds = _find_rounds(plan, plan.targets, is_load=work is not None)
    outcome = "interrupted"
    try:
        agendas: dict[Target, AnyAgenda] = {}
        for targets in rounds:
            if folder.wants_more:
                made = await _make_agendas(context, targets)
                agendas |= made
                await _run_targets(context, made, work)
        if plan.decision is not None and plan.decision.best:
            await _find_best(context, agendas)
        if folder.wants_more:
            outcome = "finished"
    finally:
        context.judge.close()
        detail: dict[str, object] = {"stretch": stretch, "outcome": outcome}
        if cost is not None:
            detail["unrecorded_usd"] = cost.unrecorded_usd
        n_given_up = len(context.in_flight) + folder.count_lost_calls()
        # A capacity run that goes to its end gives up the calls of a step that is over.
        loses_calls = work is None or outcome == "interrupted"
        if n_given_up and loses_calls:
            detail["given_up"] = n_given_up
            observer.calls_given_up(n_given_up)
        context.event("stretch_ended", None, **detail)


def _find_rounds(
    plan: Plan, targets: Sequence[Target], *, is_load: bool = False
) -> list[list[Target]]:
    """Which targets are asked side by side: those that take turns, and those that run elsewhere.

    What runs on this machine comes after them, each alone: nothing of ours is beside it.
    """
    if plan.settings.interleave:
        return [list(targets)]
    if is_load:
        return [[target] for target in targets]
    elsewhere = []
    alone = []
    for target in targets:
        if runs_alone(plan.providers, target):
            alone.append(target)
        else:
            elsewhere.append(target)
    rounds = [elsewhere] if elsewhere else []
    return rounds + [[target] for target in alone]


async def _find_best(context: RunContext, agendas: Mapping[Target, AnyAgenda]) -> None:
    """Ask the models that are fit the same further prompts, until the best of them is known."""
    plan = context.plan
    decided = {}
    for target in plan.targets:
        agenda = agendas.get(target)
        if isinstance(agenda, DecisionAgenda):
            decided[target] = agenda
    jobs = BUILT_IN | dict(plan.jobs)
    names = plan.decision.jobs if plan.decision is not None else []
    search = BestSearch(decided, {name: jobs[name] for name in names if name in jobs})
    while context.folder.wants_more:
        for found in search.look():
            context.event(TOLD_APART, found.behind, **found.describe())
            context.observer.told_apart(
                found.job, found.ahead.label, found.behind.label, found.n_shared
            )
        further = search.choose_round()
        if not further:
            break
        for target, texts in further.items():
            decided[target].ask_on(texts)
        for targets in _find_rounds(plan, list(further)):
            if context.folder.wants_more:
                await _run_targets(context, {target: decided[target] for target in targets})
    if context.folder.wants_more:
        for job, tied in search.find_best(plan.work.told_apart).items():
            context.observer.best_sought(job, [target.label for target in tied])


async def _run_targets(
    context: RunContext, agendas: Mapping[Target, AnyAgenda], work: Work | None = None
) -> None:
    """Ask targets, side by side if there are several, between two snapshots of the machine.

    The first snapshot is taken before a model is loaded. Of several targets nobody can tell whose
    the memory and the energy were, so their peaks are not sampled.
    """
    plan = context.plan
    takes_turns = plan.settings.interleave
    agendas = _leave_out_finished(context, agendas, has_other_work=work is not None)
    if not agendas:
        return
    async with AsyncExitStack() as stack:
        providers: dict[Target, Provider] = {}
        before: dict[Target, Resources] = {}
        for target, agenda in agendas.items():
            if isinstance(agenda, DecisionAgenda):
                agenda.resume()
            if isinstance(agenda, DecisionAgenda) and agenda.is_asked_on:
                context.observer.target_goes_on(target, agenda.n_open)
            else:
                context.observer.target_started(target, agenda.n_open)
            provider = await stack.enter_async_context(plan.create_provider(target))
            providers[target] = provider
            before[target] = await _record_snapshot(context, target, provider, "before")

        def list_pids() -> Iterator[int]:
            for provider in providers.values():
                yield from provider.pids()

        first_snapshot = next(iter(before.values()))
        clock = ClientClock(cores=count_usable_cores(), load_1m=first_snapshot.load_1m)
        sampler = PeakSampler(pids=list_pids, environ=plan.environ)
        runs = {}
        for target, agenda in agendas.items():
            runs[target] = TargetRun(context, target, providers[target], agenda, clock)
        try:
            with ExitStack() as watching:
                if len(runs) == 1 and not takes_turns:
                    watching.enter_context(sampler)
                watching.enter_context(clock)
                if work is not None:
                    await work(context, runs, clock)
                elif takes_turns:
                    await _take_turns(context, runs)
                elif len(runs) == 1:
                    await next(iter(runs.values())).ask()
                else:
                    async with asyncio.TaskGroup() as group:
                        for target_run in runs.values():
                            group.create_task(target_run.ask())
        finally:
            for target, provider in providers.items():
                after = await _record_snapshot(context, target, provider, "after")
                context.event(
                    "target_finished",
                    target,
                    resources_before=msgspec.to_builtins(before[target]),
                    resources_after=msgspec.to_builtins(after),
                    # None where nothing was sampled.
                    peak_memory_bytes=sampler.peak_memory_bytes,
                    peak_process_bytes=sampler.peak_process_bytes,
                    peak_vram_bytes=sampler.peak_vram_bytes,
                    energy_j=sampler.energy_j,
                    clock=clock.describe(),
                    most_at_once=runs[target].most_at_once,
                    window_tokens=context.windows[target],
                )
    for target, agenda in agendas.items():
        if isinstance(agenda, DecisionAgenda):
            agenda.pause()
        context.observer.target_finished(target)


async def _make_agendas(context: RunContext, targets: Iterable[Target]) -> dict[Target, AnyAgenda]:
    agendas = {}
    for target in targets:
        provider = context.plan.provider(target.provider)
        window = await provider.find_window(target.model)
        context.windows[target] = window
        takes_tools = None
        if context.plan.decision is not None:
            takes_tools = await provider.takes_tools(target.model)
        agendas[target] = make_agenda(context.plan, target, context.cost, window, takes_tools)
    return agendas


def _leave_out_finished(
    context: RunContext, agendas: Mapping[Target, AnyAgenda], *, has_other_work: bool
) -> dict[Target, AnyAgenda]:
    """The agendas of the targets that are asked something; why the others are not is recorded."""
    asked = {}
    for target, agenda in agendas.items():
        if agenda.n_open or has_other_work:
            asked[target] = agenda
        else:
            context.report_stops(target, agenda)
    return asked


async def _take_turns(context: RunContext, runs: Mapping[Target, TargetRun]) -> None:
    """Put every prompt to all targets before the next prompt.

    With `--concurrency N`, N prompts are under way at once.
    """
    for target_run in runs.values():
        await target_run.get_ready()
    if context.plan.decision is not None:
        await _take_turns_at_decisions(context, runs)
        return
    rounds = interleaved_order(context.plan, context.folder.run_id)

    async def ask_rounds(rounds: Iterable[tuple[Cell, list[Target]]]) -> None:
        for cell, targets in rounds:
            for target in targets:
                if target in runs:
                    await runs[target].ask_next(cell)

    # The first calls go alone, as they do for one target.
    await ask_rounds(islice(rounds, 1))
    async with asyncio.TaskGroup() as group:
        # What is compared call by call runs beside nothing else, unless that was asked for.
        for _ in range(max(1, context.plan.settings.concurrency)):
            # They share one iterator: each round is taken by one of them.
            group.create_task(ask_rounds(rounds))
    for target_run in runs.values():
        await target_run.finish()


async def _take_turns_at_decisions(context: RunContext, runs: Mapping[Target, TargetRun]) -> None:
    """Ask every target its own next prompt, in an order that is drawn for each round anew."""
    rng = random.Random(context.folder.run_id)
    open_runs = list(runs.values())
    while open_runs:
        rng.shuffle(open_runs)
        still_open = []
        for target_run in open_runs:
            if await target_run.ask_next():
                still_open.append(target_run)
        # As they were planned, so that a resumed run draws the same.
        open_runs = [target_run for target_run in runs.values() if target_run in still_open]
    for target_run in runs.values():
        await target_run.finish()


async def _record_snapshot(
    context: RunContext, target: Target, provider: Provider, moment: str
) -> Resources:
    """What the machine is doing, which is written into the run folder as well.

    `moment` is `before` or `after`. Of the snapshots before a run and its resumptions the first
    stays.
    """
    loaded_models = await provider.loaded_models()
    text, resources = await asyncio.to_thread(
        take_snapshot, loaded_models, environ=context.plan.environ
    )
    name = f"resources_{resource_tag(target)}_{moment}.txt"
    if moment == "after" or not context.folder.has(name):
        context.folder.write(name, text)
    return resources
