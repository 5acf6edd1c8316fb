"""The figures of a comparison: paired by prompt, tested as they should be, over the prompts both sides have."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import Comparison, PairComparison
from support.written_runs import LABEL, MODEL, config, prompt, record, unanswered, write_run

IDS = [f"P{n}" for n in range(12)]
PLAN = config([prompt(i) for i in IDS])


def compare_passes(tmp_path: Path, a: str, b: str, **wishes: object) -> PairComparison:
    """Two runs of twelve prompts; `+` passes, `-` fails, `.` is not answered."""

    def lines(outcome: str) -> list[dict[str, object] | str]:
        made = zip(IDS, outcome, strict=False)
        return [unanswered(i) if sign == "." else record(i, sign == "+") for i, sign in made]

    return only_pair(
        compare_runs(
            write_run(tmp_path / "a", lines(a), config=PLAN),
            write_run(tmp_path / "b", lines(b), config=PLAN),
            ComparisonOptions(**wishes),  # type: ignore[arg-type]
        )
    )


def only_pair(comparison: Comparison) -> PairComparison:
    (pair,) = comparison.pairs
    return pair


def figure(pair: PairComparison, name: str) -> tuple[float | None, float | None]:
    return next((f.a, f.b) for f in pair.figures if f.name == name)


def test_one_trial_a_prompt_is_mcnemar(tmp_path: Path) -> None:
    """Six prompts lost and none gained is p = 2 · ½⁶, and the change is a half."""
    rate = compare_passes(tmp_path, "++++++++++++", "++++++------").rates["objective_pass_rate"]
    assert (rate.test, rate.only_a, rate.only_b, rate.n_prompts) == ("mcnemar_exact", 6, 0, 12)
    assert rate.p == rate.p_holm == pytest.approx(2 * 0.5**6)
    assert rate.difference == pytest.approx(-0.5) and rate.ci95 is not None and rate.ci95[1] < 0


def test_the_same_verdicts_are_no_evidence(tmp_path: Path) -> None:
    """Without a change p is 1, no interval of width 0 claims certainty, and it is said what would have been seen: a
    dozen prompts see too little to say that nothing changed."""
    rate = compare_passes(tmp_path, "+++---------", "+++---------").rates["objective_pass_rate"]
    assert (rate.p, rate.difference, rate.verdict) == (1.0, 0.0, "cannot_tell")
    assert rate.ci95 is not None and rate.ci95[0] < -0.1 and rate.ci95[1] > 0.1
    assert rate.smallest_change is not None and 0.4 < rate.smallest_change < 0.7


def test_repeats_are_flipped_by_prompt_not_counted_as_prompts(tmp_path: Path) -> None:
    """Four repeats of each of three prompts are three differences: p cannot fall below 2 · ½³."""
    plan = config([prompt(i) for i in IDS[:3]], options={"repeats": 4})

    def lines(passed: bool) -> list[dict[str, object] | str]:
        return [record(i, passed, repeat=n) for i in IDS[:3] for n in range(4)]

    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", lines(True), config=plan),
            write_run(tmp_path / "b", lines(False), config=plan),
            ComparisonOptions(),
        )
    )
    rate = pair.rates["objective_pass_rate"]
    assert (rate.test, rate.n_prompts, rate.n_trials_a) == ("sign_flip", 3, 12)
    assert rate.p == pytest.approx(0.25)


def test_different_repeat_counts_compare(tmp_path: Path) -> None:
    """One trial beside four is fine: each prompt's rate is its own mean."""
    plan = config([prompt("P0"), prompt("P1")])
    more = config([prompt("P0"), prompt("P1")], options={"repeats": 4})
    b = [record("P0", n > 0, repeat=n) for n in range(4)] + [
        record("P1", repeat=n) for n in range(4)
    ]
    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", [record("P0"), record("P1")], config=plan),
            write_run(tmp_path / "b", b, config=more),
            ComparisonOptions(),
        )
    )
    assert pair.rates["objective_pass_rate"].rate_b == pytest.approx(0.875)
    assert pair.flips == []


