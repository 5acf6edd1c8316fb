"""How often a model agrees with the turns of a user's history, when turns of a session are alike.

Sessions are sampled as a whole and differ in length, so a rate is a ratio of sums and its variance
that of sessions (Cochran 1977; Miller 2024). Few sessions, or one long beside short ones, count for
what they are worth (Kish 1965), and the interval is widened as Student's t widens one (Korn &
Graubard 1998)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from clawgauge.stats.proportions import (
    Cluster,
    Interval,
    student_t_quantile,
    wilson_interval,
)

FEWEST_SESSIONS = 6
"""With fewer in effect more is not said than the count itself."""
ENOUGH_SESSIONS = 20
"""About so many tell: more turns of the same sessions do not."""
DECIDING_LEVEL = 0.90
"""The lower end of the interval at this level is what a job asks for."""


class SessionRate(NamedTuple):
    """`n_sessions` is how many sessions of equal length the sessions are worth, and `worth` how
    many turns that have nothing in common their turns are."""

    rate: float
    n_sessions: float
    worth: float
    interval: Interval

    @property
    def has_too_few_sessions(self) -> bool:
        return self.n_sessions < FEWEST_SESSIONS


def measure_sessions(sessions: Sequence[Cluster], *, level: float = 0.95) -> SessionRate | None:
    """The rate over all turns with its interval; None of fewer than two sessions with turns."""
    with_turns = [session for session in sessions if session.trials]
    if len(with_turns) < 2:
        return None
    n_turns = sum(session.trials for session in with_turns)
    rate = sum(session.passes for session in with_turns) / n_turns
    n_sessions = n_turns**2 / sum(session.trials**2 for session in with_turns)
    spread = math.fsum((session.passes - rate * session.trials) ** 2 for session in with_turns)
    variance = n_sessions / (n_sessions - 1) * spread / n_turns**2
    worth = n_sessions
    if 0 < rate < 1:
        # Never more than the turns, however much alike sessions are.
        worth = rate * (1 - rate) / max(variance, rate * (1 - rate) / n_turns)
    z = NormalDist().inv_cdf((1 + level) / 2)
    # In whole numbers up to the division, so that ten sessions of one length are exactly ten.
    freedom = max(1, math.floor(n_sessions - 1))
    shrunk = worth * (z / student_t_quantile((1 + level) / 2, freedom)) ** 2
    return SessionRate(
        rate=rate,
        n_sessions=n_sessions,
        worth=worth,
        interval=wilson_interval(rate * shrunk, shrunk, z) or (0.0, 1.0),
    )
