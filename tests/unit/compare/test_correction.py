"""The more pairs are shown, the more of them luck alone moves: how figures and rules are corrected for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import Comparison, PairedRate
from clawgauge.compare.gate import parse_rule
from clawgauge.stats.paired import (
    Moved,
    agree,
    mcnemar_exact,
    median_interval,
    paired_rate_interval,
)
from support.written_runs import config, prompt, record, unanswered, write_run

IDS = [f"P{n}" for n in range(20)]


def compare_losses(
    tmp_path: Path, n_lost_by_model: dict[str, int], rule: str | None = None
) -> Comparison:
    """Every model passed all twenty prompts in A, and in B all but so many; -1 is a model that is down in B."""
    models = list(n_lost_by_model)
    plan = config([prompt(i) for i in IDS], models)
    before = [record(i, model=model) for model in models for i in IDS]
    after = []
    for model, n_lost in n_lost_by_model.items():
        for n, i in enumerate(IDS):
            after.append(
                unanswered(i, model=model) if n_lost < 0 else record(i, n >= n_lost, model=model)
            )
    a = write_run(tmp_path / "a", before, config=plan)
    b = write_run(tmp_path / "b", after, config=plan)
    rules = [] if rule is None else [parse_rule(rule)]
    return compare_runs(a, b, ComparisonOptions(rules=rules))


def interval_at(n_lost: int, alpha: float) -> tuple[float, float]:
    """The interval of so many prompts lost of twenty, at this level, by the formula alone."""
    moved = [Moved(-1.0, 1)] * n_lost + [Moved(0.0, 1)] * (len(IDS) - n_lost)
    interval = paired_rate_interval(moved, single=True, alpha=alpha)
    assert interval is not None
    return agree(interval, mcnemar_exact(n_lost, 0), -n_lost / len(IDS), alpha=alpha)


def rates_of(comparison: Comparison) -> list[PairedRate]:
    return [pair.rates["objective_pass_rate"] for pair in comparison.pairs]


@pytest.mark.parametrize("n_models", [1, 2, 3, 5])
@pytest.mark.parametrize("n_lost", [6, 8, 11])
def test_of_n_models_that_moved_alike_each_counts_n_times(
    tmp_path: Path, n_models: int, n_lost: int
) -> None:
    """p is n times as large, the interval is that of the n-th part of 5%, and the verdict goes by that p."""
    comparison = compare_losses(tmp_path, {f"m{n}": n_lost for n in range(n_models)})
    p = mcnemar_exact(n_lost, 0)
    for rate in rates_of(comparison):
        assert rate.p == p and rate.p_holm == pytest.approx(min(1.0, n_models * p))
        assert rate.ci95 == pytest.approx(interval_at(n_lost, 0.05))
        assert rate.ci_holm == pytest.approx(interval_at(n_lost, 0.05 / n_models))
        assert (rate.verdict == "changed") is (n_models * p < 0.05)


@pytest.mark.parametrize("n_models", [1, 2, 4])
def test_a_ratio_is_shown_with_the_interval_of_its_corrected_p(
    tmp_path: Path, n_models: int
) -> None:
    """Of n models whose answers grew alike, it is that of the n-th part of 5%: the more models, the wider."""
    models = [f"m{n}" for n in range(n_models)]
    plan = config([prompt(i) for i in IDS], models)
    tokens = {i: 100 + 3 * n for n, i in enumerate(IDS)}
    before = [record(i, model=model, output_tokens=100) for model in models for i in IDS]
    after = [record(i, model=model, output_tokens=tokens[i]) for model in models for i in IDS]
    a = write_run(tmp_path / "a", before, config=plan)
    b = write_run(tmp_path / "b", after, config=plan)
    ratios = [n_tokens / 100 for n_tokens in tokens.values()]
    for pair in compare_runs(a, b, ComparisonOptions()).pairs:
        shift = pair.shifts["output_tokens"]
        assert shift.ratio_ci95 == median_interval(ratios, alpha=0.05)
        assert shift.ratio_ci_holm == median_interval(ratios, alpha=0.05 / n_models)


def test_the_clearest_change_is_corrected_most(tmp_path: Path) -> None:
    """Of three the smallest p counts three times, the next twice, the last once, each with the interval of its step."""
    clear, middle, weak = rates_of(compare_losses(tmp_path, {"clear": 14, "middle": 10, "weak": 6}))
    for rate, n_lost, share in ((clear, 14, 3), (middle, 10, 2), (weak, 6, 1)):
        assert rate.p_holm == pytest.approx(share * mcnemar_exact(n_lost, 0))
        assert rate.ci_holm == pytest.approx(interval_at(n_lost, 0.05 / share))
        assert rate.verdict == "changed"


@pytest.mark.parametrize("n_models", [2, 3])
def test_a_rule_on_n_models_needs_n_times_the_evidence(tmp_path: Path, n_models: int) -> None:
    """A gate asks every model: what luck could do to one of them, it could do to any."""
    rule = "objective_pass_rate<-0.05 (significant)"
    (alone,) = compare_losses(tmp_path / "one", {"m0": 7}, rule).rules
    several = compare_losses(tmp_path / "n", {f"m{n}": 7 for n in range(n_models)}, rule).rules
    assert alone.p_holm is not None and len(several) == n_models
    for finding in several:
        assert finding.p_holm == pytest.approx(min(1.0, n_models * alone.p_holm))


def test_a_model_without_figures_takes_no_share_of_a_rules_correction(tmp_path: Path) -> None:
    """Where one of two models is down there is nothing to test of it: the other is judged as if alone."""
    rule = "objective_pass_rate<-0.05 (significant)"
    (alone,) = compare_losses(tmp_path / "one", {"m0": 7}, rule).rules
    up, down = compare_losses(tmp_path / "two", {"m0": 7, "m1": -1}, rule).rules
    assert up.p_holm == alone.p_holm and up.outcome == alone.outcome
    assert down.p_holm is None and down.outcome == "not_judged"
