"""A routing decision for a person: every model, the reasons, the forecast of a chain, the diff of a file."""

from __future__ import annotations

import difflib
import json
from typing import Any

import msgspec

from clawgauge.figures import INDICATIVE, passed_of_asked, timed
from clawgauge.reports.answer import describe_jobs
from clawgauge.reports.clean import clean_lines, one_line
from clawgauge.reports.document import Column, Points, Prose, Section, Table, as_markdown
from clawgauge.reports.words import LEGEND, MIN_SAMPLES_P95
from clawgauge.routing.chains import ChainForecast
from clawgauge.routing.decision import SURE_SHARE, Decision, Routing, Standing
from clawgauge.secrets import mask_shapes
from clawgauge.words import (
    ABSENT,
    format_beyond,
    format_money,
    format_ms,
    format_number,
    format_percent,
    format_rate,
    format_short_of,
    plural,
    rounded,
)

_VALUE_CHARS = 400
_COLUMNS = (
    Column("place", "right"), Column("model", narrow="target"), Column("score", "right"), Column("best in", "right"),
    Column("passed"), Column("tool use"), Column("p95 ms", "right"), Column("ttft p50", "right"),
    Column("cost a call", "right"), Column("removed by", narrow="below"),
)  # fmt: skip


def describe_decision(decision: Decision) -> list[Section]:
    """Who is fit for which job, and every model against the policy, the best first."""
    rows = [_row(place, one) for place, one in enumerate(decision.standings, start=1)]
    table = Table(_COLUMNS, rows, ("ttft p50", "cost a call", "best in", "score"))
    return [describe_jobs(decision.jobs), Section("every model, measured against the policy", [table])]


def _row(place: int, standing: Standing) -> list[str]:
    evidence, group, use = standing.evidence, standing.evidence.group, standing.evidence.group.tool_use
    tier, times = f"Tier {use.tier} {'decided' if use.decided else 'provisional'} {use.k}/{use.n}", timed(group)
    cost = "local" if evidence.free_of_charge else "unknown"
    if evidence.cost_per_call_usd is not None:
        cost = format_money(evidence.cost_per_call_usd)
    p95 = format_number(times.p95)
    if times.p95 is not None and "p95" in times.beyond:
        p95 = format_beyond(times.p95)
    of_asked = passed_of_asked(group)
    ranked = [str(place), evidence.label, rounded(standing.score, 3), format_short_of(standing.best_share, SURE_SHARE)]
    return [
        *(ranked if standing.kept else [ABSENT, evidence.label, ABSENT, ABSENT]),
        f"{of_asked.k}/{of_asked.n}",
        ABSENT if use.tier is None else tier,
        f"{p95} (n={times.n})",
        format_number(group.ttft_ms.p50),
        cost,
        "; ".join(standing.removed_by) or ABSENT,
    ]


def render_reasons(made_for: str, decision: Decision, routing: Routing, *, generated_at: str) -> str:
    """The sidecar: each configured line and the evidence under it, then the table the order came from."""
    made = f"Made by clawgauge route on {generated_at} from recorded runs; no model was asked."
    lines = []
    for reason in routing.reasons:
        lines += [f"{reason.path} = {one_line(str(reason.setting), _VALUE_CHARS)}", f"  {reason.why}"]
    policy = decision.policy
    limits, weights = msgspec.structs.asdict(policy.limits), msgspec.structs.asdict(policy.weights)
    kept = [f"{name} = {value}" for name, value in limits.items() if value is not None and value is not False]
    weighed = [f"{name} = {value:g}" for name, value in weights.items()]
    rules = [f"limits: {', '.join(kept) or 'none'}", f"weights: {', '.join(weighed)}"]
    rules.append(f"calls_per_month = {policy.calls_per_month}, max_fallbacks = {policy.max_fallbacks}")
    sections = [
        Section("", [Prose([made]), Points(lines or ["Nothing is configured."])]),
        Section("not decided", [Points(routing.notes)]),
        *describe_decision(decision),
        Section("the policy", [Points(rules)]),
    ]
    return as_markdown(f"Routing for {made_for}: why each line is there", sections)


def describe_forecast(forecast: ChainForecast) -> Section:
    """What a chain would have done, every figure with its n and interval."""
    n = forecast.n_cells
    if not n:
        return Section(forecast.label, [Points(["no prompt was asked of all its models: nothing can be said"])])
    answered = zip(forecast.chain, forecast.answered_by, strict=True)
    shares = ", ".join(f"{evidence.label} {count}/{n}" for evidence, count in answered)
    cost = "unknown" if forecast.cost_per_call_usd is None else f"{format_money(forecast.cost_per_call_usd)} a call"
    if all(evidence.free_of_charge for evidence in forecast.chain):
        cost = "none charged (local)"
    # What is left of the answers where an outage takes all of a machine or a vendor.
    low = f", at least {format_percent(forecast.answered_low)} (95%)" if forecast.answered_low is not None else ""
    together = f"{forecast.n_answered_together}/{n} answered{low}"
    thin = forecast.n_answered < MIN_SAMPLES_P95
    apart = " on prompts it was not chosen on" if forecast.unseen else ""
    p95 = _ms(forecast.p95_ms, forecast.p95_ci95, beyond="p95" in forecast.beyond)
    if thin and "p95" not in forecast.beyond:
        p95 += INDICATIVE
    rows = [
        ("passes", format_rate(forecast.n_passed, forecast.n_judged, forecast.pass_ci95) + apart),
        ("p50", _ms(forecast.p50_ms, forecast.p50_ci95, beyond="p50" in forecast.beyond)),
        ("p95", p95),
        ("cost", cost),
        ("answered", f"{forecast.n_answered} of {plural(n, 'paired call')}: {shares}"),
        ("outages", f"{together}, if all on one machine or of one vendor fail together"),
    ]
    figures = Table((Column("figure"), Column("forecast", narrow="wrapped")), rows, bare=True)
    return Section(forecast.label, [figures, Points([LEGEND] if thin else [])])


def _ms(value_ms: float | None, ci95: tuple[float, float] | None, *, beyond: bool) -> str:
    if value_ms is not None and beyond:
        return format_beyond(value_ms)
    return format_ms(value_ms) + (f" (95% {rounded(ci95[0])}–{rounded(ci95[1])})" if ci95 else "")


def render_diff(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    """What `--write` would change, as a unified diff of the two as JSON, keys masked; empty where nothing would."""
    old, new = (json.dumps(config, indent=2, ensure_ascii=False).split("\n") for config in (before, after))
    return clean_lines(mask_shapes("\n".join(difflib.unified_diff(old, new, name, f"{name} (routed)", lineterm=""))))
