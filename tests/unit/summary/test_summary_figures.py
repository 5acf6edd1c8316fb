"""Rates, counts, latencies and clocks of a run folder, group by group."""

from __future__ import annotations

import json
import statistics

import pytest

from clawgauge.compare.sides import read_side
from clawgauge.summary import summarize_folder

from .run_folders import MODEL, T0, config, failed, prompt, record, tool_record, write_run


def only(folder):
    """The one group of a folder with one target."""
    (group,) = summarize_folder(folder).models
    return group


def consume(folder):
    """The same figures by a reader that knows the schema document alone: no line of this uses clawgauge."""
    groups = {}
    for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        groups.setdefault((row["provider"], row["model"], row["thinking_level"]), []).append(row)
    figures = {}
    for key, rows in groups.items():
        ok = [r for r in rows if r["availability_status"] == "ok"]
        good = [r for r in ok if r["success"]]
        verdicts = [r["objective_pass"] for r in good if r["objective_pass"] is not None]
        cuts = statistics.quantiles([r["e2e_ms"] for r in good], n=100, method="inclusive")
        figures[key] = {
            "n_total": len(rows),
            "n_ok": len(ok),
            "n_success": len(good),
            "n_error": sum(r["availability_status"] == "error" for r in rows),
            "success_rate_ok": len(good) / len(ok),
            "objective_pass_rate": sum(verdicts) / len(verdicts),
            "latency_ms": [
                cuts[49],
                cuts[94],
                cuts[98],
                statistics.fmean(r["e2e_ms"] for r in good),
            ],
        }
    return figures


def mixed_records():
    rows = []
    for m, model in enumerate(("llama3.2:3b", "qwen3:8b")):
        for i in range(40):
            changes = {
                "model": model,
                "model_reported": model,
                "e2e_ms": 100 + 37 * i * (m + 1) % 911,
                "repeat": i // 10,
            }
            if i % 9 == 4:
                rows.append(failed(f"P{i % 10}", "error", "timeout", **changes))
            elif i % 11 == 5:
                rows.append(failed(f"P{i % 10}", "ok", "empty_response", **changes))
            else:
                verdict = None if i % 10 == 9 else i % 3 != m
                rows.append(record(f"P{i % 10}", objective_pass=verdict, **changes))
    return rows


def test_an_independent_reader_computes_the_same(tmp_path):
    """Twenty lines that know only the schema document get the same counts, rates and percentiles from results.jsonl."""
    folder = write_run(tmp_path / "run", mixed_records())
    expected = consume(folder)
    summary = summarize_folder(folder)
    assert len(summary.models) == len(expected) == 2
    for group in summary.models:
        figures = expected[group.provider, group.model, group.thinking_level]
        latency = group.latency_ms
        assert [latency.p50, latency.p95, latency.p99, latency.mean] == pytest.approx(
            figures.pop("latency_ms"), abs=1e-9
        )
        assert {name: getattr(group, name) for name in figures} == figures


def test_the_five_statuses_partition_the_cells(tmp_path):
    """Every cell is counted under exactly one status, and auth errors are not hidden among the errors."""
    statuses = [
        "ok",
        "skipped_unavailable",
        "auth_error",
        "auth_error",
        "rate_limited",
        "error",
        "error",
        "error",
    ]
    rows = [
        record(f"P{i}") if status == "ok" else failed(f"P{i}", status, "http_500")
        for i, status in enumerate(statuses)
    ]
    group = only(write_run(tmp_path / "run", rows))
    assert (
        group.n_ok,
        group.n_skipped_unavailable,
        group.n_auth_error,
        group.n_rate_limited,
        group.n_error,
    ) == (
        1,
        1,
        2,
        1,
        3,
    )
    assert group.n_total == 8


def test_nothing_answered_gives_nulls_not_zeros(tmp_path):
    """A model that was down has no success rate, no pass rate and no latency; its scheduled pass rate is 0."""
    rows = [
        failed(f"P{i}", "skipped_unavailable", "connection_refused", e2e_ms=0) for i in range(3)
    ]
    group = only(
        write_run(tmp_path / "run", rows, config=config([prompt(f"P{i}") for i in range(3)]))
    )
    assert group.success_rate_ok is None
    assert group.objective_pass_rate is None
    assert group.latency_ms.p50 is group.latency_ms.mean is None
    assert group.ttft_ms.n == 0
    assert (group.pass_rate_scheduled, group.n_scheduled_judged) == (0.0, 3)


