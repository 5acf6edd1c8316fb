"""Several runs a side, and what runs of one day cannot tell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, IncomparableRuns, compare_runs
from clawgauge.compare.findings import PairComparison
from clawgauge.compare.gate import parse_rule
from clawgauge.errors import ConfigError
from clawgauge.reports.compare import describe_comparison, say_difference
from clawgauge.reports.terminal import as_text
from clawgauge.run_data import Collector, Run
from support.written_runs import LABEL, MODEL, T0, config, prompt, record, unanswered, write_run

IDS = [f"P{n}" for n in range(12)]
PLAN = config([prompt(i) for i in IDS])
MOODS = (0.97, 1.0, 1.04)


DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def write_side(
    tmp_path: Path,
    name: str,
    factor: float,
    moods: Sequence[float] = MOODS,
    *,
    from_ms: int = 0,
    apart_ms: int = DAY_MS,
) -> list[Path]:
    """Runs of twelve prompts that take 1 to 2 seconds, a day apart unless said, each run in a mood of its own; the last
    prompt fails in one.
    """
    runs = []
    for number, mood in enumerate(moods):
        lines = []
        for n, i in enumerate(IDS):
            time_ms = round((1000 + 90 * n) * factor * mood)
            lines.append(record(i, n < 11 or number > 0, e2e_ms=time_ms))
        plan = PLAN | {"created_at_ms": T0 + from_ms + number * apart_ms}
        runs.append(write_run(tmp_path / f"{name}{number}", lines, config=plan))
    return runs


def only_pair(a: list[Path], b: list[Path]) -> PairComparison:
    (pair,) = compare_runs(a, b, ComparisonOptions()).pairs
    return pair


def test_three_days_a_side_tell_a_model_from_its_machines_mood(tmp_path: Path) -> None:
    """A model half as slow again is found; one a little slower than days differ anyway is not, and it is said how much
    would have been.
    """
    a = write_side(tmp_path, "a", 1.0)
    later_ms = 10 * DAY_MS
    changed = only_pair(a, write_side(tmp_path, "b", 1.5, from_ms=later_ms)).latency_ms
    same = only_pair(a, write_side(tmp_path, "n", 1.02, from_ms=later_ms)).latency_ms
    assert changed is not None and same is not None
    assert (changed.test, changed.verdict, changed.n_prompts) == ("means_of_days", "changed", 12)
    assert (changed.n_days_a, changed.n_days_b, changed.n_shared_days) == (3, 3, 0)
    assert changed.ratio == pytest.approx(1.5, rel=0.01) and changed.ratio_ci95 is not None
    assert changed.ratio_ci95[0] < 1.5 < changed.ratio_ci95[1] and changed.ratio_ci95[0] > 1
    assert (
        same.verdict == "no_change_seen"
        and same.ci95 is not None
        and same.ci95[0] < 0 < same.ci95[1]
    )
    assert same.smallest_change is not None and 0.05 < same.smallest_change < 0.3


def test_a_and_b_on_each_of_three_days_are_compared_by_day(tmp_path: Path) -> None:
    """Days that differ twofold hide a fifth between other days, and hide nothing between sides that share them."""
    moods = (1.0, 2.0, 1.4)
    a = write_side(tmp_path, "a", 1.0, moods)
    b = write_side(tmp_path, "b", 1.2, (1.01, 2.0, 1.39), from_ms=2 * HOUR_MS)
    found = compare_runs(a, b, ComparisonOptions())
    shift = found.pairs[0].latency_ms
    assert shift is not None
    assert (shift.test, shift.verdict, shift.n_shared_days) == ("by_day", "changed", 3)
    assert shift.ratio == pytest.approx(1.2, rel=0.02)
    shown = " ".join(as_text(describe_comparison(found), 100).split())
    assert "Student's test on the differences by day (3 days of both)" in shown
    other_days = write_side(tmp_path, "c", 1.2, (1.01, 2.0, 1.39), from_ms=10 * DAY_MS)
    apart = only_pair(a, other_days).latency_ms
    assert apart is not None and (apart.test, apart.verdict) == ("means_of_days", "cannot_tell")


@pytest.mark.parametrize("apart_ms", [HOUR_MS, 5 * HOUR_MS])
def test_many_runs_of_one_day_are_one_day(tmp_path: Path, apart_ms: int) -> None:
    """Three runs on Monday against three on Friday: a bad Friday looks as a slower model does."""
    a = write_side(tmp_path, "a", 1.0, apart_ms=apart_ms)
    b = write_side(tmp_path, "b", 2.0, from_ms=4 * DAY_MS, apart_ms=apart_ms)
    found = compare_runs(a, b, ComparisonOptions())
    shift = found.pairs[0].latency_ms
    assert shift is not None and (shift.verdict, shift.p, shift.ci95) == ("cannot_tell", 1.0, None)
    shown = " ".join(as_text(describe_comparison(found), 100).split())
    assert "one day a side cannot tell a model from its machine's mood" in shown
    assert "run both on each of three days or more" in shown
    with pytest.raises(ConfigError, match="fewer than three days a side"):
        compare_runs(a, b, ComparisonOptions(rules=[parse_rule("p50_ms>20% (significant)")]))


def test_the_verdicts_of_all_runs_of_a_side_count(tmp_path: Path) -> None:
    """A prompt's runs are its repeats; counts add up and the prompt that failed once in three is no flip."""
    pair = only_pair(write_side(tmp_path, "a", 1.0), write_side(tmp_path, "b", 1.0))
    rate = pair.rates["objective_pass_rate"]
    assert (rate.n_prompts, rate.n_trials_a, rate.n_trials_b, rate.test) == (
        12,
        36,
        36,
        "sign_flip",
    )
    assert next((f.a, f.b) for f in pair.figures if f.name == "n_ok") == (36, 36)
    assert rate.rate_a == pytest.approx(35 / 36) and pair.flips == []


