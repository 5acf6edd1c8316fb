"""Many runs as one: what is lined up, what drifted, what is missing, what cannot be read."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.cli.history import add_arguments, execute
from clawgauge.errors import RunFolderError
from clawgauge.history.filling import FillStep, plan_filling
from clawgauge.history.findings import History
from clawgauge.history.overview import read_history
from clawgauge.records.summary import CapacitySummary, RunSummary
from clawgauge.reports.history import describe_history
from clawgauge.reports.terminal import as_text
from clawgauge.stats.proportions import wilson_interval
from clawgauge.summary import summarize_folder
from clawgauge.summary.stored import seal_summary
from support.rows import every_row
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

DAY_MS = 86_400_000
IDS = [f"P{n}" for n in range(30)]
PROMPTS = [prompt(i) for i in IDS]
GET = {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}
CALLED: dict[str, Any] = {
    "expected_tools": ["get"],
    "tools_offered": True,
    "tool_use_success": True,
}


def write_passes(runs: Path, day: int, n_passed: int, **changes: Any) -> Path:
    """A run of thirty prompts on some day."""
    plan = config(PROMPTS, created_at_ms=T0 + day * 86_400_000, **changes)
    return write_run(
        runs / f"day{day}", [record(i, n < n_passed) for n, i in enumerate(IDS)], config=plan
    )


def look(runs: Path, **wishes: Any) -> History:
    return read_history(runs, **wishes).history


def steps_of(runs: Path, **wishes: Any) -> list[FillStep]:
    return plan_filling(read_history(runs, **wishes).missing, {}).steps


def test_runs_come_newest_first_with_their_figures(tmp_path: Path) -> None:
    """The table of runs: when, answered of scheduled, passed of judged."""
    for day in (1, 3, 2):
        write_passes(tmp_path, day, 20 + day)
    assert [
        (r.run_id, r.n_ok, r.n_scheduled, r.n_passed, r.targets) for r in look(tmp_path).runs
    ] == [
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


def test_the_best_run_is_the_one_that_shows_most(tmp_path: Path) -> None:
    """Two of two answered and passed, the rest never answered, are not better than 29 of 30."""
    write_passes(tmp_path, 1, 29)
    lines = [record(i) if n < 2 else unanswered(i) for n, i in enumerate(IDS)]
    write_run(tmp_path / "day2", lines, config=config(PROMPTS, created_at_ms=T0 + 2 * 86_400_000))
    (trend,) = look(tmp_path).trends
    assert (trend.latest.run_id, trend.latest.pass_rate, trend.best.run_id) == ("day2", 1.0, "day1")
    shown = as_text(describe_history(look(tmp_path)), 160)
    assert "7% · 2/30 · 2–21%" in shown and "llama3.2:3b 2/30" in shown and "2/2" not in shown


def test_the_runs_table_keeps_to_a_suite_and_has_each_models_own_passes(tmp_path: Path) -> None:
    """Nothing is added up over models; of a run that was broken off, what was asked counts, as `show` has it."""
    asked = [prompt("P0"), *(prompt(f"Q{n}", "extra") for n in range(4))]
    lines = [record("P0", model=model) for model in (MODEL, "other")]
    lines += [record(f"Q{n}", n == 0, model=MODEL, suite="extra") for n in range(3)]
    lines += [record(f"Q{n}", model="other", suite="extra") for n in range(2)]
    write_run(tmp_path / "run", lines, config=config(asked, [MODEL, "other"]))
    (run,) = look(tmp_path, suite="extra").runs
    assert (run.n_ok, run.n_scheduled, run.suites) == (5, 8, ["extra"])
    assert run.passes == {LABEL: (1, 3), f"{PROVIDER}:other": (2, 2)}
    shown = as_text(describe_history(look(tmp_path, suite="extra")), 160)
    assert "5/5 of 8" in shown and f"{MODEL} 1/3" in shown and "other 2/2" in shown


def test_a_tier_that_is_not_decided_looks_so(tmp_path: Path) -> None:
    tool = {"expected_tools": ["free"]}
    for model, n in (("sure", 20), ("unsure", 3)):
        asked = [prompt(f"T{i}", **tool) for i in range(n)]
        lines = [record(f"T{i}", model=model, tool_use_success=True, **tool) for i in range(n)]
        write_run(tmp_path / model, lines, config=config(asked, [model]))
    shown = as_text(describe_history(look(tmp_path)), 160)
    sure, unsure = (
        shown.partition(f":{model}\n")[2].splitlines()[0].split() for model in ("sure", "unsure")
    )
    assert "1" in sure and "1?" in unsure and "a tier with ? is not decided yet" in shown


def test_jobs_are_told_by_the_newest_run_in_which_a_model_answered(tmp_path: Path) -> None:
    """In the words and the order of the run's own summary; a day on which it was down does not count."""
    asked = [prompt(f"P{n}", category="json") for n in range(10)]
    for day, answered in ((1, True), (2, False)):
        lines = [
            record(f"P{n}", model="good") if answered else unanswered(f"P{n}", model="good")
            for n in range(10)
        ]
        lines += [record(f"P{n}", n < 3, model="bad") for n in range(10)]
        plan = config(asked, ["bad", "good"], created_at_ms=T0 + day * 86_400_000)
        write_run(tmp_path / f"day{day}", lines, config=plan)
    history = look(tmp_path)
    (job,) = [job for job in history.jobs if job.job == "structured data"]
    assert [(one.target, one.fit) for one in job.ranking] == [
        (f"{PROVIDER}:good", "yes"),
        (f"{PROVIDER}:bad", "no"),
    ]
    assert [trend.target for trend in history.trends] == [f"{PROVIDER}:good", f"{PROVIDER}:bad"]
    shown = as_text(describe_history(history), 120)
    assert "structured data           good" in shown and "JSON and extraction 10/10" in shown


