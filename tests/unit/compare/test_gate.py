"""The gate: what a rule may say, and when it is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import METRICS, Comparison, RuleFinding
from clawgauge.compare.gate import parse_rule, say_untested
from clawgauge.errors import ConfigError
from clawgauge.reports.compare import describe_comparison, render_comparison_junit
from clawgauge.reports.terminal import as_text
from clawgauge.stats.paired import above_zero_p
from support.command import clean_environment
from support.written_runs import (
    LABEL,
    MODEL,
    PROVIDER,
    T0,
    config,
    prompt,
    record,
    unanswered,
    write_run,
)

IDS = [f"P{n}" for n in range(20)]
PLAN = config([prompt(i) for i in IDS])


def judge(
    tmp_path: Path, rule: str, passes: tuple[int, int], *, silent: bool = False
) -> tuple[str, bool, str]:
    """The outcome of one rule where A passed the first and B the second number of twenty prompts."""

    def lines(k: int) -> list[dict[str, object] | str]:
        return [record(i, n < k, e2e_ms=100 + n) for n, i in enumerate(IDS)]

    a = write_run(tmp_path / "a", lines(passes[0]), config=PLAN)
    b = write_run(
        tmp_path / "b", [unanswered(i) for i in IDS] if silent else lines(passes[1]), config=PLAN
    )
    found: Comparison = compare_runs(a, b, ComparisonOptions(rules=[parse_rule(rule)]))
    (finding,) = found.rules
    return finding.outcome, found.gate_failed, finding.reason


@pytest.mark.parametrize(
    ("rule", "passes", "outcome"),
    [
        ("objective_pass_rate<-0.05", (20, 18), "broken"),
        ("objective_pass_rate<-0.05", (20, 20), "held"),
        ("objective_pass_rate < -0.05", (10, 20), "held"),
        ("objective_pass_rate<-5%", (10, 9), "broken"),
        ("objective_pass_rate<-11%", (10, 9), "held"),
        ("objective_pass_rate>0", (10, 11), "broken"),
        ("objective_pass_rate>=0", (10, 10), "broken"),
        ("pass_rate_scheduled<=-.1", (20, 18), "broken"),
        ("objective_pass_rate<-0.05%", (0, 0), "held"),
        ("objective_pass_rate>900%", (0, 1), "broken"),
    ],
)
def test_a_rule_names_what_must_not_be(
    tmp_path: Path, rule: str, passes: tuple[int, int], outcome: str
) -> None:
    """The change is B − A; with % it is in per cent of A."""
    assert judge(tmp_path, rule, passes)[0] == outcome


@pytest.mark.parametrize(("before", "after"), [(18, 17), (20, 19), (19, 18)])
def test_a_change_on_the_limit_does_not_cross_it(tmp_path: Path, before: int, after: int) -> None:
    """One of twenty is exactly 0.05, whatever floats make of it."""
    assert judge(tmp_path, "objective_pass_rate<-0.05", (before, after))[0] == "held"
    assert judge(tmp_path, "objective_pass_rate<=-0.05", (before, after))[0] == "broken"


def test_evidence_can_be_demanded(tmp_path: Path) -> None:
    """Two of twenty lost may be luck and is said to be; ten of twenty is not."""
    outcome, failed, reason = judge(tmp_path, "objective_pass_rate<-0.05 (significant)", (20, 18))
    assert (outcome, failed) == (
        "not_significant",
        False,
    ) and "not enough evidence: p = 0.24 over 20 prompts" in reason
    outcome, failed, reason = judge(tmp_path, "objective_pass_rate<-0.05 (significant)", (20, 10))
    assert (outcome, failed) == ("broken", True) and "more than luck" in reason


def test_a_model_that_is_down_does_not_pass(tmp_path: Path) -> None:
    """A rule without a figure to judge is not met."""
    outcome, failed, reason = judge(tmp_path, "objective_pass_rate<-0.05", (20, 0), silent=True)
    assert (outcome, failed) == ("not_judged", True) and "B has no objective_pass_rate" in reason
    assert judge(tmp_path, "n_error>0", (20, 0), silent=True)[0] == "broken"


@pytest.mark.parametrize(
    ("rule", "change"),
    [("objective_pass_rate<-0.05", {}), ("tool_use_rate<-0.05", {"expected_tools": ["free"]})],
)
def test_a_rate_is_judged_on_the_prompts_both_sides_answered(
    tmp_path: Path, rule: str, change: dict[str, list[str]]
) -> None:
    """B left the prompts that A failed unanswered and failed two that A passed: that is a fall, not a rise."""
    passes_a, passes_b = [n < 10 for n in range(20)], [n < 8 for n in range(10)]

    def lines(passes: list[bool]) -> list[dict[str, object] | str]:
        silent = [unanswered(i, **change) for i in IDS[len(passes) :]]
        made = zip(IDS, passes, strict=False)
        return [
            *(record(i, p, tool_use_success=p and bool(change), **change) for i, p in made),
            *silent,
        ]

    a = write_run(tmp_path / "a", lines(passes_a), config=PLAN)
    b = write_run(tmp_path / "b", lines(passes_b), config=PLAN)
    (finding,) = compare_runs(a, b, ComparisonOptions(rules=[parse_rule(rule)])).rules
    assert (finding.outcome, finding.a, finding.b) == ("broken", 1.0, 0.8)


def test_a_target_that_b_lost_does_not_pass(tmp_path: Path) -> None:
    """No rule is met by a model that is not there, unless the user says which targets are meant."""
    prompts = [prompt(i) for i in IDS]
    records = [record(i) for i in IDS]
    both = config(prompts, [MODEL, "gone"])
    a = write_run(
        tmp_path / "a", [*records, *({**r, "model": "gone"} for r in records)], config=both
    )
    b = write_run(tmp_path / "b", records, config=PLAN)
    rules = [parse_rule("n_error>0"), parse_rule("objective_pass_rate<-0.05")]
    found = compare_runs(a, b, ComparisonOptions(rules=rules))
    lost = [(f.target_a, f.outcome) for f in found.rules if f.target_a != LABEL]
    assert lost == [(f"{PROVIDER}:gone", "not_judged")] * 2 and found.gate_failed
    assert "B has no such target" in found.rules[-1].reason
    assert not compare_runs(
        a, b, ComparisonOptions(rules=rules, maps=[f"{MODEL}={MODEL}"])
    ).gate_failed
    assert not compare_runs(b, a, ComparisonOptions(rules=rules)).gate_failed
    cases = ElementTree.fromstring(render_comparison_junit(found)).iter("testcase")
    assert sum(case.find("error") is not None for case in cases) == 2
    shown = " ".join(as_text(describe_comparison(found), 200).split())
    assert f"{PROVIDER}:gone n_error>0: B has no such target" in shown


TURNS = {"interleave": True}


def in_turns(tmp_path: Path, rule: str, before: list[int], after: list[int]) -> RuleFinding:
    """What one rule makes of two models that one run asked in turns, with these times on as many prompts."""
    ids, models = IDS[: len(before)], (MODEL, "other")
    lines = [
        record(i, e2e_ms=ms, timings_us=None, model=model)
        for model, side in zip(models, (before, after), strict=True)
        for i, ms in zip(ids, side, strict=True)
    ]
    run = write_run(
        tmp_path / "run", lines, config=config([prompt(i) for i in ids], models, options=TURNS)
    )
    (finding,) = compare_runs(
        run, run, ComparisonOptions(models=models, rules=[parse_rule(rule)])
    ).rules
    return finding


def slower(tmp_path: Path, rule: str, moved: list[int]) -> tuple[str, str]:
    """The outcome of one rule where the other model took so many milliseconds longer on each of as many prompts."""
    finding = in_turns(tmp_path, rule, [1000] * len(moved), [1000 + more for more in moved])
    assert (finding.a, finding.target_a, finding.rule) == (1000, LABEL, rule)
    return finding.outcome, finding.reason


def test_a_rule_on_times_asks_how_surely_its_limit_is_passed(tmp_path: Path) -> None:
    """Eight prompts that are all slower by more than a tenth are evidence; nine against three are not."""
    rule = "p50_ms>10% (significant)"
    assert slower(tmp_path / "a", rule, [200] * 8) == (
        "broken",
        "beyond the limit, and more than luck: p = 0.004 over 8 prompts",
    )
    assert slower(tmp_path / "b", rule, [200] * 9 + [-200] * 3)[0] == "not_significant"
    assert slower(tmp_path / "c", rule, [110] * 6 + [90] * 6)[0] == "held"
    assert slower(tmp_path / "d", rule, [100] * 8) == ("held", "within the limit")
    assert slower(tmp_path / "e", "p50_ms>=10%", [100] * 8) == ("broken", "beyond the limit")


def test_evidence_that_points_the_other_way_breaks_no_rule(tmp_path: Path) -> None:
    """Nearly every prompt got a little faster and the middle one slower: the median rose, but not by evidence."""
    before, after = [100] * 5 + [300] + [900] * 5, [90] * 5 + [800] + [890] * 5
    finding = in_turns(tmp_path, "p50_ms>10% (significant)", before, after)
    assert (finding.a, finding.b, finding.outcome) == (300, 800, "not_significant")


def test_times_of_runs_that_were_not_asked_in_turns_are_no_evidence(tmp_path: Path) -> None:
    """One run a side cannot tell a model from its machine's mood: refused, whatever the times, and by force too."""
    a, b = (write_run(tmp_path / name, [record(i) for i in IDS], config=PLAN) for name in "ab")
    for force in (False, True):
        with pytest.raises(
            ConfigError, match=r"p50_ms>20% \(significant\)' cannot be judged.*--interleave"
        ):
            compare_runs(
                a, b, ComparisonOptions(rules=[parse_rule("p50_ms>20% (significant)")], force=force)
            )
    assert not compare_runs(a, b, ComparisonOptions(rules=[parse_rule("p50_ms>20%")])).gate_failed


