"""The page of a report: runs in, their data, one HTML file that asks the network for nothing out."""

from __future__ import annotations

import contextlib
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from clawgauge import __version__
from clawgauge.errors import RunFolderError
from clawgauge.records import Inventory, RunConfig, RunSummary
from clawgauge.reports.answer import choose, name_models
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.html.calls import (
    MAX_CALLS,
    OUTCOMES,
    CallColumns,
    Choice,
    RunSurvey,
    Survey,
    call_digest,
    choose_calls,
    describe_prompt,
)
from clawgauge.reports.html.texts import TextBlocks, TextStore, embed_json
from clawgauge.reports.words import describe_run, find_answers, short_names, word_options, word_suites
from clawgauge.run_data import Run
from clawgauge.summary import Strata, summarize
from clawgauge.verdict import best_first
from clawgauge.words import format_bytes, format_duration, plural

_LEFT_OUT = frozenset({"resources_before", "resources_after"})
_STATIC = files("clawgauge.reports.html") / "static"
_STYLES = ("theme.css", "layout.css", "charts.css", "tables.css", "calls.css", "print.css")
# In the order in which they build on each other; together they are one function body.
_SCRIPTS = (
    "element.js", "foreign.js", "format.js", "data.js", "texts.js", "outcomes.js", "filters.js", "sortable.js",
    "axis.js", "jobs.js", "answer.js", "models.js", "rates.js", "latency.js", "scatter.js", "matrix.js", "calls.js",
    "call_parts.js", "call.js", "theme.js", "main.js",
)  # fmt: skip
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def list_conditions(summary: RunSummary, config: RunConfig | None, inventory: Inventory | None) -> list[list[str]]:
    """`[name, value]` of everything known."""
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
    if summary.run_wall_clock_ms is not None:
        rows.append(["Took", format_duration(summary.run_wall_clock_ms)])
    if inventory is not None:
        host, cpu, total = inventory.host, inventory.cpu, inventory.memory.get("total_bytes")
        cores = cpu.get("logical_cores") or cpu.get("physical_cores")
        rows += [
            ["System", _words(host.get("distribution") or host.get("system"), host.get("machine"))],
            ["Processor", _words(cpu.get("model"), plural(cores, "core") if isinstance(cores, int) else "")],
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
        calls.summary = summarize(run.feed(strata, calls), strata)
        found.append(calls)
    return found


def _build(
    runs: Sequence[RunSurvey], survey: Survey, generated_at: datetime, max_calls: int
) -> tuple[dict[str, Any], TextBlocks]:
    choice = choose_calls(survey, max_calls)
    store = TextStore()
    known: dict[str, int] = {}
    entries = [_run_entry(run) | {"promptTexts": _prompt_texts(run, survey, store, known)} for run in runs]
    first_detail = len(store)
    columns = _embed_calls(runs, survey, choice, store, max_calls)
    texts = store.pack()
    data = {
        "generatedAt": generated_at.isoformat(timespec="seconds"),
        "version": __version__,
        "outcomes": OUTCOMES,
        "runs": entries,
        "targets": _target_entries(runs, survey),
        "prompts": [[suite, prompt_id, survey.prompt_names[n]] for (suite, prompt_id), n in survey.prompts.items()],
        "matrix": [[*cell, n] for cell, n in sorted(survey.outcomes.items())],
        "calls": columns.as_json(),
        # What the page leaves out, in numbers, for the page to say.
        "shown": {
            "all": choice.everything,
            "calls": columns.n,
            "ofCalls": choice.n_calls,
            "sampled": len(choice.sampled),
            "wrong": len(choice.looked_at),
            "ofWrong": choice.n_to_look_at,
            "cutChars": texts.cut_chars if texts.n_cut else None,
            "cutTexts": texts.n_cut,
        },
        "texts": {"starts": texts.starts, "firstDetail": first_detail},
    }
    return data, texts


def _prompt_texts(run: RunSurvey, survey: Survey, store: TextStore, known: dict[str, int]) -> dict[str, int]:
    """The number of each prompt's text by the prompt's own, a string as in JSON; the same words are kept once."""
    numbers = {}
    for prompt in run.run.config.prompts if run.run.config else ():
        detail = describe_prompt(prompt)
        if (words := repr(detail)) not in known:
            known[words] = store.add(detail)
        numbers[str(survey.prompts[prompt.key])] = known[words]
    return numbers


def _run_entry(run: RunSurvey) -> dict[str, Any]:
    config, inventory = run.run.config, None
    # It only adds to what a report says, so a spoilt one must not keep anyone from the rest.
    with contextlib.suppress(RunFolderError):
        inventory = run.run.inventory
    names = name_models(run.summary.models)
    return {
        "id": run.summary.run_id,
        "about": describe_run(run.summary),
        "startedAt": config.created_at_ms if config else None,
        "source": run.summary.source,
        "jobs": _jobs(run.summary),
        "models": [[g.target.label, names[g.target.label]] for g in best_first(run.summary.models, run.summary.jobs)],
        "findings": [asdict(finding) for finding in find_answers(run.summary, run.violations)],
        "conditions": list_conditions(run.summary, config, inventory),
    }


def _jobs(summary: RunSummary) -> list[dict[str, Any]]:
    fits = {job.job: {one.target: [one.fit, one.why] for one in job.ranking} for job in summary.jobs}
    return [{**choice._asdict(), "fits": fits[choice.job]} for choice in choose(summary)]


def _target_entries(runs: Sequence[RunSurvey], survey: Survey) -> list[dict[str, Any]]:
    names = short_names(target for _, target in survey.targets)
    # Each group as in summary.json; none for a target that only came up after the summary was made.
    figures = {
        (run.number, group.target): {k: v for k, v in msgspec.to_builtins(group).items() if k not in _LEFT_OUT}
        for run in runs
        for group in run.summary.models
    }
    return [
        {"run": key[0], "label": key[1].label, "name": names[key[1]], "figures": figures.get(key)}
        for key in sorted(survey.targets, key=survey.targets.__getitem__)
    ]


def _embed_calls(
    runs: Sequence[RunSurvey], survey: Survey, choice: Choice, store: TextStore, max_calls: int
) -> CallColumns:
    columns = CallColumns(store)
    for run in runs:
        calls = zip(run.digests, run.offsets, strict=True)
        chosen = [offset for digest, offset in calls if choice.has(digest)]
        for _, result in run.run.results_at(chosen[: max_calls - columns.n]):
            target, prompt = survey.targets[run.number, result.target], survey.prompts[result.prompt]
            sampled = choice.is_sampled(call_digest(target, prompt, result.repeat))
            columns.add(result, target, prompt, sampled=sampled)
    return columns


def render_report(
    runs: Sequence[RunSurvey], survey: Survey, *, generated_at: datetime | None = None, max_calls: int = MAX_CALLS
) -> str:
    """A whole HTML document about `runs`, at most `max_calls` of their calls in it."""
    data, texts = _build(runs, survey, generated_at or datetime.now(UTC), max_calls)
    style = "\n".join(_read(name) for name in _STYLES)
    script = _read("wrapper.js").replace("/*{{scripts}}*/", "\n".join(_read(name) for name in _SCRIPTS))
    block = _read("block.html").rstrip("\n")
    plain = []  # the answer for a browser without scripts
    for entry in data["runs"]:
        plain.append(entry["id"])
        plain += [f"{job['job']}: {job['use']} ({job['why']})" for job in entry["jobs"]]
        for found in entry["findings"]:
            plain += ["", f"{found['question']} {found['answer']}", *(f"    {note}" for note in found["notes"])]
        plain.append("")
    policy = (
        "default-src 'none'",
        f"style-src '{_fingerprint(style)}'",
        f"script-src '{_fingerprint(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return _filled(
        _read("page.html"),
        policy="; ".join(policy),
        title=escape(clean_terminal(", ".join(run.summary.run_id for run in runs)), quote=True),
        version=escape(__version__),
        style=style,
        script=script,
        data=embed_json(data),
        blocks="\n".join(_filled(block, packed=packed) for packed in texts.blocks),
        findings=escape(clean_terminal("\n".join(plain))),
    )


def _fingerprint(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


def _filled(template: str, **values: str) -> str:
    """Every slot filled, in one pass: what comes in is not looked through for slots again."""
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
