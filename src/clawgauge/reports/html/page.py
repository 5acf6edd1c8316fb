"""The page of a report: runs in, their data, one HTML file that asks the network for nothing out."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from clawgauge import __version__
from clawgauge.errors import RunFolderError
from clawgauge.records import GroupSummary, Inventory, RunConfig, RunSummary
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.findings import Finding, describe_run, find_answers, short_names
from clawgauge.reports.html.calls import MAX_CALLS, CallColumns, Choice, choose_calls
from clawgauge.reports.html.survey import (
    OUTCOMES,
    CallName,
    PromptTexts,
    RunSurvey,
    Survey,
    list_prompts,
    register_prompts,
)
from clawgauge.reports.html.texts import TextBlocks, TextStore, embed_json
from clawgauge.reports.words import word_options, word_suites
from clawgauge.run_data import Run
from clawgauge.summary import Strata, summarize
from clawgauge.words import format_bytes, format_duration, plural

_LEFT_OUT = frozenset({"resources_before", "resources_after"})
_STATIC = files("clawgauge.reports.html") / "static"
_STYLES = ("theme.css", "layout.css", "charts.css", "tables.css", "calls.css", "print.css")
# In the order in which they build on each other; together they are one function body.
_SCRIPTS = (
    "element.js", "foreign.js", "format.js", "data.js", "texts.js", "outcomes.js", "filters.js", "sortable.js",
    "axis.js", "answer.js", "models.js", "rates.js", "latency.js", "scatter.js", "matrix.js", "calls.js",
    "call_parts.js", "call.js", "theme.js", "main.js",
)  # fmt: skip
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def list_conditions(summary: RunSummary, config: RunConfig | None, inventory: Inventory | None) -> list[list[str]]:
    """`[name, value]` of everything known."""
    rows = [["Run", summary.run_id]]
    if summary.source == "first_harness":
        rows.append(["Made by", "the first harness; what it did not record is shown as a dash"])
    if config is not None:
        rows += _plan(config)
    if summary.run_wall_clock_ms is not None:
        rows.append(["Took", format_duration(summary.run_wall_clock_ms)])
    if inventory is not None:
        rows += _machine(inventory)
    return [[name, value] for name, value in rows if value]


def _plan(config: RunConfig) -> list[list[str]]:
    return [
        ["Suites", word_suites(config)],
        ["Asked with", word_options(config.options)],
        ["Prompts’ hash", config.prompts_sha256[:16]],
        ["clawgauge", config.clawgauge_version],
    ]


def _machine(inventory: Inventory) -> list[list[str]]:
    host, cpu, memory = inventory.host, inventory.cpu, inventory.memory
    total = memory.get("total_bytes")
    return [
        ["System", _words(host.get("distribution") or host.get("system"), host.get("machine"))],
        ["Processor", _words(cpu.get("model"), _cores(cpu))],
        ["Memory", format_bytes(total) if isinstance(total, int | float) else ""],
        ["Graphics", ", ".join(_words(gpu.get("name")) for gpu in inventory.gpus)],
        ["Python", inventory.python_version],
    ]


def _cores(cpu: dict[str, Any]) -> str:
    cores = cpu.get("logical_cores") or cpu.get("physical_cores")
    return plural(cores, "core") if isinstance(cores, int) else ""


def _words(*parts: Any) -> str:
    return " ".join(str(part) for part in parts if part)


@dataclass(frozen=True)
class ReportRun:
    """One run to report on: what it amounts to, and where its calls are."""

    run: Run
    summary: RunSummary
    calls: RunSurvey

    @property
    def config(self) -> RunConfig | None:
        return self.run.config

    @property
    def inventory(self) -> Inventory | None:
        # It only adds to what a report says, so a spoilt one must not keep anyone from the rest.
        try:
            return self.run.inventory
        except RunFolderError:
            return None


def read_runs(paths: Sequence[Path], survey: Survey) -> list[ReportRun]:
    """The runs in these folders, each gone through once; `survey` counts their calls."""
    runs = [Run.open(path) for path in paths]
    for run in runs:
        register_prompts(run.config, survey)
    return [_read_run(run, number, survey) for number, run in enumerate(runs)]


def _read_run(run: Run, number: int, survey: Survey) -> ReportRun:
    for target in run.config.targets if run.config else ():
        survey.target_number(number, target)
    strata, calls = Strata(), RunSurvey(survey, number)
    return ReportRun(run, summarize(run.feed(strata, calls), strata), calls)


@dataclass(frozen=True)
class ReportDocument:
    """Everything the page shows: plain data, the packed texts, and the findings for readers without scripts."""

    data: dict[str, Any]
    texts: TextBlocks
    findings: list[tuple[str, list[Finding]]]


def build_document(
    runs: Sequence[ReportRun], survey: Survey, *, generated_at: datetime, version: str, max_calls: int = MAX_CALLS
) -> ReportDocument:
    """The data of a page about `runs`."""
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
    figures = {(number, group.target): group for number, run in enumerate(runs) for group in run.summary.models}
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
        calls = zip(run.calls.digests, run.calls.offsets, strict=True)
        chosen = [offset for digest, offset in calls if choice.has(digest)]
        for _, result in run.run.results_at(chosen[: max_calls - columns.n]):
            name = CallName(survey.targets[number, result.target], survey.prompts[result.prompt], result.repeat)
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


def render_report(
    runs: Sequence[ReportRun],
    survey: Survey,
    *,
    generated_at: datetime | None = None,
    max_calls: int = MAX_CALLS,
) -> str:
    """A whole HTML document about `runs`, at most `max_calls` of their calls in it."""
    document = build_document(
        runs, survey, generated_at=generated_at or datetime.now(UTC), version=__version__, max_calls=max_calls
    )
    style = "\n".join(_read(name) for name in _STYLES)
    script = _read("wrapper.js").replace("/*{{scripts}}*/", "\n".join(_read(name) for name in _SCRIPTS))
    block = _read("block.html").rstrip("\n")
    return _filled(
        _read("page.html"),
        policy=_policy(style, script),
        title=escape(clean_terminal(", ".join(run.summary.run_id for run in runs)), quote=True),
        version=escape(__version__),
        style=style,
        script=script,
        data=embed_json(document.data),
        blocks="\n".join(_filled(block, packed=packed) for packed in document.texts.blocks),
        findings=escape(clean_terminal(_plain_findings(document))),
    )


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_fingerprint(style)}'",
            f"script-src '{_fingerprint(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _fingerprint(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


def _filled(template: str, **values: str) -> str:
    """Every slot filled, in one pass: what comes in is not looked through for slots again."""
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def _plain_findings(document: ReportDocument) -> str:
    """The answer for a browser without scripts."""
    lines = []
    for run_id, findings in document.findings:
        lines.append(run_id)
        for finding in findings:
            lines += ["", f"{finding.question} {finding.answer}", *(f"    {note}" for note in finding.notes)]
        lines.append("")
    return "\n".join(lines)


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