def test_a_rule_that_too_few_prompts_could_ever_break_is_refused(tmp_path: Path) -> None:
    """Were all four prompts lost it could be luck; variants of one prompt count as one."""
    prompts = [prompt(i, variant_of=f"P{n % 4}") for n, i in enumerate(IDS)]
    a, b = (
        write_run(tmp_path / name, [record(i) for i in IDS], config=config(prompts))
        for name in "ab"
    )
    with pytest.raises(ConfigError, match="if all of 4 prompts moved, luck could still be why"):
        compare_runs(
            a, b, ComparisonOptions(rules=[parse_rule("objective_pass_rate<0 (significant)")])
        )
    with pytest.raises(ConfigError, match="no prompt that both were to answer tells of it"):
        compare_runs(a, b, ComparisonOptions(rules=[parse_rule("tasks<0")]))


def test_evidence_is_corrected_for_all_the_rules_of_a_gate(tmp_path: Path) -> None:
    """Six of twenty lost are enough for one rule; beside four others that ask for evidence, they are not."""
    a, b = (
        write_run(tmp_path / name, [record(i, n < k) for n, i in enumerate(IDS)], config=PLAN)
        for name, k in (("a", 20), ("b", 16))
    )
    rule = parse_rule("objective_pass_rate<0 (significant)")
    others = [parse_rule(f"output_tokens>{n} (significant)") for n in range(4)]
    (alone,) = compare_runs(a, b, ComparisonOptions(rules=[rule])).rules
    together = compare_runs(a, b, ComparisonOptions(rules=[rule, *others])).rules[0]
    assert (alone.outcome, together.outcome) == ("broken", "not_significant")
    assert alone.p_holm and together.p_holm == pytest.approx(5 * alone.p_holm)


