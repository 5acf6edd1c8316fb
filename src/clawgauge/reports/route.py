"""A routing decision for a person: every model, the reasons, the forecast of a chain, the diff of a
file."""

from __future__ import annotations

import difflib
import json
from typing import Any

import msgspec

from clawgauge.figures import INDICATIVE, passed_of_asked, timed
from clawgauge.records import ToolUse
from clawgauge.reports.answer import describe_jobs
from clawgauge.reports.clean import clean_lines, one_line
from clawgauge.reports.document import Column, Points, Prose, Section, Table, as_markdown
from clawgauge.reports.words import LEGEND, MIN_SAMPLES_P95
from clawgauge.routing.chains import ChainForecast
from clawgauge.routing.configuration import Routing
from clawgauge.routing.decision import Decision, Standing
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.policy import Policy
from clawgauge.routing.wording import word_place, word_removed_by
from clawgauge.secrets import mask_shapes
from clawgauge.stats.proportions import Interval
from clawgauge.verdict.ranking import SURE_SHARE
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


def describe_decision(decision: Decision) -> list[Section]:
    """Who is fit for which job, and every model against the policy, the best first."""
    # By the rule of earlier versions: in which share of resamplings it was the best.
    standing = Column("best in", "right") if decision.is_by_shares else Column("standing")
    columns = (
        Column("place", "right"),
        Column("model", narrow="target"),
        Column("score", "right"),
        standing,
        Column("passed"),
        Column("tool use"),
        Column("p95 ms", "right"),
        Column("first token", "right"),
        Column("cost a call", "right"),
        Column("removed by", narrow="below"),
    )
    rows = [_row(place, one, decision) for place, one in enumerate(decision.standings, start=1)]
    table = Table(columns, rows, ("first token", "cost a call", standing.heading, "score"))
    every_model = Section("every model, measured against the policy", [table])
    return [describe_jobs(decision.jobs), every_model]


def _row(place: int, standing: Standing, decision: Decision) -> list[str]:
    evidence = standing.evidence
    group = evidence.group
    of_asked = passed_of_asked(group)
    times = timed(group)
    p95 = format_number(times.p95)
    if times.p95 is not None and "p95" in times.beyond:
        p95 = format_beyond(times.p95)
    return [
        str(place) if standing.kept else ABSENT,
        evidence.label,
        rounded(standing.score, 3) if standing.kept else ABSENT,
        _word_standing(standing, decision),
        f"{of_asked.k}/{of_asked.n}",
        _word_tier(group.tool_use),
        f"{p95} (n={times.n})",
        format_ms(group.ttft_ms.p50),
        _word_cost(evidence),
        "; ".join(word_removed_by(standing)) or ABSENT,
    ]


def _word_standing(standing: Standing, decision: Decision) -> str:
    if not standing.kept:
        return ABSENT
    if decision.is_by_shares:
        return format_short_of(standing.best_share, SURE_SHARE)
    return word_place(standing, decision)


def _word_tier(use: ToolUse) -> str:
    if use.tier is None:
        return ABSENT
    certainty = "decided" if use.decided else "provisional"
    return f"Tier {use.tier} {certainty} {use.k}/{use.n}"


def _word_cost(evidence: Evidence) -> str:
    if evidence.cost_per_call_usd is not None:
        return format_money(evidence.cost_per_call_usd)
    return "local" if evidence.free_of_charge else "unknown"


def render_reasons(
    made_for: str, decision: Decision, routing: Routing, *, generated_at: str
) -> str:
    """The sidecar: each configured line and the evidence under it, then the table the order came
    from."""
    origin = f"Made by clawgauge route on {generated_at} from recorded runs; no model was asked."
    lines = []
    for line in routing.reasons:
        lines.append(f"{line.path} = {one_line(line.setting, _VALUE_CHARS)}")
        lines.append(f"  {line.why}")
    sections = [
        Section("", [Prose([origin]), Points(lines or ["Nothing is configured."])]),
        Section("not decided", [Points(routing.notes)]),
        *describe_decision(decision),
        Section("the policy", [Points(_word_policy(decision.policy))]),
    ]
    return as_markdown(f"Routing for {made_for}: why each line is there", sections)


