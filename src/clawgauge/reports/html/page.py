"""The page of a report: runs in, their data, one HTML file that asks the network for nothing out."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from clawgauge import __version__
from clawgauge.errors import RunFolderError
from clawgauge.prices import settings_of
from clawgauge.records import Inventory, RunConfig, RunSummary
from clawgauge.reports.answer import choose, describe_jobs, describe_models
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.document import Points, Prose, Section
from clawgauge.reports.html import calls
from clawgauge.reports.html.calls import (
    MAX_CALLS,
    CallColumns,
    RunSurvey,
    Survey,
    TextBlocks,
    TextStore,
    embed_json,
)
from clawgauge.reports.html.figures import (
    capacity_entry,
    category_totals,
    model_figures,
    page_columns,
)
from clawgauge.reports.html.sections import as_html
from clawgauge.reports.words import (
    describe_run,
    find_answers,
    name_models,
    short_names,
    word_options,
    word_suites,
)
from clawgauge.run_data import Run
from clawgauge.summary import Strata, summarize
from clawgauge.verdict import best_first
from clawgauge.verdict.jobs import call_cost_usd, explain_cost
from clawgauge.verdict.wording import word_reason
from clawgauge.words import format_bytes, format_duration, plural

_STATIC = files("clawgauge.reports.html") / "static"
_STYLES = ("theme.css", "layout.css", "charts.css", "tables.css", "calls.css", "print.css")
# In the order in which they build on each other; together they are one function body.
_SCRIPTS = (
    "element.js", "foreign.js", "format.js", "data.js", "figures.js", "texts.js", "outcomes.js",
    "filters.js", "sortable.js", "axis.js", "jobs.js", "tradeoff.js", "answer.js", "models.js",
    "rates.js", "latency.js", "scatter.js",
    "capacity.js", "matrix.js", "calls.js", "call_parts.js", "call.js", "theme.js", "main.js",
)  # fmt: skip


def list_conditions(
    summary: RunSummary, config: RunConfig | None, inventory: Inventory | None
) -> list[list[str]]:
    rows = [["Run", summary.run_id]]
    if summary.source == "first_harness":
        rows.append(["Made by", "the first harness; what it did not record is shown as a dash"])
    if config is not None:
        rows += [
            ["Suites", word_suites(config)],
            ["Asked with", word_options(config.options)],
            ["Prompts’ hash", config.prompts_sha256[:16]],
            ["clawgauge", config.clawgauge_version],
        ]
    if summary.context is not None:
        rows.append(
            ["Private", f"asked in your own prompt ({summary.context}): for your eyes alone"]
        )
    if summary.run_wall_clock_ms is not None:
        rows.append(["Took", format_duration(summary.run_wall_clock_ms)])
    if inventory is not None:
        host, cpu, total = inventory.host, inventory.cpu, inventory.memory.get("total_bytes")
        cores = cpu.get("logical_cores") or cpu.get("physical_cores")
        rows += [
            ["System", _words(host.get("distribution") or host.get("system"), host.get("machine"))],
            [
                "Processor",
                _words(cpu.get("model"), plural(cores, "core") if isinstance(cores, int) else ""),
            ],
            ["Memory", format_bytes(total) if isinstance(total, int | float) else ""],
            ["Graphics", ", ".join(_words(gpu.get("name")) for gpu in inventory.gpus)],
            ["Python", inventory.python_version],
        ]
    return [[name, value] for name, value in rows if value]


def _words(*parts: Any) -> str:
    return " ".join(str(part) for part in parts if part)


def read_runs(paths: Sequence[Path], survey: Survey) -> list[RunSurvey]:
    """The runs in these folders, each gone through once; `survey` counts their calls."""
    runs = [Run.open(path) for path in paths]
    # Prompts are numbered in the order of the suites, asked or not.
    for prompt in (prompt for run in runs if run.config for prompt in run.config.prompts):
        survey.prompt_number(prompt.suite, prompt.id, prompt.name)
    found = []
    for number, run in enumerate(runs):
        for target in run.config.targets if run.config else ():
            survey.target_number(number, target)
        strata, calls = Strata(), RunSurvey(survey, number, run)
        rows_read = run.feed(strata, calls)
        calls.summary = summarize(run, strata, rows_read)
        found.append(calls)
    return found


def _build(
    runs: Sequence[RunSurvey], survey: Survey, generated_at: datetime, max_calls: int
) -> tuple[dict[str, Any], TextBlocks]:
    choice = calls.choose_calls(survey, max_calls)
    store = TextStore()
    known: dict[str, int] = {}
    entries = [
        _run_entry(run) | {"promptTexts": _prompt_texts(run, survey, store, known)} for run in runs
    ]
    first_detail = len(store)
    columns = CallColumns(store)
    for run in runs:
        chosen = [
            at for digest, at in zip(run.digests, run.offsets, strict=True) if choice.has(digest)
        ]
        for _, result in run.run.results_at(chosen[: max_calls - len(columns)]):
            target, prompt = (
                survey.targets[run.number, result.target],
                survey.prompts[result.prompt],
            )
            sampled = choice.is_sampled(calls.call_digest(target, prompt, result.repeat))
            columns.add(result, target, prompt, sampled=sampled)
    texts = store.pack()
    data = {
        "generatedAt": generated_at.isoformat(timespec="seconds"), "version": __version__, "outcomes": calls.OUTCOMES,
        "runs": entries, "targets": _target_entries(runs, survey), "columns": page_columns(),
        "categoryTotals": category_totals([run.summary for run in runs]),
        "prompts": [[*key, name] for key, name in survey.prompt_names.items()],
        # In the user's own context: no part of the figures of a whole model.
        "inContext": sorted({p.suite for r in runs if r.run.config for p in r.run.config.prompts if p.in_context}),
        "matrix": [[*cell, n] for cell, n in sorted(survey.outcomes.items())],
        "calls": columns.as_json(),
        # What the page leaves out, in numbers, for the page to say.
        "shown": {
            "all": choice.everything, "calls": len(columns), "ofCalls": choice.n_calls, "sampled": len(choice.sampled),
            "wrong": len(choice.looked_at), "ofWrong": choice.n_to_look_at, "cutTexts": texts.n_cut,
            "cutChars": texts.cut_chars if texts.n_cut else None,
        },
        "texts": {"starts": texts.starts, "firstDetail": first_detail},
    }  # fmt: skip
    return data, texts


def _prompt_texts(
    run: RunSurvey, survey: Survey, store: TextStore, known: dict[str, int]
) -> dict[str, int]:
    """The number of each prompt's text by the prompt's own, a string as in JSON; the same words are kept once."""
    numbers = {}
    for prompt in run.run.config.prompts if run.run.config else ():
        detail = calls.describe_prompt(prompt)
        if (words := repr(detail)) not in known:
            known[words] = store.add(detail)
        numbers[str(survey.prompts[prompt.key])] = known[words]
    return numbers


def _run_entry(run: RunSurvey) -> dict[str, Any]:
    config, inventory = run.run.config, None
    # It only adds to what a report says, so a spoilt one must not keep anyone from the rest.
    with contextlib.suppress(RunFolderError):
        inventory = run.run.inventory
    summary = run.summary
    groups = best_first(summary.models, summary.jobs)
    names = name_models(group.target.label for group in groups)
    fits = {
        job.job: {one.target: [one.fit, one.why] for one in job.ranking} for job in summary.jobs
    }
    return {
        "id": summary.run_id,
        "about": describe_run(summary),
        "startedAt": config.created_at_ms if config else None,
        "source": summary.source,
        "jobs": [{**choice._asdict(), "fits": fits[choice.job]} for choice in choose(summary.jobs)],
        "capacity": [capacity_entry(entry) for entry in summary.capacity],
        "models": [
            [
                label,
                names[label],
                call_cost_usd(group, settings),
                word_reason(explain_cost(group, settings)),
            ]
            for group in groups
            for label, settings in [(group.target.label, settings_of(config, group.target))]
        ],
        "findings": [finding._asdict() for finding in find_answers(summary, run.violations)],
        "conditions": list_conditions(summary, config, inventory),
    }


def _plain(run: RunSurvey) -> str:
    """The answer for a browser without scripts: which model for which job, a line a model, the sentences."""
    summary = run.summary
    answers = find_answers(summary, run.violations)
    findings = [
        Section(found.question, [Prose([found.answer]), Points(found.notes)]) for found in answers
    ]
    models, jobs = (
        describe_models(summary.models, summary.jobs, run.run.config),
        describe_jobs(summary.jobs),
    )
    return as_html(
        [Section(summary.run_id, [Prose([describe_run(summary)])]), jobs, models, *findings]
    )


def _target_entries(runs: Sequence[RunSurvey], survey: Survey) -> list[dict[str, Any]]:
    names = short_names(target.label for _, target in survey.targets)
    # None for a target that only came up after the summary was made.
    groups = {
        (run.number, group.target): model_figures(group)
        for run in runs
        for group in run.summary.models
    }
    return [
        {
            "run": run,
            "label": target.label,
            "name": names[target.label],
            "figures": groups.get((run, target)),
        }
        for run, target in survey.targets
    ]


def render_report(
    runs: Sequence[RunSurvey],
    survey: Survey,
    *,
    generated_at: datetime | None = None,
    max_calls: int = MAX_CALLS,
    all_runs_href: str | None = None,
) -> str:
    """The report as one file. With `all_runs_href` it stands among others, and links to the list of them."""
    all_runs = ""
    if all_runs_href is not None:
        all_runs = f'<a href="{escape(all_runs_href, quote=True)}">← All runs</a>\n  '
    data, texts = _build(runs, survey, generated_at or datetime.now(UTC), max_calls)
    style = "\n".join(map(_read, _STYLES))
    script = f'(() => {{\n"use strict";\n{chr(10).join(map(_read, _SCRIPTS))}\n}})();\n'
    ours = f"style-src '{_fingerprint(style)}'; script-src '{_fingerprint(script)}'"
    nothing_else = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    return Template(_read("page.html")).substitute(
        policy=f"default-src 'none'; {ours}; {nothing_else}", version=escape(__version__), style=style, script=script,
        title=escape(clean_terminal(", ".join(run.summary.run_id for run in runs)), quote=True), data=embed_json(data),
        blocks="\n".join(f'<script type="text/plain" class="packed">{packed}</script>' for packed in texts.blocks),
        findings="\n".join(map(_plain, runs)), all_runs=all_runs,
    )  # fmt: skip


def _fingerprint(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