def test_an_empty_answer_is_answered_but_no_success(tmp_path):
    """An empty response lowers the success rate and stays out of the pass rate and the latencies."""
    rows = [
        record("P0", e2e_ms=100),
        failed("P1", "ok", "empty_response", e2e_ms=9000, output_tokens=7),
    ]
    group = only(write_run(tmp_path / "run", rows))
    assert group.success_rate_ok == 0.5
    assert (group.n_judged, group.n_passed) == (1, 1)
    assert group.latency_ms.p99 == 100
    assert group.output_tokens == 17


def test_a_prompt_without_a_verdict_counts_in_neither_side(tmp_path):
    """noop prompts leave the pass rate alone, answered or not."""
    rows = [record("P0"), record("P1", objective_pass=False), record("P2", objective_pass=None)]
    prompts = [prompt("P0"), prompt("P1"), prompt("P2", validator={"type": "noop"})]
    group = only(write_run(tmp_path / "run", rows, config=config(prompts)))
    assert group.objective_pass_rate == group.pass_rate_scheduled == 0.5
    assert group.n_scheduled_judged == 2


def test_cells_never_recorded_still_count_as_scheduled(tmp_path):
    """An interrupted run is measured against its plan: targets, prompts and repeats of config.json."""
    prompts = [prompt(f"P{i}") for i in range(4)]
    plan = config(prompts, models=(MODEL, "never:1b"), options={"repeats": 2})
    first, second = summarize_folder(
        write_run(tmp_path / "run", [record("P0"), record("P1")], config=plan)
    ).models
    assert (first.n_total, first.n_scheduled_judged, first.pass_rate_scheduled) == (2, 8, 0.25)
    assert first.objective_pass_rate == 1.0
    assert any("6 of 8 planned prompts were never asked" in text for text in first.warnings)
    assert (
        second.model,
        second.n_total,
        second.n_scheduled_judged,
        second.pass_rate_scheduled,
    ) == (
        "never:1b",
        0,
        8,
        0.0,
    )


def test_without_a_plan_a_prompt_is_judged_if_any_model_got_a_verdict(tmp_path):
    """Without config.json a failed cell still counts against a model when another model shows it has a verdict."""
    rows = [
        record("P0"),
        record("P1", objective_pass=None),
        failed("P0", "error", "timeout", model="down:1b"),
        failed("P1", "error", "timeout", model="down:1b"),
    ]
    _, down = summarize_folder(write_run(tmp_path / "run", rows)).models
    assert (down.n_scheduled_judged, down.pass_rate_scheduled) == (1, 0.0)


def test_groups_follow_the_plan(tmp_path):
    """Groups stand in the order of the targets asked for, not in the order the answers came; strangers come last."""
    rows = [
        record(model=model, thinking_level=level)
        for model, level in (("c", None), ("b", None), ("a", "low"))
    ]
    plan = config([prompt("P0")], models=("a", "b"))
    names = [
        (g.model, g.thinking_level)
        for g in summarize_folder(write_run(tmp_path / "run", rows, config=plan)).models
    ]
    assert names == [("a", None), ("b", None), ("c", None), ("a", "low")]


def test_thinking_levels_are_groups_of_their_own(tmp_path):
    """The same model at another thinking level is another row, and null is a level too."""
    rows = [record(thinking_level=level) for level in (None, "low", "high", None)]
    groups = summarize_folder(write_run(tmp_path / "run", rows)).models
    assert [(g.thinking_level, g.n_total) for g in groups] == [(None, 2), ("low", 1), ("high", 1)]


def test_the_pause_of_a_resumed_run_is_not_work(tmp_path):
    """Wall clock is first start to last end within each stretch, summed; the night in between counts for nothing."""
    night = 36_000_000
    rows = [
        record("P0", started_at_ms=T0, ended_at_ms=T0 + 500),
        record("P1", started_at_ms=T0 + 300, ended_at_ms=T0 + 900),
        record("P2", stretch=1, started_at_ms=T0 + night, ended_at_ms=T0 + night + 50),
        record(
            "P2", model="b", stretch=1, started_at_ms=T0 + night + 100, ended_at_ms=T0 + night + 180
        ),
        failed(
            "P3",
            "auth_error",
            "api_key_missing",
            started_at_ms=0,
            ended_at_ms=0,
            model="b",
            stretch=1,
        ),
    ]
    summary = summarize_folder(write_run(tmp_path / "run", rows))
    assert [g.wall_clock_ms for g in summary.models] == [950, 80]
    assert summary.run_wall_clock_ms == 900 + 180


def test_a_clock_set_back_takes_no_negative_time(tmp_path):
    """A wall clock that stepped back during the only call gives 0, not minus an hour."""
    row = record(started_at_ms=T0, ended_at_ms=T0 - 3_600_000)
    assert only(write_run(tmp_path / "run", [row])).wall_clock_ms == 0


