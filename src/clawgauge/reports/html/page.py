"""The page of a report: one HTML file that asks the network for nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from clawgauge import __version__
from clawgauge.reports.agents import describe_all_agents
from clawgauge.reports.answer import (
    decides_jobs,
    describe_jobs,
    describe_models,
    word_headlines,
)
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.document import Points, Prose, Section
from clawgauge.reports.html.data import build_data
from clawgauge.reports.html.sections import as_html
from clawgauge.reports.html.survey import MAX_CALLS, Survey, SurveyedRun
from clawgauge.reports.html.texts import embed_json
from clawgauge.reports.words import describe_run, find_answers

STATIC = files("clawgauge.reports.html") / "static"
_STYLES = (
    "theme.css",
    "layout.css",
    "charts.css",
    "tables.css",
    "calls.css",
    "print.css",
)
# In the order in which they build on each other; together they are one function body.
SCRIPTS = (
    "element.js",
    "foreign.js",
    "format.js",
    "data.js",
    "figures.js",
    "texts.js",
    "outcomes.js",
    "filters.js",
    "sortable.js",
    "axis.js",
    "jobs.js",
    "tradeoff.js",
    "answer.js",
    "models.js",
    "rates.js",
    "latency.js",
    "scatter.js",
    "capacity.js",
    "matrix.js",
    "calls.js",
    "call_parts.js",
    "call.js",
    "theme.js",
    "main.js",
)


def render_report(
    runs: Sequence[SurveyedRun],
    survey: Survey,
    *,
    generated_at: datetime | None = None,
    max_calls: int = MAX_CALLS,
    all_runs_href: str | None = None,
) -> str:
    """The report as one file. With `all_runs_href` it stands among others, and links to the list of
    them."""
    data, texts = build_data(runs, survey, generated_at or datetime.now(UTC), max_calls)
    title = clean_terminal(", ".join(run.summary.run_id for run in runs))
    style = _read_all(_STYLES)
    script = assemble_script()
    blocks = []
    for block in texts.blocks:
        blocks.append(f'<script type="text/plain" class="packed">{block}</script>')
    return Template(_read("page.html")).substitute(
        policy=_policy(style, script),
        version=escape(__version__),
        title=escape(title, quote=True),
        style=style,
        script=script,
        data=embed_json(data),
        blocks="\n".join(blocks),
        findings="\n".join(_render_answer(run) for run in runs),
        all_runs=_link_to_all_runs(all_runs_href),
        agents=_render_agents(runs),
    )


def assemble_script() -> str:
    """All scripts of the page as the one that runs in it."""
    return f'(() => {{\n"use strict";\n{_read_all(SCRIPTS)}\n}})();\n'


def _link_to_all_runs(href: str | None) -> str:
    if href is None:
        return ""
    return f'<a href="{escape(href, quote=True)}">← All runs</a>\n  '


def _render_agents(runs: Sequence[SurveyedRun]) -> str:
    """What agent programs add and take, with or without scripts; nothing where there are none."""
    sections = describe_all_agents([run.summary for run in runs])
    if not sections:
        return ""
    return f'<section id="agents" class="agents">{as_html(sections)}</section>'


def _policy(style: str, script: str) -> str:
    """A content security policy: nothing is loaded, and no script or style works but these two."""
    rules = (
        "default-src 'none'",
        f"style-src '{_fingerprint(style)}'",
        f"script-src '{_fingerprint(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _fingerprint(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


def _render_answer(run: SurveyedRun) -> str:
    """The answer for a browser without scripts: which model for which job, a line a model, the
    sentences."""
    summary = run.summary
    config = run.run.config
    sections = [
        Section(
            summary.run_id,
            [Prose([describe_run(summary)]), Points(word_headlines(summary, config))],
        ),
        describe_jobs(summary.jobs),
        describe_models(summary.models, summary.jobs, config, is_decision=decides_jobs(config)),
    ]
    for answer in find_answers(summary, run.violations):
        sections.append(Section(answer.question, [Prose([answer.answer]), Points(answer.notes)]))
    return as_html(sections)


def _read_all(names: Sequence[str]) -> str:
    return "\n".join(_read(name) for name in names)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