def test_a_small_later_run_does_not_undo_an_answer(tmp_path: Path) -> None:
    """Three prompts asked today cannot tell what ten told yesterday; the answer names the run it is from."""
    asked = [prompt(f"P{n}", category="json") for n in range(10)]
    write_run(
        tmp_path / "big",
        [record(f"P{n}") for n in range(10)],
        config=config(asked, created_at_ms=T0),
    )
    few = config(asked[:3], created_at_ms=T0 + 1)
    write_run(tmp_path / "few", [record(f"P{n}") for n in range(3)], config=few)
    shown = as_text(describe_history(look(tmp_path)), 160)
    assert (
        "structured data           llama3.2:3b      JSON and extraction 10/10, free of charge; run big"
        in shown
    )
    worse = config(asked, created_at_ms=T0 + 2)
    write_run(tmp_path / "worse", [record(f"P{n}", False) for n in range(10)], config=worse)
    (job,) = [job for job in look(tmp_path).jobs if job.job == "structured data"]
    assert job.ranking[0].fit == "no" and job.ranking[0].why.endswith("; run worse")


@every_row(
    ("restrained", "fit", "why"),
    [(True, "yes", "restraint 15/15"), (False, "no", "restraint 0 of 15")],
)
def test_a_later_run_of_one_suite_does_not_undo_an_answer(
    tmp_path: Path, restrained: bool, fit: str, why: str
) -> None:
    """Ninety calls of today show nothing of the restraint that yesterday's answer rests on, however many they are."""
    calls = [
        prompt(f"N{n}", "native_tools", expected_tools=["get"], tools=[GET]) for n in range(90)
    ]
    never = {"type": "tool_call", "no_call": True}
    beside = [prompt(f"R{n}", "restraint", tools=[GET], validator=never) for n in range(15)]
    beside += [
        prompt(f"A{n}", "agentic", tools=[GET], validator={"type": "world_state"}) for n in range(9)
    ]
    called = [record(f"N{n}", suite="native_tools", **CALLED) for n in range(90)]
    rest = [record(f"R{n}", restrained, suite="restraint", tools_offered=True) for n in range(15)]
    rest += [record(f"A{n}", suite="agentic", tools_offered=True) for n in range(9)]
    write_run(tmp_path / "default", called[:20] + rest, config=config(calls[:20] + beside))
    write_run(tmp_path / "narrow", called, config=config(calls, created_at_ms=T0 + 1))
    for job in look(tmp_path).jobs[:2]:
        assert job.ranking[0].fit == fit and job.ranking[0].why.endswith("; run default"), job.job
    assert why in look(tmp_path).jobs[0].ranking[0].why
    # Asked again, the need that said no is what counts, whatever else this run left out.
    again = [record(f"R{n}", suite="restraint", tools_offered=True) for n in range(15)]
    write_run(tmp_path / "restraint", again, config=config(beside[:15], created_at_ms=T0 + 2))
    assert look(tmp_path).jobs[0].ranking[0].fit == ("yes" if restrained else "cannot_tell")