def test_a_change_up_to_the_limit_is_no_evidence_against_it(tmp_path: Path) -> None:
    """Four of twenty lost are more than luck, yet not more than luck beyond a fifth."""
    assert judge(tmp_path / "none", "objective_pass_rate<0 (significant)", (20, 16))[0] == "broken"
    assert (
        judge(tmp_path / "tenth", "objective_pass_rate<-0.1 (significant)", (20, 16))[0]
        == "not_significant"
    )
    assert (
        judge(tmp_path / "per_cent", "objective_pass_rate<-10% (significant)", (20, 16))[0]
        == "not_significant"
    )


def test_a_rule_that_luck_can_break_is_warned_of() -> None:
    """A count is what it is; a rate, a time or a tier moves by itself."""
    rules = ["objective_pass_rate<-0.05", "p95_ms>20%", "n_error>0", "tasks<0 (significant)"]
    with_test, without = say_untested([parse_rule(text) for text in rules])
    assert with_test.endswith("add (significant)") and "objective_pass_rate<-0.05" in with_test
    assert without.endswith("no test tells luck from a change of p95_ms")


@pytest.mark.parametrize(
    ("rule", "passes", "change"),
    [
        ("objective_pass_rate<-50%", (10, 9), -10.0),
        ("objective_pass_rate<-1", (10, 9), -0.05),
        ("objective_pass_rate>50%", (0, 1), None),
        ("objective_pass_rate>50%", (0, 0), 0.0),
        ("tier<0", (10, 9), None),
    ],
)
def test_the_change_a_rule_saw_is_told(
    tmp_path: Path, rule: str, passes: tuple[int, int], change: float | None
) -> None:
    """B − A, or per cent of A; a rise from nothing is no number of per cent."""
    a, b = (
        write_run(tmp_path / name, [record(i, n < k) for n, i in enumerate(IDS)], config=PLAN)
        for name, k in zip("ab", passes, strict=True)
    )
    (finding,) = compare_runs(a, b, ComparisonOptions(rules=[parse_rule(rule)])).rules
    assert finding.change == (None if change is None else pytest.approx(change))


