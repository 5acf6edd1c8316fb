"""Many runs as one: what is lined up, what drifted, what is missing, what cannot be read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.errors import RunFolderError
from clawgauge.history.coverage import FillStep
from clawgauge.history.findings import History
from clawgauge.history.trends import read_history
from clawgauge.reports.history import describe_history
from clawgauge.reports.terminal import as_text
from clawgauge.summary import summarize_folder
from support.written_runs import (
    LABEL,
    MODEL,
    PROVIDER,
    T0,
    config,
    prompt,
    record,
    unanswered,
    write_old_run,
    write_run,
)

IDS = [f"P{n}" for n in range(30)]
PROMPTS = [prompt(i) for i in IDS]


def write_passes(runs: Path, day: int, n_passed: int, **changes: Any) -> Path:
    """A run of thirty prompts on some day."""
    plan = config(PROMPTS, created_at_ms=T0 + day * 86_400_000, **changes)
    return write_run(runs / f"day{day}", [record(i, n < n_passed) for n, i in enumerate(IDS)], config=plan)


def look(runs: Path, **wishes: Any) -> History:
    return read_history(runs, **wishes)[0]


def steps_of(runs: Path, **wishes: Any) -> list[FillStep]:
    return read_history(runs, **wishes)[1]


def test_runs_come_newest_first_with_their_figures(tmp_path: Path) -> None:
    """The table of runs: when, answered of scheduled, passed of judged."""
    for day in (1, 3, 2):
        write_passes(tmp_path, day, 20 + day)
    assert [(r.run_id, r.n_ok, r.n_scheduled, r.n_passed, r.targets) for r in look(tmp_path).runs] == [
        ("day3", 30, 30, 23, [LABEL]),
        ("day2", 30, 30, 22, [LABEL]),
        ("day1", 30, 30, 21, [LABEL]),
    ]


def test_latest_and_best_are_of_the_same_prompts(tmp_path: Path) -> None:
    """A perfect score on two prompts is not the best of a model that was asked thirty."""
    write_passes(tmp_path, 1, 29)
    write_passes(tmp_path, 2, 25)
    few = config(PROMPTS[:2], created_at_ms=T0)
    write_run(tmp_path / "few", [record("P0"), record("P1")], config=few)
    trends = look(tmp_path).trends
    assert [(t.n_prompts, len(t.points), t.latest.run_id, t.best.run_id) for t in trends] == [
        (30, 2, "day2", "day1"),
        (2, 1, "few", "few"),
    ]
    assert trends[0].latest.pass_ci95 is not None and trends[0].latest.n_judged == 30


def test_other_sampling_is_another_trend(tmp_path: Path) -> None:
    """A run at another temperature is no drift."""
    write_passes(tmp_path, 1, 30)
    write_passes(tmp_path, 2, 3, sampling={LABEL: {"temperature": 1.5}})
    trends = look(tmp_path).trends
    assert len(trends) == 2 and [t.drift for t in trends] == [[], []]


def test_a_fall_that_is_more_than_luck_is_said(tmp_path: Path) -> None:
    """With the run it began with and the comparison that looks closer; what luck does from run to run is nothing."""
    write_passes(tmp_path, 1, 29)
    write_passes(tmp_path, 2, 28)
    write_passes(tmp_path, 3, 27)
    assert look(tmp_path).trends[0].drift == []
    write_passes(tmp_path, 4, 9)
    assert look(tmp_path).trends[0].drift == [
        "pass rate fell from 93% · 84/90 to 30% · 9/30 since day4 (3 runs before, 1 since; clawgauge compare day3 day4)"
    ]


def test_luck_on_either_side_is_no_drift(tmp_path: Path) -> None:
    """One of thirty lost after a clean run is within what luck does to both runs."""
    write_passes(tmp_path, 1, 30)
    write_passes(tmp_path, 2, 29)
    assert look(tmp_path).trends[0].drift == []


def test_ids_and_times_are_never_cut(tmp_path: Path) -> None:
    """In 80 columns the names of suites and targets give way; what is typed back stays whole."""
    long = "20261115_114243-nightly-regression-of-all-models"
    plan = config(PROMPTS, ["a-rather-long-model-name:70b-instruct-q4_K_M", MODEL], created_at_ms=T0)
    write_run(tmp_path / long, [record(i) for i in IDS], config=plan)
    write_run(tmp_path / f"{long}-2", [record(i) for i in IDS], config={**plan, "created_at_ms": T0 + 1})
    lines = as_text(describe_history(look(tmp_path)), 80).splitlines()
    first, second = lines[2], lines[3]
    assert first.split()[0] == f"{long}-2" and second.split()[0] == long
    assert re.search(r" 2026-\d\d-\d\d \d\d:\d\d( |$)", first) and "…" not in "".join(lines)
    # The first line names the folder, however long that is.
    assert max(map(len, lines[1:])) <= 80 and any(f"({long}-2)" in line for line in lines)


def write_paces(runs: Path, paces: Sequence[float]) -> None:
    """One run for each pace; prompts differ a hundredfold in length, and every run a little by itself."""
    for day, pace in enumerate(paces, 1):
        lines = [record(i, e2e_ms=round(pace * 200 * 1.17**n * (1 + (n * day) % 7 / 100))) for n, i in enumerate(IDS)]
        write_run(runs / f"day{day}", lines, config=config(PROMPTS, created_at_ms=T0 + day))


def test_a_slower_model_is_said(tmp_path: Path) -> None:
    """A seventh slower for three runs after ten others, however much the prompts differ from each other."""
    write_paces(tmp_path, [1, 1.01, 0.99, 1.02, 1, 0.98, 1.01, 1, 0.99, 1, 1.15, 1.16, 1.14])
    (sentence,) = look(tmp_path).trends[0].drift
    assert sentence.startswith("calls take 15% longer since day11")
    assert sentence.endswith("(10 runs before, 3 since; clawgauge compare day8,day9,day10 day11,day12,day13)")
    assert look(tmp_path, suite="core").trends[0].drift == [sentence]


def test_a_machine_that_is_not_always_as_fast_has_not_drifted(tmp_path: Path) -> None:
    """Runs that differ by a tenth either way are what these runs are."""
    write_paces(tmp_path, [1, 1.1, 0.93, 1.05, 0.9, 1.08, 0.95, 1, 1.1, 1.06])
    assert look(tmp_path).trends[0].drift == []


def test_a_run_that_was_broken_off_is_no_whole_one(tmp_path: Path) -> None:
    """Three prompts of four answered and the last never asked: that is three of four, and by suite one of two."""
    asked = [*PROMPTS[:2], prompt("Q0", "extra"), prompt("Q1", "extra")]
    lines = [record("P0"), record("P1"), record("Q0", suite="extra")]
    write_run(tmp_path / "off", lines, config=config(asked))
    history = look(tmp_path)
    assert [(p.n_ok, p.n_scheduled) for t in history.trends for p in t.points] == [(3, 4)]
    assert {c.suite: (c.n_answered, c.missing) for c in history.coverage} == {"core": (2, []), "extra": (1, ["Q1"])}
    (trend,) = look(tmp_path, suite="extra").trends
    assert (trend.latest.n_ok, trend.latest.n_scheduled) == (1, 2)


def test_filters(tmp_path: Path) -> None:
    """--models takes a pattern for the label or the model's name, --suite one suite."""
    plan = config([prompt("P0"), prompt("Q0", "extra")], [MODEL, "qwen3:4b"])
    lines = [record(p, model=m, suite=s) for p, s in (("P0", "core"), ("Q0", "extra")) for m in (MODEL, "qwen3:4b")]
    write_run(tmp_path / "r", lines, config=plan)
    assert [t.target for t in look(tmp_path, models=["qwen*"]).trends] == [f"{PROVIDER}:qwen3:4b"]
    assert [t.target for t in look(tmp_path, models=[LABEL]).trends] == [LABEL]
    only = look(tmp_path, suite="extra")
    assert {(t.n_prompts, t.latest.n_judged) for t in only.trends} == {(1, 1)}
    assert {c.suite for c in only.coverage} == {"extra"}
    assert look(tmp_path, suite="nothing").runs == []


