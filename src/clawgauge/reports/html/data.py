"""The data of a report for the scripts of its page: runs and targets with their figures, the calls,
and their texts packed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from clawgauge import __version__
from clawgauge.errors import RunFolderError
from clawgauge.prices import settings_of
from clawgauge.records import GroupSummary, Inventory, RunConfig
from clawgauge.reports.answer import choose
from clawgauge.reports.html.calls import OUTCOMES, CallColumns, describe_prompt
from clawgauge.reports.html.conditions import list_conditions
from clawgauge.reports.html.figures import (
    capacity_entry,
    category_totals,
    model_figures,
    page_columns,
)
from clawgauge.reports.html.survey import (
    CallChoice,
    Survey,
    SurveyedRun,
    call_digest,
    choose_calls,
)
from clawgauge.reports.html.texts import TextBlocks, TextStore
from clawgauge.reports.words import describe_run, find_answers, name_models, short_names
from clawgauge.run_data import Run
from clawgauge.verdict import best_first
from clawgauge.verdict.jobs import call_cost_usd, explain_cost
from clawgauge.verdict.wording import word_reason


def build_data(
    runs: Sequence[SurveyedRun], survey: Survey, generated_at: datetime, max_calls: int
) -> tuple[dict[str, Any], TextBlocks]:
    """What the scripts are given; and the texts, which they unpack when somebody looks at them."""
    choice = choose_calls(survey, max_calls)
    store = TextStore()
    run_entries = []
    # The numbers of texts by the texts: what two runs asked alike is kept once.
    text_numbers: dict[str, int] = {}
    for run in runs:
        entry = _describe_run(run)
        entry["promptTexts"] = _store_prompts(run, survey, store, text_numbers)
        run_entries.append(entry)
    first_detail = len(store)
    columns = _collect_calls(runs, survey, choice, store, max_calls)
    texts = store.pack()
    data = {
        "generatedAt": generated_at.isoformat(timespec="seconds"),
        "version": __version__,
        "outcomes": OUTCOMES,
        "runs": run_entries,
        "targets": _describe_targets(runs, survey),
        "columns": page_columns(),
        "categoryTotals": category_totals([run.summary for run in runs]),
        "prompts": [
            [suite, prompt_id, name] for (suite, prompt_id), name in survey.prompt_names.items()
        ],
        "inContext": _list_context_suites(runs),
        "matrix": [[*cell, n_calls] for cell, n_calls in sorted(survey.outcomes.items())],
        "calls": columns.as_json(),
        "shown": _describe_limits(choice, len(columns), texts),
        "texts": {"starts": texts.starts, "firstDetail": first_detail},
    }
    return data, texts


def _collect_calls(
    runs: Sequence[SurveyedRun],
    survey: Survey,
    choice: CallChoice,
    store: TextStore,
    max_calls: int,
) -> CallColumns:
    columns = CallColumns(store)
    for run in runs:
        offsets = []
        for digest, offset in zip(run.digests, run.offsets, strict=True):
            if choice.has(digest):
                offsets.append(offset)
        n_free = max_calls - len(columns)
        for _, result in run.run.results_at(offsets[:n_free]):
            target = survey.targets[run.number, result.target]
            prompt = survey.prompts[result.prompt]
            digest = call_digest(target, prompt, result.repeat)
            columns.add(result, target, prompt, sampled=choice.is_sampled(digest))
    return columns


def _store_prompts(
    run: SurveyedRun, survey: Survey, store: TextStore, text_numbers: dict[str, int]
) -> dict[str, int]:
    """The number of each prompt's text by the prompt's own, which is a string as in JSON."""
    config = run.run.config
    numbers: dict[str, int] = {}
    for prompt in config.prompts if config else ():
        detail = describe_prompt(prompt)
        key = repr(detail)
        if key not in text_numbers:
            text_numbers[key] = store.add(detail)
        numbers[str(survey.prompts[prompt.key])] = text_numbers[key]
    return numbers


def _list_context_suites(runs: Sequence[SurveyedRun]) -> list[str]:
    """Asked in the user's own context: no part of the figures of a whole model."""
    suites = set()
    for run in runs:
        config = run.run.config
        for prompt in config.prompts if config else ():
            if prompt.in_context:
                suites.add(prompt.suite)
    return sorted(suites)


def _describe_limits(choice: CallChoice, n_calls: int, texts: TextBlocks) -> dict[str, Any]:
    """What the page leaves out, in numbers, for the page to say."""
    return {
        "all": choice.everything,
        "calls": n_calls,
        "ofCalls": choice.n_calls,
        "sampled": len(choice.sampled),
        "wrong": len(choice.looked_at),
        "ofWrong": choice.n_to_look_at,
        "cutTexts": texts.n_cut,
        "cutChars": texts.cut_chars if texts.n_cut else None,
    }


def _describe_run(run: SurveyedRun) -> dict[str, Any]:
    config = run.run.config
    summary = run.summary
    groups = best_first(summary.models, summary.jobs)
    names = name_models(group.target.label for group in groups)
    answers = find_answers(summary, run.violations)
    return {
        "id": summary.run_id,
        "about": describe_run(summary),
        "startedAt": config.created_at_ms if config else None,
        "source": summary.source,
        "jobs": _describe_jobs(run),
        "capacity": [capacity_entry(entry) for entry in summary.capacity],
        "models": [_describe_model(group, names, config) for group in groups],
        "findings": [answer._asdict() for answer in answers],
        "conditions": list_conditions(summary, config, _read_inventory(run.run)),
    }


def _read_inventory(run: Run) -> Inventory | None:
    """None where it is spoilt: it only adds to what a report says."""
    with contextlib.suppress(RunFolderError):
        return run.inventory
    return None


def _describe_jobs(run: SurveyedRun) -> list[dict[str, Any]]:
    """Whom to take for each job; and by model, whether it is fit and why."""
    fits_by_job: dict[str, dict[str, list[str]]] = {}
    for job in run.summary.jobs:
        fits_by_job[job.job] = {fit.target: [fit.fit, fit.why] for fit in job.ranking}
    jobs = []
    for choice in choose(run.summary.jobs):
        jobs.append({**choice._asdict(), "fits": fits_by_job[choice.job]})
    return jobs


def _describe_model(
    group: GroupSummary, names: dict[str, str], config: RunConfig | None
) -> list[Any]:
    """Its label, its short name, what a call costs, and that in words."""
    label = group.target.label
    settings = settings_of(config, group.target)
    cost_text = word_reason(explain_cost(group, settings))
    return [label, names[label], call_cost_usd(group, settings), cost_text]


def _describe_targets(runs: Sequence[SurveyedRun], survey: Survey) -> list[dict[str, Any]]:
    """Every target of every run; its figures are None where it only came up after the summary was
    made."""
    figures_by_target = {}
    for run in runs:
        for group in run.summary.models:
            figures_by_target[run.number, group.target] = model_figures(group)
    names = short_names(target.label for _, target in survey.targets)
    entries = []
    for run_number, target in survey.targets:
        entry = {
            "run": run_number,
            "label": target.label,
            "name": names[target.label],
            "figures": figures_by_target.get((run_number, target)),
        }
        entries.append(entry)
    return entries
