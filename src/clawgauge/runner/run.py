"""Runs targets one after another: order, preparation, snapshots around each. No I/O of its own.

The order of a run is fixed (targets as planned, then repeats, suites and prompts as planned), so that two runs of one
plan can be laid side by side.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from clawgauge.checks.detection.lazy_pattern import compile_patterns
from clawgauge.errors import CallFailure
from clawgauge.host import PeakSampler, count_usable_cores, take_snapshot
from clawgauge.journal import CellKey, resource_tag
from clawgauge.journal.folder import RunFolder
from clawgauge.prices import Price
from clawgauge.providers.base import Provider
from clawgauge.records import Event, Prompt, Resources, RunOptions, Target
from clawgauge.runner.agenda import Agenda, make_agenda
from clawgauge.runner.budgets import CostBudget, Evidence
from clawgauge.runner.clock import ClientClock, Clock, SystemClock
from clawgauge.runner.target import Observer, RunContext, TargetRun

_SALT_BYTES = 16


def _no_price(target: Target) -> Price | None:
    return None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, decided.

    `done` names the cells that already have a record, `evidence` what they say of each target. `tier_pool` holds the
    prompts of the whole plan that are asked only until a tier is decided; empty without --until-decided. A
    `cost_budget` is the whole run's: one target's spending is what the next has left.
    """

    run_id: str
    targets: list[Target]
    prompts: list[Prompt]
    options: RunOptions
    provider_for: Callable[[Target], Provider]
    redact: Callable[[str], str]
    environ: Mapping[str, str]
    done: Collection[CellKey] = frozenset()
    stretch: int = 0
    seed: int | None = None
    tier_pool: Sequence[Prompt] = ()
    evidence: Mapping[Target, Evidence] = field(default_factory=dict)
    price_for: Callable[[Target], Price | None] = _no_price
    cost_budget: CostBudget | None = None

    def agenda(self, target: Target) -> Agenda:
        """What is open of a target."""
        return make_agenda(
            target,
            self.prompts,
            self.options,
            done=self.done,
            pool=self.tier_pool,
            evidence=self.evidence.get(target),
            shared=[] if self.cost_budget is None or target in self.cost_budget.free else [self.cost_budget],
        )


async def run(request: RunRequest, folder: RunFolder, observer: Observer, clock: Clock | None = None) -> None:
    """Ask every open cell of every target. Returns when all are recorded; cancellation abandons what is in flight."""
    # Compiling while calls are out would hold up the loop that stamps their bytes.
    compile_patterns()
    clock = clock or SystemClock()
    context = RunContext(
        run_id=request.run_id,
        folder=folder,
        options=request.options,
        observer=observer,
        clock=clock,
        redact=request.redact,
        stretch=request.stretch,
        rng=random.Random(request.seed),
        salt=secrets.token_bytes(_SALT_BYTES),
        price_for=request.price_for,
        budget=request.cost_budget,
    )
    options = msgspec.to_builtins(request.options)
    _event(context, "stretch_started", None, stretch=request.stretch, options=options)
    outcome = "interrupted"
    try:
        for target in request.targets:
            agenda = request.agenda(target)
            if agenda.n_open:
                await _run_target(context, target, agenda, request)
            else:
                _tell_outcomes(context, target, agenda)
        outcome = "finished"
    finally:
        context.judge.close()
        spent = {} if request.cost_budget is None else {"unrecorded_usd": request.cost_budget.unrecorded_usd}
        _event(context, "stretch_ended", None, stretch=request.stretch, outcome=outcome, **spent)


async def _run_target(context: RunContext, target: Target, agenda: Agenda, request: RunRequest) -> None:
    """One target between two resource snapshots, the first taken before its model is loaded."""
    context.observer.target_started(target, agenda.n_open)
    tag = resource_tag(target)
    async with request.provider_for(target) as provider:
        before_text, before = await _look(provider, request)
        if not context.folder.has(f"resources_{tag}_before.txt"):
            context.folder.write_text(f"resources_{tag}_before.txt", before_text)
        sampler = PeakSampler(pids=provider.pids, environ=request.environ)
        clock = ClientClock(cores=count_usable_cores(), load_1m=before.load_1m)
        try:
            with sampler, clock:
                await _ask(context, target, agenda, provider, clock)
        finally:
            after_text, after = await _look(provider, request)
            context.folder.write_text(f"resources_{tag}_after.txt", after_text)
            _event(
                context,
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


async def _look(provider: Provider, request: RunRequest) -> tuple[str, Resources]:
    loaded = await provider.loaded_models()
    return await asyncio.to_thread(take_snapshot, loaded, environ=request.environ)


async def _ask(context: RunContext, target: Target, agenda: Agenda, provider: Provider, clock: ClientClock) -> None:
    asking = TargetRun(context, target, provider, agenda, clock.lag_watch)
    try:
        loaded = await asking.prepare()
    except CallFailure as failure:
        await asking.skip(failure)
    else:
        _event(context, "target_started", target, loaded=loaded, n_cells=agenda.n_open)
        await asking.ask()
    _tell_outcomes(context, target, agenda)


def _tell_outcomes(context: RunContext, target: Target, agenda: Agenda) -> None:
    """Why cells of a target stay unasked."""
    for outcome in agenda.outcomes():
        _event(context, outcome.event, target, **outcome.detail)
        context.observer.stopped(target, outcome.event, outcome.detail)


def _event(context: RunContext, name: str, target: Target | None, **detail: object) -> None:
    label = target.label if target else None
    context.folder.event(Event(event=name, at_ms=context.clock.wall_ms(), target=label, detail=detail))
