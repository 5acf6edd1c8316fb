"""What every part of a search knows of the target that is loaded, and who is notified of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from clawgauge.capacity.generator import LoadGenerator
from clawgauge.plan import Plan
from clawgauge.records import CapacityOptions, StepSummary, Target


class VisitKey(NamedTuple):
    """A visit of one load of one target."""

    target: str
    """Its label."""
    prompt_tokens: int
    load: float
    """Clients at once, or arrivals a second."""
    visit: int


FinishedSteps: TypeAlias = Mapping[VisitKey, StepSummary]
"""What earlier stretches measured, each visit by itself."""


class CapacityObserver(Protocol):
    """Is notified of a capacity run's progress."""

    def step_begun(self, context_tokens: int, load: str) -> None:
        """From now on a load, as `8 at once`, is held with prompts of so many tokens."""

    def step_measured(self, context_tokens: int, step: StepSummary) -> None:
        """A load with prompts of so many tokens was measured at one visit."""

    def notice(self, text: str) -> None:
        """There is something that a person should know of the load."""


def word_end(reason: str, n_measured: int) -> str:
    """Why a load has ended, and whether anything of it is left."""
    return f"{reason}: what was measured stands" if n_measured else reason


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The target of one search, and what the search works with."""

    plan: Plan
    target: Target
    generator: LoadGenerator
    record_event: Callable[..., None]
    """Takes an event's name, a target, and the event's detail by keywords."""
    observer: CapacityObserver
    finished_steps: FinishedSteps

    @property
    def options(self) -> CapacityOptions:
        options = self.plan.capacity
        if options is None:
            raise TypeError("the plan is not one of a capacity run")
        return options

    @property
    def max_time_s(self) -> float:
        """The target's share of the run's time."""
        return self.options.max_time_s / len(self.plan.targets)

    def name_of(self, step: str) -> str:
        """A step's name on record: steps of two stretches of a run must not share cells."""
        stretch = self.plan.work.stretch
        return f"{step}+{stretch}" if stretch else step
