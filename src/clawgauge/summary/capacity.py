"""What the records of a capacity run come to: steps, knees, fits and what was cut off, from the
folder alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from clawgauge.records import CAPACITY, CapacityOptions, CapacitySummary, Event, StepSummary
from clawgauge.run_data import Row, Run
from clawgauge.run_data.schedule import convert_detail
from clawgauge.stats.load import (
    LoadRound,
    LoadVisit,
    Sample,
    Window,
    find_knee,
    find_within_slo,
    fit_ttft,
    measure_visits,
    sample_of,
)
from clawgauge.stats.quantiles import describe

T = TypeVar("T")


class LoadCalls:
    """The calls under load by target and step, and the first tokens of calls between models by
    target and kind."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, str], list[Sample]] = {}
        self.swaps: dict[str, dict[str, list[float]]] = {}

    def add(self, rows: list[Row], offsets: Sequence[int] = ()) -> None:
        for row in rows:
            is_under_load = row.load is not None and row.suite == CAPACITY
            if not is_under_load or row.timings_us is None or not row.was_asked:
                continue
            sample = sample_of(row)
            label = row.target.label
            self.steps.setdefault((label, row.prompt_id), []).append(sample)
            kind = row.prompt_id.removeprefix("swap/").partition("+")[0]
            if kind == "cold" and not row.cold_start:
                kind = "warm"
            if kind in ("cold", "warm", "change") and sample.ok and sample.ttft_ms is not None:
                self.swaps.setdefault(label, {}).setdefault(kind, []).append(sample.ttft_ms)


class MeasuredVisit(NamedTuple):
    """What one visit of a load came to, by itself."""

    target: str
    """Its label."""
    context_tokens: int
    step: StepSummary

    @property
    def number(self) -> int:
        return self.step.visits[0].visit


def read_visits(path: Path) -> list[MeasuredVisit]:
    """Every visit of every load in a run folder, those of loads that were tried again once."""
    run = Run.open(path)
    if run.config is None or run.config.capacity is None:
        return []
    calls = LoadCalls()
    run.feed(calls)
    options = run.config.capacity
    measured = []
    for target in run.config.targets:
        events = _events_of(run, target.label)
        for visit in _latest_visits(_read_loads(target.label, events, options, calls)):
            step = measure_visits([visit], options.slo)
            measured.append(MeasuredVisit(target.label, visit.window.context_tokens, step))
    return measured


def _events_of(run: Run, label: str) -> list[Event]:
    return [event for event in run.events if event.target == label]


def read_capacity(run: Run, options: CapacityOptions, calls: LoadCalls) -> list[CapacitySummary]:
    """One entry for each target and length of prompt, in the order they were measured."""
    entries = []
    for target in run.config.targets if run.config else ():
        label = target.label
        swaps = calls.swaps.get(label)
        if swaps:
            swap_ms = {kind: describe(times) for kind, times in swaps.items()}
            entry = CapacitySummary(target=label, mode="swap", context_tokens=0, swap_ms=swap_ms)
            entries.append(entry)
        entries += _read_contexts(label, _events_of(run, label), options, calls)
    return entries


def _read_contexts(
    label: str, events: Sequence[Event], options: CapacityOptions, calls: LoadCalls
) -> list[CapacitySummary]:
    """An entry for each length of prompt that one target was asked."""
    visits = _read_loads(label, events, options, calls)
    fit = fit_ttft(_lone_first_tokens(visits))
    # Of a length that was looked at again, the last look counts.
    probes = {}
    mode = "open" if options.rates else "closed"
    for probe in _read_details(
        events, "capacity_context", CapacitySummary, target=label, mode=mode, slo=options.slo
    ):
        probes[probe.context_tokens] = probe
    rounds = _read_details(events, "capacity_round", LoadRound)
    entries = []
    for context_tokens, probe in probes.items():
        of_length = [v for v in visits if v.window.context_tokens == context_tokens]
        latest = _latest_visits(of_length)
        measured = []
        for of_load in _by_load(latest).values():
            measured.append(measure_visits(of_load, options.slo))
        measured.sort(key=lambda step: step.level)
        n_rounds = _count_rounds(context_tokens, rounds, latest)
        entry = msgspec.structs.replace(
            probe,
            steps=measured,
            knee=find_knee(measured),
            within_slo=find_within_slo(measured, options.slo, n_rounds),
            ttft_fit=fit if measured else None,
            tps_rule=_tps_rule(sample for visit in latest for sample in visit.samples),
            n_rounds=n_rounds,
        )
        entries.append(entry)
    return entries