def _word_policy(policy: Policy) -> list[str]:
    limits = []
    for name, limit in msgspec.structs.asdict(policy.limits).items():
        if limit is not None and limit is not False:
            limits.append(f"{name} = {limit}")
    weights = []
    for name, weight in msgspec.structs.asdict(policy.weights).items():
        weights.append(f"{name} = {weight:g}")
    return [
        f"limits: {', '.join(limits) or 'none'}",
        f"weights: {', '.join(weights)}",
        f"calls_per_month = {policy.calls_per_month}, max_fallbacks = {policy.max_fallbacks}",
    ]


def describe_forecast(forecast: ChainForecast) -> Section:
    """What a chain would have done, every figure with its n and interval."""
    if not forecast.n_cells:
        nothing = "no prompt was asked of all its models: nothing can be said"
        return Section(forecast.label, [Points([nothing])])
    is_thin = forecast.n_answered < MIN_SAMPLES_P95
    passes = format_rate(forecast.n_passed, forecast.n_judged, forecast.pass_ci95)
    if forecast.unseen:
        passes += " on prompts it was not chosen on"
    is_p95_beyond = "p95" in forecast.beyond
    p95 = _word_ms(forecast.p95_ms, forecast.p95_ci95, is_beyond=is_p95_beyond)
    if is_thin and not is_p95_beyond:
        p95 += INDICATIVE
    is_p50_beyond = "p50" in forecast.beyond
    rows = [
        ("passes", passes),
        ("p50", _word_ms(forecast.p50_ms, forecast.p50_ci95, is_beyond=is_p50_beyond)),
        ("p95", p95),
        ("cost", _word_chain_cost(forecast)),
        ("answered", _word_answered(forecast)),
        ("outages", _word_outages(forecast)),
    ]
    figures = Table((Column("figure"), Column("forecast", narrow="wrapped")), rows, bare=True)
    return Section(forecast.label, [figures, Points([LEGEND] if is_thin else [])])


def _word_chain_cost(forecast: ChainForecast) -> str:
    if all(evidence.free_of_charge for evidence in forecast.chain):
        return "none charged (local)"
    if forecast.cost_per_call_usd is None:
        return "unknown"
    return f"{format_money(forecast.cost_per_call_usd)} a call"


def _word_answered(forecast: ChainForecast) -> str:
    """How many calls were answered, and by whom."""
    shares = []
    for evidence, n_answered in zip(forecast.chain, forecast.answered_by, strict=True):
        shares.append(f"{evidence.label} {n_answered}/{forecast.n_cells}")
    calls = plural(forecast.n_cells, "paired call")
    return f"{forecast.n_answered} of {calls}: {', '.join(shares)}"


def _word_outages(forecast: ChainForecast) -> str:
    """What is left of the answers where an outage takes all of a machine or a vendor."""
    low = ""
    if forecast.answered_low is not None:
        low = f", at least {format_percent(forecast.answered_low)} (95%)"
    answered = f"{forecast.n_answered_together}/{forecast.n_cells} answered{low}"
    return f"{answered}, if all on one machine or of one vendor fail together"


def _word_ms(value_ms: float | None, ci95: Interval | None, *, is_beyond: bool) -> str:
    if value_ms is not None and is_beyond:
        return format_beyond(value_ms)
    text = format_ms(value_ms)
    if ci95:
        text += f" (95% {rounded(ci95[0])}–{rounded(ci95[1])})"
    return text


def render_diff(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    """What `--write` would change, as a unified diff of the two as JSON, keys masked; empty where
    nothing would."""
    old_lines = json.dumps(before, indent=2, ensure_ascii=False).split("\n")
    new_lines = json.dumps(after, indent=2, ensure_ascii=False).split("\n")
    diff = difflib.unified_diff(old_lines, new_lines, name, f"{name} (routed)", lineterm="")
    return clean_lines(mask_shapes("\n".join(diff)))