def test_evidence_needs_a_prompt_with_an_outcome_on_both_sides(tmp_path: Path) -> None:
    """A has tokens for one half, B for the other: a rise with nothing to test it on; a rate has no figure then."""
    a = [record(i) if n < 10 else unanswered(i) for n, i in enumerate(IDS)]
    b = [unanswered(i) if n < 10 else record(i, False, output_tokens=90) for n, i in enumerate(IDS)]
    runs = [write_run(tmp_path / name, lines, config=PLAN) for name, lines in (("a", a), ("b", b))]
    rules = [parse_rule("output_tokens>10% (significant)"), parse_rule("objective_pass_rate<-0.05")]
    found = compare_runs(runs[0], runs[1], ComparisonOptions(rules=rules))
    assert [(finding.outcome, finding.reason) for finding in found.rules] == [
        (
            "not_judged",
            "beyond the limit, but 0 prompts are too few to tell any change from luck; a rule that cannot be judged is "
            "not met",
        ),
        (
            "not_judged",
            "no prompt has objective_pass_rate on both sides; a rule that cannot be judged is not met",
        ),
    ]
    assert found.gate_failed


def test_a_fall_on_the_few_prompts_that_were_answered_is_not_held(tmp_path: Path) -> None:
    """B answers three of twenty, all wrongly: luck could be why, and that is no reason to let it pass."""
    a = write_run(tmp_path / "a", [record(i) for i in IDS], config=PLAN)
    lines = [record(i, False) if n < 3 else unanswered(i) for n, i in enumerate(IDS)]
    b = write_run(tmp_path / "b", lines, config=PLAN)
    found = compare_runs(
        a, b, ComparisonOptions(rules=[parse_rule("objective_pass_rate<0 (significant)")])
    )
    assert [finding.outcome for finding in found.rules] == ["not_judged"] and found.gate_failed
    assert "3 independent prompts are too few" in found.rules[0].reason


@pytest.mark.parametrize(
    ("slow", "rule", "outcome"),
    [
        ("b", "p95_ms>50%", "broken"),
        ("b", "p95_ms>1e6", "not_judged"),
        ("a", "p95_ms>50%", "held"),
        ("a", "p95_ms<0", "broken"),
        ("ab", "p95_ms>50%", "not_judged"),
        ("b", "mean_ms>50%", "not_judged"),
        ("b", "p50_ms>50%", "held"),
    ],
)
def test_a_tail_of_timeouts_does_not_pass_for_a_fast_one(
    tmp_path: Path, slow: str, rule: str, outcome: str
) -> None:
    """A fifth of the calls was cut off at 9 s: whatever the p95 is, it is more, and only what that settles is said."""

    def write(side: str) -> Path:
        cut: dict[str, Any] = {
            "timings_us": {"e2e": 9_000_000},
            "e2e_ms": 9_000,
            "ended_at_ms": T0 + 9_000,
        }
        lines = [
            unanswered(i, **cut) if side in slow and n < len(IDS) // 5 else record(i)
            for n, i in enumerate(IDS)
        ]
        return write_run(tmp_path / side, lines, config=PLAN)

    found = compare_runs(write("a"), write("b"), ComparisonOptions(rules=[parse_rule(rule)]))
    assert [finding.outcome for finding in found.rules] == [outcome]
    shown = as_text(describe_comparison(found), 200)
    assert "> 9.0 s" in shown and "p95 of all" in shown


