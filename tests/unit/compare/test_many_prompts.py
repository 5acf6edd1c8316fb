"""Runs of thousands of prompts that all went one way: their exact p-values are smaller than a float can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.command import Outcome, clawgauge
from support.slow_rest import slow
from support.written_runs import MODEL, config, prompt, record, write_run

OTHER = "qwen3:8b"
MODELS = [pytest.param((MODEL,), id="one pair"), slow(pytest.param((MODEL, OTHER), id="two pairs"))]


def write_one_sided(place: Path, n_prompts: int, models: Sequence[str], repeats: int = 1) -> None:
    """`before` passes everything, `after` nothing, in a tenth of the time and of the tokens."""
    names = [f"P{number}" for number in range(n_prompts)]
    asked = config([prompt(name) for name in names], models, options={"repeats": repeats})
    for run_id, passed, share in (("before", True, 1.0), ("after", False, 0.1)):
        times = {
            "e2e_ms": round(1000 * share),
            "ttft_ms": round(200 * share),
            "output_tokens": round(100 * share),
        }
        records = [
            record(name, passed, model=model, repeat=repeat, **times)
            for model in models
            for repeat in range(repeats)
            for name in names
        ]
        write_run(place / "runs" / run_id, records, config=asked)


def compare(place: Path, *words: str) -> Outcome:
    return clawgauge(place, "compare", "before", "after", *words)


@pytest.mark.parametrize("models", MODELS)
@pytest.mark.parametrize("repeats", [1, 2], ids=["asked once", "asked twice"])
def test_five_thousand_prompts_that_all_changed_are_compared(
    tmp_path: Path, models: tuple[str, ...], repeats: int
) -> None:
    """The verdict is `changed` with a p-value above nothing, and the interval leaves out 0."""
    write_one_sided(tmp_path, 5_000 // repeats, models, repeats)
    done = compare(tmp_path, "--json")
    assert (done.code, done.stderr) == (0, "")
    pairs = json.loads(done.stdout)["pairs"]
    assert len(pairs) == len(models)
    for pair in pairs:
        for found in (pair["rates"]["objective_pass_rate"], pair["output_tokens"]):
            assert found["verdict"] == "changed" and 0 < found["p"] <= found["p_holm"] < 1e-300
            assert found["ci_holm"][1] < 0


@pytest.mark.slow
def test_a_gate_over_five_thousand_lost_prompts_fails_as_a_gate(tmp_path: Path) -> None:
    """Exit 1 comes with the broken rule, and the same rule the other way round holds."""
    write_one_sided(tmp_path, 5_000, (MODEL, OTHER))
    rules = (
        "--fail-on",
        "objective_pass_rate<-0.05 (significant)",
        "--fail-on",
        "output_tokens>10% (significant)",
    )
    done = compare(tmp_path, *rules)
    assert done.code == 1 and done.stdout.count("BROKEN") == 2 and "Traceback" not in done.stderr
    improved = clawgauge(
        tmp_path,
        "compare",
        "after",
        "before",
        "--fail-on",
        "objective_pass_rate<-0.05 (significant)",
    )
    assert improved.code == 0 and "gate: passed" in improved.stdout


def test_history_and_route_read_thousands_of_prompts_that_all_changed(tmp_path: Path) -> None:
    write_one_sided(tmp_path, 2_000, (MODEL, OTHER))
    for words in (("history",), ("route", "after")):
        done = clawgauge(tmp_path, *words)
        assert done.code == 0, done.stderr


def test_two_thousand_prompts_all_lost_in_context_are_summed_up(tmp_path: Path) -> None:
    """What the user's own prompt costs is told with a p-value, whatever the number of prompts."""
    names = [f"P{number}" for number in range(2_000)]
    inside = [prompt(name, "core+context", in_context=True) for name in names]
    records = [record(name) for name in names]
    records += [record(name, False, suite="core+context") for name in names]
    asked = config([*(prompt(name) for name in names), *inside])
    folder = write_run(tmp_path / "runs" / "in_context", records, config=asked)
    done = clawgauge(tmp_path, "summarize", "in_context")
    assert done.code == 0, done.stderr
    (model,) = json.loads((folder / "summary.json").read_bytes())["models"]
    (lost,) = [found for found in model["in_context"] if found["what"] == "other"]
    assert (lost["bare"], lost["in_context"]) == (1.0, 0.0) and 0 < lost["p"] < 1e-300


@pytest.mark.slow
def test_a_hundred_thousand_prompts_are_compared(tmp_path: Path) -> None:
    write_one_sided(tmp_path, 50_000, (MODEL, OTHER))
    done = compare(tmp_path, "--json")
    assert (done.code, done.stderr) == (0, "")
    assert [pair["n_shared"] for pair in json.loads(done.stdout)["pairs"]] == [50_000, 50_000]


@pytest.mark.parametrize("n_models", [1, 2, 8])
def test_a_few_prompts_cannot_tell_however_many_models_were_asked(
    tmp_path: Path, n_models: int
) -> None:
    """Six prompts that all passed twice would hide nearly any change; other pairs beside them do not change that."""
    models = [f"m{number}" for number in range(n_models)]
    asked = config([prompt(f"P{number}") for number in range(6)], models)
    for run_id in ("before", "after"):
        records = [
            record(f"P{number}", model=model, output_tokens=9)
            for model in models
            for number in range(6)
        ]
        write_run(tmp_path / "runs" / run_id, records, config=asked)
    for pair in json.loads(compare(tmp_path, "--json").stdout)["pairs"]:
        passed = pair["rates"]["objective_pass_rate"]
        assert (passed["verdict"], passed["difference"]) == ("cannot_tell", 0) and passed["reason"]
