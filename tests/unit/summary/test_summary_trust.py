"""How far a figure can be trusted: intervals, thin percentiles, the clock, repeats, stopping early."""

from __future__ import annotations

import pytest

from clawgauge.figures import Percentile, format_percentile
from clawgauge.stats.proportions import wilson_interval
from clawgauge.stats.tiers import confidence_sequence
from clawgauge.summary import summarize_folder
from support.rows import every_row

from .run_folders import MODEL, T0, config, failed, prompt, record, tool_record, write_run

TARGET = f"ollama_openai:{MODEL}"


def only(folder):
    (group,) = summarize_folder(folder).models
    return group


def finished(clock, at_ms=T0, target=TARGET):
    return {
        "event": "target_finished",
        "at_ms": at_ms,
        "target": target,
        "detail": {"clock": clock},
    }


def timed(prompt_id, lag, *, e2e=100_000, ttft=20_000, **changes):
    timings = {"e2e": e2e, "ttft": ttft, "ttfa": ttft, "connect": None, "lag": lag}
    return record(prompt_id, timings_us=timings, **changes)


@every_row(
    ("n", "indicative", "has_p95"),
    [
        (0, [], False),
        (20, ["p95", "p99"], False),
        (71, ["p95", "p99"], False),
        (72, ["p99"], True),
        (368, [], True),
    ],
)
def test_percentiles_say_what_they_rest_on(tmp_path, n, indicative, has_p95):
    """Percentiles carry n, the names of the thin ones, and intervals from measured values where n allows."""
    rows = [record("P0", e2e_ms=1000 + i, repeat=i) for i in range(n)] or [
        failed("P0", "error", "timeout")
    ]
    latency = only(write_run(tmp_path / "run", rows)).latency_all_ms
    assert (latency.n, latency.indicative) == (n, indicative)
    assert (latency.p95_ci95 is not None) == has_p95
    if n == 20:
        assert latency.p50_ci95 == (1005, 1014)
    if n:
        assert latency.p50 == 1000 + (n - 1) / 2