def test_cold_calls_are_shown_apart_and_still_counted(tmp_path):
    """The first, slow call to a model is in latency_ms and in latency_cold_ms, and not in latency_warm_ms."""
    rows = [
        record("P0", e2e_ms=5000, cold_start=True),
        *(record(f"P{i}", e2e_ms=100) for i in range(1, 4)),
    ]
    rows.append(record("P4", e2e_ms=200, cold_start=None))
    group = only(write_run(tmp_path / "run", rows))
    assert group.latency_ms.mean == (5000 + 300 + 200) / 5
    assert (group.latency_cold_ms.n, group.latency_cold_ms.max) == (1, 5000)
    assert (group.latency_warm_ms.n, group.latency_warm_ms.max) == (3, 100)


def test_first_token_and_speed_columns_carry_their_n(tmp_path):
    """Calls without a first-token time are left out of its percentiles, counted, and said."""
    rows = [
        record("P0", ttft_ms=10),
        record("P1", ttft_ms=30),
        record("P2", ttft_ms=None, output_tps=None),
    ]
    group = only(write_run(tmp_path / "run", rows))
    assert (group.ttft_ms.n, group.ttft_ms.p50) == (2, 20)
    assert (group.output_tps.n, group.ttfa_ms.n) == (2, 3)
    assert any("first-token times were not captured for 1 of 3" in text for text in group.warnings)


def test_tokens_and_cost_are_sums_or_unknown(tmp_path):
    """Costs add up where a server told them; where none did the sum is null, not 0."""
    rows = [record("P0", cost_usd=0.25), record("P1", cost_usd=0.5, input_tokens=None)]
    group = only(write_run(tmp_path / "run", rows))
    assert (group.cost_usd, group.input_tokens, group.output_tokens) == (0.75, 30, 20)
    silent = only(write_run(tmp_path / "silent", [record(input_tokens=None, output_tokens=None)]))
    assert silent.cost_usd is silent.input_tokens is silent.output_tokens is None


def test_cost_by_call_by_pass_and_by_suite(tmp_path):
    """Over the calls that have a cost; a suite has its own, or none where no call of it was priced."""
    rows = [
        record("P0", cost_usd=0.25),
        record("P1", cost_usd=0.5, objective_pass=False),
        record("P2", cost_usd=None),
        record("P0", suite="extra", cost_usd=0.25, objective_pass=False),
        record("P0", suite="free"),
    ]
    group = only(write_run(tmp_path / "run", rows))
    assert (group.cost.n_priced, group.cost.usd, group.cost.per_pass_usd) == (3, 1.0, 1 / 3)
    assert group.cost.per_call_usd == pytest.approx(1 / 3)
    assert {suite.suite: suite.cost_usd for suite in group.suites} == {
        "core": 0.75,
        "extra": 0.25,
        "free": None,
    }
    paid_for_nothing = only(
        write_run(tmp_path / "none", [record("P0", cost_usd=0.25, objective_pass=False)])
    )
    assert (paid_for_nothing.cost.per_call_usd, paid_for_nothing.cost.per_pass_usd) == (0.25, None)


def test_a_model_nobody_planned_was_to_answer_what_it_answered(tmp_path):
    """A target that is in the records and not in the plan misses nothing of it."""
    plan = config([prompt("P0"), prompt("P1"), prompt("P2")], options={"repeats": 2})
    rows = [record("P0"), record("P0", model="guest"), record("P9", model="guest")]
    planned, guest = summarize_folder(write_run(tmp_path / "run", rows, config=plan)).models
    assert (planned.n_scheduled, planned.n_scheduled_judged) == (6, 6)
    beyond = write_run(tmp_path / "beyond", [record("P0"), record("P9")], config=plan)
    assert only(beyond).n_scheduled == 7
    assert (
        guest.model,
        guest.n_scheduled,
        guest.n_scheduled_judged,
        guest.pass_rate_scheduled,
    ) == ("guest", 2, 2, 1.0)


def test_a_suite_has_its_rates_by_category(tmp_path):
    """In the order of the plan, over the answers with a verdict; a prompt without a category is in none."""
    kinds = {"P0": "4k", "P1": "16k", "P2": "4k", "P3": None}
    plan = config(
        [prompt(name) | ({"category": kind} if kind else {}) for name, kind in kinds.items()]
    )
    rows = [record("P1"), record("P0", objective_pass=False), record("P2"), record("P3")]
    (suite,) = only(write_run(tmp_path / "run", rows, config=plan)).suites
    assert [(name, rate.k, rate.n) for name, rate in suite.by_category.items()] == [
        ("4k", 1, 2),
        ("16k", 1, 1),
    ]
    assert suite.by_category["4k"].ci95 == pytest.approx((0.0945, 0.9055), abs=1e-3)