def test_what_was_asked_in_a_context_moves_nothing(tmp_path: Path) -> None:
    """Passes, rate and interval are of the bare prompts alone, of one suite or two: the same through all runs."""
    for n_suites in (1, 2):
        names = ["native_tools", "mine"][:n_suites]
        bare = [
            prompt(f"N{n}", name, expected_tools=["get"], tools=[GET])
            for name in names
            for n in range(20)
        ]
        inside = [{**one, "suite": f"{one['suite']}+context", "in_context": True} for one in bare]
        for day in range(8):
            lines = [record(one["id"], suite=one["suite"], **CALLED) for one in bare]
            lines += [record(one["id"], day < 4, suite=one["suite"], **CALLED) for one in inside]
            plan = config(bare + inside, created_at_ms=T0 + day * 86_400_000)
            write_run(tmp_path / f"{n_suites}" / f"day{day}", lines, config=plan)
        (trend,) = look(tmp_path / f"{n_suites}").trends
        n = 20 * n_suites
        told = {
            (point.n_passed, point.n_judged, point.pass_rate, point.asked_ci95)
            for point in trend.points
        }
        assert told == {(n, n, 1.0, wilson_interval(n, n))} and not trend.drift


def test_a_run_that_cannot_be_resumed_for_want_of_a_key_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on asks all targets of a run: beside one without its key the others are asked in a run of their own."""
    monkeypatch.delenv("PAID_KEY", raising=False)
    paid = {"type": "openai_chat", "base_url": "https://h.example/v1", "api_key_env": "PAID_KEY"}
    plan = config(PROMPTS[:3], providers={PROVIDER: {"type": PROVIDER}, "my.paid": paid})
    plan["targets"].append({"provider": "my.paid", "model": "m", "thinking_level": None})
    lines = [record("P0"), record("P1"), unanswered("P2")]
    lines += [unanswered(f"P{n}", provider="my.paid", model="m") for n in range(3)]
    write_run(tmp_path / "both", lines, config=plan)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert execute(parser.parse_args(["--fill", "--runs-dir", str(tmp_path)])) == 0
    shown = capsys.readouterr().out
    assert (
        f"clawgauge run -t {LABEL} -s core --prompt-ids core/P2 " in shown
        and "--resume" not in shown
    )
    assert "left out: 3 prompts of my.paid:m, PAID_KEY is not set" in shown


def test_it_can_be_read_in_eighty_columns(tmp_path: Path) -> None:
    """Four models over five suites: each model's passes are there, and what is alike is said once."""
    suites = ["core", "tool_use", "native_tools", "restraint", "agentic"]
    asked, models = [prompt("P0", suite) for suite in suites], ["one", "two", "three", "four"]
    lines = [record("P0", suite=suite, model=model) for suite in suites for model in models]
    lines[-1] = unanswered("P0", suite="agentic", model="four")
    write_run(tmp_path / "run", lines, config=config(asked, models))
    shown = as_text(describe_history(look(tmp_path)), 80)
    assert max(map(len, shown.splitlines()[1:])) <= 80 and "…" not in shown
    assert (
        "one 5/5, three 5/5, two 5/5 and 1 more" in " ".join(shown.split())
        and "5 suites (5)" in shown
    )
    _, _, coverage = shown.partition("what has an answer in any run\n")
    assert coverage.splitlines()[:3] == [
        f"  all prompts: {PROVIDER}:one, {PROVIDER}:two and {PROVIDER}:three",
        f"  {PROVIDER}:four",
        "    agentic 0/1 answered",
    ]


