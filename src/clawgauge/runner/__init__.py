"""Runs targets one after another: order, preparation, snapshots around each. No I/O of its own.

The order of a run is fixed (targets as planned, then repeats, suites and prompts as planned), so that two runs of one
plan can be laid side by side.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.host import PeakSampler, take_snapshot
from clawgauge.journal import CellKey, RunFolder, resource_tag
from clawgauge.providers.base import Provider
from clawgauge.records import Event, Prompt, Resources, RunOptions, Target
from clawgauge.runner.clock import Clock, SystemClock
from clawgauge.runner.observer import Observer
from clawgauge.runner.target_run import Cell, RunContext, TargetRun

__all__ = ["Clock", "Observer", "RunRequest", "SystemClock", "plan_cells", "run"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, decided. `done` names the cells that already have a record."""

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


def plan_cells(target: Target, prompts: list[Prompt], repeats: int, done: Collection[CellKey]) -> list[Cell]:
    """A target's open cells in the order they are asked."""
    return [
        Cell(prompt, repeat)
        for repeat in range(repeats)
        for prompt in prompts
        if CellKey(target.provider, target.model, target.thinking_level, prompt.suite, prompt.id, repeat) not in done
    ]


async def run(request: RunRequest, folder: RunFolder, observer: Observer, clock: Clock | None = None) -> None:
    """Ask every open cell of every target. Returns when all are recorded; cancellation abandons what is in flight."""
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
    )
    options = msgspec.to_builtins(request.options)
    _event(context, "stretch_started", None, stretch=request.stretch, options=options)
    outcome = "interrupted"
    try:
        for target in request.targets:
            cells = plan_cells(target, request.prompts, request.options.repeats, request.done)
            if cells:
                await _run_target(context, target, cells, request)
        outcome = "finished"
    finally:
        _event(context, "stretch_ended", None, stretch=request.stretch, outcome=outcome)


async def _run_target(context: RunContext, target: Target, cells: list[Cell], request: RunRequest) -> None:
    """One target between two resource snapshots, the first taken before its model is loaded."""
    context.observer.target_started(target, len(cells))
    tag = resource_tag(target)
    async with request.provider_for(target) as provider:
        before_text, before = await _look(provider, request)
        if not context.folder.has(f"resources_{tag}_before.txt"):
            context.folder.write_text(f"resources_{tag}_before.txt", before_text)
        sampler = PeakSampler(pids=provider.pids, environ=request.environ)
        try:
            with sampler:
                await _ask(context, target, cells, provider)
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
            )
    context.observer.target_finished(target)


async def _look(provider: Provider, request: RunRequest) -> tuple[str, Resources]:
    loaded = await provider.loaded_models()
    return await asyncio.to_thread(take_snapshot, loaded, environ=request.environ)


async def _ask(context: RunContext, target: Target, cells: list[Cell], provider: Provider) -> None:
    asking = TargetRun(context, target, provider)
    try:
        loaded = await provider.before_target(target.model, unload_others=context.options.unload_others)
    except CallFailure as failure:
        await asking.skip(cells, failure)
        return
    _event(context, "target_started", target, loaded=loaded, n_cells=len(cells))
    await asking.ask(cells)


def _event(context: RunContext, name: str, target: Target | None, **detail: object) -> None:
    label = target.label if target else None
    context.folder.event(Event(event=name, at_ms=context.clock.wall_ms(), target=label, detail=detail))