def test_a_figure_that_neither_side_has_is_a_good_sentence(tmp_path: Path) -> None:
    """Neither, A or B: the grammar follows the count."""
    assert (
        "neither A nor B has argument_accuracy;"
        in judge(tmp_path, "argument_accuracy<0", (20, 20))[2]
    )
    run = write_run(tmp_path / "down", [unanswered(i, "server_error") for i in IDS], config=PLAN)
    (finding,) = compare_runs(
        run, tmp_path / "a", ComparisonOptions(rules=[parse_rule("p50_ms>0")])
    ).rules
    assert finding.reason == "A has no p50_ms; a rule that cannot be judged is not met"


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_can_be_asked_for(tmp_path: Path, name: str) -> None:
    """No metric of the table is a name without a figure behind it."""
    if name in ("restraint", "tasks", "agreement", "tool_use_rate"):
        with pytest.raises(ConfigError, match="no prompt that both were to answer tells of it"):
            judge(tmp_path, f"{name}>1e9", (20, 20))
    else:
        assert judge(tmp_path, f"{name}>1e9", (20, 20))[0] in ("held", "not_judged")


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "objective_pass_rate",
        "objective_pass_rate<",
        "p50_ms > ten",
        "p50_ms>10 significant",
        "p50_ms!=1",
        "<3",
    ],
)
def test_what_is_no_rule_is_refused(rule: str) -> None:
    """With an example of one."""
    with pytest.raises(ConfigError, match="write METRIC OP NUMBER"):
        parse_rule(rule)


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    """The list is in the message."""
    with pytest.raises(ConfigError, match=r"no metric 'accuracy'.*objective_pass_rate.*p50_ms"):
        parse_rule("accuracy<0")


def test_evidence_that_no_test_gives_is_refused() -> None:
    """Nobody can say whether a p95 moved by luck from paired prompts; the rule says so at once."""
    with pytest.raises(
        ConfigError, match="no test tells whether a change of p95_ms is significant"
    ):
        parse_rule("p95_ms>10%", significant=True)
    assert parse_rule("p50_ms>10%", significant=True).text == "p50_ms>10% (significant)"


def test_one_sided_evidence_is_mcnemars_score_beside_students_t() -> None:
    """Five of five moved is just enough; what moves both ways, or not at all, is none."""
    assert above_zero_p([1.0] * 5) == pytest.approx(0.0445, abs=1e-4)
    assert above_zero_p([1.0] * 9 + [-1.0] * 3 + [0.0] * 24) == pytest.approx(0.0461, abs=1e-4)
    assert above_zero_p([-1.0] * 5) == pytest.approx(1 - above_zero_p([1.0] * 5))
    assert above_zero_p([1.0, -1.0]) == pytest.approx(0.5)
    assert above_zero_p([0.0] * 9) == above_zero_p([1.0]) == above_zero_p([]) == 1.0


@pytest.mark.parametrize(
    "fault", ["ZeroDivisionError()", "KeyError('p')", "RecursionError()", "RuntimeError('no')"]
)
def test_a_fault_of_our_own_is_no_failed_gate(fault: str, tmp_path: Path) -> None:
    """Where `compare` itself breaks, the exit code is 70, with the traceback and a sentence: a gate that fails is 1."""
    for run_id in ("before", "after"):
        records = [record(f"P{number}") for number in range(3)]
        asked = config([prompt(f"P{number}") for number in range(3)])
        write_run(tmp_path / "runs" / run_id, records, config=asked)
    program = f"""
import sys
from clawgauge.cli import compare, main
def break_down(*arguments):
    raise {fault}
compare.compare_sides = break_down
sys.exit(main(["compare", "before", "after", "--fail-on", "n_error>0"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 70 and done.stdout == ""
    assert "Traceback" in done.stderr and "a fault of clawgauge itself" in done.stderr