def test_capacity_runs_are_listed_with_what_they_say(tmp_path: Path) -> None:
    """A line of their own; nothing of them is a pass, a trend or a missing prompt."""
    write_passes(tmp_path, 1, 20)
    load = {"contexts": [2000], "output_tokens": 8, "slo": {}, "max_concurrency": 4, "rates": [], "duration_s": 9,
            "shared_prefix": 0, "shape": "plain", "swap": False, "max_time_s": 9}  # fmt: skip
    write_run(
        tmp_path / "load", [], config=config([], created_at_ms=T0 + 2 * 86_400_000, capacity=load)
    )
    history = look(tmp_path)
    assert [(run.run_id, run.load) for run in history.runs] == [
        ("load", ["nothing was measured"]),
        ("day1", []),
    ]
    assert len(history.trends) == 1 and {part.suite for part in history.coverage} == {"core"}
    shown = as_text(describe_history(history), 80)
    assert (
        shown.startswith("2 runs in")
        and "capacity runs\n" in shown
        and "nothing was measured" in shown
    )
    lines = [record("P0", model=model) for model in (MODEL, "other")]
    both = write_run(
        tmp_path / "load", lines, config=config(PROMPTS[:1], [MODEL, "other"], capacity=load)
    )
    found = [
        CapacitySummary(target=f"{PROVIDER}:{name}", mode="closed", context_tokens=2000)
        for name in (MODEL, "other")
    ]
    summary = msgspec.structs.replace(summarize_folder(both), capacity=found)
    (both / "summary.json").write_bytes(msgspec.json.encode(seal_summary(summary, both)))
    (run,) = [run for run in look(tmp_path, models=["oth*"]).runs if run.run_id == "load"]
    assert (
        run.targets == [f"{PROVIDER}:other"]
        and len(run.load) == 1
        and run.load[0].startswith(f"{PROVIDER}:other: ")
    )


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
        "pass rate fell from 93% · 84/90 to 30% · 9/30 of the answers since day4 "
        "(3 runs before, 1 since; clawgauge compare day3 day4)"
    ]


def test_a_small_fall_of_prompts_that_never_change_sides_is_said(tmp_path: Path) -> None:
    """Three prompts of thirty lost for good after ten runs that were all alike: other prompts' luck is not in it."""
    for day in range(1, 13):
        write_passes(tmp_path, day, 28 if day <= 10 else 25)
    (sentence,) = look(tmp_path).trends[0].drift
    assert sentence.startswith("pass rate fell from 93% · 280/300 to 83% · 50/60 of the answers")
    assert "since day11 (10 runs before, 2 since; clawgauge compare day10 day11)" in sentence


def test_runs_that_their_own_answers_stopped_are_no_drift(tmp_path: Path) -> None:
    """They were asked the first third of the list, of which the model never passed more than half."""
    hard = [f"P{n}" for n in range(10)]
    for day in range(1, 5):
        plan = config(PROMPTS, created_at_ms=T0 + day * DAY_MS)
        rows = [record(i, i not in hard[:5]) for i in IDS]
        write_run(tmp_path / f"day{day}", rows, config=plan)
    for day in range(5, 9):
        plan = config(PROMPTS, created_at_ms=T0 + day * DAY_MS)
        rows = [record(i, i not in hard[:5]) for i in hard]
        run = write_run(tmp_path / f"day{day}", rows, config=plan)
        detail = {"tier": 3, "n": 10, "k": 5, "p": 0.97, "asked": 10, "not_asked": 20}
        stop = {"event": "decided", "at_ms": T0, "target": LABEL, "detail": detail}
        (run / "events.jsonl").write_text(json.dumps(stop) + "\n", encoding="utf-8")
    (trend,) = look(tmp_path).trends
    assert [point.stopped_early for point in trend.points] == [False] * 4 + [True] * 4
    assert trend.drift == []


