"""Everything kept of one target's records, seen as one.

Owns: the union of a target's strata: its outcomes, its columns, its clock. Refuses: figures; they are worked out from
these views by whoever writes a summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from clawgauge.records import Target
from clawgauge.stats import CountedValues, Distribution, describe
from clawgauge.summary.schedule import PromptKey
from clawgauge.summary.strata import Ending, OfferedAnswer, Stratum, StratumKey, ToolSign, Total


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


class OfferedCount(NamedTuple):
    """How many answers to one prompt that offers tools dealt with them alike."""

    suite: str
    answer: OfferedAnswer
    n: int

    @property
    def prompt(self) -> PromptKey:
        return self.suite, self.answer.prompt_id


class GroupAccumulator:
    """One target's strata, and views of their union."""

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

    def offered(self) -> list[OfferedCount]:
        """Every way an answered prompt that offers tools was dealt with, counted."""
        return [
            OfferedCount(key.suite, OfferedAnswer._make(answer), n)
            for key, stratum in self._strata.items()
            for answer, n in stratum.offered.items()
        ]

    def suites(self) -> list[str]:
        """The suites this target has records of, in the order they came."""
        return list(dict.fromkeys(key.suite for key in self._strata))

    def describe_tally(
        self, tally: Callable[[Stratum], Mapping[int, int]], where: Callable[[StratumKey], bool] | None = None
    ) -> Distribution:
        """The distribution of a tallied time over the strata that `where` accepts (all without it)."""
        whole: Counter[int] = Counter()
        for key, stratum in self._strata.items():
            if where is None or where(key):
                whole.update(tally(stratum))
        return describe(CountedValues(whole))

    def describe_column(self, column: Callable[[Stratum], Sequence[float]]) -> Distribution:
        """The distribution of a column of fractions."""
        return describe(list(chain.from_iterable(column(stratum) for stratum in self._strata.values())))

    def total(self, field: Callable[[Stratum], Total]) -> Total:
        """The sum of one field over all records."""
        whole = Total()
        for stratum in self._strata.values():
            whole.take(field(stratum))
        return whole

    def costs_usd(self, suite: str | None = None) -> list[float]:
        """What each call cost, as far as that is known; of one suite, or of all."""
        return [
            cost for key, stratum in self._strata.items() if suite in (None, key.suite) for cost in stratum.cost_usd
        ]

    def count(self, field: Callable[[Stratum], int]) -> int:
        """The sum of one count over all strata."""
        return sum(field(stratum) for stratum in self._strata.values())

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
