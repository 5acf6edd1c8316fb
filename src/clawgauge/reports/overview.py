"""A run in one line: which models it asked what, what came of it, and the answer in few words.

For lists of runs, such as the first page of `clawgauge view`.
"""

from __future__ import annotations

from typing import NamedTuple

from clawgauge.figures import Style, read_figure
from clawgauge.records import GroupSummary, JobVerdict, RunConfig, RunSummary
from clawgauge.reports.answer import NOBODY, choose, find_asked, word_tier_mark
from clawgauge.reports.columns import model_cell
from clawgauge.reports.words import UNTIL_DECIDED, name_models
from clawgauge.verdict import best_first
from clawgauge.words import ABSENT, list_names, plural

MAX_MODELS = 4
_MAX_SUITES = 3


class ModelLine(NamedTuple):
    """What a run says of one model."""

    name: str
    passed: str
    tier: str


class RunOverview(NamedTuple):
    models: list[ModelLine]
    """The best first, and not more than `MAX_MODELS`."""
    n_more_models: int
    suites: str
    answers: list[str]
    """A few words for each job that somebody is fit for, and one for all the others."""
    best_pass_rate: float | None


def describe_in_one_line(summary: RunSummary, config: RunConfig | None) -> RunOverview:
    groups = best_first(summary.models, summary.jobs)
    names = name_models(group.target.label for group in groups)
    models = []
    for group in groups[:MAX_MODELS]:
        models.append(
            ModelLine(
                name=names[group.target.label],
                passed=model_cell("passed_of_asked", group, Style.WITH_PERCENT),
                tier=_word_tier(group),
            )
        )
    return RunOverview(
        models=models,
        n_more_models=len(groups) - len(models),
        suites=_word_what_was_asked(summary, config),
        answers=_word_answers(summary.jobs),
        best_pass_rate=_best_pass_rate(groups),
    )


def _word_tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    return word_tier_mark(use.tier, decided=use.decided)


def _word_what_was_asked(summary: RunSummary, config: RunConfig | None) -> str:
    if summary.capacity:
        return "capacity"
    if summary.asked == "decision":
        return UNTIL_DECIDED
    if config is None or not config.suites:
        return ABSENT
    return list_names([suite.name for suite in config.suites], _MAX_SUITES)


def _word_answers(jobs: list[JobVerdict]) -> list[str]:
    answers = []
    n_nobody = 0
    n_open = 0
    for choice in choose(jobs):
        job = next(job for job in find_asked(jobs) if job.job == choice.job)
        if job.ranking[0].fit == "yes":
            answers.append(f"{choice.job}: {choice.use}")
        elif choice.use == NOBODY:
            n_nobody += 1
        else:
            n_open += 1
    if n_nobody:
        answers.append(f"{plural(n_nobody, 'job')}: {NOBODY}")
    if n_open:
        answers.append(f"{plural(n_open, 'job')} not decided")
    return answers


def _best_pass_rate(groups: list[GroupSummary]) -> float | None:
    rates = []
    for group in groups:
        rate = read_figure("passed_of_asked", group).value
        if rate is not None:
            rates.append(rate)
    return max(rates, default=None)
