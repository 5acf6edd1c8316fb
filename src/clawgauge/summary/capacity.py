"""What the records of a capacity run come to: steps, knees, fits and what was cut off, from the
folder alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from clawgauge.records import CAPACITY, CapacityOptions, CapacitySummary, Event
from clawgauge.run_data import Row, Run
from clawgauge.run_data.schedule import convert_detail
from clawgauge.stats.load import (
    Sample,
    Window,
    find_knee,
    find_within_slo,
    fit_ttft,
    measure_step,
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

    def add(self, rows: list[Row]) -> None:
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


class _Step(NamedTuple):
    """A steady load and the calls that were made under it."""

    window: Window
    samples: list[Sample]


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
        events = [event for event in run.events if event.target == label]
        entries += _read_contexts(label, events, options, calls)
    return entries


def _read_contexts(
    label: str, events: Sequence[Event], options: CapacityOptions, calls: LoadCalls
) -> list[CapacitySummary]:
    """An entry for each length of prompt that one target was asked."""
    steps = []
    for window in _read_details(events, "capacity_step", Window):
        samples = calls.steps.get((label, window.step), [])
        if options.rates:
            samples = [sample.since_due() for sample in samples]
        steps.append(_Step(window, samples))
    fit = fit_ttft(_lone_first_tokens(steps))
    # Of a length that was looked at again, the last look counts.
    probes = {}
    mode = "open" if options.rates else "closed"
    for probe in _read_details(
        events, "capacity_context", CapacitySummary, target=label, mode=mode, slo=options.slo
    ):
        probes[probe.context_tokens] = probe
    entries = []
    for context_tokens, probe in probes.items():
        # A step that was tried again counts as it was the last time.
        by_load = {}
        for step in steps:
            if step.window.context_tokens == context_tokens:
                by_load[step.window.concurrency, step.window.rate] = step
        measured = [measure_step(s.samples, s.window, options.slo) for s in by_load.values()]
        measured.sort(key=lambda step: step.level)
        entry = msgspec.structs.replace(
            probe,
            steps=measured,
            knee=find_knee(measured),
            within_slo=find_within_slo(measured, options.slo),
            ttft_fit=fit if measured else None,
            tps_rule=_tps_rule(sample for step in by_load.values() for sample in step.samples),
        )
        entries.append(entry)
    return entries


def _lone_first_tokens(steps: Sequence[_Step]) -> list[list[tuple[int, float]]]:
    """The tokens and the first token's time of each prompt of a lone client, step by step.

    Agents share what they begin with between turns; and a step in which we were late tells
    nothing."""
    of_steps = []
    for window, samples in steps:
        if window.concurrency != 1 or window.pauses or window.untrusted is not None:
            continue
        of_step = []
        for sample in samples:
            is_counted = window.holds(sample) and sample.ok
            if is_counted and sample.ttft_ms is not None and sample.input_tokens:
                of_step.append((sample.input_tokens, sample.ttft_ms))
        of_steps.append(of_step)
    return of_steps


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
