"""What the records of a capacity run come to: steps, knees, fits and what was cut off, from the folder alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

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
    """The calls under load by target and step, and the first tokens of calls between models by target and kind."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, str], list[Sample]] = {}
        self.swaps: dict[str, dict[str, list[float]]] = {}

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            under_load = row.load is not None and row.suite == CAPACITY
            if under_load and row.timings_us is not None and row.was_asked:
                sample, label = sample_of(row), row.target.label
                self.steps.setdefault((label, row.prompt_id), []).append(sample)
                kind = row.prompt_id.removeprefix("swap/").partition("+")[0]
                kind = "warm" if kind == "cold" and not row.cold_start else kind
                if kind in ("cold", "warm", "change") and sample.ok and sample.ttft_ms is not None:
                    self.swaps.setdefault(label, {}).setdefault(kind, []).append(sample.ttft_ms)


def read_capacity(run: Run, options: CapacityOptions, calls: LoadCalls) -> list[CapacitySummary]:
    """One entry for each target and length of prompt, in the order they were measured."""
    found, slo = list[CapacitySummary](), options.slo
    for label in [target.label for target in run.config.targets] if run.config else ():
        own = [event for event in run.events if event.target == label]
        if swaps := {kind: describe(firsts) for kind, firsts in calls.swaps.get(label, {}).items()}:
            found.append(
                CapacitySummary(target=label, mode="swap", context_tokens=0, swap_ms=swaps)
            )
        windows = [
            (w, calls.steps.get((label, w.step), [])) for w in _read(own, "capacity_step", Window)
        ]
        if options.rates:
            windows = [(w, [one.since_due() for one in made]) for w, made in windows]
        # Agents share what they begin with between turns; and a step in which we were late tells nothing.
        lone = [
            (w, made)
            for w, made in windows
            if w.concurrency == 1 and not w.pauses and w.untrusted is None
        ]
        alone = [
            [one for one in made if w.holds(one) and one.ok and one.ttft_ms is not None]
            for w, made in lone
        ]
        fit = fit_ttft(
            [
                [(one.input_tokens, one.ttft_ms or 0.0) for one in made if one.input_tokens]
                for made in alone
            ]
        )
        common = {"target": label, "mode": "open" if options.rates else "closed", "slo": slo}
        looks = _read(own, "capacity_context", CapacitySummary, **common)
        for tokens, look in {one.context_tokens: one for one in looks}.items():
            # A step that was tried again counts as it was the last time.
            mine = {
                (w.concurrency, w.rate): (w, made)
                for w, made in windows
                if w.context_tokens == tokens
            }
            steps = sorted(
                (measure_step(made, w, slo) for w, made in mine.values()),
                key=lambda step: step.level,
            )
            knee, within = find_knee(steps), find_within_slo(steps, slo)
            rule = _tps_rule(sample for _, made in mine.values() for sample in made)
            entry = {
                "steps": steps,
                "knee": knee,
                "within_slo": within,
                "ttft_fit": fit if steps else None,
            }
            found.append(msgspec.structs.replace(look, **entry, tps_rule=rule))
    return found


def _tps_rule(samples: Iterable[Sample]) -> int | None:
    """The rule behind the times per token: the share of the first piece came with rule 2. None where there are none."""
    timed = [sample for sample in samples if sample.tpot_ms is not None]
    if not timed:
        return None
    return 2 if any(sample.first_share is not None for sample in timed) else 1


def _read(events: Iterable[Event], name: str, kind: type[T], **more: Any) -> list[T]:
    """What events of one name tell. One that tells something else is passed over: a folder may come from anyone."""
    told = (convert_detail(event.detail | more, kind) for event in events if event.event == name)
    return [one for one in told if one is not None]
