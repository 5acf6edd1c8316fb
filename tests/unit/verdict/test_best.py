"""Who of the fit is best: pairs of models on the same prompts, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.history.jobs import judge_newest
from clawgauge.records import RULE, Job, JobVerdict
from clawgauge.reports.answer import choose
from clawgauge.run_data import Run
from clawgauge.run_data.evidence import job_pool
from clawgauge.summary import summarize_folder
from clawgauge.verdict import judge_jobs
from clawgauge.verdict.ranking import HALF_TTFT_MS, ComparedModel, find_behind, score_falling
from support.simulated_models import fit_group
from support.written_runs import PROVIDER, config, prompt, record, write_run

MINE = {"prompts": ["core"], "weighs": {"passes": 1}, "at_least": 0.2}
N_PROMPTS = 40


def run_of(folder: Path, passes: dict[str, int], **changes: Any) -> Path:
    """Models, each of which passes the first so many of forty prompts."""
    prompts = [prompt(f"P{number}") for number in range(N_PROMPTS)]
    records = []
    for model, k in passes.items():
        for number in range(N_PROMPTS):
            records.append(record(f"P{number}", number < k, model=model))
    plan = config(prompts, list(passes), **{"rule": RULE, "jobs": {"mine": MINE}, **changes})
    return write_run(folder, records, config=plan)


def verdict_of(folder: Path, job: str = "mine") -> JobVerdict:
    return {verdict.job: verdict for verdict in summarize_folder(folder).jobs}[job]


def test_a_difference_that_may_be_luck_is_a_tie(tmp_path: Path) -> None:
    """40 of 40 beside 36: four prompts may be luck still (p 0.052)."""
    verdict = verdict_of(run_of(tmp_path / "run", {"a": 40, "b": 36}))
    assert [(fit.tie, fit.behind_p) for fit in verdict.ranking] == [(True, None), (True, None)]
    (choice,) = [choice for choice in choose([verdict]) if choice.job == "mine"]
    assert choice.use == "a or b"
    assert choice.why == "a tie: its prompts 40/40"


def test_a_difference_that_is_more_than_luck_is_said_with_its_p(tmp_path: Path) -> None:
    """40 of 40 beside 30 and 29: the best alone, and who else is fit is behind."""
    verdict = verdict_of(run_of(tmp_path / "run", {"c": 29, "a": 40, "b": 30}))
    a, b, c = verdict.ranking
    assert (a.target, a.tie, a.behind_p) == (f"{PROVIDER}:a", False, None)
    assert b.behind_p is not None and b.behind_p < 0.01 and not b.tie
    assert c.behind_p is not None and c.behind_p < 0.01 and not c.tie
    (choice,) = choose([verdict])
    assert choice.use == "a"
    assert choice.why == "its prompts 40/40; b and c are behind by more than luck (p 0.006)"


def test_who_is_beaten_stands_behind_who_is_not_whatever_the_score() -> None:
    """Models were asked different prompts: B has the lower rate, of harder ones, and is better on those that both
    were asked."""
    a = [0.0] * 10 + [1.0] * 90
    b = [1.0] * 10
    job = Job(prompts=["core"], weighs={"passes": 1})
    pool = job_pool("mine")
    groups = [fit_group("a", "mine", {pool: a}), fit_group("b", "mine", {pool: b})]
    (verdict,) = judge_jobs(groups, {"mine": job}, lambda target: {})
    assert [fit.target for fit in verdict.ranking] == [f"{PROVIDER}:b", f"{PROVIDER}:a"]
    assert verdict.ranking[1].behind_p == pytest.approx(0.0115, abs=0.001)
    assert [fit.place for fit in verdict.ranking] == [1, 2]


def test_calls_written_as_text_are_not_weighed(tmp_path: Path) -> None:
    """Where tools were named in the text alone, nobody is the better for calling them."""
    job = Job(prompts=["core"], weighs={"tools": 1})
    pool = job_pool("mine")
    groups = [
        fit_group("a", "mine", {pool: [1.0] * 40, "tools": [1.0] * 40}),
        fit_group("b", "mine", {pool: [1.0] * 40, "tools": [0.0] * 40}),
    ]
    (verdict,) = judge_jobs(groups, {"mine": job}, lambda target: {})
    assert [fit.tie for fit in verdict.ranking] == [True, True]
    native = []
    for group in groups:
        use = msgspec.structs.replace(group.tool_use, source="native")
        native.append(msgspec.structs.replace(group, tool_use=use))
    (verdict,) = judge_jobs(native, {"mine": job}, lambda target: {})
    assert [fit.behind_p is None for fit in verdict.ranking] == [True, False]


def test_who_is_not_fit_is_compared_with_nobody(tmp_path: Path) -> None:
    """4 of 40 are too few for the job: nothing is corrected for it, and it is neither behind nor a tie."""
    verdict = verdict_of(run_of(tmp_path / "run", {"a": 40, "bad": 4}))
    assert [(fit.fit, fit.tie, fit.behind_p) for fit in verdict.ranking] == [
        ("yes", False, None),
        ("no", False, None),
    ]


def test_a_run_of_an_earlier_version_is_judged_as_before(tmp_path: Path) -> None:
    """By the errors of two rates 40 of 40 beside 36 are no tie; nothing has a p."""
    verdict = verdict_of(run_of(tmp_path / "run", {"a": 40, "b": 36}, rule=1))
    assert [(fit.tie, fit.behind_p) for fit in verdict.ranking] == [(False, None), (False, None)]
    verdict = verdict_of(run_of(tmp_path / "close", {"a": 40, "b": 39}, rule=1))
    assert [(fit.tie, fit.behind_p) for fit in verdict.ranking] == [(True, None), (True, None)]


def test_models_of_different_runs_are_compared_by_the_prompts_that_both_were_asked(
    tmp_path: Path,
) -> None:
    runs = []
    for model, k in (("a", 40), ("b", 30)):
        folder = run_of(tmp_path / model, {model: k})
        runs.append((summarize_folder(folder), Run.open(folder).config))
    verdicts = {verdict.job: verdict for verdict in judge_newest(runs)}
    a, b = verdicts["mine"].ranking
    assert a.behind_p is None
    assert b.behind_p is not None and b.behind_p < 0.01
    older = run_of(tmp_path / "older", {"b": 30}, rule=1)
    runs[1] = (summarize_folder(older), Run.open(older).config)
    verdicts = {verdict.job: verdict for verdict in judge_newest(runs)}
    assert [fit.behind_p for fit in verdicts["mine"].ranking] == [None, None]


def test_a_price_tells_models_apart_that_are_alike(tmp_path: Path) -> None:
    """Both pass everything. Two cents a call are behind a call for nothing, a hundredth of a cent is not."""
    job = {**MINE, "weighs": {"passes": 1, "cost": 1}}
    ties = {}
    for usd in (0.02, 0.0001):
        dear = [record(f"P{n}", True, model="dear", cost_usd=usd) for n in range(N_PROMPTS)]
        prompts = [prompt(f"P{number}") for number in range(N_PROMPTS)]
        free = [record(f"P{n}", True, model="free") for n in range(N_PROMPTS)]
        plan = config(prompts, ["free", "dear"], rule=RULE, jobs={"mine": job})
        folder = write_run(tmp_path / f"both {usd}", free + dear, config=plan)
        ties[usd] = [fit.tie for fit in verdict_of(folder).ranking]
    assert ties == {0.02: [False, False], 0.0001: [True, True]}


def by_number(means: list[float]) -> dict[str, float]:
    return {f"P{number}": mean for number, mean in enumerate(means)}


def compared(
    tasks: list[float], *, cost: float | None = None, first_token: list[float] | None = None
) -> ComparedModel:
    return ComparedModel(
        rates={"tasks": by_number(tasks)},
        times={"first_token": by_number(first_token or [])},
        known={"cost": cost},
    )


def test_what_is_known_of_one_model_alone_may_be_anything_for_the_other() -> None:
    """With an unknown price a model is behind only if it would be for nothing too."""
    weights = {"tasks": 3.0, "cost": 1.0}
    good = compared([1.0] * 38 + [0.0] * 2, cost=0.5)
    unknown_and_bad = compared([1.0] * 10 + [0.0] * 30)
    unknown_and_alike = compared([1.0] * 38 + [0.0] * 2)
    assert find_behind([good, unknown_and_bad], weights)[1] is not None
    assert find_behind([good, unknown_and_alike], weights) == [None, None]
    assert find_behind([unknown_and_bad, good], weights)[0] is not None


def test_a_figure_that_was_not_measured_of_one_model_may_be_anything() -> None:
    weights = {"tasks": 1.0, "first_token": 1.0}
    timed = compared([1.0] * 40, first_token=[0.9] * 40)
    untimed = compared([1.0] * 30 + [0.0] * 10)
    assert find_behind([timed, untimed], weights) == [None, None]
    assert find_behind([timed, untimed], {"tasks": 1.0})[1] is not None


def test_what_was_measured_of_no_model_is_left_out() -> None:
    weights = {"tasks": 1.0, "first_token": 1.0, "cost": 1.0}
    good = compared([1.0] * 40)
    bad = compared([1.0] * 20 + [0.0] * 20)
    assert find_behind([good, bad], weights)[1] is not None


def test_models_without_a_prompt_in_common_tie() -> None:
    a = ComparedModel(rates={"tasks": {f"P{n}": 1.0 for n in range(40)}}, times={}, known={})
    b = ComparedModel(rates={"tasks": {f"Q{n}": 0.0 for n in range(40)}}, times={}, known={})
    assert find_behind([a, b], {"tasks": 1.0}) == [None, None]


def test_a_figure_without_weight_tells_nothing() -> None:
    a = compared([1.0] * 40, first_token=[0.5, 0.4] * 20)
    b = compared([0.0] * 40, first_token=[0.5, 0.4] * 20)
    assert find_behind([a, b], {"tasks": 0.0, "first_token": 1.0}) == [None, None]


@pytest.mark.parametrize(("times_longer", "is_told"), [(1.15, False), (1.4, True), (0.6, True)])
def test_times_that_a_machines_pace_explains_tell_nothing(
    times_longer: float, is_told: bool
) -> None:
    """Every call took 15% longer: so it may be where one model is asked after the other. 40% are the model's own."""
    times_ms = [300.0 + 40 * number for number in range(40)]
    a = [score_falling(time_ms, HALF_TTFT_MS) for time_ms in times_ms]
    b = [score_falling(time_ms * times_longer, HALF_TTFT_MS) for time_ms in times_ms]
    tasks = [1.0, 0.0] * 20
    models = [compared(tasks, first_token=a), compared(tasks, first_token=b)]
    behind = find_behind(models, {"first_token": 1.0})
    assert (behind != [None, None]) is is_told


@pytest.mark.parametrize(("times_longer", "is_told"), [(1.15, False), (1.4, True)])
def test_a_slow_machine_is_slow_in_all_times_at_once(times_longer: float, is_told: bool) -> None:
    """Two times that are longer are no more evidence of a slower model than one of them is."""
    times_ms = [300.0 + 40 * number for number in range(40)]
    models = []
    for factor in (1.0, times_longer):
        scores = [score_falling(time_ms * factor, HALF_TTFT_MS) for time_ms in times_ms]
        times = {"first_token": by_number(scores), "whole": by_number(scores)}
        models.append(ComparedModel(rates={}, times=times, known={}))
    behind = find_behind(models, {"first_token": 1.0, "whole": 1.0})
    assert (behind != [None, None]) is is_told


def test_a_job_that_weighs_nothing_has_no_best() -> None:
    assert find_behind([compared([1.0] * 40), compared([0.0] * 40)], {}) == [None, None]
