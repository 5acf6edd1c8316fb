"""Who of the fit models is best for a job by the prompts that all of them were asked: `run --best`.

A run that goes on until this tells looks after every few prompts, and a summary that is made years
later has to come to the same: both ask here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clawgauge.records import Event, HeadToHead, Job
from clawgauge.run_data.evidence import ARGUMENTS, RESTRAINT, TASKS, Evidence, job_pool
from clawgauge.run_data.head_to_head import Wins, count_wins
from clawgauge.stats.paired import ALPHA, holm
from clawgauge.stats.ties import PairTest, bet_on_pair, find_beaten

TOLD_APART = "told_apart"
"""The event by which a run records that one model is ahead of another for a job."""
_POOL_BY_FIGURE = {"tasks": TASKS, "restraint": RESTRAINT, "tools": ARGUMENTS}


class PairKey(NamedTuple):
    """Which of two models is ahead of the other, for which job."""

    job: str
    ahead: str
    behind: str


class BestOfJob(NamedTuple):
    """How the fit models of a job stand: every two of them, and who is behind another.

    `told_apart` has the pairs of which one is ahead by more than luck, each with its own p-value.
    """

    pairs: list[HeadToHead]
    behind_p: dict[str, float]
    told_apart: dict[PairKey, float]


def find_weighed_pools(name: str, job: Job) -> list[str]:
    """The pools of the right answers that a job weighs; none where it weighs time and cost
    alone."""
    pools = []
    for figure in job.weighs:
        if figure in _POOL_BY_FIGURE:
            pools.append(_POOL_BY_FIGURE[figure])
        elif figure == "passes" and job.prompts:
            pools.append(job_pool(name))
    return pools


def read_told_apart(events: Iterable[Event]) -> dict[PairKey, float]:
    """Who was told apart while a run was under way, with the p-value of that pair alone.

    What was told stays told: answers that came after it do not undo it.
    """
    told: dict[PairKey, float] = {}
    for event in events:
        p = event.detail.get("p")
        if event.event != TOLD_APART or event.target is None or not isinstance(p, int | float):
            continue
        key = PairKey(str(event.detail.get("job")), str(event.detail.get("ahead")), event.target)
        told[key] = min(max(0.0, float(p)), told.get(key, 1.0))
    return told


def compare_fit_models(
    name: str,
    job: Job,
    evidence: Mapping[str, Evidence],
    told_apart: Mapping[PairKey, float],
) -> BestOfJob:
    """The models that are fit for a job, by label, held against each other."""
    labels = list(evidence)
    pools = find_weighed_pools(name, job)
    wins: list[Wins] = []
    tests: dict[tuple[int, int], PairTest] = {}
    for a, b in itertools.combinations(range(len(labels)), 2):
        pair_wins = count_wins(evidence[labels[a]], evidence[labels[b]], pools)
        wins.append(pair_wins)
        tests[a, b] = _test_pair(name, labels[a], labels[b], pair_wins, told_apart)
    behind_p = {}
    for label, p in zip(labels, find_beaten(len(labels), tests), strict=True):
        if p is not None:
            behind_p[label] = p
    pairs = []
    told_now = {}
    corrected = holm([test.p for test in tests.values()])
    for ((a, b), test), pair_wins, p in zip(tests.items(), wins, corrected, strict=True):
        pair = HeadToHead(
            a=labels[a],
            b=labels[b],
            n_shared=pair_wins.n_shared,
            only_a=pair_wins.only_a,
            only_b=pair_wins.only_b,
            p=p,
        )
        pairs.append(pair)
        if p <= ALPHA:
            ahead, behind = (pair.a, pair.b) if test.t > 0 else (pair.b, pair.a)
            told_now[PairKey(name, ahead, behind)] = test.p
    return BestOfJob(pairs=pairs, behind_p=behind_p, told_apart=told_now)


def _test_pair(
    job: str, a: str, b: str, wins: Wins, told_apart: Mapping[PairKey, float]
) -> PairTest:
    """Two models by their wins, or as they were told apart before."""
    test = bet_on_pair(wins.only_a, wins.only_b)
    p_ahead = told_apart.get(PairKey(job, a, b))
    p_behind = told_apart.get(PairKey(job, b, a))
    if p_ahead is not None and p_ahead < test.p:
        test = PairTest(t=1.0, p=p_ahead)
    if p_behind is not None and p_behind < test.p:
        test = PairTest(t=-1.0, p=p_behind)
    return test