def test_prompts_without_an_answer_are_no_pairs_but_are_said(tmp_path: Path) -> None:
    """A model that is down on some prompts is compared on the others, and its scheduled rate shows the rest."""
    pair = compare_passes(tmp_path, "++++++++++++", "++++++++++..")
    assert pair.rates["objective_pass_rate"].n_prompts == 10
    assert pair.rates["objective_pass_rate"].difference == 0
    assert pair.rates["pass_rate_scheduled"].difference == pytest.approx(-2 / 12)
    assert [(u.prompt_id, u.missing_in, u.failure_type) for u in pair.unanswered] == [
        ("P10", "b", "timeout"),
        ("P11", "b", "timeout"),
    ]


def test_figures_cover_the_shared_prompts_alone(tmp_path: Path) -> None:
    """A rate over twelve prompts is never set beside a rate over six of them."""
    half = config([prompt(i) for i in IDS[:6]])
    a = write_run(tmp_path / "a", [record(i, i in IDS[:6]) for i in IDS], config=PLAN)
    b = write_run(tmp_path / "b", [record(i) for i in IDS[:6]], config=half)
    pair = only_pair(compare_runs(a, b, ComparisonOptions()))
    assert figure(pair, "objective_pass_rate") == (1.0, 1.0) and figure(pair, "n_ok") == (6, 6)
    assert len(pair.only_in_a) == 6 and pair.only_in_a[0] == "core/P6" and pair.only_in_b == []


def test_flips_in_both_directions_with_their_answers(tmp_path: Path) -> None:
    """Lost prompts come first; each side shows an answer that has its verdict."""
    pair = compare_passes(tmp_path, "+-++", "-+++", answers=True)
    assert [(f.prompt_id, f.direction, f.answer_a, f.answer_b) for f in pair.flips] == [
        ("P0", "lost", "yes", "no"),
        ("P1", "gained", "no", "yes"),
    ]
    assert pair.flips[0].violation == "not_exact: got no"


def test_half_of_the_repeats_is_not_most_of_them(tmp_path: Path) -> None:
    """Passed twice of two before and once of two now: that prompt is lost; once of two on both sides is no change."""
    plan = config([prompt("P0"), prompt("P1")], options={"repeats": 2})

    def lines(*verdicts: bool) -> list[dict[str, object] | str]:
        cells = [("P0", 0), ("P0", 1), ("P1", 0), ("P1", 1)]
        return [record(i, passed, repeat=n) for (i, n), passed in zip(cells, verdicts, strict=True)]

    a = write_run(tmp_path / "a", lines(True, True, True, False), config=plan)
    b = write_run(tmp_path / "b", lines(True, False, False, True), config=plan)
    (flip,) = only_pair(compare_runs(a, b, ComparisonOptions())).flips
    assert (flip.prompt_id, flip.direction, flip.passes_a, flip.passes_b) == ("P0", "lost", 2, 1)


def test_a_side_without_an_answer_says_what_became_of_it(tmp_path: Path) -> None:
    """Its first failure, the status where nothing more is known, or that it was never asked."""
    lines = [unanswered("P0", "http_500"), unanswered("P0", "timeout", repeat=1)]
    lines += [unanswered("P1", None, availability_status="rate_limited"), record("P2")]  # type: ignore[arg-type]
    plan = config([prompt(i) for i in IDS[:4]])
    silent = write_run(tmp_path / "a", [*lines], config=plan)
    whole = write_run(tmp_path / "b", [record(i) for i in IDS[:4]], config=plan)
    found = only_pair(compare_runs(silent, whole, ComparisonOptions())).unanswered
    assert [(u.suite, u.prompt_id, u.missing_in, u.failure_type) for u in found] == [
        ("core", "P0", "a", "http_500"),
        ("core", "P1", "a", "rate_limited"),
        ("core", "P3", "a", "not asked"),
    ]


def test_a_flip_shows_why_the_failing_side_failed(tmp_path: Path) -> None:
    """The violation is B's where a prompt was lost and A's where it was gained, and an answer is cut to be readable."""
    fails = [record(i, False, violation=f"why {i}", raw_output="n" * 4_001) for i in IDS[:2]]
    passes = [record(i, raw_output="y" * 4_000) for i in IDS[:2]]
    plan = config([prompt(i) for i in IDS[:2]])
    a = write_run(tmp_path / "a", [fails[0], passes[1]], config=plan)
    b = write_run(tmp_path / "b", [passes[0], fails[1]], config=plan)
    lost, gained = only_pair(compare_runs(a, b, ComparisonOptions(answers=True))).flips
    assert (lost.prompt_id, lost.violation, gained.prompt_id, gained.violation) == (
        "P1",
        "why P1",
        "P0",
        "why P0",
    )
    assert lost.answer_a == "y" * 4_000
    assert lost.answer_b == "n" * 4_000 + "\n… 1 more character"
    assert (lost.prompt_name, lost.trials_a, lost.trials_b, lost.passes_b) == ("name_P1", 1, 1, 0)


