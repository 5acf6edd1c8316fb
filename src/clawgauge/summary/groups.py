"""Everything kept of one target's records, seen as one.

Owns: the union of a target's strata: its outcomes, its columns, its clock. Refuses: figures; they are worked out from
these views by whoever writes a summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from clawgauge.records import Target
from clawgauge.stats import Distribution, describe
from clawgauge.summary.schedule import PromptKey
from clawgauge.summary.strata import Ending, Stratum, StratumKey, ToolSign, Total


class EndingCount(NamedTuple):
    """How many cells of one prompt ended alike."""

    suite: str
    ending: Ending
    n: int

    @property
    def prompt(self) -> PromptKey:
        return self.suite, self.ending.prompt_id


class ToolSignCount(NamedTuple):
    """How many calls on one prompt came alike."""

    suite: str
    sign: ToolSign
    n: int

    @property
    def prompt(self) -> PromptKey:
        return self.suite, self.sign.prompt_id


class GroupAccumulator:
    """One target's strata. Memory: 32 bytes a record and a tally that does not grow with repeats."""

    def __init__(self, target: Target, strata: Mapping[StratumKey, Stratum]) -> None:
        self.target = target
        self._strata = strata

    def endings(self) -> list[EndingCount]:
        """Every way a cell ended, counted."""
        return [
            EndingCount(key.suite, Ending._make(ending), n)
            for key, stratum in self._strata.items()
            for ending, n in stratum.endings.items()
        ]

    def tool_signs(self) -> list[ToolSignCount]:
        """Every way a tool call came on answered prompts that expect one, counted."""
        return [
            ToolSignCount(key.suite, ToolSign._make(sign), n)
            for key, stratum in self._strata.items()
            for sign, n in stratum.tool_signs.items()
        ]

    def suites(self) -> list[str]:
        """The suites this target has records of, in the order they came."""
        return list(dict.fromkeys(key.suite for key in self._strata))

    def describe(
        self, column: Callable[[Stratum], Sequence[Any]], where: Callable[[StratumKey], bool] | None = None
    ) -> Distribution:
        """The distribution of one column over the strata that `where` accepts (all without it)."""
        columns = [column(stratum) for key, stratum in self._strata.items() if where is None or where(key)]
        return describe(columns[0] if len(columns) == 1 else list(chain.from_iterable(columns)))

    def total(self, field: Callable[[Stratum], Total]) -> Total:
        """The sum of one field over all records."""
        whole = Total()
        for stratum in self._strata.values():
            part = field(stratum)
            whole.n += part.n
            whole.value += part.value
        return whole

    def example(self, status: str, failure_type: str | None) -> str | None:
        """The first words that came with a failure of this kind."""
        for stratum in self._strata.values():
            for (its_status, its_type), words in stratum.examples.items():
                if words and (its_status, its_type) == (status, failure_type):
                    return words
        return None

    def warnings(self) -> Counter[str]:
        """What the records themselves warn of, counted."""
        return sum((stratum.warnings for stratum in self._strata.values()), Counter())

    def spans(self) -> list[tuple[int, int, int]]:
        """(stretch, first start, last end) of every stratum that has both."""
        return [
            (key.stretch, stratum.started_at_ms, stratum.ended_at_ms)
            for key, stratum in self._strata.items()
            if stratum.started_at_ms is not None and stratum.ended_at_ms is not None
        ]


def group_strata(strata: Mapping[StratumKey, Stratum], planned: Sequence[Target]) -> list[GroupAccumulator]:
    """One group per target: the planned ones first and in their order, recorded or not, then others as they came."""
    members: dict[Target, dict[StratumKey, Stratum]] = {target: {} for target in planned}
    for key, stratum in strata.items():
        target = Target(key.provider, key.model, key.thinking_level)
        members.setdefault(target, {})[key] = stratum
    return [GroupAccumulator(target, own) for target, own in members.items()]


def wall_clock_ms(spans: Iterable[tuple[int, int, int]]) -> int | None:
    """First start to last end within each stretch of a resumed run, summed; the pause between stretches is no work."""
    bounds: dict[int, tuple[int, int]] = {}
    for stretch, start, end in spans:
        first, last = bounds.get(stretch, (start, end))
        bounds[stretch] = min(first, start), max(last, end)
    # A wall clock that was set back must not make a suite take negative time.
    return sum(max(0, last - first) for first, last in bounds.values()) if bounds else None
