"""Who is best for a job, held against simulated models, through what a summary calls: jobs that are judged by groups
of a run. `pytest -m slow -rP` prints what was measured."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from clawgauge.records import RULE, Job, JobVerdict
from clawgauge.run_data.evidence import job_pool
from clawgauge.summary import summarize_folder
from clawgauge.verdict import judge_jobs
from clawgauge.verdict.ranking import HALF_COST_USD, HALF_P95_MS, HALF_TTFT_MS, score_falling
from support.simulated_models import fit_group, simulate_passes
from support.written_runs import PROVIDER, config, prompt, record, write_run

pytestmark = pytest.mark.slow

SEED = 20261119
PASSES = Job(prompts=["core"], weighs={"passes": 1})
WEIGHED = Job(prompts=["core"], weighs={"passes": 3, "restraint": 2, "first_token": 1})


def judge(job: Job, models: list[dict[str, list[float]]]) -> JobVerdict:
    groups = []
    for number, figures in enumerate(models):
        groups.append(fit_group(f"m{number}", "mine", figures))
    (verdict,) = judge_jobs(groups, {"mine": job}, lambda target: {})
    assert all(fit.fit == "yes" for fit in verdict.ranking)
    return verdict


def is_any_left_out(verdict: JobVerdict) -> bool:
    return not all(fit.tie for fit in verdict.ranking)


def passes_of(
    dice: random.Random,
    rates: list[float],
    n_prompts: int,
    n_repeats: int,
    icc: float,
    shared: float,
) -> list[list[float]]:
    counts = simulate_passes(dice, rates, n_prompts, n_repeats, icc, shared)
    return [[k / n_repeats for k in passes] for passes in counts]


@pytest.mark.parametrize("n_models", [2, 3, 6])
@pytest.mark.parametrize(
    ("n_prompts", "n_repeats", "icc", "shared"),
    [
        (43, 1, 0.0, 0.0),
        (43, 3, 0.8, 0.0),
        (43, 5, 0.8, 0.4),
        (43, 5, 0.95, 0.0),
        (100, 1, 0.5, 0.5),
    ],
)
def test_of_equal_models_hardly_ever_one_is_left_out(
    n_models: int, n_prompts: int, n_repeats: int, icc: float, shared: float
) -> None:
    """All 85%: any is left out in 5.5% of runs at most, however alike repeats or drawings are."""
    dice = random.Random(SEED)
    n_runs = 1_500 if n_models == 2 else 600
    n_left_out = 0
    for _ in range(n_runs):
        models = passes_of(dice, [0.85] * n_models, n_prompts, n_repeats, icc, shared)
        verdict = judge(PASSES, [{job_pool("mine"): passes} for passes in models])
        n_left_out += is_any_left_out(verdict)
    share = n_left_out / n_runs
    print(f"{n_models} models, {n_prompts} x {n_repeats}, ICC {icc}, shared {shared}: {share:.4f}")
    assert share <= 0.055


@pytest.mark.parametrize("n_models", [2, 3, 6])
def test_nor_is_one_left_out_by_a_score_of_several_figures(n_models: int) -> None:
    """Tasks, restraint and first tokens of different prompts, weighed 3, 2 and 1; some prompts are
    slower to begin with, for every model."""
    dice = random.Random(SEED)
    n_runs = 800 if n_models == 2 else 400
    n_left_out = 0
    for _ in range(n_runs):
        tasks = passes_of(dice, [0.85] * n_models, 20, 3, 0.8, 0.4)
        restraint = passes_of(dice, [0.9] * n_models, 40, 1, 0.5, 0.25)
        slowness = [dice.gauss(0, 0.5) for _ in range(60)]
        models = []
        for number in range(n_models):
            scores = []
            for prompt_slowness in slowness:
                ttft_ms = 400 * 2.718 ** (prompt_slowness + dice.gauss(0, 0.3))
                scores.append(score_falling(ttft_ms, HALF_TTFT_MS))
            models.append(
                {
                    job_pool("mine"): tasks[number],
                    "restraint": restraint[number],
                    "first_token": scores,
                }
            )
        n_left_out += is_any_left_out(judge(WEIGHED, models))
    share = n_left_out / n_runs
    print(f"{n_models} models, weighed: {share:.4f}")
    assert share <= 0.055


@pytest.mark.parametrize("autocorrelation", [0.0, 0.5, 0.9, 0.99])
def test_nor_by_the_moods_of_a_machine(autocorrelation: float) -> None:
    """One model is asked after the other, on a machine whose pace swings by 10%. One that takes half
    as long again is found all the same."""
    dice = random.Random(SEED)
    job = Job(prompts=["core"], weighs={"latency": 1})
    n_runs = 400
    n_told = {}
    for slowdown in (1.0, 1.5):
        n_told[slowdown] = 0
        for _ in range(n_runs):
            prompt_ms = [3_000 * math.exp(dice.gauss(0, 0.5)) for _ in range(100)]
            mood = dice.gauss(0, 0.1)
            models = []
            for factor in (1.0, slowdown):
                scores = []
                for time_ms in prompt_ms:
                    change = math.sqrt(1 - autocorrelation**2) * dice.gauss(0, 0.1)
                    mood = autocorrelation * mood + change
                    call_ms = time_ms * factor * math.exp(mood + dice.gauss(0, 0.05))
                    scores.append(score_falling(call_ms, HALF_P95_MS))
                models.append({"latency": scores, job_pool("mine"): [1.0] * 100})
            n_told[slowdown] += is_any_left_out(judge(job, models))
    shares = {slowdown: n / n_runs for slowdown, n in n_told.items()}
    print(f"autocorrelation {autocorrelation}: equal {shares[1.0]:.4f}, 1.5 {shares[1.5]:.3f}")
    assert shares[1.0] <= 0.055
    assert shares[1.5] >= 0.95


@pytest.mark.parametrize("n_prompts", [20, 43, 100])
def test_nor_who_is_as_much_cheaper_as_worse(n_prompts: int) -> None:
    """85% for nothing beside 95% at a price that outweighs ten points."""
    dice = random.Random(SEED)
    job = Job(prompts=["core"], weighs={"passes": 3, "cost": 1})
    n_runs = 1_500
    n_told = 0
    for _ in range(n_runs):
        cheap, dear = passes_of(dice, [0.85, 0.95], n_prompts, 1, 0.5, 0.25)
        groups = [
            fit_group("cheap", "mine", {job_pool("mine"): cheap}, call_usd=0.0),
            fit_group("dear", "mine", {job_pool("mine"): dear}, call_usd=HALF_COST_USD * 3 / 7),
        ]
        (verdict,) = judge_jobs(groups, {"mine": job}, lambda target: {})
        n_told += is_any_left_out(verdict)
    print(f"{n_prompts} prompts: {n_told / n_runs:.4f}")
    assert n_told / n_runs <= 0.055


@pytest.mark.parametrize(
    ("n_prompts", "shared", "least_alone", "most_alone"),
    [(43, 0.8, 0.15, 0.30), (100, 0.5, 0.55, 0.78), (150, 0.8, 0.93, 1.0)],
)
def test_the_best_is_kept_and_with_many_prompts_stands_alone(
    n_prompts: int, shared: float, least_alone: float, most_alone: float
) -> None:
    """95% beside 85% and 80%."""
    dice = random.Random(SEED)
    n_alone = 0
    n_runs = 400
    for _ in range(n_runs):
        models = passes_of(dice, [0.95, 0.85, 0.80], n_prompts, 1, shared, shared)
        verdict = judge(PASSES, [{job_pool("mine"): passes} for passes in models])
        best = [fit.target for fit in verdict.ranking if fit.behind_p is None]
        assert f"{PROVIDER}:m0" in best
        n_alone += len(best) == 1
    print(f"{n_prompts} prompts, shared {shared}: alone {n_alone / n_runs:.3f}")
    assert least_alone <= n_alone / n_runs <= most_alone


def test_the_same_holds_of_run_folders(tmp_path: Path) -> None:
    """Two equal models, 43 prompts asked three times, ICC .8: from the records to summary.json's verdict. Counted as
    129 prompts one would be left out in every fourth run."""
    dice = random.Random(SEED)
    n_runs = 400
    job = {"prompts": ["core"], "weighs": {"passes": 1}, "at_least": 0.2}
    prompts = [prompt(f"P{number}") for number in range(43)]
    plan = config(prompts, ["m0", "m1"], rule=RULE, jobs={"mine": job}, options={"repeats": 3})
    n_left_out = 0
    for run in range(n_runs):
        counts = simulate_passes(dice, [0.85, 0.85], 43, 3, 0.8, 0.0)
        records = []
        for number, passes in enumerate(counts):
            for place, k in enumerate(passes):
                for repeat in range(3):
                    cell = record(f"P{place}", repeat < k, model=f"m{number}", repeat=repeat)
                    records.append(cell)
        folder = write_run(tmp_path / str(run), records, config=plan)
        verdicts = {verdict.job: verdict for verdict in summarize_folder(folder).jobs}
        n_left_out += is_any_left_out(verdicts["mine"])
    print(f"run folders: {n_left_out / n_runs:.4f}")
    assert n_left_out / n_runs <= 0.055
