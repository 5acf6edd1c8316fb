"""Models that pass prompts by chance, and their run as a summary has it: what a ranking is held against."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory

import msgspec

from clawgauge.records import RULE, GroupSummary
from clawgauge.records.summary import CostSummary, FamilyMeans, FamilyTally
from clawgauge.run_data.evidence import job_pool
from clawgauge.summary import summarize_folder
from support.written_runs import config, prompt, record, write_run


def simulate_passes(
    dice: random.Random,
    rates: Sequence[float],
    n_prompts: int,
    n_repeats: int,
    icc: float,
    shared: float,
) -> list[list[int]]:
    """How many of the repeats of each prompt each model passes: `icc` of a prompt's difficulty is
    common to its repeats, and `shared` of it to the models."""
    difficulty = [dice.gauss(0, 1) for _ in range(n_prompts)]
    models = []
    for rate in rates:
        limit = NormalDist().inv_cdf(rate)
        passes = []
        for prompt_difficulty in difficulty:
            of_model = math.sqrt(icc - shared) * dice.gauss(0, 1)
            common = math.sqrt(shared) * prompt_difficulty + of_model
            k = 0
            for _ in range(n_repeats):
                k += common + math.sqrt(1 - icc) * dice.gauss(0, 1) < limit
            passes.append(k)
        models.append(passes)
    return models


@cache
def _group() -> GroupSummary:
    """A summary of a model that answered one prompt, by the rule of today."""
    with TemporaryDirectory() as folder:
        run = write_run(
            Path(folder) / "run", [record("P0")], config=config([prompt("P0")], rule=RULE)
        )
        (group,) = summarize_folder(run).models
    return group


def fit_group(
    model: str, job: str, figures: Mapping[str, Sequence[float]], call_usd: float | None = None
) -> GroupSummary:
    """A model that is fit for a job of prompts of its own, with the means of its families and the price of a call."""
    n_families = max(len(means) for means in figures.values())
    columns: dict[str, list[float | None]] = {}
    for figure, means in figures.items():
        columns[figure] = [*means, *[None] * (n_families - len(means))]
    families = [f"core/P{number}" for number in range(n_families)]
    return msgspec.structs.replace(
        _group(),
        model=model,
        cost=None
        if call_usd is None
        else CostSummary(n_priced=1, usd=call_usd, per_call_usd=call_usd, per_pass_usd=None),
        evidence={job_pool(job): [FamilyTally(passes=1, answers=1, n=60)]},
        by_family=FamilyMeans(families=families, figures=columns),
    )
