"""What a figure may be: a rate, a percentile or an amount; and what defines one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from clawgauge.records import Percentiles
from clawgauge.records.summary import RateWithInterval, TaskSummary, ToolUse
from clawgauge.stats.proportions import Interval

Part = TypeVar("Part", contravariant=True)
PercentileName: TypeAlias = Literal["p50", "p95", "p99"]
Unit: TypeAlias = Literal["rate", "ms", "count", "tps", "per_s", "usd", "tier", "bytes", "joules"]
Better: TypeAlias = Literal["higher", "lower"] | None


@dataclass(frozen=True, slots=True)
class Rate:
    """`k` of `n` with its 95% interval, where one is known. `n_eff` is how many independent
    answers the n are worth."""

    k: int
    n: int
    ci95: Interval | None = None
    n_eff: float | None = None

    @property
    def value(self) -> float | None:
        return self.k / self.n if self.n else None

    @classmethod
    def of(cls, recorded: RateWithInterval | TaskSummary | ToolUse | None) -> Rate:
        """The rate as a summary has it; 0 of 0 where it has none."""
        if recorded is None:
            return cls(0, 0)
        return cls(recorded.k, recorded.n, recorded.ci95, recorded.n_eff)


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of `n` measured values; `value` is None where there are none.

    `is_beyond`: it lies among calls that were cut off, so it is longer than `value`, which is
    the deadline. `is_indicative`: it rests on too few calls to be more than a hint."""

    value: float | None
    n: int
    ci95: Interval | None = None
    is_beyond: bool = False
    is_indicative: bool = False

    @classmethod
    def of(cls, measured: Percentiles, name: PercentileName) -> Percentile:
        value: float | None = getattr(measured, name)
        return cls(
            value=value,
            n=measured.n,
            ci95=getattr(measured, f"{name}_ci95"),
            is_beyond=value is not None and name in measured.beyond,
            is_indicative=value is not None and name in measured.indicative,
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """A count, a mean, a sum, a tier; None where nothing is known. `share` is its part of the
    whole it belongs to, `is_provisional` says of a tier that it is not decided."""

    value: float | None
    share: float | None = None
    is_provisional: bool = False


Value: TypeAlias = Rate | Percentile | Amount


class Titles(NamedTuple):
    """The heading of a figure where there is little room, and where there is more. A view that has
    another word for it says so in its column."""

    short: str
    long: str


@dataclass(frozen=True, slots=True)
class Figure(Generic[Part]):
    """One figure. `read` takes it from a part of a summary. `better` is None where more is
    neither."""

    name: str
    unit: Unit
    better: Better
    read: Callable[[Part], Value]
    titles: Titles
