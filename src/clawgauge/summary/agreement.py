"""How often a model agrees with the reference model, by sessions of the user's history."""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.records import AgreementRate
from clawgauge.stats.proportions import Cluster
from clawgauge.stats.sessions import DECIDING_LEVEL, measure_sessions


def measure_agreement(sessions: Sequence[Cluster]) -> AgreementRate:
    """The rate over one turn or more; without intervals where the sessions are too few for any."""
    k = sum(session.passes for session in sessions)
    n = sum(session.trials for session in sessions)
    measured = measure_sessions(sessions)
    deciding = measure_sessions(sessions, level=DECIDING_LEVEL)
    if measured is None or deciding is None:
        return AgreementRate(
            n=n, k=k, rate=k / n, n_eff=1.0, n_sessions=len(sessions), n_sessions_eff=1.0
        )
    has_enough = not measured.has_too_few_sessions
    return AgreementRate(
        n=n,
        k=k,
        rate=k / n,
        ci95=measured.interval if has_enough else None,
        n_eff=measured.worth,
        n_sessions=len(sessions),
        n_sessions_eff=measured.n_sessions,
        ci90=deciding.interval if has_enough else None,
    )
