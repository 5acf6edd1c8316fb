"""Runs in, the page's data out.

Owns: the shape of what the page's scripts read. Refuses: markup, and reading folders; it is given readers it may go
through twice: once to survey, once for the calls that were chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec

from clawgauge.records import GroupSummary, Inventory, Result, RunConfig, RunSummary, Target
from clawgauge.reports.html.calls import CallColumns
from clawgauge.reports.html.choice import MAX_CALLS, Choice, choose_calls
from clawgauge.reports.html.conditions import list_conditions
from clawgauge.reports.html.names import short_names
from clawgauge.reports.html.outcomes import OUTCOMES
from clawgauge.reports.html.prompts import PromptTexts, list_prompts, register_prompts
from clawgauge.reports.html.sentences import Finding, describe_run, find_answers
from clawgauge.reports.html.survey import CallName, CallRow, Survey
from clawgauge.reports.html.texts import TextBlocks, TextStore

_LEFT_OUT = frozenset({"resources_before", "resources_after"})


@dataclass(frozen=True)
class ReportRun:
    """One run to report on. `rows` and `results` are gone through anew each time they are iterated."""

    summary: RunSummary
    rows: Iterable[CallRow]
    results: Iterable[Result]
    config: RunConfig | None = None
    inventory: Inventory | None = None


@dataclass(frozen=True)
class ReportDocument:
    """Everything the page shows: plain data, the packed texts, and the findings for readers without scripts."""

    data: dict[str, Any]
    texts: TextBlocks
    findings: list[tuple[str, list[Finding]]]


def build_document(
    runs: Sequence[ReportRun], *, generated_at: datetime, version: str, max_calls: int = MAX_CALLS
) -> ReportDocument:
    """The data of a page about `runs`."""
    survey = _survey(runs)
    choice = choose_calls(survey, max_calls)
    store = TextStore()
    prompt_texts = PromptTexts(store)
    run_entries, findings = [], []
    for number, run in enumerate(runs):
        found = find_answers(run.summary, _violations(survey, number))
        findings.append((run.summary.run_id, found))
        entry = _run_entry(run, found)
        run_entries.append(entry | {"promptTexts": prompt_texts.number_by_prompt(run.config, survey)})
    first_detail = len(store)
    columns = _embed_calls(runs, survey, choice, store, max_calls)
    texts = store.pack()
    data = {
        "generatedAt": generated_at.isoformat(timespec="seconds"),
        "version": version,
        "outcomes": OUTCOMES,
        "runs": run_entries,
        "targets": _target_entries(runs, survey),
        "prompts": list_prompts(survey),
        "matrix": [[*cell, n] for cell, n in sorted(survey.outcomes.items())],
        "calls": columns.as_json(),
        "shown": _shown(columns, choice, texts),
        "texts": {"starts": texts.starts, "firstDetail": first_detail},
    }
    return ReportDocument(data, texts, findings)


def _survey(runs: Sequence[ReportRun]) -> Survey:
    survey = Survey()
    for number, run in enumerate(runs):
        register_prompts(run.config, survey)
        for group in run.summary.models:
            survey.target_number(number, _target(group))
    for number, run in enumerate(runs):
        survey.look_at(number, run.rows)
    return survey


def _target(group: GroupSummary) -> Target:
    return Target(group.provider, group.model, group.thinking_level)


def _violations(survey: Survey, run: int) -> Counter[str]:
    of_run = {number for (found_in, _), number in survey.targets.items() if found_in == run}
    counts: Counter[str] = Counter()
    for (target, code), n in survey.violations.items():
        if target in of_run:
            counts[code] += n
    return counts


def _run_entry(run: ReportRun, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "id": run.summary.run_id,
        "about": describe_run(run.summary),
        "startedAt": run.config.created_at_ms if run.config else None,
        "source": run.summary.source,
        "findings": [asdict(finding) for finding in findings],
        "conditions": list_conditions(run.summary, run.config, run.inventory),
    }


def _target_entries(runs: Sequence[ReportRun], survey: Survey) -> list[dict[str, Any]]:
    names = short_names(target for _, target in survey.targets)
    figures = {(number, _target(group)): group for number, run in enumerate(runs) for group in run.summary.models}
    return [
        {"run": key[0], "label": key[1].label, "name": names[key[1]], "figures": _figures(figures.get(key))}
        for key in sorted(survey.targets, key=survey.targets.__getitem__)
    ]


def _figures(group: GroupSummary | None) -> dict[str, Any] | None:
    """The group as in summary.json; None for a target that only came up after the summary was made."""
    if group is None:
        return None
    builtins: dict[str, Any] = msgspec.to_builtins(group)
    return {name: value for name, value in builtins.items() if name not in _LEFT_OUT}


def _embed_calls(
    runs: Sequence[ReportRun], survey: Survey, choice: Choice, store: TextStore, max_calls: int
) -> CallColumns:
    columns = CallColumns(store)
    for number, run in enumerate(runs):
        for result in run.results:
            if columns.n >= max_calls:
                return columns
            target = survey.targets.get((number, Target(result.provider, result.model, result.thinking_level)))
            prompt = survey.prompts.get((result.suite, result.prompt_id))
            if target is None or prompt is None:
                continue  # written since the survey: it is in no count, so it is in no list
            name = CallName(target, prompt, result.repeat)
            if choice.has(name.digest):
                columns.add(result, name, sampled=choice.is_sampled(name.digest))
    return columns


def _shown(columns: CallColumns, choice: Choice, texts: TextBlocks) -> dict[str, Any]:
    """What the page leaves out, in numbers, for the page to say."""
    return {
        "all": choice.everything,
        "calls": columns.n,
        "ofCalls": choice.n_calls,
        "sampled": len(choice.sampled),
        "wrong": len(choice.looked_at),
        "ofWrong": choice.n_to_look_at,
        "cutChars": texts.cut_chars if texts.n_cut else None,
        "cutTexts": texts.n_cut,
    }