def test_fifty_flips_show_their_answers_and_all_are_listed(tmp_path: Path) -> None:
    """Whoever changed everything gets a list, not a book."""
    ids = [f"P{n}" for n in range(52)]
    plan = config([prompt(i) for i in ids])
    a, b = (
        write_run(tmp_path / n, [record(i, n == "a") for i in ids], config=plan) for n in ("a", "b")
    )
    flips = only_pair(compare_runs(a, b, ComparisonOptions(answers=True))).flips
    assert [f.answer_b for f in flips] == ["no"] * 50 + [None] * 2


def test_an_answer_without_a_verdict_is_an_answer(tmp_path: Path) -> None:
    """A call that nothing judges, or the cold one alone, has answered; a prompt nobody answered is on neither side."""
    plan = config([prompt(i) for i in IDS[:4]])
    a = [record("P0", None), record("P1", None, cold_start=True), record("P2"), unanswered("P3")]
    b = [unanswered(i) for i in IDS[:4]]
    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", a, config=plan),
            write_run(tmp_path / "b", b, config=plan),
            ComparisonOptions(),
        )
    )
    assert [u.prompt_id for u in pair.unanswered] == ["P0", "P1", "P2"]
    same = compare_runs(
        tmp_path / "a", write_run(tmp_path / "c", a, config=plan), ComparisonOptions()
    )
    assert only_pair(same).unanswered == []


def test_times_and_tokens_move_in_units_and_in_per_cent(tmp_path: Path) -> None:
    """Medians of both sides, of what each prompt moved and of its ratio; of repeats the median one counts."""
    ids = IDS[:7]
    plan = config([prompt(i) for i in ids], options={"repeats": 3})
    base = [100, 200, 300, 400, 500, 600, 700]

    def lines(factor: int, tokens: int) -> list[dict[str, object] | str]:
        return [
            record(
                i,
                e2e_ms=t * factor + drift,
                ttft_ms=t * factor // 10,
                output_tokens=tokens,
                repeat=n,
            )
            for i, t in zip(ids, base, strict=True)
            for n, drift in enumerate((-50, 9_000, 0))
        ]

    a = write_run(tmp_path / "a", lines(2, 10), config=plan)
    b = write_run(tmp_path / "b", lines(1, 0), config=plan)
    pair = only_pair(compare_runs(a, b, ComparisonOptions()))
    assert pair.latency_ms is not None and pair.ttft_ms is not None
    shift = pair.latency_ms
    assert (shift.n_prompts, shift.median_a, shift.median_b, shift.difference) == (
        7,
        800,
        400,
        -400,
    )
    assert (shift.ratio, shift.n_lower, shift.n_higher) == (0.5, 7, 0)
    assert (pair.ttft_ms.median_a, pair.ttft_ms.median_b, pair.ttft_ms.ratio) == (80, 40, 0.5)
    tokens = pair.output_tokens
    assert (tokens.median_a, tokens.median_b, tokens.difference, tokens.ratio) == (10, 0, -10, 0.0)
    back = only_pair(compare_runs(b, a, ComparisonOptions())).output_tokens
    assert (back.difference, back.ratio, back.ratio_ci95, back.ci95) == (10, None, None, (10, 10))
    assert (back.p, back.verdict, back.test) == (pytest.approx(2 * 0.5**7), "changed", "sign")


@pytest.mark.parametrize(
    ("n_shorter", "verdict"), [(4, "no_change_seen"), (7, "cannot_tell"), (11, "changed")]
)
def test_tokens_have_changed_where_their_middle_prompt_has(
    tmp_path: Path, n_shorter: int, verdict: str
) -> None:
    """Answers of the same length speak for no change: interval, p and verdict are of one mind, and none is certain."""
    a = write_run(tmp_path / "a", [record(i, output_tokens=50) for i in IDS], config=PLAN)
    shorter = [record(i, output_tokens=40 if n < n_shorter else 50) for n, i in enumerate(IDS)]
    tokens = only_pair(
        compare_runs(a, write_run(tmp_path / "b", shorter, config=PLAN), ComparisonOptions())
    ).output_tokens
    assert (
        tokens.ci95 is not None and tokens.ci95[0] <= (tokens.difference or 0.0) <= tokens.ci95[1]
    )
    moved = verdict == "changed"
    assert (tokens.verdict, tokens.ci95[1] < 0, tokens.p < 0.05) == (verdict, moved, moved)
    assert tokens.smallest_change != 0