def write_plain(runs: Path, day: int, asked: int, n_passed: int) -> Path:
    """A run whose answers decided how many prompts it asked."""
    plan = config(
        PROMPTS, created_at_ms=T0 + day * DAY_MS, rule=2, decision={"jobs": ["main agent"]}
    )
    lines = [record(i, n < n_passed) for n, i in enumerate(IDS[:asked])]
    return write_run(runs / f"day{day}", lines, config=plan)


def test_plain_runs_are_compared_over_the_prompts_that_all_have_asked(tmp_path: Path) -> None:
    """And it is said over how many. What one asked alone makes it no better, and one that was broken off takes nothing
    away from the others.
    """
    write_plain(tmp_path, 1, asked=20, n_passed=18)
    write_plain(tmp_path, 2, asked=30, n_passed=18)
    write_plain(tmp_path, 3, asked=2, n_passed=2)
    history = look(tmp_path)
    (trend,) = history.trends
    assert trend.n_compared == 20
    assert [(point.n_passed, point.n_asked) for point in trend.points] == [
        (18, 20),
        (18, 20),
        (2, 2),
    ]
    assert trend.best.run_id == "day2" and trend.drift == []
    shown = " ".join(as_text(describe_history(history), 200).split())
    assert "the 3 runs are compared over the 20 prompts that they have all asked" in shown
    (listed,) = [run for run in history.runs if run.run_id == "day2"]
    assert listed.passes == {LABEL: (18, 30)}


def test_luck_on_either_side_is_no_drift(tmp_path: Path) -> None:
    """One of thirty lost after a clean run is within what luck does to both runs."""
    write_passes(tmp_path, 1, 30)
    write_passes(tmp_path, 2, 29)
    assert look(tmp_path).trends[0].drift == []


def test_ids_and_times_are_never_cut(tmp_path: Path) -> None:
    """In 80 columns the names of suites and targets give way; what is typed back stays whole."""
    long = "20261115_114243-nightly-regression-of-all-models"
    plan = config(
        PROMPTS, ["a-rather-long-model-name:70b-instruct-q4_K_M", MODEL], created_at_ms=T0
    )
    write_run(tmp_path / long, [record(i) for i in IDS], config=plan)
    write_run(
        tmp_path / f"{long}-2", [record(i) for i in IDS], config={**plan, "created_at_ms": T0 + 1}
    )
    lines = as_text(describe_history(look(tmp_path)), 80).splitlines()
    first, second = lines[2], lines[3]
    assert first.split()[0] == f"{long}-2" and second.split()[0] == long
    assert re.search(r" 2026-\d\d-\d\d \d\d:\d\d( |$)", first) and "…" not in "".join(lines)
    # The first line names the folder, however long that is.
    assert max(map(len, lines[1:])) <= 80 and any(f"({long}-2)" in line for line in lines)


def write_paces(runs: Path, paces: Sequence[float]) -> None:
    """One run for each pace; prompts differ a hundredfold in length, and every run a little by itself."""
    for day, pace in enumerate(paces, 1):
        lines = [
            record(i, e2e_ms=round(pace * 200 * 1.17**n * (1 + (n * day) % 7 / 100)))
            for n, i in enumerate(IDS)
        ]
        plan = config(PROMPTS, created_at_ms=T0 + day * DAY_MS)
        write_run(runs / f"day{day}", lines, config=plan)


STEADY = [1, 1.01, 0.99, 1.02, 1, 0.98, 1.01, 1, 0.99, 1]
UNSTEADY = [1, 1.2, 0.88, 1.1, 0.85, 1.15, 0.9, 1, 1.2, 0.86]


def test_a_slower_model_is_said(tmp_path: Path) -> None:
    """A fifth slower for four runs after ten others, however much the prompts differ from each other; the comparison
    that looks closer has three days a side.
    """
    write_paces(tmp_path, [*STEADY, 1.2, 1.21, 1.19])
    assert look(tmp_path).trends[0].drift == []
    write_paces(tmp_path, [*STEADY, 1.2, 1.21, 1.19, 1.2])
    (trend,) = look(tmp_path).trends
    (sentence,) = trend.drift
    assert sentence.startswith("calls take 19% longer since day11")
    assert sentence.endswith(
        "(10 runs before, 4 since; clawgauge compare day8,day9,day10 day11,day12,day13)"
    )
    assert look(tmp_path, suite="core").trends[0].drift == [sentence]
    assert trend.pace_spread is None


