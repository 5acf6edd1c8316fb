"""Which model is fit for which job, by the newest run that can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from clawgauge.history.coverage import IsWanted
from clawgauge.prices import settings_of
from clawgauge.records import Fit, GroupSummary, Job, JobVerdict, RunConfig, RunSummary, Target
from clawgauge.run_data import read_schedule
from clawgauge.verdict.jobs import BUILT_IN, JudgedModel, judge_jobs, judge_model
from clawgauge.verdict.ranking import Fitness


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The run that a target is judged by for one job."""

    judged: JudgedModel
    run_id: str
    config: RunConfig | None

    def may_be_outdone_by(self, earlier: GroupSummary) -> bool:
        """Whether an earlier run could tell more, as far as can be said without judging it."""
        if not self.judged.group.n_ok:
            return earlier.n_ok > 0
        return self.judged.fitness is Fitness.CANNOT_TELL


def judge_newest(
    runs: Sequence[tuple[RunSummary, RunConfig | None]],
    is_wanted: IsWanted = lambda target: True,
) -> list[JobVerdict]:
    """Who is fit for which job, by the newest run that can tell; a later one that asked less undoes
    no answer. `runs` are the newest first."""
    verdicts = []
    for name, job in _find_jobs(runs).items():
        evidence_by_target = _find_evidence(name, job, runs, is_wanted)
        verdicts += _judge_job(name, job, evidence_by_target)
    return verdicts


def _find_jobs(runs: Sequence[tuple[RunSummary, RunConfig | None]]) -> dict[str, Job]:
    """The built-in jobs, and the user's own as the newest run has them."""
    for _, config in runs:
        if config is not None:
            return BUILT_IN | config.jobs
    return dict(BUILT_IN)


def _find_evidence(
    name: str,
    job: Job,
    runs: Sequence[tuple[RunSummary, RunConfig | None]],
    is_wanted: IsWanted,
) -> dict[Target, _Evidence]:
    """The run that tells most of each target, in the order in which targets are met."""
    evidence: dict[Target, _Evidence] = {}
    for run, config in runs:
        for group in run.models:
            target = group.target
            newer = evidence.get(target)
            if not is_wanted(target):
                continue
            if newer is not None and not newer.may_be_outdone_by(group):
                continue
            judged = judge_model(name, job, group, settings_of(config, target))
            if newer is None or _tells_more(judged, newer.judged):
                evidence[target] = _Evidence(judged=judged, run_id=run.run_id, config=config)
    return evidence


def _tells_more(older: JudgedModel, newer: JudgedModel) -> bool:
    """Whether an earlier run tells more of a model than a later one that it may outdo."""
    if not newer.group.n_ok:
        return True
    n_by_need = {need.name: need.n for need in newer.needs}
    if older.fitness is Fitness.CANNOT_TELL:
        return not any(n_by_need.values()) and any(need.n for need in older.needs)
    # A yes rests on every need, a no on those that are not met: only a run that measured these as
    # well undoes it.
    n_older = 0
    n_newer = 0
    for need in older.needs:
        if need.met is older.fitness:
            n_since = n_by_need.get(need.name, 0)
            if need.n and not n_since:
                return True
            n_older += need.n
            n_newer += n_since
    return n_older > n_newer


def _judge_job(
    name: str, job: Job, evidence_by_target: dict[Target, _Evidence]
) -> list[JobVerdict]:
    """The verdict on a job, each model's reason with the run it is from."""
    run_ids = {}
    asked_in_full = []
    for target, evidence in evidence_by_target.items():
        run_ids[target.label] = evidence.run_id
        asked_in_full.append(read_schedule(evidence.config).asked_in_full)
    verdicts = judge_jobs(
        [evidence.judged.group for evidence in evidence_by_target.values()],
        {name: job},
        lambda target: settings_of(evidence_by_target[target].config, target),
        frozenset.intersection(*asked_in_full) if asked_in_full else (),
    )
    with_run_names = []
    for verdict in verdicts:
        ranking = [_name_run(fit, run_ids[fit.target]) for fit in verdict.ranking]
        with_run_names.append(msgspec.structs.replace(verdict, ranking=ranking))
    return with_run_names


def _name_run(fit: Fit, run_id: str) -> Fit:
    """Where a model was asked anything for the job, the run that its place rests on."""
    if not fit.n:
        return fit
    return msgspec.structs.replace(fit, why=f"{fit.why}; run {run_id}")