def test_repeats_do_not_make_a_percentile_sure(tmp_path):
    """A hundred calls of ten prompts, each prompt always as slow, are ten: no p95 interval, and its mark."""
    rows = [
        record(f"P{i % 10}", e2e_ms=1000 + 100 * (i % 10) + i // 10, repeat=i // 10)
        for i in range(100)
    ]
    latency = only(write_run(tmp_path / "run", rows)).latency_all_ms
    assert latency.p95_ci95 is None and latency.indicative == ["p95", "p99"]
    low, high = latency.p50_ci95
    assert low <= 1200 and high >= 1700


def test_timeouts_are_longer_than_any_answer(tmp_path):
    """6.8% of calls cut off at 120 s: p95 is over 120 s, and only p50 is known by an interval."""
    rows = [record(f"P{i}", e2e_ms=1000 + i) for i in range(233)]
    rows += [failed(f"Q{i}", "error", "timeout", e2e_ms=120_003 + i) for i in range(17)]
    group = only(write_run(tmp_path / "run", rows))
    whole = group.latency_censored_ms
    assert (whole.n, whole.beyond, whole.p95, whole.p99) == (250, ["p95", "p99"], 120_003, 120_003)
    assert whole.p50 == 1124.5 and whole.p50_ci95 is not None and whole.p95_ci95 is None
    assert whole.mean is whole.max is None and whole.indicative == ["p99"]
    assert group.latency_all_ms.n == 233 and group.latency_ms.p95 < 2000
    assert format_percentile(Percentile.of(whole, "p95")) == "> 120 s"
    (suite,) = group.suites
    assert suite.latency_censored_ms == whole and suite.latency_ms == group.latency_ms


def test_a_time_below_nothing_is_no_time(tmp_path):
    """Whoever wrote it, a call that took less than nothing has an answer and no time, and moves no percentile."""
    rows = [record("P0", e2e_ms=-5, ttft_ms=-5), record("P1", e2e_ms=40, ttft_ms=20)]
    group = only(write_run(tmp_path / "run", rows))
    assert (
        group.n_success,
        group.latency_all_ms.n,
        group.latency_all_ms.min,
        group.ttft_ms.min,
    ) == (2, 1, 40, 20)


def test_without_timeouts_both_latencies_are_one(tmp_path):
    """Nothing is cut off: the two fields say the same."""
    group = only(write_run(tmp_path / "run", [record(f"P{i}", e2e_ms=i) for i in range(9)]))
    assert group.latency_censored_ms == group.latency_all_ms


def test_calls_that_could_be_off_are_counted(tmp_path):
    """A call is flagged when the loop was late by over 1 ms, or by over 1% of its first token's time; not by noise."""
    rows = [
        timed("P0", 90, ttft=500),
        timed("P1", 101, ttft=20_000),
        timed("P2", 201, ttft=20_000),
        timed("P3", 150, e2e=14_000, ttft=None),
        timed("P4", 1001, ttft=900_000),
        timed("P5", 1000, ttft=900_000),
        timed("P6", None),
    ]
    clock = only(write_run(tmp_path / "run", rows)).clock
    assert (clock.n_watched, clock.n_flagged) == (6, 3)
    assert (clock.lag_p50_ms, clock.lag_max_ms) == (0.1755, 1.001)


def test_the_clock_of_all_stretches(tmp_path):
    """Over a resumed run CPU adds up, the worst load and resolution stand; other targets' events do not mix in."""
    quiet = {
        "resolution_ns": 1,
        "client_cpu_s": 0.5,
        "cores": 2,
        "load_1m": 0.4,
        "loop_lag_ms": {"p50": 0.1, "p99": 1},
    }
    events = [
        finished(quiet),
        finished(
            quiet
            | {"client_cpu_s": 0.25, "load_1m": 3.0, "loop_lag_ms": {"n": 9, "p99": 0.2, "max": 7}}
        ),
        finished(quiet | {"load_1m": 99.0}, target="ollama_openai:other"),
        finished("nonsense"),
    ]
    clock = only(
        write_run(tmp_path / "run", [record()], config=config([prompt("P0")]), events=events)
    ).clock
    assert (clock.client_cpu_s, clock.load_1m, clock.cores, clock.busy, clock.resolution_ns) == (
        0.75,
        3.0,
        2,
        True,
        1,
    )
    assert (clock.n_watched, clock.lag_p50_ms, clock.lag_p99_ms, clock.lag_max_ms) == (
        0,
        0.1,
        1.0,
        7.0,
    )


def test_the_calls_own_lag_comes_first(tmp_path):
    """Where records say how late the loop was during each call, those figures stand, not the runner's overall ones."""
    watched = {"loop_lag_ms": {"p50": 50, "p99": 60, "max": 70}, "cores": 4, "load_1m": 1.0}
    clock = only(write_run(tmp_path / "run", [timed("P0", 40)], events=[finished(watched)])).clock
    assert (clock.lag_p50_ms, clock.lag_max_ms, clock.busy) == (0.04, 0.04, False)


def test_retries_and_waits_are_added_up(tmp_path):
    """Calls that took more than one try are counted, with what was waited between them."""

    def tries(*waits):
        return [
            {"status": "error", "failure_type": "http_503", "e2e_ms": 1, "waited_ms": wait}
            for wait in waits
        ]

    rows = [
        record("P0", attempts=tries(0)),
        record("P1", attempts=tries(700, 1500, 0)),
        record("P2", attempts=[]),
    ]
    clock = only(write_run(tmp_path / "run", rows)).clock
    assert (clock.n_retried, clock.retry_wait_ms) == (1, 2200)
    assert only(write_run(tmp_path / "calm", [record("P0", attempts=tries(0))])).clock is None


def test_repeatability_over_prompts_asked_often_enough(tmp_path):
    """pass@k and pass^k for k repeats are means over the prompts with k verdicts; one answered too seldom is out."""
    passes = {
        "P0": [True, True, True],
        "P1": [True, False, True],
        "P2": [False, False, False],
        "P3": [True, True],
    }
    rows = [
        record(p, objective_pass=x, repeat=i)
        for p, verdicts in passes.items()
        for i, x in enumerate(verdicts)
    ]
    rows.append(failed("P3", "error", "timeout", repeat=2))
    plan = config([prompt(p) for p in passes], options={"repeats": 3})
    repeats = only(write_run(tmp_path / "run", rows, config=plan)).repeatability
    assert (repeats.k, repeats.n_prompts) == (3, 3)
    assert (repeats.pass_at_k, repeats.pass_hat_k) == pytest.approx((2 / 3, 1 / 3))
    assert only(write_run(tmp_path / "old", rows)).repeatability.k == 2
    assert only(write_run(tmp_path / "once", [record("P0")])).repeatability is None


def test_cached_tokens_are_a_sum_or_unknown(tmp_path):
    """Prompt tokens served from a cache add up; a server that tells of none leaves null."""
    rows = [record("P0", cached_tokens=12), record("P1", cached_tokens=0), record("P2")]
    assert only(write_run(tmp_path / "run", rows)).cached_tokens == 12
    assert only(write_run(tmp_path / "silent", [record("P0")])).cached_tokens is None


def decided(not_asked, **changes):
    detail = {
        "tier": 1,
        "n": 13,
        "k": 13,
        "p": 0.956,
        "asked": 13,
        "not_asked": not_asked,
    } | changes
    return {"event": "decided", "at_ms": T0, "target": TARGET, "detail": detail}


def stopped_run(folder, n_asked, *events):
    prompts = [prompt("P0")] + [
        prompt(f"T{i}", "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]})
        for i in range(20)
    ]
    rows = [record("P0"), *(tool_record(f"T{i}", True) for i in range(n_asked))]
    return only(write_run(folder, rows, config=config(prompts), events=list(events)))


def test_a_group_stopped_early_says_so(tmp_path):
    """Cells left out once the tier was decided are not scheduled; intervals are those that hold whenever one stops."""
    group = stopped_run(tmp_path / "run", 13, decided(7))
    assert (group.stopped_early, group.n_not_needed) == (True, 7)
    assert (group.n_scheduled, group.n_scheduled_judged, group.pass_rate_scheduled) == (14, 14, 1.0)
    assert group.tool_use.ci95 == confidence_sequence(13, 13) != wilson_interval(13, 13)
    assert group.objective_pass_ci95 == confidence_sequence(14, 14)
    assert (group.tool_use.decided, group.tool_use.n_eff) == (True, 13.0)
    core, tools = group.suites
    assert (core.ci95, tools.ci95) == (wilson_interval(1, 1), confidence_sequence(13, 13))
    assert (core.n_scheduled, tools.n_scheduled, tools.pass_rate_scheduled) == (1, 13, 1.0)
    assert any(
        text.startswith("stopped early after 13 answered tool prompts") for text in group.warnings
    )
    assert not any("did not finish" in text for text in group.warnings)


def test_arguments_of_a_group_stopped_early_have_the_interval_their_need_is_held_against(tmp_path):
    """Its own results chose how many there are, so the interval is wider than that of a run broken off."""
    prompts = [prompt(f"T{i}", "tool_use", {"type": "tool_call", "calls": []}) for i in range(20)]
    rows = [tool_record(f"T{i}", True, native=True) for i in range(13)]
    found = [
        only(write_run(tmp_path / name, rows, config=config(prompts), events=events))
        for name, events in (("stopped", [decided(7)]), ("broken_off", []))
    ]
    assert [one.argument_accuracy.ci95 for one in found] == [
        confidence_sequence(13, 13),
        wilson_interval(13, 13),
    ]
    for one in found:
        (need,) = [need for need in one.tool_use.needs if need.name == "arguments"]
        assert need.lower == one.argument_accuracy.ci95[0]


@pytest.mark.parametrize(("load", "busy"), [(2.0, False), (2.1, True)])
def test_a_machine_is_busy_when_more_waits_than_it_has_cores(tmp_path, load, busy):
    """As many as its cores is just full."""
    events = [finished({"cores": 2, "load_1m": load})]
    assert only(write_run(tmp_path / "run", [record()], events=events)).clock.busy is busy


def test_what_a_search_told_is_not_believed_against_the_records(tmp_path):
    """An event that claims Tier 1 of a model that failed every other call is nobody's evidence."""
    prompts = [
        prompt(f"T{i}", "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]})
        for i in range(20)
    ]
    rows = [tool_record(f"T{i}", i % 2 == 0) for i in range(13)]
    event = decided(7, tier1="yes")
    use = only(write_run(tmp_path / "run", rows, config=config(prompts), events=[event])).tool_use
    assert (use.tier1, use.decided) == ("cannot_tell", False)
    told = only(
        write_run(
            tmp_path / "late",
            [tool_record(f"T{i}", True) for i in range(13)],
            config=config(prompts),
            events=[event],
        )
    )
    assert (told.tool_use.tier1, told.tool_use.decided, told.tool_use.needed) == ("yes", True, 0)


def test_a_search_that_tells_no_more_than_not_tier_1_says_so(tmp_path):
    """Three failures of three: not Tier 1; that it is Tier 3 is likely, not decided."""
    prompts = [
        prompt(f"T{i}", "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]})
        for i in range(20)
    ]
    rows = [tool_record(f"T{i}", False) for i in range(3)]
    event = decided(17, tier1="no", tier=3, n=3, k=0)
    use = only(write_run(tmp_path / "run", rows, config=config(prompts), events=[event])).tool_use
    assert (use.tier, use.tier1, use.decided) == (3, "no", False)
    assert use.label == "Tier 3 (not Tier 1: decided; Tier 3 is 94% likely)"


def test_cells_asked_after_all_are_not_left_out(tmp_path):
    """A later resume that asks the rest, or an event that claims too much, leaves no cell uncounted."""
    filled = stopped_run(tmp_path / "filled", 20, decided(7))
    assert (filled.stopped_early, filled.n_not_needed, filled.n_scheduled) == (False, 0, 21)
    assert filled.tool_use.ci95 is not None
    cut_short = stopped_run(tmp_path / "cut", 10, decided(7), decided(4))
    assert (cut_short.n_not_needed, cut_short.n_scheduled, cut_short.n_total) == (4, 17, 11)
    assert any("6 of 17 planned prompts were never asked" in text for text in cut_short.warnings)


def test_repeats_that_a_search_left_out_are_no_early_stop(tmp_path):
    """A search that asked every prompt once and settled nothing keeps its intervals; its repeats are not missing."""
    event = decided(20, not_needed=20) | {"event": "undecided"}
    prompts = [
        prompt(f"T{i}", "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]})
        for i in range(20)
    ]
    rows = [tool_record(f"T{i}", i % 4 > 0) for i in range(20)]
    plan = config(prompts, options={"repeats": 2, "until_decided": True})
    group = only(write_run(tmp_path / "run", rows, config=plan, events=[event]))
    assert (group.stopped_early, group.n_not_needed, group.n_scheduled) == (False, 20, 20)
    assert group.tool_use.ci95 is not None
    assert group.warnings == [
        "20 repeats or variants of tool prompts were not needed: "
        "of a family of prompts one answer is evidence for a tier"
    ]


def test_a_spent_budget_is_the_reason_given(tmp_path):
    """Cells not asked because a budget ran out are missing, and the note names the budget, not an interruption."""
    detail = {"budget": "max_calls", "limit": 2, "spent": 2, "not_asked": 3}
    event = {"event": "budget_spent", "at_ms": T0, "target": TARGET, "detail": detail}
    plan = config([prompt(f"P{i}") for i in range(5)])
    group = only(
        write_run(tmp_path / "run", [record("P0"), record("P1")], config=plan, events=[event])
    )
    (note,) = group.warnings
    assert note.startswith(
        "3 of 5 planned prompts were never asked: the budget was spent (max_calls 2)"
    )


def test_suites_count_what_was_scheduled_and_what_timed_out(tmp_path):
    """A suite's pass rate stands beside that of its scheduled cells, and its timeouts beside its latencies."""
    rows = [record("P0"), failed("P1", "error", "timeout")]
    plan = config([prompt(f"P{i}") for i in range(4)])
    (suite,) = only(write_run(tmp_path / "run", rows, config=plan)).suites
    assert (suite.objective_pass_rate, suite.pass_rate_scheduled, suite.n_scheduled) == (
        1.0,
        0.25,
        4,
    )
    assert (suite.n_scheduled_judged, suite.n_timeouts) == (4, 1)


def test_the_turns_of_a_task_are_no_retries(tmp_path):
    """A task of three turns made three tries that went well; one whose second turn met a 429 was tried again once."""
    fine = {"status": "ok", "failure_type": None, "e2e_ms": 5}
    busy = {"status": "rate_limited", "failure_type": "http_429", "e2e_ms": 5, "waited_ms": 300}
    rows = [
        record("P0", attempts=[fine, fine, fine], turns=3),
        record("P1", attempts=[fine, busy, fine], turns=2),
    ]
    clock = only(write_run(tmp_path / "run", [timed("P2", 10), *rows])).clock
    assert (clock.n_retried, clock.retry_wait_ms) == (1, 300)


def test_warnings_of_one_kind_are_one_sentence(tmp_path):
    """The same trouble with other numbers in it is said once, with how many calls it concerns."""
    rows = [
        record(f"P{n}", warnings=[f"tools_dropped: the server counted {n} tokens"])
        for n in range(5)
    ]
    (note,) = [
        note for note in only(write_run(tmp_path / "run", rows)).warnings if "tools_dropped" in note
    ]
    assert "(5 of 5 calls)" in note
