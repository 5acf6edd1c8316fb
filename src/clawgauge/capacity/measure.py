"""A capacity run's work: one target is searched for its limit, or several are changed between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter_ns

from clawgauge.capacity.clients import LocalLoadGenerator
from clawgauge.capacity.generator import LoadEnded
from clawgauge.capacity.scope import CapacityObserver, FinishedSteps, SearchScope, word_end
from clawgauge.capacity.search import TargetSearch
from clawgauge.errors import TargetError
from clawgauge.records import Target
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import RunContext
from clawgauge.runner.target import TargetRun

# How long after the time a step that ends with it is still told.
_GRACE_S = 1.0
_N_WARM_CALLS = 3
_N_CHANGE_ROUNDS = 5


async def measure_capacity(
    observer: CapacityObserver,
    finished_steps: FinishedSteps,
    context: RunContext,
    runs: Mapping[Target, TargetRun],
    clock: ClientClock,
) -> None:
    """Load targets that are ready to be asked (a `runner.run.Work`)."""
    generators = []
    searches = []
    for target, run in runs.items():
        generator = LocalLoadGenerator(context, run, clock, perf_counter_ns())
        scope = SearchScope(
            plan=context.plan,
            target=target,
            generator=generator,
            record_event=context.event,
            observer=observer,
            finished_steps=finished_steps,
        )
        generators.append(generator)
        searches.append(TargetSearch(scope))
    try:
        await search_targets(searches)
    finally:
        await asyncio.gather(*(generator.records.flush() for generator in generators))


async def search_targets(searches: Sequence[TargetSearch]) -> None:
    """Load one target within its time, or change between several.

    Raises `TargetError` where the only target of the run has no such model.
    """
    scope = searches[0].scope
    max_time_s = sum(search.scope.max_time_s for search in searches)
    try:
        async with asyncio.timeout(max_time_s + _GRACE_S):
            if len(searches) > 1:
                await _change_models(searches)
            else:
                await searches[0].measure()
    except TimeoutError:
        reason = "--max-time is over, and what was under way is given up"
        scope.observer.notice(word_end(reason, _count_measured(searches)))
    except LoadEnded as ended:
        scope.observer.notice(word_end(str(ended), _count_measured(searches)))
    except TargetError as no_model:
        if len(scope.plan.targets) == 1:
            raise
        scope.observer.notice(str(no_model))


def _count_measured(searches: Sequence[TargetSearch]) -> int:
    """How many visits of loads there are, or calls between models."""
    if len(searches) > 1:
        return sum(search.prober.n_answered for search in searches)
    return searches[0].n_measured


async def _change_models(searches: Sequence[TargetSearch]) -> None:
    """Ask each model from cold, then warm, then all in turn: what it costs that another one was
    asked before."""
    in_turn = [*searches[1:], searches[0]]
    # Who gets ready has the others unloaded.
    await searches[0].scope.generator.get_ready()
    for search in in_turn:
        await search.scope.generator.get_ready()
        await search.prober.send("swap/cold")
        for _ in range(_N_WARM_CALLS):
            await search.prober.send("swap/warm")
    for _ in range(_N_CHANGE_ROUNDS):
        for search in in_turn:
            await search.prober.send("swap/change")
