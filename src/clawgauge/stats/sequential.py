"""Stopping early without fooling oneself: Wald's sequential probability ratio test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Decision: TypeAlias = Literal["p0", "p1", "continue"]


# A path less likely than this can move no figure that is printed.
_NEGLIGIBLE = 1e-15


class Forecast(NamedTuple):
    """How many trials the test takes on average, and how often it chooses p1."""

    mean_trials: float
    chance_p1: float


@dataclass(frozen=True, slots=True)
class Sprt:
    """Is the rate nearer p0 or p1? `alpha` and `beta` are the chances of choosing p1, or p0, wrongly."""

    p0: float = 0.7
    p1: float = 0.9
    alpha: float = 0.05
    beta: float = 0.05

    @property
    def pass_step(self) -> float:
        """What one pass adds to the log ratio."""
        return math.log(self.p1 / self.p0)

    @property
    def fail_step(self) -> float:
        """What one failure adds (it is negative)."""
        return math.log((1 - self.p1) / (1 - self.p0))

    @property
    def upper(self) -> float:
        """At or above this, stop for p1."""
        return math.log((1 - self.beta) / self.alpha)

    @property
    def lower(self) -> float:
        """At or below this, stop for p0."""
        return math.log(self.beta / (1 - self.alpha))

    def log_ratio(self, passes: int, failures: int) -> float:
        """Where the evidence stands."""
        return passes * self.pass_step + failures * self.fail_step

    def decide(self, passes: int, failures: int) -> Decision:
        """Which rate the evidence chose, or whether to go on."""
        ratio = self.log_ratio(passes, failures)
        if ratio >= self.upper:
            return "p1"
        return "p0" if ratio <= self.lower else "continue"

    def forecast(self, rate: float) -> Forecast:
        """What to expect of the test if the true rate is `rate`: exact, by following every path until it has ended."""
        open_paths = {(0, 0): 1.0}
        mean_trials = chose_p1 = 0.0
        while open_paths:
            mean_trials += math.fsum(open_paths.values())  # the chance that one more trial is needed
            ahead: dict[tuple[int, int], float] = {}
            for (passes, failures), chance in open_paths.items():
                for key, share in (((passes + 1, failures), rate), ((passes, failures + 1), 1.0 - rate)):
                    reached = chance * share
                    decision = self.decide(*key)
                    if decision == "p1":
                        chose_p1 += reached
                    elif decision == "continue" and reached > _NEGLIGIBLE:
                        ahead[key] = ahead.get(key, 0.0) + reached
            open_paths = ahead
        return Forecast(mean_trials, chose_p1)