def _read_loads(
    label: str, events: Sequence[Event], options: CapacityOptions, calls: LoadCalls
) -> list[LoadVisit]:
    """Every visit of a load that was held steady, in the order they were measured."""
    visits = []
    for window in _read_details(events, "capacity_step", Window):
        samples = calls.steps.get((label, window.step), [])
        if options.rates:
            samples = [sample.since_due() for sample in samples]
        visits.append(LoadVisit(window, samples))
    return visits


def _latest_visits(visits: Iterable[LoadVisit]) -> list[LoadVisit]:
    """The visits, each as it was the last time where it was tried again."""
    latest = {}
    for visit in visits:
        window = visit.window
        latest[window.context_tokens, window.concurrency, window.rate, window.visit] = visit
    return list(latest.values())


def _by_load(visits: Iterable[LoadVisit]) -> Mapping[Any, list[LoadVisit]]:
    """The visits of each load, in their order."""
    by_load: dict[tuple[int | None, float | None], list[LoadVisit]] = {}
    for visit in visits:
        by_load.setdefault((visit.window.concurrency, visit.window.rate), []).append(visit)
    for of_load in by_load.values():
        of_load.sort(key=lambda visit: visit.window.visit)
    return by_load


def _count_rounds(
    context_tokens: int, rounds: Iterable[LoadRound], visits: Iterable[LoadVisit]
) -> int:
    """How many rounds were made to their end; the search is the first."""
    loads_visited = {(visit.window.concurrency, visit.window.visit) for visit in visits}
    levels_by_number = {}
    for load_round in rounds:
        if load_round.context_tokens == context_tokens:
            levels_by_number[load_round.visit] = load_round.concurrency
    n_rounds = 1
    while (levels := levels_by_number.get(n_rounds + 1)) is not None:
        if any((level, n_rounds + 1) not in loads_visited for level in levels):
            break
        n_rounds += 1
    return n_rounds


def _lone_first_tokens(visits: Sequence[LoadVisit]) -> list[list[tuple[int, float]]]:
    """The tokens and the first token's time of each prompt of a lone client, visit by visit.

    Agents share what they begin with between turns; and a visit in which we were late tells
    nothing."""
    of_visits = []
    for window, samples in visits:
        if window.concurrency != 1 or window.pauses or window.untrusted is not None:
            continue
        of_visit = []
        for sample in samples:
            is_counted = window.holds(sample) and sample.ok
            if is_counted and sample.ttft_ms is not None and sample.input_tokens:
                of_visit.append((sample.input_tokens, sample.ttft_ms))
        of_visits.append(of_visit)
    return of_visits


def _tps_rule(samples: Iterable[Sample]) -> int | None:
    """The rule behind the times per token: the share of the first piece came with rule 2. None
    where there are none."""
    timed = [sample for sample in samples if sample.tpot_ms is not None]
    if not timed:
        return None
    return 2 if any(sample.first_share is not None for sample in timed) else 1


def _read_details(events: Iterable[Event], name: str, kind: type[T], **more: Any) -> list[T]:
    """What events of one name tell, with `more` that they do not say themselves. One that tells
    something else is passed over: a folder may come from anyone."""
    details = []
    for event in events:
        if event.event == name:
            detail = convert_detail(event.detail | more, kind)
            if detail is not None:
                details.append(detail)
    return details