def test_a_fresh_summary_is_taken_and_a_stale_one_is_not(tmp_path: Path) -> None:
    """summary.json counts while nothing it sums up is newer: that is what makes hundreds of runs fast."""
    run = write_passes(tmp_path, 1, 20)
    told = json.loads(msgspec.json.encode(summarize_folder(run)))
    told["models"][0]["n_passed"] = 7
    (run / "summary.json").write_text(json.dumps(told))
    newer = (run / "results.jsonl").stat().st_mtime + 10
    os.utime(run / "summary.json", (newer, newer))
    assert look(tmp_path).runs[0].n_passed == 7
    os.utime(run / "results.jsonl", (newer + 10, newer + 10))
    assert look(tmp_path).runs[0].n_passed == 20


def test_what_cannot_be_read_is_listed_and_the_rest_is_shown(tmp_path: Path) -> None:
    """A spoilt folder, a damaged line, a stray file: none of them hides the other runs."""
    write_passes(tmp_path, 1, 20)
    spoilt = write_passes(tmp_path, 2, 20)
    (spoilt / "config.json").write_text('{"schema_version": 1, "run_id": 7}')
    write_run(tmp_path / "torn", [record("P0"), "{broken"], config=config([prompt("P0")]))
    (tmp_path / "notes.txt").write_text("not a run")
    (tmp_path / "empty").mkdir()
    history = look(tmp_path)
    assert {r.run_id: r.n_unreadable_lines for r in history.runs} == {"day1": 0, "torn": 1}
    assert [Path(u.path).name for u in history.unreadable] == ["day2"]
    with pytest.raises(RunFolderError, match="--runs-dir"):
        read_history(tmp_path / "nowhere")


