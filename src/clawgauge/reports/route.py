"""A routing decision for a person: every model, the reasons, the forecast of a chain, the diff of a file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from clawgauge.reports.clean import clean_cell, clean_lines, escape_cell
from clawgauge.reports.table import Column, display_width, render_table
from clawgauge.reports.words import ABSENT, INDICATIVE, MIN_SAMPLES_P95, format_interval, format_number, format_percent
from clawgauge.routing import ChainForecast, Decision, Evidence, Reason, Standing

_VALUE_CHARS = 400
_COLUMNS = (
    Column("place", "right"),
    Column("model"),
    Column("score", "right"),
    Column("passed"),
    Column("tool use"),
    Column("p95 ms", "right"),
    Column("ttft p50", "right"),
    Column("$/call", "right"),
    Column("removed by"),
)


def render_decision(decision: Decision) -> str:
    """Every model for a terminal: its place and score, and under it the limits that removed it."""
    rows = [list(map(clean_cell, _row(place, one)[:-1])) for place, one in enumerate(decision.standings, start=1)]
    rows.insert(0, [column.heading for column in _COLUMNS[:-1]])
    widths = [max(display_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for place, standing in reversed(list(enumerate(decision.standings, start=1))):
        lines[place + 1 : place + 1] = [f"     removed: {clean_cell(words)}" for words in standing.removed_by]
    return clean_lines("\n".join(lines))


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - display_width(cell))


def _decision_table(decision: Decision) -> str:
    """The same as a Markdown table."""
    rows = [[escape_cell(cell) for cell in _row(place, one)] for place, one in enumerate(decision.standings, start=1)]
    return render_table(_COLUMNS, rows)


def _row(place: int, standing: Standing) -> list[str]:
    evidence, group = standing.evidence, standing.evidence.group
    return [
        str(place) if standing.kept else ABSENT,
        evidence.label,
        f"{standing.score:.3f}" if standing.kept else ABSENT,
        f"{group.n_passed}/{group.n_scheduled_judged}",
        _tool_use(evidence),
        f"{format_number(group.latency_ms.p95)} (n={group.n_success})",
        format_number(group.ttft_ms.p50),
        _cost(evidence),
        "; ".join(standing.removed_by) or ABSENT,
    ]


def _tool_use(evidence: Evidence) -> str:
    tool_use = evidence.group.tool_use
    if tool_use.tier is None:
        return ABSENT
    return f"Tier {tool_use.tier} {'decided' if tool_use.decided else 'provisional'} {tool_use.k}/{tool_use.n}"


def _cost(evidence: Evidence) -> str:
    if evidence.cost_per_call_usd is None:
        return "local" if evidence.free_of_charge else "unknown"
    return f"{evidence.cost_per_call_usd:.5f}"


def render_reasons(
    *, made_for: str, decision: Decision, reasons: Sequence[Reason], notes: Sequence[str], generated_at: str
) -> str:
    """The sidecar: each configured line and the evidence under it, then the table the order came from."""
    lines = [
        f"# Routing for {made_for}: why each line is there",
        "",
        f"Made by `clawgauge route` on {generated_at} from recorded runs; no model was asked.",
        "",
    ]
    for reason in reasons:
        lines += [
            f"- **{escape_cell(reason.path)}** = {escape_cell(reason.setting, limit=_VALUE_CHARS)}",
            f"  — {escape_cell(reason.why)}",
        ]
    lines += [""] if reasons else ["Nothing is configured.", ""]
    if notes:
        lines += ["## Not decided", "", *(f"- {escape_cell(note)}" for note in notes), ""]
    lines += ["## Every model, measured against the policy", "", _decision_table(decision), ""]
    lines += ["## The policy", "", *_policy_lines(decision), ""]
    return clean_lines("\n".join(lines))


def _policy_lines(decision: Decision) -> list[str]:
    policy, limits, weights = decision.policy, decision.policy.limits, decision.policy.weights
    set_limits = [(name, getattr(limits, name)) for name in limits.__struct_fields__]
    kept = [f"{name} = {value}" for name, value in set_limits if value is not None and value is not False]
    weighed = [f"{name} = {getattr(weights, name):g}" for name in weights.__struct_fields__]
    return [
        f"- limits: {', '.join(kept) or 'none'}",
        f"- weights: {', '.join(weighed)}",
        f"- calls_per_month = {policy.calls_per_month}, max_fallbacks = {policy.max_fallbacks}",
    ]


def render_forecast(forecast: ChainForecast) -> str:
    """What a chain would have done, every figure with its n and interval."""
    n, label = forecast.n_cells, clean_cell(forecast.label)
    if not n:
        return clean_lines(f"{label}\n  no prompt was asked of all its models: nothing can be said\n")
    passed = f"{forecast.n_passed}/{forecast.n_judged}"
    shares = ", ".join(
        f"{clean_cell(evidence.label)} {count}/{n}"
        for evidence, count in zip(forecast.chain, forecast.answered_by, strict=True)
    )
    cost = "unknown" if forecast.cost_per_call_usd is None else f"${forecast.cost_per_call_usd:.5f} a call"
    if all(evidence.free_of_charge for evidence in forecast.chain):
        cost = "none charged (local)"
    thin = forecast.n_answered < MIN_SAMPLES_P95
    mark = f"{INDICATIVE} (indicative only: under {MIN_SAMPLES_P95} calls)" if thin else ""
    lines = [
        label,
        f"  passes   {format_percent(forecast.pass_rate)} ({passed}, 95% {format_interval(forecast.pass_ci95)})",
        f"  p50      {_ms(forecast.p50_ms, forecast.p50_ci95)}",
        f"  p95      {_ms(forecast.p95_ms, forecast.p95_ci95)}{mark}",
        f"  cost     {cost}",
        f"  answered {forecast.n_answered}/{n} paired calls: {shares}",
    ]
    return clean_lines("\n".join(lines))


def _ms(value: float | None, ci95: tuple[float, float] | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.0f} ms" + (f" (95% {ci95[0]:.0f}–{ci95[1]:.0f})" if ci95 else "")


def render_diff(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    """What `--write` would change, as a unified diff of the two files as JSON; empty where nothing would."""
    old, new = (json.dumps(config, indent=2, ensure_ascii=False).split("\n") for config in (before, after))
    return clean_lines("\n".join(difflib.unified_diff(old, new, name, f"{name} (routed)", lineterm="")))