def test_every_results_file_is_gone_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six runs are six readings."""
    a, b = write_side(tmp_path, "a", 1.0), write_side(tmp_path, "b", 1.0)
    read: Counter[Path] = Counter()
    feed = Run.feed

    def counted(self: Run, *collectors: Collector) -> Run:
        read[self.path] += 1
        return feed(self, *collectors)

    monkeypatch.setattr(Run, "feed", counted)
    only_pair(a, b)
    assert read == dict.fromkeys([*a, *b], 1)


@pytest.mark.parametrize(("n", "words"), [(1, "one day a side"), (2, "2 days a side")])
def test_fewer_days_cannot_tell_and_say_what_to_do(tmp_path: Path, n: int, words: str) -> None:
    """However large the difference: it is shown with its size, the load of both sides, and the way to know."""
    a, b = write_side(tmp_path, "a", 1.0, MOODS[:n]), write_side(tmp_path, "b", 3.0, MOODS[:n])
    for load, run in ((0.5, a[0]), (7.25, b[0])):
        detail = {"clock": {"load_1m": load, "cores": 2}}
        told = {"at_ms": 1, "event": "target_finished", "target": LABEL, "detail": detail}
        (run / "events.jsonl").write_text(json.dumps(told) + "\n")
    found = compare_runs(a, b, ComparisonOptions())
    shift = found.pairs[0].latency_ms
    assert shift is not None and (shift.verdict, shift.p, shift.ci95) == ("cannot_tell", 1.0, None)
    assert (
        shift.ratio == pytest.approx(3.0, rel=0.01)
        and shift.reason is not None
        and words in shift.reason
    )
    load_b = found.pairs[0].load_b
    assert load_b is not None and (load_b.load_1m, load_b.cores) == (7.25, 2)
    shown = " ".join(as_text(describe_comparison(found), 100).split())
    assert "machine load 0.5 in A (on 2 cores) and 7.3 in B (on 2 cores)" in shown
    assert "+200%" in shown and "run --interleave" in shown and "A1,A2,A3 B1,B2,B3" in shown
    assert {f.verdict for f in found.pairs[0].figures if f.name in ("p50_ms", "n_error")} == {
        "cannot_tell"
    }


@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize(
    ("stray", "options", "difference"),
    [
        ([prompt(i, prompt="something else") for i in IDS], {}, "ask something else"),
        (
            [prompt(i) for i in IDS],
            {"timeout_s": 9.0},
            "timeout_s: 300 in the first, 9 in the second",
        ),
    ],
    ids=["other prompts", "another timeout"],
)
def test_runs_that_could_not_be_compared_are_not_pooled(
    tmp_path: Path, side: str, stray: list[Any], options: dict[str, Any], difference: str
) -> None:
    """A run among those of one side, whichever, that differs from its first is named, and refused."""
    sides = {"A": write_side(tmp_path, "a", 1.0), "B": write_side(tmp_path, "b", 1.0)}
    first = sides[side][0].name
    plan = config(stray, options=options)
    sides[side][1] = write_run(tmp_path / "stray", [record(i) for i in IDS], config=plan)
    with pytest.raises(IncomparableRuns) as refused:
        compare_runs(sides["A"], sides["B"], ComparisonOptions())
    lines = [say_difference(found) for found in refused.value.differences]
    assert len(lines) == 1 and f"{first} and stray, both in {side}: " in lines[0]
    # The values are of two runs of one side, not of A and B.
    assert difference in lines[0] and " in A, " not in lines[0]


def test_calls_of_another_stretch_are_not_side_by_side(tmp_path: Path) -> None:
    """What was asked again on another day is no pair in time with what was not."""
    plan = config([prompt(i) for i in IDS], (MODEL, "other"), options={"interleave": True})
    lines = [record(i, timings_us=None, e2e_ms=1000) for i in IDS]
    lines += [
        record(i, timings_us=None, e2e_ms=1500, model="other", stretch=int(n >= 8))
        for n, i in enumerate(IDS)
    ]
    run = write_run(tmp_path / "run", [*lines], config=plan)
    (pair,) = compare_runs(run, run, ComparisonOptions(models=(MODEL, "other"))).pairs
    assert pair.latency_ms is not None
    assert (pair.latency_ms.n_prompts, pair.latency_ms.verdict, pair.latency_ms.ratio) == (
        8,
        "changed",
        1.5,
    )


def test_intervals_are_corrected_with_their_p_values(tmp_path: Path) -> None:
    """With two pairs shown, an interval leaves out 0 just where its corrected p is below 5%."""
    models = (MODEL, "other")
    plan = config([prompt(i) for i in IDS], models)
    a = [record(i, model=m) for i in IDS for m in models]
    b = [
        record(i, n >= (6 if m == MODEL else 0), model=m) for n, i in enumerate(IDS) for m in models
    ]
    found = compare_runs(
        write_run(tmp_path / "a", a, config=plan),
        write_run(tmp_path / "b", b, config=plan),
        ComparisonOptions(),
    )
    lost = found.pairs[0].rates["objective_pass_rate"]
    assert lost.p < 0.05 < lost.p_holm and lost.verdict == "cannot_tell"
    assert lost.ci95 is not None and lost.ci_holm is not None
    assert lost.ci95[1] < 0 <= lost.ci_holm[1] and lost.ci_holm[0] < lost.ci95[0]
    assert "corrected for 2 pairs (Holm)" in as_text(describe_comparison(found), 200)


def test_a_pair_without_such_prompts_takes_no_share_of_the_correction(tmp_path: Path) -> None:
    """Two models are shown and only one was asked tasks: its p-value stands as it is."""
    models = (MODEL, "other")
    task = {"validator": {"type": "world_state"}}
    plan = config([*(prompt(i, **task) for i in IDS[:8]), *(prompt(i) for i in IDS[8:])], models)

    def lines(*, passed: bool) -> list[dict[str, object] | str]:
        return [record(i, passed) for i in IDS[:8]] + [
            record(i, model=m) for i in IDS[8:] for m in models
        ]

    runs = [write_run(tmp_path / name, lines(passed=name == "a"), config=plan) for name in "ab"]
    first, second = compare_runs(*runs, ComparisonOptions()).pairs
    assert (
        first.rates["tasks"].p == first.rates["tasks"].p_holm < 0.05 and "tasks" not in second.rates
    )


def write_two_runs(tmp_path: Path, name: str, *runs: Sequence[dict[str, Any]]) -> list[Path]:
    """Runs of one plan: six prompts of text and four that want a tool call."""
    plan = config(
        [
            *(prompt(f"P{n}") for n in range(6)),
            *(prompt(f"T{n}", expected_tools=["get"]) for n in range(4)),
        ]
    )
    return [
        write_run(tmp_path / f"{name}{number}", lines, config=plan)
        for number, lines in enumerate(runs)
    ]


def tool_calls(*, right: bool) -> list[dict[str, Any]]:
    return [
        record(f"T{n}", right, tool_use_success=right, expected_tools=["get"]) for n in range(4)
    ]


@pytest.fixture
def uneven_pair(tmp_path: Path) -> PairComparison:
    """A's two runs differ in every count: the first has a cold call, a check that broke and a prompt that was never
    asked, the second none of these; P3 failed in both, each time otherwise. B passed everything twice."""
    first = [
        record("P0"),
        record("P1", False, violation="first violation"),
        record("P2", cold_start=True),
        unanswered("P3", "timeout"),
        record("P5", None, not_judged="judging_failed"),
        *tool_calls(right=True),
    ]
    second = [
        record("P0"),
        record("P1"),
        record("P2"),
        unanswered("P3", "http_500"),
        record("P4", False, violation="second violation"),
        record("P5"),
        *tool_calls(right=False),
    ]
    whole = [record(f"P{n}") for n in range(6)] + tool_calls(right=True)
    a = write_two_runs(tmp_path, "a", first, second)
    return only_pair(a, write_two_runs(tmp_path, "b", whole, whole))


@pytest.mark.parametrize(
    ("name", "n_trials_a", "n_trials_b", "n_prompts"),
    [
        # P3 has no verdict in A, P4 one, and that of P5 broke once.
        ("objective_pass_rate", 2 + 2 + 2 + 1 + 1 + 8, 18, 9),
        # What was planned in both runs, asked or not, but for the check that broke.
        ("pass_rate_scheduled", 2 + 2 + 2 + 2 + 2 + 1 + 8, 20, 10),
        ("tool_use_rate", 8, 8, 4),
    ],
)
def test_what_a_rate_counts_is_counted_in_every_run(
    uneven_pair: PairComparison, name: str, n_trials_a: int, n_trials_b: int, n_prompts: int
) -> None:
    rate = uneven_pair.rates[name]
    assert (rate.n_trials_a, rate.n_trials_b, rate.n_prompts) == (n_trials_a, n_trials_b, n_prompts)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("n_ok", 8 + 9, 20),
        ("n_error", 2, 0),
        ("n_timeouts", 1, 0),
        ("objective_pass_rate", 10 / 16, 1.0),
        ("pass_rate_scheduled", 10 / 19, 1.0),
        ("tool_use_rate", 4 / 8, 1.0),
        ("output_tokens", 170, 200),
    ],
)
def test_a_figure_is_of_the_cells_of_every_run(
    uneven_pair: PairComparison, name: str, a: float, b: float
) -> None:
    """The plan of two runs has twice the cells of one."""
    figures = {figure.name: figure for figure in uneven_pair.figures}
    assert (figures[name].a, figures[name].b) == (pytest.approx(a), b)


def test_the_prompts_behind_a_change_are_told_of_all_runs(uneven_pair: PairComparison) -> None:
    """Passes and trials add up; why something failed is told of the first run in which it did."""
    flips = {
        flip.prompt_id: (flip.passes_a, flip.trials_a, flip.passes_b, flip.trials_b, flip.violation)
        for flip in uneven_pair.flips
    }
    assert flips["P1"] == (1, 2, 2, 2, "first violation")
    assert flips["P4"] == (0, 1, 2, 2, "second violation")
    silent = [
        (lack.prompt_id, lack.missing_in, lack.failure_type) for lack in uneven_pair.unanswered
    ]
    assert silent == [("P3", "a", "timeout")]
    assert uneven_pair.latency_ms is not None and uneven_pair.latency_ms.n_cold_left_out == 1


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "gained"])
def test_answers_are_shown_from_the_first_run_of_a_side(tmp_path: Path, *, lost: bool) -> None:
    """Where the first run has none with that verdict, none is shown, and never another prompt's line of it."""

    def write_side(name: str, *, passed: bool) -> list[Path]:
        """Three runs, their lines of different lengths; P1 is unanswered in the first."""
        runs = []
        for number in range(3):
            lines = [record("P0", raw_output="x" * 97 * number)]
            lines.append(record("P2", passed, raw_output=f"{name}{number} of P2"))
            lines.append(record("P1", passed, raw_output=f"{name}{number} of P1"))
            if number == 0:
                lines[-1] = unanswered("P1")
            runs.append(lines)
        return write_two_runs(tmp_path, name, *runs)

    a = write_side("a", passed=lost)
    b = write_side("b", passed=not lost)
    (pair,) = compare_runs(a, b, ComparisonOptions(answers=True)).pairs
    answers = {flip.prompt_id: (flip.answer_a, flip.answer_b) for flip in pair.flips}
    assert answers == {"P1": (None, None), "P2": ("a0 of P2", "b0 of P2")}
