"""The page itself: one HTML file that asks the network for nothing and runs nothing but its own script.

Owns: putting template, style, scripts and data together, and the policy that holds the browser to it. Refuses: markup;
that stands in `static/`. A browser that honours the policy runs the one script whose hash is named, loads nothing, and
turns no string into markup, so that whatever a model wrote stays text even if this program had a fault.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files

from clawgauge import __version__
from clawgauge.reports.html.choice import MAX_CALLS
from clawgauge.reports.html.document import ReportDocument, ReportRun, build_document
from clawgauge.reports.html.foreign_json import embed_json
from clawgauge.reports.sanitize import clean_terminal

_STATIC = files("clawgauge.reports.html") / "static"
_STYLES = ("theme.css", "layout.css", "charts.css", "tables.css", "calls.css", "print.css")
# In the order in which they build on each other; together they are one function body.
_SCRIPTS = (
    "element.js", "foreign.js", "format.js", "data.js", "texts.js", "outcomes.js", "filters.js", "sortable.js",
    "axis.js", "answer.js", "models.js", "rates.js", "latency.js", "scatter.js", "matrix.js", "calls.js",
    "call_parts.js", "call.js", "theme.js", "main.js",
)  # fmt: skip
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render_report(
    runs: Sequence[ReportRun], *, generated_at: datetime | None = None, max_calls: int = MAX_CALLS
) -> str:
    """A whole HTML document about `runs`, at most `max_calls` of their calls in it."""
    document = build_document(
        runs, generated_at=generated_at or datetime.now(UTC), version=__version__, max_calls=max_calls
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
