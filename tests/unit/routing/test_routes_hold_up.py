"""What `route` claims, held against simulated models whose truth is known. docs/statistics.md has the figures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clawgauge.prices import load_prices
from clawgauge.records import RULE
from clawgauge.routing.chains import best_chain, forecast
from clawgauge.routing.decision import Decision, decide
from clawgauge.routing.evidence import Evidence, gather_evidence
from clawgauge.routing.openclaw import openclaw_routing
from clawgauge.routing.policy import Limits, Policy
from support.written_runs import PROVIDER, config, prompt, record, unanswered, write_run

pytestmark = pytest.mark.slow
ANY_RATE = Policy(limits=Limits(min_pass_rate=None, min_answered_rate=None))


class Truth(NamedTuple):
    """What is true of a model: how often it answers, and how often an answer passes or a tool is used."""

    name: str
    answers: float = 1.0
    passes: float = 0.8


def benchmark(
    folder: Path,
    models: Sequence[Truth],
    dice: random.Random,
    n: int,
    *,
    repeats: int = 1,
    tools: bool = False,
    rule: int = 1,
) -> Path:
    """One run of these models over n prompts, drawn by `dice`."""
    kind: dict[str, Any] = {"expected_tools": ["free"]} if tools else {}
    ids = [f"P{place}" for place in range(n)]
    lines = []
    for model in models:
        for prompt_id in ids:
            for repeat in range(repeats):
                passed = dice.random() < model.passes
                took_ms = int(1_000 * dice.lognormvariate(0, 0.3))
                same = {
                    "model": model.name,
                    "repeat": repeat,
                    "total_ms": took_ms,
                    "e2e_ms": took_ms,
                    **kind,
                }
                if dice.random() < model.answers:
                    lines.append(
                        record(prompt_id, passed, tool_use_success=passed and tools, **same)
                    )
                else:
                    lines.append(unanswered(prompt_id, **same))
    plan = config(
        [prompt(i, **kind) for i in ids],
        [model.name for model in models],
        options={"repeats": repeats},
        rule=rule,
    )
    return write_run(folder, lines, config=plan)


def evidence_of(path: Path) -> list[Evidence]:
    return gather_evidence([path], load_prices())[0]


def decision_on(path: Path) -> Decision:
    return decide(evidence_of(path), ANY_RATE)


def missing_cells(tmp_path: Path) -> tuple[float, float, float]:
    """The pass score of 10 prompts asked 10 times: whole, with ten cells missing, and with the same ten as errors."""
    dice = random.Random(1)
    whole = benchmark(tmp_path / "whole", [Truth("m", passes=0.95)], dice, 10, repeats=10)
    lines = (whole / "results.jsonl").read_text().splitlines(keepends=True)
    plan = (whole / "config.json").read_text()
    lost = set(dice.sample(range(100), 10))
    scores = []
    for name, broken in (("whole", None), ("missing", ""), ("errors", "x")):
        folder = tmp_path / f"{name}_cells"
        folder.mkdir()
        (folder / "config.json").write_text(plan)
        failed = '"availability_status": "error", "success": false, "objective_pass": null'
        kept = [
            line if broken is None or place not in lost else broken and _fail(line, failed)
            for place, line in enumerate(lines)
        ]
        (folder / "results.jsonl").write_text("".join(filter(None, kept)))
        scores.append(decision_on(folder).standings[0].scores["pass_rate"])
    return scores[0], scores[1], scores[2]


def _fail(line: str, failed: str) -> str:
    return line.rstrip().removesuffix("}") + f", {failed}}}\n"


def test_a_cell_that_is_missing_counts_as_one_that_failed(tmp_path: Path) -> None:
    """Ten of a hundred cells that were never recorded, and the same ten as errors, make the same score."""
    whole, missing, errors = missing_cells(tmp_path)
    assert missing == pytest.approx(errors) and missing == pytest.approx(whole, abs=0.03)


def equal_models(tmp_path: Path, n_pairs: int = 60) -> tuple[float, float, float]:
    """Of two equal models: how often a tie is called, and how often the first place changes between two identical
    benchmarks, without and with the model in use."""
    dice = random.Random(2)
    models = [Truth("one"), Truth("other")]
    ties, flips, moves = 0, 0, 0
    for pair in range(n_pairs):
        firsts = []
        for half in "ab":
            folder = benchmark(tmp_path / f"{pair}{half}", models, dice, 60, rule=RULE)
            evidence = evidence_of(folder)
            free, held = decide(evidence, ANY_RATE), decide(evidence, ANY_RATE, [f"{PROVIDER}:one"])
            ties += bool(free.tied)
            firsts.append(free.ranked[0].label)
            moves += held.ranked[0].label != f"{PROVIDER}:one"
        flips += firsts[0] != firsts[1]
    return ties / n_pairs / 2, flips / n_pairs, moves / n_pairs / 2


def test_a_tie_is_called_a_tie_and_the_model_in_use_stays(tmp_path: Path) -> None:
    """Two equal models change places like a coin; called a tie, with the one in use first, they seldom do."""
    ties, flips, moves = equal_models(tmp_path)
    print(f"ties {ties:.3f}, flips {flips:.3f}, moves {moves:.3f}")
    assert ties >= 0.85 and flips >= 0.3 and moves <= 0.08


def denial_flips(tmp_path: Path, rate: float, n_pairs: int = 150) -> float:
    """How often two identical benchmarks of 36 tool prompts deny a model different tools."""
    dice, flips = random.Random(3), 0
    for pair in range(n_pairs):
        denied = []
        for half in "ab":
            path = benchmark(
                tmp_path / f"{rate}_{pair}{half}", [Truth("m", passes=rate)], dice, 36, tools=True
            )
            denied.append(openclaw_routing(decision_on(path)).settings.get("tools"))
        flips += denied[0] != denied[1]
    return flips / n_pairs


@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_a_denial_at_the_edge_of_a_tier_does_not_flip(tmp_path: Path, rate: float) -> None:
    """By the point tier alone nearly half of all identical pairs differed."""
    assert denial_flips(tmp_path, rate) <= 0.16


def chain_coverage(tmp_path: Path, n_runs: int = 100) -> tuple[float, float]:
    """How often the interval of the best chain holds its true pass rate, and what it would be on the prompts it was
    chosen on."""
    dice = random.Random(4)
    models = [Truth(f"m{place}", answers=0.9, passes=0.7) for place in range(4)]
    truth = {f"{PROVIDER}:{one.name}": one for one in models}
    held = flattered = 0
    for place in range(n_runs):
        found = best_chain(decision_on(benchmark(tmp_path / str(place), models, dice, 60)))
        assert found is not None and found.pass_ci95
        rate, reached = 0.0, 1.0
        for member in found.chain:
            one = truth[member.label]
            rate, reached = rate + reached * one.answers * one.passes, reached * (1 - one.answers)
        seen = forecast(found.chain).pass_ci95
        held += found.pass_ci95[0] <= rate <= found.pass_ci95[1]
        flattered += bool(seen and seen[0] <= rate <= seen[1])
    return held / n_runs, flattered / n_runs


def test_the_best_chains_interval_holds_its_true_rate(tmp_path: Path) -> None:
    """On the prompts it was chosen on it looks better than it is; on others it does not."""
    held, flattered = chain_coverage(tmp_path)
    assert held >= 0.92 > flattered


def shared_outages(tmp_path: Path, n_runs: int = 100) -> tuple[float, float]:
    """Two models of one server that is down 5% of the time, measured apart: the mean share answered that a forecast
    without the bound would promise, and how often the bound is no higher than the truth."""
    dice, promised, bounded = random.Random(5), 0.0, 0
    models = [Truth("a", answers=0.95), Truth("b", answers=0.95)]
    for place in range(n_runs):
        found = forecast(
            tuple(decision_on(benchmark(tmp_path / str(place), models, dice, 100)).ranked)
        )
        assert found.answered_low is not None
        promised += found.n_answered / found.n_cells
        bounded += found.answered_low <= 0.95
    return promised / n_runs, bounded / n_runs


def test_a_shared_outage_is_within_the_bound(tmp_path: Path) -> None:
    """The pairs of calls promise that nearly all is answered; the bound is no higher than the 95% that are."""
    promised, bounded = shared_outages(tmp_path)
    assert promised > 0.99 and bounded >= 0.95