def test_coverage_is_over_all_runs(tmp_path: Path) -> None:
    """A cell that any run has an answer for is covered, and a failed call is none."""
    plan = config(PROMPTS[:3])
    write_run(tmp_path / "one", [record("P0"), unanswered("P1"), unanswered("P2")], config=plan)
    write_run(tmp_path / "two", [unanswered("P0"), record("P1", False), unanswered("P2")], config=plan)
    (part,) = look(tmp_path).coverage
    assert (part.target, part.suite, part.n_prompts, part.n_answered, part.missing) == (LABEL, "core", 3, 2, ["P2"])


def test_an_answer_to_an_earlier_content_does_not_cover(tmp_path: Path) -> None:
    """Once a prompt asks something else, its old answers are said to be old."""
    before = config([prompt("P0", prompt="old words")], created_at_ms=T0)
    write_run(tmp_path / "one", [record("P0")], config=before)
    after = config([prompt("P0")], created_at_ms=T0 + 1)
    write_run(tmp_path / "two", [unanswered("P0")], config=after)
    (part,) = look(tmp_path).coverage
    assert (part.missing, part.n_outdated) == (["P0"], 1)


def test_a_tail_of_timeouts_is_longer_than_the_answers(tmp_path: Path) -> None:
    """Three of thirty calls were cut off at 9 s: p95 is more than that, as in the run's own summary."""
    lines = [unanswered(i, e2e_ms=9_000) if n < 3 else record(i) for n, i in enumerate(IDS)]
    write_run(tmp_path / "one", lines, config=config(PROMPTS))
    history = look(tmp_path)
    latest = history.trends[0].latest
    assert (latest.p50_ms, latest.p95_ms, latest.beyond) == (100, 9_000, ["p95", "p99"])
    assert "> 9000 ms" in as_text(describe_history(history), 120)


def test_a_missing_cell_of_a_run_is_resumed(tmp_path: Path) -> None:
    """What a run set out to ask, that run goes on with."""
    run = write_run(tmp_path / "one", [record("P0"), unanswered("P1")], config=config(PROMPTS[:2]))
    (step,) = steps_of(tmp_path)
    assert step.resume is not None and step.resume.path == run
    assert [(t.label, key) for t, key in step.cells] == [(LABEL, ("core", "P1"))]


def test_a_cell_that_a_search_did_without_has_no_answer_and_needs_a_new_run(tmp_path: Path) -> None:
    """Decided after three of thirty: the others were never asked, and the run would not ask them if it went on."""
    tool = {"expected_tools": ["free"]}
    plan = config([prompt(i, **tool) for i in IDS], options={"until_decided": True})
    run = write_run(tmp_path / "one", [record(i, False, **tool) for i in IDS[:3]], config=plan)
    told = {"at_ms": 1, "event": "decided", "target": LABEL, "detail": {"not_asked": 27, "not_needed": 27}}
    (run / "events.jsonl").write_text(json.dumps(told) + "\n", encoding="utf-8")
    (part,) = look(tmp_path).coverage
    assert (part.n_prompts, part.n_answered, part.missing) == (30, 3, IDS[3:])
    (step,) = steps_of(tmp_path)
    assert step.resume is None and step.prompts == [("core", i) for i in IDS[3:]]


def test_a_cell_nobody_scheduled_is_a_new_run(tmp_path: Path) -> None:
    """A model that was never asked a prompt needs a run of its own, together with those that miss the same."""
    write_run(tmp_path / "full", [record("P0"), record("P1")], config=config(PROMPTS[:2], created_at_ms=T0))
    for model in ("x", "y"):
        plan = config(PROMPTS[:1], [model], created_at_ms=T0 + 1)
        write_run(tmp_path / model, [record("P0", model=model)], config=plan)
    (step,) = steps_of(tmp_path)
    assert step.resume is None and step.prompts == [("core", "P1")] and not step.whole_suites
    assert {t.model for t in step.targets} == {"x", "y"} and len(step.cells) == 2


def test_folders_of_the_first_harness_are_part_of_history(tmp_path: Path) -> None:
    """They are listed and counted; nobody else is held to miss their prompts, and no plan is made for them."""
    write_old_run(tmp_path / "old", [record("P0"), record("P1", False), unanswered("P2")])
    write_run(tmp_path / "new", [record("P0", model="x")], config=config(PROMPTS[:1], ["x"]))
    history, steps = read_history(tmp_path)
    old = next(run for run in history.runs if run.run_id == "old")
    assert (old.source, old.n_ok, old.n_passed, old.n_judged) == ("first_harness", 2, 1, 2)
    parts = {(c.target, c.suite): c.missing for c in history.coverage}
    assert parts[LABEL, ""] == ["P2"] and (f"{PROVIDER}:x", "") not in parts
    assert history.n_not_fillable == 1
    assert all(key[0] == "core" for step in steps for key in step.prompts)