def test_suites_are_broken_down(tmp_path):
    """Each suite has its own counts, pass rate and latency, in the plan's order."""
    rows = [
        tool_record("P0", True, e2e_ms=900),
        record("P0", e2e_ms=100),
        record("P1", objective_pass=False, e2e_ms=300),
    ]
    plan = config([prompt("P0"), prompt("P1"), prompt("P0", "tool_use")])
    core, tools = only(write_run(tmp_path / "run", rows, config=plan)).suites
    assert (core.suite, core.n_judged, core.n_passed, core.latency_ms.p50) == ("core", 2, 1, 200)
    assert (tools.suite, tools.n_total, tools.objective_pass_rate, tools.latency_ms.mean) == (
        "tool_use",
        1,
        1.0,
        900,
    )
    rows += [failed("P2", "error", "timeout"), failed("P3", "ok", "empty_response")]
    core, _ = only(write_run(tmp_path / "failed", rows, config=plan)).suites
    assert (core.n_total, core.n_ok, core.n_success) == (4, 3, 2)


def test_repeats_widen_the_interval(tmp_path):
    """Ten repeats of two prompts that agree with themselves give a wider interval than twenty prompts."""
    repeated = [
        record(f"P{p}", objective_pass=p == 0, repeat=r) for p in range(2) for r in range(10)
    ]
    separate = [record(f"P{p}", objective_pass=p < 10) for p in range(20)]
    wide = only(write_run(tmp_path / "a", repeated)).objective_pass_ci95
    narrow = only(write_run(tmp_path / "b", separate)).objective_pass_ci95
    assert narrow == pytest.approx((0.2993, 0.7007), abs=1e-4)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_bad_lines_are_counted_and_harm_nothing(tmp_path):
    """A spoilt line is counted as unreadable; of a line with a figure no clock can show, that figure is unknown."""
    folder = write_run(
        tmp_path / "run", [record("P0"), '{"broken": ', record("P1"), record("P2", e2e_ms=10**30)]
    )
    summary = summarize_folder(folder)
    assert summary.n_unreadable_lines == 1
    assert (summary.models[0].n_total, summary.models[0].latency_ms.mean) == (3, 100)


def test_an_empty_run_has_no_groups(tmp_path):
    """A run stopped before its first record, with no plan, is an empty summary and not an error."""
    summary = summarize_folder(write_run(tmp_path / "run", []))
    assert summary.models == []
    assert summary.run_wall_clock_ms is None


def test_many_interleaved_rows_are_all_counted(tmp_path):
    """Thousands of rows of three models, shuffled together, give each model all of its own and nothing else."""
    models = ("a", "b", "c")
    rows = [record(f"P{i % 7}", model=models[i % 3], e2e_ms=i, repeat=i // 21) for i in range(3000)]
    for m, group in enumerate(summarize_folder(write_run(tmp_path / "run", rows)).models):
        mine = list(range(m, 3000, 3))
        assert (group.model, group.n_total) == (models[m], 1000)
        assert group.latency_ms.p50 == statistics.median(mine)
        assert group.latency_ms.mean == statistics.fmean(mine)


def test_the_wall_clock_runs_from_the_first_start_to_the_last_end(tmp_path):
    """In whatever order more rows came than are read at once."""
    rows = [record(f"P{i}", started_at_ms=T0 + i, ended_at_ms=T0 + i + 5) for i in range(1200)]
    for name, order in (("forth", rows), ("back", rows[::-1])):
        summary = summarize_folder(write_run(tmp_path / name, order))
        assert (summary.run_wall_clock_ms, summary.models[0].wall_clock_ms) == (1204, 1204)


def test_a_comparison_has_the_summary_s_own_figures(tmp_path):
    """Over all of a target's prompts, or over some as if there were no others, each figure is that of summary.json."""
    rows, plan = mixed_records(), [prompt(f"P{i}") for i in range(10)]
    whole = write_run(tmp_path / "whole", rows, config=config(plan))
    part = write_run(
        tmp_path / "part", [r for r in rows if r["prompt_id"] < "P5"], config=config(plan[:5])
    )
    for folder, prompts in ((whole, plan), (part, plan[:5])):
        models = summarize_folder(folder).models
        keys = {(entry["suite"], entry["id"]) for entry in prompts}
        assert (
            read_side([whole]).summarize_shared([(group.target, keys) for group in models])
            == models
        )