@pytest.mark.parametrize("n_slow", [1, 2, 3])
def test_a_few_slow_runs_are_no_drift(tmp_path: Path, n_slow: int) -> None:
    """However slow, also in a row: the machine was busy."""
    write_paces(tmp_path, [*STEADY, *[3.0] * n_slow, *STEADY])
    assert look(tmp_path).trends[0].drift == []


def test_of_a_machine_that_is_not_always_as_fast_it_is_said_how_much(tmp_path: Path) -> None:
    """Runs that differ by a seventh either way are what these runs are; four that take 30% longer are nothing there."""
    for paces in (UNSTEADY, [*UNSTEADY, 1.3, 1.31, 1.29, 1.3]):
        write_paces(tmp_path, paces)
        history = look(tmp_path)
        (trend,) = history.trends
        assert trend.drift == []
        assert trend.pace_spread is not None and 0.1 < trend.pace_spread < 0.25
        shown = " ".join(as_text(describe_history(history), 200).split())
        assert re.search(r"runs differ by about \d\d% in how long calls take, so a change", shown)
    write_paces(tmp_path, [*UNSTEADY, *[3.0] * 4])
    (sentence,) = look(tmp_path).trends[0].drift
    assert "longer since day11" in sentence


def test_a_run_that_was_broken_off_is_no_whole_one(tmp_path: Path) -> None:
    """Three prompts of four answered and the last never asked: that is three of four, and by suite one of two."""
    asked = [*PROMPTS[:2], prompt("Q0", "extra"), prompt("Q1", "extra")]
    lines = [record("P0"), record("P1"), record("Q0", suite="extra")]
    write_run(tmp_path / "off", lines, config=config(asked))
    history = look(tmp_path)
    assert [(p.n_ok, p.n_scheduled) for t in history.trends for p in t.points] == [(3, 4)]
    assert {c.suite: (c.n_answered, c.missing) for c in history.coverage} == {
        "core": (2, []),
        "extra": (1, ["Q1"]),
    }
    (trend,) = look(tmp_path, suite="extra").trends
    assert (trend.latest.n_ok, trend.latest.n_scheduled) == (1, 2)


def test_filters(tmp_path: Path) -> None:
    """--models takes a pattern for the label or the model's name, --suite one suite."""
    plan = config([prompt("P0"), prompt("Q0", "extra")], [MODEL, "qwen3:4b"])
    lines = [
        record(p, model=m, suite=s)
        for p, s in (("P0", "core"), ("Q0", "extra"))
        for m in (MODEL, "qwen3:4b")
    ]
    write_run(tmp_path / "r", lines, config=plan)
    assert [t.target for t in look(tmp_path, models=["qwen*"]).trends] == [f"{PROVIDER}:qwen3:4b"]
    assert [t.target for t in look(tmp_path, models=[LABEL]).trends] == [LABEL]
    only = look(tmp_path, suite="extra")
    assert {(t.n_prompts, t.latest.n_judged) for t in only.trends} == {(1, 1)}
    assert {c.suite for c in only.coverage} == {"extra"}
    assert look(tmp_path, suite="nothing").runs == []


def write_summary(run: Path, *, sealed: bool = True, **changes: Any) -> None:
    """summary.json as the program leaves it, ten seconds newer than all else, after these changes to its first model or
    to itself; where not `sealed` they were made by hand."""
    told = json.loads(msgspec.json.encode(seal_summary(summarize_folder(run), run)))
    told["models"][0] |= {
        name: value for name, value in changes.items() if name in told["models"][0]
    }
    told |= {name: value for name, value in changes.items() if name in told}
    if sealed:
        told = seal_summary(msgspec.convert(told, RunSummary), run)
    (run / "summary.json").write_bytes(msgspec.json.encode(told))
    newer = (run / "results.jsonl").stat().st_mtime + 10
    os.utime(run / "summary.json", (newer, newer))


