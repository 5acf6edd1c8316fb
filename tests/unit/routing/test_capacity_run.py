"""How many subagents at once: from the records of a capacity run to OpenClaw's setting, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clawgauge.records import CapacitySummary, Percentiles, Target
from clawgauge.records.summary import WithinSlo
from clawgauge.reports.capacity import describe_load_changes
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from clawgauge.verdict.load import compare_capacity
from support.command import clawgauge
from support.measured_models import OLLAMA, Measured, MeasuredRun
from support.runs_under_load import write_load


def test_a_capacity_run_sets_how_many_subagents_and_is_read_once(tmp_path: Path) -> None:
    """Beside a run that says who may be a subagent at all, it becomes OpenClaw's maxConcurrent, with its reason."""
    model, loads = Measured(Target("ollama_openai", "qwen3:8b"), OLLAMA), list[Path]()
    MeasuredRun([model], for_subagents=True).write(tmp_path / "runs")
    write_load(tmp_path / "runs" / "load", model.target)
    done = clawgauge(tmp_path, "route", "measured", "load", "--json")
    assert done.code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["configuration"]["agents"]["defaults"]["subagents"]["maxConcurrent"] == 2
    [why] = [one for one in told["reasons"] if "maxConcurrent" in str(one)]
    assert "2 at once at 16k: first token p95 1.50 s" in str(
        why
    ) and "at 4 it breaks your 2.00 s" in str(why)
    feed = Run.feed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Run, "feed", lambda run, *collectors: loads.append(run.path) or feed(run, *collectors)
        )
        summary = summarize_folder(tmp_path / "runs" / "load")
    assert len(loads) == 1 and [step.n for step in summary.capacity[0].steps] == [60, 60, 60]


def test_route_takes_the_number_that_always_keeps_the_limits(tmp_path: Path) -> None:
    """At one visit of five everything took twice as long: 2 at once was too slow then."""
    model = Measured(Target("ollama_openai", "qwen3:8b"), OLLAMA)
    MeasuredRun([model], for_subagents=True).write(tmp_path / "runs")
    write_load(tmp_path / "runs" / "load", model.target, 0.9, n_rounds=5, slow_visit=3)
    done = clawgauge(tmp_path, "route", "measured", "load", "--json")
    assert done.code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["configuration"]["agents"]["defaults"]["subagents"]["maxConcurrent"] == 1
    assert "1 to 2 at once at 16k: 1 always, 2 in its quiet moments" in done.stdout


def test_a_run_of_one_visit_and_one_of_five_are_shown_and_not_judged(tmp_path: Path) -> None:
    """As 0.2.0 wrote it, and as it is written now."""
    target = Target("ollama_openai", "qwen3:8b")
    write_load(tmp_path / "runs" / "old", target)
    write_load(tmp_path / "runs" / "new", target, 1.5, n_rounds=5)
    done = clawgauge(tmp_path, "compare", "old", "new")
    assert done.code == 0, done.stderr
    assert "2 at once in A, 1 at once in B" in done.stdout
    assert "cannot tell: too few visits" in done.stdout
    assert "changed" not in done.stdout
    shown = clawgauge(tmp_path, "show", "old").stdout
    assert "2 at once at 16k: first token p95 1.50 s" in shown
    assert "one visit of each number of clients" in shown


def test_two_capacity_runs_are_compared_figure_by_figure_unless_their_loads_differ(
    tmp_path: Path,
) -> None:
    target = Target("ollama_openai", "qwen3:8b")
    for name, slower, output in (("before", 1.0, 8), ("after", 1.5, 8), ("longer", 1.0, 64)):
        write_load(tmp_path / "runs" / name, target, slower, output, n_rounds=5)
    done = clawgauge(tmp_path, "compare", "before", "after", "--json")
    told = {
        (one["load"], one["figure"]): (one["a"], one["b"], one["verdict"])
        for one in json.loads(done.stdout)
    }
    assert told["16k", "at once"][:2] == (2, 1) and told["16k, 2", "ttft p50 ms"] == (
        1500,
        2250,
        "changed",
    )
    assert told["16k, 1", "ttft p50 ms"][2] == "cannot tell: too few visits"
    shown = clawgauge(tmp_path, "compare", "before", "after").stdout
    assert shown.startswith(
        "what it can carry\n  ollama_openai:qwen3:8b at 16k: 2 at once in A, 1 at once in B\n"
    ), shown
    refused = clawgauge(tmp_path, "compare", "before", "longer")
    assert (
        refused.code == 2
        and "differ in --output: compare them anyway with --force" in refused.stderr
    )


def test_rates_and_changes_of_models_are_compared_in_their_own_words() -> None:
    """What arrives is carried by the second; a change of models is its time. Neither is clients at once."""
    rates = [
        CapacitySummary(
            target="a:m",
            mode="open",
            context_tokens=2_000,
            within_slo=WithinSlo(rate=rate, broken_at=at),
        )
        for rate, at in ((4.0, None), (2.0, 2.1), (1.0, 2.0))
    ]
    (change,) = compare_capacity(rates[1:2], rates[2:])
    assert change[1:6] == ("2k", "a second", 2.0, 1.0, "")
    (change,) = compare_capacity(rates[:1], rates[1:2])
    assert change[1:6] == ("2k", "a second", 4.0, 2.0, "or more in A"), (
        "it was stopped before a limit was seen"
    )
    assert "4 a second or more in A, 2 a second in B" in str(describe_load_changes([change]))
    swaps = [
        CapacitySummary(
            target="a:m",
            mode="swap",
            context_tokens=0,
            swap_ms={"cold": Percentiles(n=1, p50=ms, p50_ci95=(ms, ms))},
        )
        for ms in (900.0, 1200.0, 1201.0)
    ]
    (same,) = compare_capacity(swaps[1:2], swaps[2:])
    assert same.verdict == "no change seen", "however tight the intervals are"
    (change,) = compare_capacity(swaps[:1], swaps[1:2])
    assert change[1:6] == ("cold", "ttft p50 ms", 900.0, 1200.0, "changed")