def test_latency_moves_by_the_median_of_paired_differences(tmp_path: Path) -> None:
    """Slow prompts do not drown fast ones: each prompt is its own measure, and one outlier moves nothing."""
    times = [100, 200, 400, 800, 1600, 3200, 6400, 12800]
    a = [record(i, e2e_ms=t, ttft_ms=None) for i, t in zip(IDS, times, strict=False)]
    b = [record(i, e2e_ms=t + 30, ttft_ms=None) for i, t in zip(IDS, times, strict=False)]
    b[0]["e2e_ms"] = 60_000
    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", a, config=PLAN),
            write_run(tmp_path / "b", b, config=PLAN),
            ComparisonOptions(),
        )
    )
    shift = pair.latency_ms
    assert shift is not None and pair.ttft_ms is not None
    assert (shift.n_prompts, shift.difference, shift.n_higher, shift.n_lower) == (8, 30, 8, 0)
    assert pair.ttft_ms.n_prompts == 0 and pair.ttft_ms.difference is None


def test_five_prompts_give_no_interval(tmp_path: Path) -> None:
    """Where too few prompts can say nothing at 95%, no interval is made up."""
    a = [record(i, e2e_ms=100) for i in IDS[:5]]
    b = [record(i, e2e_ms=200) for i in IDS[:5]]
    plan = config([prompt(i) for i in IDS[:5]])
    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", a, config=plan),
            write_run(tmp_path / "b", b, config=plan),
            ComparisonOptions(),
        )
    )
    assert pair.latency_ms is not None
    assert (
        pair.latency_ms.difference == 100
        and pair.latency_ms.ci95 is None
        and pair.latency_ms.p > 0.05
    )
    assert pair.output_tokens.ci95 is None and pair.output_tokens.verdict == "cannot_tell"


def test_cold_calls_are_left_out_of_the_paired_times(tmp_path: Path) -> None:
    """Loading a model is not answering: a cold call is counted and left out."""
    a = [record(i, e2e_ms=9000 if n == 0 else 100, cold_start=n == 0) for n, i in enumerate(IDS)]
    b = [record(i, e2e_ms=100) for i in IDS]
    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", a, config=PLAN),
            write_run(tmp_path / "b", b, config=PLAN),
            ComparisonOptions(),
        )
    )
    assert pair.latency_ms is not None
    assert (
        pair.latency_ms.n_prompts,
        pair.latency_ms.n_cold_left_out,
        pair.latency_ms.difference,
    ) == (11, 1, 0)


def test_holm_over_all_pairs_shown(tmp_path: Path) -> None:
    """Two models in both runs: the smaller p-value is doubled."""
    models = (MODEL, "other")
    plan = config([prompt(i) for i in IDS], models)
    a = [record(i, model=m) for i in IDS for m in models]
    b = [
        record(i, n >= (8 if m == MODEL else 6), model=m) for n, i in enumerate(IDS) for m in models
    ]
    found = compare_runs(
        write_run(tmp_path / "a", a, config=plan),
        write_run(tmp_path / "b", b, config=plan),
        ComparisonOptions(),
    )
    first, second = (pair.rates["objective_pass_rate"] for pair in found.pairs)
    assert first.p_holm == pytest.approx(2 * first.p) and second.p_holm == pytest.approx(second.p)
    assert found.pairs[0].target_a == LABEL


def test_tool_use_is_paired_on_prompts_that_expect_a_tool(tmp_path: Path) -> None:
    """The tier's evidence has its own paired test: expected tools called, of the answered tool prompts."""

    def lines(called: int) -> list[dict[str, object] | str]:
        tools = [record(i, suite="core", expected_tools=["free"]) for i in IDS[:8]]
        return [
            *({**r, "tool_use_success": n < called} for n, r in enumerate(tools)),
            *(record(i) for i in IDS[8:]),
        ]

    pair = only_pair(
        compare_runs(
            write_run(tmp_path / "a", lines(8), config=PLAN),
            write_run(tmp_path / "b", lines(1), config=PLAN),
            ComparisonOptions(),
        )
    )
    rate = pair.rates["tool_use_rate"]
    assert (rate.n_prompts, rate.only_a, rate.rate_b) == (8, 7, pytest.approx(1 / 8))
    assert figure(pair, "tier") == (1, 3)