@pytest.mark.parametrize(
    "forged", [{"n_passed": 9_999}, {"n_judged": -5}, {"objective_pass_rate": 7.5}]
)
def test_a_summary_that_cannot_be_is_not_believed(tmp_path: Path, forged: dict[str, Any]) -> None:
    """More passes than answers: whoever wrote that, the records are what counts."""
    run = write_run(tmp_path / "run", [record(i) for i in IDS], config=config(PROMPTS))
    write_summary(run, **forged)
    assert "30/30" in as_text(describe_history(look(tmp_path)), 200)


def test_a_fresh_summary_is_taken_and_a_stale_one_is_not(tmp_path: Path) -> None:
    """summary.json counts while nothing it sums up is newer: that is what makes hundreds of runs fast."""
    run = write_passes(tmp_path, 1, 20)
    write_summary(run)
    lines, before = (run / "results.jsonl").read_bytes(), (run / "results.jsonl").stat()
    # Of the same size and age: who reads it anew finds no record in it.
    (run / "results.jsonl").write_bytes(b" " * (len(lines) - 1) + b"\n")
    os.utime(run / "results.jsonl", ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert look(tmp_path).runs[0].n_passed == 20
    (run / "results.jsonl").write_bytes(lines)
    newer = (run / "summary.json").stat().st_mtime + 10
    write_summary(run, n_passed=7)
    os.utime(run / "results.jsonl", (newer, newer))
    assert look(tmp_path).runs[0].n_passed == 20


@pytest.mark.parametrize(
    ("sealed", "changes"),
    [
        (False, {"n_passed": 7}),
        (False, {"clawgauge_version": None}),
        (True, {"n_passed": 7, "clawgauge_version": "0.2.0.dev1"}),
        (True, {"n_passed": 7, "clawgauge_version": None}),
        (False, {"n_passed": 7, "figures_sha256": None}),
    ],
    ids=[
        "changed by hand",
        "no version",
        "another version",
        "another version, no name",
        "no checksum",
    ],
)
def test_a_summary_that_this_version_did_not_make_of_these_records_is_made_anew(
    tmp_path: Path, sealed: bool, changes: dict[str, Any]
) -> None:
    """Written by hand, or by another version: `history` says what `show` says."""
    run = write_passes(tmp_path, 1, 20)
    write_summary(run, sealed=sealed, **changes)
    assert look(tmp_path).runs[0].n_passed == 20
    assert look(tmp_path).trends[0].latest.n_passed == 20


def blank_records(run: Path) -> None:
    """Records of the same size and age in which nobody finds any: what is shown then is from summary.json."""
    results = run / "results.jsonl"
    before = results.stat()
    results.write_bytes(b" " * (before.st_size - 1) + b"\n")
    os.utime(results, ns=(before.st_mtime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("failure_type", ["http_429", "timeout", "http_500", "connection_refused"])
def test_a_fresh_summary_of_failed_calls_is_taken(tmp_path: Path, failure_type: str) -> None:
    """Whatever kept a third of the calls from being answered, such as a limit of rates: its summary is one."""
    status = "rate_limited" if failure_type == "http_429" else "error"
    lines = [record(i) for i in IDS[:20]]
    lines += [unanswered(i, failure_type, availability_status=status) for i in IDS[20:]]
    run = write_run(tmp_path / "run", lines, config=config(PROMPTS))
    write_summary(run)
    blank_records(run)
    assert look(tmp_path).runs[0].n_passed == 20


def counts_of(runs: Path) -> tuple[Any, ...]:
    """What the tables show of a lone run."""
    history = look(runs)
    (run,) = history.runs
    (trend,) = history.trends
    (coverage,) = history.coverage
    line = (run.n_ok, run.n_attempted, run.n_scheduled, run.n_passed, run.n_judged, run.passes)
    point = msgspec.structs.replace(trend.latest, run_id="")
    return line, run.n_unreadable_lines, point, coverage.n_answered, coverage.missing


@pytest.mark.parametrize(
    "rewritten",
    [
        [*(record(i) for i in IDS[:20]), *(record(i, False) for i in IDS[20:])],
        [record(i) for i in IDS[:7]],
        [unanswered(i) for i in IDS],
        [*(record(i) for i in IDS), "{broken"],
        [],
    ],
    ids=["judged otherwise", "fewer", "none answered", "a damaged line more", "empty"],
)
def test_every_count_of_a_rewritten_run_is_that_of_its_records(
    tmp_path: Path, rewritten: list[dict[str, Any] | str]
) -> None:
    """The summary it had is of other records: nothing of that is shown, in any table."""
    run = write_passes(tmp_path / "rewritten", 1, 12)
    write_summary(run)
    write_run(run, rewritten)
    newer = (run / "summary.json").stat().st_mtime + 10
    os.utime(run / "results.jsonl", (newer, newer))
    anew = write_passes(tmp_path / "anew", 1, 12)
    write_run(anew, rewritten)
    assert counts_of(tmp_path / "rewritten") == counts_of(tmp_path / "anew")


def test_a_summary_of_other_records_is_not_believed_however_new_it_is(tmp_path: Path) -> None:
    """Records that were added, and files whose times say nothing, as after a copy."""
    run = write_passes(tmp_path, 1, 20)
    write_summary(run)
    summary = (run / "summary.json").stat()
    with (run / "results.jsonl").open("a") as file:
        file.write(json.dumps(record("P29", repeat=1, run_id="day1")) + "\n")
    os.utime(run / "results.jsonl", ns=(0, summary.st_mtime_ns - 10**9))
    assert look(tmp_path).runs[0].n_passed == 21


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
    write_run(
        tmp_path / "two", [unanswered("P0"), record("P1", False), unanswered("P2")], config=plan
    )
    (part,) = look(tmp_path).coverage
    assert (part.target, part.suite, part.n_prompts, part.n_answered, part.missing) == (
        LABEL,
        "core",
        3,
        2,
        ["P2"],
    )


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
    assert "> 9.0 s" in as_text(describe_history(history), 120)


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
    told = {
        "at_ms": 1,
        "event": "decided",
        "target": LABEL,
        "detail": {"not_asked": 27, "not_needed": 27},
    }
    (run / "events.jsonl").write_text(json.dumps(told) + "\n", encoding="utf-8")
    (part,) = look(tmp_path).coverage
    assert (part.n_prompts, part.n_answered, part.missing) == (30, 3, IDS[3:])
    (step,) = steps_of(tmp_path)
    assert step.resume is None and step.prompts == [("core", i) for i in IDS[3:]]


def test_a_cell_nobody_scheduled_is_a_new_run(tmp_path: Path) -> None:
    """Models that were never asked a prompt need a run each, of the prompts that they miss."""
    write_run(
        tmp_path / "full",
        [record("P0"), record("P1")],
        config=config(PROMPTS[:2], created_at_ms=T0),
    )
    for model in ("x", "y"):
        plan = config(PROMPTS[:1], [model], created_at_ms=T0 + 1)
        write_run(tmp_path / model, [record("P0", model=model)], config=plan)
    steps = steps_of(tmp_path)
    assert [step.targets[0].model for step in steps] == ["y", "x"]
    for step in steps:
        assert step.resume is None and not step.whole_suites
        assert len(step.cells) == 1 and step.prompts == [("core", "P1")]


def test_folders_of_the_first_harness_are_part_of_history(tmp_path: Path) -> None:
    """They are listed and counted; nobody else is held to miss their prompts, and no plan is made for them."""
    write_old_run(tmp_path / "old", [record("P0"), record("P1", False), unanswered("P2")])
    write_run(tmp_path / "new", [record("P0", model="x")], config=config(PROMPTS[:1], ["x"]))
    history = look(tmp_path)
    steps = steps_of(tmp_path)
    old = next(run for run in history.runs if run.run_id == "old")
    assert (old.source, old.n_ok, old.n_passed, old.n_judged) == ("first_harness", 2, 1, 2)
    parts = {(c.target, c.suite): c.missing for c in history.coverage}
    assert parts[LABEL, ""] == ["P2"] and (f"{PROVIDER}:x", "") not in parts
    assert history.n_not_fillable == 1
    assert all(key[0] == "core" for step in steps for key in step.prompts)
