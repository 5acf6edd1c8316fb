"""What the gate claims, held against simulated models whose truth is known. docs/statistics.md has the figures."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from pathlib import Path
from statistics import NormalDist
from typing import TypeAlias
from xml.etree import ElementTree

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import Comparison
from clawgauge.compare.gate import parse_rule
from clawgauge.reports.compare import render_comparison_junit
from clawgauge.suites import load_suite
from support.written_runs import config, prompt, record, write_run

pytestmark = pytest.mark.slow
# What both sides make of one prompt.
Sides: TypeAlias = tuple[float, float]
RULE = "objective_pass_rate<0 (significant)"


def outcomes(dice: random.Random, n: int, only_a: float, only_b: float) -> list[tuple[bool, bool]]:
    """What A, which passes nine in ten, and B make of n prompts: so often one of them alone passes."""
    kinds = [(True, False), (False, True), (True, True), (False, False)]
    return dice.choices(kinds, [only_a, only_b, 0.9 - only_a, 0.1 - only_b], k=n)


def broken_share(
    n: int, only_a: float, only_b: float, rule: str = RULE, n_gates: int = 5_000
) -> float:
    """How often a rule is broken on n prompts asked once."""
    dice, judge = random.Random(1), parse_rule(rule)
    sides = [outcomes(dice, n, only_a, only_b) for _ in range(n_gates)]
    return (
        sum(
            judge.chance_of_rates([[(float(a), float(b))] for a, b in pairs]) < 0.05
            for pairs in sides
        )
        / n_gates
    )


@pytest.mark.parametrize(("n", "least"), [(36, 0.35), (66, 0.6)])
def test_a_drop_from_nine_in_ten_to_eight_is_found(n: int, least: float) -> None:
    """A passes 90% and B 80%, as much alike as lets a two-sided McNemar test find 15% and 40% of such drops."""
    assert broken_share(n, 0.135, 0.035) >= least


@pytest.mark.parametrize("n", [36, 66])
def test_a_gate_is_seldom_wrong(n: int) -> None:
    """No drop at all, and a drop that is just the limit: at most one gate in twenty breaks."""
    assert broken_share(n, 0.09, 0.09) <= 0.055
    assert broken_share(n, 0.10, 0.05, "objective_pass_rate<-0.05 (significant)") <= 0.055
    assert broken_share(n, 0.02, 0.02) <= 0.055


@functools.cache
def family_sizes() -> list[int]:
    """How many prompts the families have that the example of a gate asks."""
    families: Counter[tuple[str, str]] = Counter()
    for name in ("native_tools", "restraint"):
        families.update(prompt.family for prompt in load_suite(name).prompts)
    return list(families.values())


def draw_families(dice: random.Random, rates: tuple[float, float]) -> list[list[Sides]]:
    """What A and B make of these prompts, each asked once: what the answers to a family have in common is half."""
    limits = [NormalDist().inv_cdf(rate) for rate in rates]
    families = []
    for size in family_sizes():
        difficulty = math.sqrt(0.5) * dice.gauss(0, 1)
        family = []
        for _ in range(size):
            a, b = (float(difficulty + math.sqrt(0.5) * dice.gauss(0, 1) < one) for one in limits)
            family.append((a, b))
        families.append(family)
    return families


@pytest.mark.parametrize(
    ("rule", "drop", "least", "most"),
    [
        ("objective_pass_rate<0 (significant)", 0.0, 0.0, 0.055),
        ("objective_pass_rate<0 (significant)", 0.05, 0.35, 0.6),
        ("objective_pass_rate<0 (significant)", 0.1, 0.8, 1.0),
        ("objective_pass_rate<0 (significant)", 0.15, 0.95, 1.0),
        ("objective_pass_rate<-0.05 (significant)", 0.05, 0.0, 0.055),
        ("objective_pass_rate<-0.05 (significant)", 0.1, 0.3, 0.5),
        ("objective_pass_rate<-0.05 (significant)", 0.15, 0.75, 1.0),
    ],
)
def test_the_gate_of_the_examples_catches_what_is_said(
    rule: str, drop: float, least: float, most: float
) -> None:
    """Of `native_tools` and `restraint`, asked of a model that passes 90%: how often a drop breaks the rule."""
    dice = random.Random(3)
    judge = parse_rule(rule)
    n_broken = 0
    for _ in range(1_500):
        families = draw_families(dice, (0.9, 0.9 - drop))
        n_broken += judge.chance_of_rates(families) < 0.05
    print(f"{rule}, {len(family_sizes())} families, drop {drop}: broken {n_broken / 1_500:.3f}")
    assert least <= n_broken / 1_500 <= most


def same_model_twice(tmp_path: Path, rules: list[str], n_pairs: int = 60) -> tuple[int, int]:
    """How many comparisons of a model with itself have a failure in JUnit, and how many prompts that changed sides."""
    dice, failed, flipped = random.Random(2), 0, 0
    ids = [f"P{place}" for place in range(36)]
    plan = config([prompt(i) for i in ids])
    for pair in range(n_pairs):
        a, b = (
            write_run(
                tmp_path / f"{pair}{half}",
                [record(i, dice.random() < 0.8) for i in ids],
                config=plan,
            )
            for half in "ab"
        )
        found: Comparison = compare_runs(
            a, b, ComparisonOptions(rules=[parse_rule(rule) for rule in rules])
        )
        failed += ElementTree.fromstring(render_comparison_junit(found)).get("failures") != "0"
        flipped += bool(found.pairs[0].flips)
    return failed, flipped


def test_the_same_model_twice_fails_no_test_of_junit(tmp_path: Path) -> None:
    """Prompts change sides in nearly every pair of runs; without a rule nothing fails, with one hardly ever."""
    failed, flipped = same_model_twice(tmp_path / "none", [])
    assert (failed, flipped) == (0, 60)
    failed, _ = same_model_twice(tmp_path / "rule", [RULE, "output_tokens>10% (significant)"])
    assert failed <= 3