def test_tool_use_from_text_is_not_paired_with_native_calls(tmp_path: Path) -> None:
    """A command named in an answer and a call through the protocol are two measures: no test sets them side by side."""

    def lines(*, native: bool) -> list[dict[str, object] | str]:
        tool = {"expected_tools": ["free"], "tool_use_success": True, "tools_offered": native}
        return [record(i, **tool) for i in IDS]

    text, native = (
        write_run(tmp_path / str(n), lines(native=n), config=PLAN) for n in (False, True)
    )
    assert "tool_use_rate" not in only_pair(compare_runs(text, native, ComparisonOptions())).rates
    assert "tool_use_rate" not in only_pair(compare_runs(native, text, ComparisonOptions())).rates
    assert (
        only_pair(compare_runs(native, native, ComparisonOptions()))
        .rates["tool_use_rate"]
        .n_prompts
        == 12
    )


def test_what_only_one_side_was_asked_does_not_hide_what_both_were(tmp_path: Path) -> None:
    """B was asked for native calls besides: of the text prompts that both have, tool use is compared all the same."""
    tool = {
        "expected_tools": ["free"],
        "tools": [{"type": "function", "function": {"name": "free"}}],
    }
    text = [prompt(i, expected_tools=["free"]) for i in IDS]
    lines = [record(i, expected_tools=["free"], tool_use_success=True) for i in IDS]
    more = record(
        "N0", suite="core", expected_tools=["free"], tool_use_success=True, tools_offered=True
    )
    a = write_run(tmp_path / "a", lines, config=config(text))
    b = write_run(tmp_path / "b", [*lines, more], config=config([*text, prompt("N0", **tool)]))
    assert only_pair(compare_runs(a, b, ComparisonOptions())).rates["tool_use_rate"].n_prompts == 12


def test_a_prompt_expects_a_tool_if_either_side_says_so(tmp_path: Path) -> None:
    """One record that says so is enough, whichever side it is on."""
    tool = {"expected_tools": ["free"], "tool_use_success": True}
    a = [record(i, **tool) for i in IDS]
    b = [record(IDS[0], **tool | {"expected_tools": []}), *(record(i, **tool) for i in IDS[1:])]
    runs = [write_run(tmp_path / name, lines, config=PLAN) for name, lines in (("a", a), ("b", b))]
    assert (
        only_pair(compare_runs(*runs, ComparisonOptions())).rates["tool_use_rate"].n_prompts == 12
    )


@pytest.mark.parametrize(("a", "b"), [("+-", "--"), ("+++++", "-----")])
def test_few_prompts_cannot_tell_and_say_so(tmp_path: Path, a: str, b: str) -> None:
    """Five prompts that all changed may be luck: the interval is wide, no verdict is given, and it is said why."""
    plan = config([prompt(i) for i in IDS[: len(a)]])
    runs = [
        write_run(
            tmp_path / name,
            [record(i, s == "+") for i, s in zip(IDS, signs, strict=False)],
            config=plan,
        )
        for name, signs in (("a", a), ("b", b))
    ]
    rate = only_pair(compare_runs(*runs, ComparisonOptions())).rates["objective_pass_rate"]
    assert (rate.verdict, rate.smallest_change) == ("cannot_tell", None)
    assert rate.reason == f"{len(a)} independent prompts are too few to tell any change from luck"
    assert rate.ci95 is not None and rate.ci95[0] <= rate.difference <= 0 <= rate.ci95[1]


def test_a_difference_of_rates_stays_within_its_bounds(tmp_path: Path) -> None:
    """No rate can fall by more than a hundred points, whatever the formula gives."""
    plan = config([prompt(i) for i in IDS[:6]])
    a = write_run(tmp_path / "a", [record(i) for i in IDS[:6]], config=plan)
    b = write_run(tmp_path / "b", [record(i, False) for i in IDS[:6]], config=plan)
    interval = only_pair(compare_runs(a, b, ComparisonOptions())).rates["objective_pass_rate"].ci95
    assert interval is not None and interval[0] == -1.0 and -1 < interval[1] < 0
