"""How far a group's timings can be trusted.

Owns: putting together what the records say of this program's lateness and what the runner measured around them.
Refuses: the rule by which a call is flagged (`lateness`), and words.

The lag figures are of the calls: the most the loop was late during each. Where no record says (the runner watched its
loop but not the calls) they are the runner's own, the worst stretch's of a resumed run.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from clawgauge.records import ClockTrust, Event
from clawgauge.stats import Distribution
from clawgauge.summary.groups import GroupAccumulator

_US_PER_MS = 1000


class _LoopLag(msgspec.Struct, frozen=True):
    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class _Watched(msgspec.Struct, frozen=True):
    """`clock` in the detail of a `target_finished` event."""

    resolution_ns: float | None = None
    loop_lag_ms: _LoopLag | None = None
    client_cpu_s: float | None = None
    cores: int | None = None
    load_1m: float | None = None


def judge_clock(group: GroupAccumulator, events: Iterable[Event]) -> ClockTrust | None:
    """What is known of the clock while this group was asked; None where nobody looked."""
    label = group.target.label
    details = [e.detail.get("clock") for e in events if e.event == "target_finished" and e.target == label]
    stretches = [watched for detail in details if (watched := _read(detail)) is not None]
    lag_us = group.describe_tally(attrgetter("lag_us"))
    retries = group.total(attrgetter("retry_waits_ms"))
    if not (stretches or lag_us.n or retries.n):
        return None
    load, cores = _worst(s.load_1m for s in stretches), _worst(s.cores for s in stretches)
    resolution = _worst(s.resolution_ns for s in stretches)
    cpu = [s.client_cpu_s for s in stretches if s.client_cpu_s is not None]
    return ClockTrust(
        n_watched=lag_us.n,
        n_flagged=group.count(attrgetter("n_flagged")),
        lag_p50_ms=_lag_ms("p50", lag_us, stretches),
        lag_p99_ms=_lag_ms("p99", lag_us, stretches),
        lag_max_ms=_lag_ms("max", lag_us, stretches),
        resolution_ns=None if resolution is None else round(resolution),
        client_cpu_s=sum(cpu) if cpu else None,
        load_1m=load,
        cores=None if cores is None else int(cores),
        busy=None if load is None or cores is None else load > cores,
        n_retried=retries.n,
        retry_wait_ms=retries.value,
    )


def _lag_ms(figure: str, lag_us: Distribution, stretches: list[_Watched]) -> float | None:
    if lag_us.n:
        value: float = getattr(lag_us, figure)
        return value / _US_PER_MS
    return _worst(getattr(s.loop_lag_ms, figure) for s in stretches if s.loop_lag_ms is not None)


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _read(detail: Any) -> _Watched | None:
    try:
        return msgspec.convert(detail, _Watched | None)
    except msgspec.ValidationError:
        return None
