"""Which records count as asked, whoever wrote them, and what the figures make of those that were not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clawgauge.figures import Rate, passed_of_asked, passed_of_needed
from clawgauge.records import GroupSummary
from clawgauge.summary import summarize_folder
from support.written_runs import write_old_run
from unit.summary.run_folders import config, failed, prompt, record, write_run


def attempt(failure_type: str | None) -> dict[str, Any]:
    return {
        "status": "ok" if failure_type is None else "error",
        "failure_type": failure_type,
        "e2e_ms": 1,
    }


def only(folder: Path) -> GroupSummary:
    (group,) = summarize_folder(folder).models
    return group


def test_a_row_of_an_earlier_version_tells_by_its_attempts_whether_it_was_asked(
    tmp_path: Path,
) -> None:
    rows = [
        record("P0", attempts=[]),  # answered, whatever else it says
        failed("P1", "skipped_unavailable", "connection_refused"),
        failed("P2", "skipped_unavailable", "connection_refused", attempts=[]),
        failed("P3", "auth_error", "api_key_missing"),
        failed("P4", "error", "invalid_prompt"),
        failed(
            "P5", "error", "budget_spent", attempts=[attempt(None)]
        ),  # a task of which one turn was asked
        failed("P6", "error", "budget_spent", attempts=[]),
        failed(
            "P7", "error", "client_limit", attempts=[attempt("client_limit")] * 6
        ),  # none of them was sent
        failed(
            "P8", "error", "client_limit", attempts=[attempt("timeout"), attempt("client_limit")]
        ),
    ]
    group = only(write_run(tmp_path / "run", rows))
    assert (group.n_total, group.n_attempted, group.n_not_asked) == (9, 4, 5)
    counted = {one.failure_type: (one.n, one.n_not_asked) for one in group.failures}
    assert counted["connection_refused"] == (2, 1) and counted["budget_spent"] == (2, 1)
    assert counted["api_key_missing"] == counted["invalid_prompt"] == (1, 1)
    assert counted["client_limit"] == (2, 1)


def test_every_row_of_the_first_harness_was_asked(tmp_path: Path) -> None:
    rows = [record("P0"), failed("P1", "skipped_unavailable", "connection_refused", attempts=[])]
    group = only(write_old_run(tmp_path / "old", rows))
    assert (group.n_total, group.n_attempted, group.n_not_asked) == (2, 2, 0)


def test_what_a_row_says_itself_counts(tmp_path: Path) -> None:
    rows = [
        failed("P0", "error", "odd", asked=False),
        failed("P1", "error", "odd", attempts=[], asked=True),
    ]
    assert only(write_run(tmp_path / "run", rows)).n_attempted == 1


def test_seed_counts_are_of_records_and_rates_are_of_attempts(tmp_path: Path) -> None:
    prompts = [prompt(f"P{n}") for n in range(10)]
    rows = [record(f"P{n}") for n in range(3)]
    rows += [failed("P3", "skipped_unavailable", "connection_refused")]
    unsent: dict[str, Any] = {"attempts": [], "asked": False}
    rows += [
        failed(f"P{n}", "skipped_unavailable", "connection_refused", **unsent) for n in range(4, 10)
    ]
    group = only(write_run(tmp_path / "run", rows, config=config(prompts)))
    assert (group.n_total, group.n_skipped_unavailable, group.n_scheduled_judged) == (10, 7, 10)
    assert group.pass_rate_scheduled == 0.3
    assert (group.n_attempted, group.n_asked_judged, passed_of_asked(group)) == (4, 4, Rate(3, 4))
    assert passed_of_needed(group) == Rate(3, 10)
