"""Agreement with the reference model, by the sessions of the user's history: what is said of how many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import PairedRate
from clawgauge.records import RULE, AgreementRate, Fit, RunSummary
from clawgauge.stats.proportions import Cluster
from clawgauge.summary.agreement import measure_agreement
from clawgauge.summary.summarize import summarize_folder
from clawgauge.verdict.wording import word_sessions, word_state
from support.written_runs import config, prompt, record, write_run

AGREES: dict[str, Any] = {
    "validator": {"type": "agreement", "no_call": True},
    "tools": [{"type": "function", "function": {"name": "ls"}}],
}
FOUR_SESSIONS = (9, 9, 8, 8)
TEN_SESSIONS = (4,) * 10


def write_history(
    path: Path, sessions: Sequence[int], lost: Sequence[int] = (), **changes: Any
) -> Path:
    """A run of turns of so many sessions of these lengths; turns are numbered through, and some are `lost`."""
    prompts = []
    marks = changes.pop("marks", "session")
    for number, n_turns in enumerate(sessions, 1):
        for _ in range(n_turns):
            name = f"m{len(prompts) + 1}"
            mark = {} if marks is None else {marks: f"s{number}"}
            prompts.append(prompt(name, "mine", **AGREES, **mark))
    lines = []
    for place, entry in enumerate(prompts, 1):
        lines.append(record(entry["id"], place not in lost, suite="mine"))
    plan = config(prompts, **{"rule": RULE, **changes})
    return write_run(path, lines, config=plan)


def agreement_of(summary: RunSummary) -> AgreementRate:
    (group,) = summary.models
    assert group.agreement is not None
    return group.agreement


def own_work(summary: RunSummary) -> Fit:
    (verdict,) = [job for job in summary.jobs if job.job == "your own work"]
    (fit,) = verdict.ranking
    return fit


def test_of_too_few_sessions_no_more_is_said_than_the_count(tmp_path: Path) -> None:
    """And that more sessions, not more turns, would tell."""
    summary = summarize_folder(write_history(tmp_path / "run", FOUR_SESSIONS, lost=(1, 2, 3)))
    agreement = agreement_of(summary)
    assert (agreement.k, agreement.n, agreement.n_sessions) == (31, 34, 4)
    assert agreement.ci95 is None and agreement.ci90 is None
    fit = own_work(summary)
    assert (fit.fit, fit.state, fit.n) == ("cannot_tell", "open", 34)
    assert fit.why == (
        "agrees in 31 of 34 turns of 4 sessions: too few sessions to say more; about 20 would tell"
    )
    assert word_state(fit) == "cannot tell yet"


@pytest.mark.parametrize(
    ("lost", "fitness", "why"),
    [
        ((), "yes", "agrees with the reference model in 40/40, "),
        (range(1, 41), "no", "agrees with the reference model in 0 of 40 (at most 25%, needs 70%)"),
        (
            range(1, 9),
            "cannot_tell",
            "agrees with the reference model in 32 of 40 (at least 49%, needs 70%)",
        ),
    ],
)
def test_ten_sessions_are_held_against_what_the_job_needs(
    tmp_path: Path, lost: Sequence[int], fitness: str, why: str
) -> None:
    """By the 90% interval of sessions: two that were lost whole are two of ten."""
    summary = summarize_folder(write_history(tmp_path / "run", TEN_SESSIONS, lost=lost))
    fit = own_work(summary)
    assert fit.fit == fitness
    assert fit.why.startswith(why)
    agreement = agreement_of(summary)
    assert agreement.ci95 is not None and agreement.ci90 is not None
    assert agreement.ci95[0] <= agreement.ci90[0] <= agreement.rate <= agreement.ci90[1]  # type: ignore[operator]
    assert agreement.n_sessions_eff == pytest.approx(10)


def test_folders_of_earlier_versions_keep_their_rule(tmp_path: Path) -> None:
    """There every turn counted by itself, whatever session it was of."""
    lost = range(1, 5)
    older = summarize_folder(write_history(tmp_path / "older", TEN_SESSIONS, lost, rule=1))
    newer = summarize_folder(write_history(tmp_path / "newer", TEN_SESSIONS, lost))
    assert agreement_of(older).n_eff == 40
    assert agreement_of(older).n_sessions is None and agreement_of(older).ci90 is None
    assert agreement_of(newer).n_eff == pytest.approx(9)
    assert own_work(older).fit == "yes"
    assert own_work(newer).fit == "cannot_tell"


@pytest.mark.parametrize(
    ("marks", "n_sessions"), [("session", 4), ("context", 4), (None, 34)], ids=str
)
def test_turns_that_begin_alike_are_of_one_session(
    tmp_path: Path, marks: str | None, n_sessions: int
) -> None:
    """Where a suite of an earlier version names no session; turns that share nothing stand alone."""
    contexts = {f"mine/s{n}": {} for n in range(1, 5)} if marks == "context" else {}
    run = write_history(tmp_path / "run", FOUR_SESSIONS, marks=marks, contexts=contexts)
    assert agreement_of(summarize_folder(run)).n_sessions == n_sessions


def test_one_long_session_beside_short_ones_is_said_to_be_worth_little(tmp_path: Path) -> None:
    summary = summarize_folder(write_history(tmp_path / "run", (100, *[1] * 11), lost=(1,)))
    assert own_work(summary).why.startswith(
        "agrees in 110 of 111 turns of 12 sessions (worth 1, so much do they differ in length): "
    )
    assert word_sessions(10, 9.2) == "10 sessions"
    assert measure_agreement([Cluster(30, 30)]).has_too_few_sessions


def compare_agreement(a: Path, b: Path) -> PairedRate:
    (pair,) = compare_runs(a, b, ComparisonOptions()).pairs
    return pair.rates["agreement"]


def test_compare_counts_sessions_too(tmp_path: Path) -> None:
    """Eight turns lost in two sessions are two sessions, not eight turns; four sessions tell no change whatever."""
    whole = write_history(tmp_path / "whole", TEN_SESSIONS)
    fewer = write_history(tmp_path / "fewer", TEN_SESSIONS, lost=range(1, 9))
    lost = compare_agreement(whole, fewer)
    assert (lost.test, lost.verdict, lost.p) == ("sign_flip", "cannot_tell", 0.5)
    spread = [1 + 4 * session for session in range(10)]
    one_each = write_history(tmp_path / "one_each", TEN_SESSIONS, lost=spread)
    assert compare_agreement(whole, one_each).verdict == "changed"
    four = write_history(tmp_path / "four", FOUR_SESSIONS)
    none = write_history(tmp_path / "none", FOUR_SESSIONS, lost=range(1, 35))
    unknown = compare_agreement(four, none)
    assert unknown.verdict == "cannot_tell"
    assert unknown.reason is not None and "4 sessions are too few" in unknown.reason
