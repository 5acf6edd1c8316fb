"""What an agent program adds to a model and takes from it, beside the bare model."""

from __future__ import annotations

import json
from collections.abc import Sequence

from clawgauge.records import Result
from clawgauge.records.summary import AgentComparison, GroupSummary, RunSummary
from clawgauge.reports.clean import clean_cell
from clawgauge.reports.document import Column, Points, Section, Table
from clawgauge.reports.words import name_models
from clawgauge.stats.paired import ALPHA
from clawgauge.words import (
    format_latency,
    format_money,
    format_percent,
    plural,
    rounded,
    word_p,
)

ABSENT = "–"
_COLUMNS = (
    Column("in the agent", narrow="target"),
    Column("right", "right"),
    Column("first token", "right"),
    Column("a prompt", "right"),
    Column("model", "right"),
    Column("agent", "right"),
    Column("lost", "right"),
    Column("gained", "right"),
    Column("altered", "right"),
)
_YIELDING = ("model", "first token")


def describe_agents(summary: RunSummary) -> Section:
    """Each model inside a program under its bare one, and a sentence on what the program did."""
    names = name_models(group.target.label for group in summary.models)
    groups = {group.target.label: group for group in summary.models}
    rows = []
    notes: list[str] = []
    shown_bare: set[str] = set()
    for comparison in summary.agents:
        bare = comparison.bare
        if bare is not None and bare in groups and bare not in shown_bare:
            shown_bare.add(bare)
            rows.append(_bare_row(names[bare], comparison, groups[bare]))
        name = names.get(comparison.target, comparison.target)
        rows.append(_inside_row(name, comparison))
        notes.extend(f"{name}: {note}" for note in describe_comparison(comparison))
    table = Table(_COLUMNS, rows, _YIELDING, ruled=True)
    return Section("inside the agent", [table, Points(notes)])


def _bare_row(name: str, comparison: AgentComparison, group: GroupSummary) -> list[str]:
    return [
        name,
        _count(comparison.bare_passed, comparison.n_shared),
        _time(comparison.bare_first_token_ms),
        _time(comparison.bare_e2e_ms),
        _time(comparison.bare_e2e_ms),
        ABSENT,
        ABSENT,
        ABSENT,
        ABSENT,
    ]


def _inside_row(name: str, comparison: AgentComparison) -> list[str]:
    n = comparison.n if comparison.bare is None else comparison.n_shared
    return [
        name,
        _count(comparison.passed, n),
        _time(comparison.first_token_ms),
        _time(comparison.e2e_ms),
        _time(comparison.model_ms),
        _time(comparison.harness_ms),
        str(comparison.calls_lost),
        str(comparison.calls_gained),
        str(comparison.calls_altered),
    ]


def _count(rate: float | None, n: int) -> str:
    """`33 of 43`, where each prompt was asked once; else the mean rate."""
    if rate is None or not n:
        return ABSENT
    passed = rate * n
    if abs(passed - round(passed)) < 1e-6:
        return f"{round(passed)} of {n}"
    return f"{format_percent(rate)} of {n}"


def _time(value_ms: float | None) -> str:
    return ABSENT if value_ms is None else format_latency(value_ms)


def describe_comparison(comparison: AgentComparison) -> list[str]:
    """What the program did, one clause after the other."""
    sentences = []
    changed = _word_change(comparison)
    if changed:
        sentences.append(changed)
    lost = _word_lost(comparison)
    if lost:
        sentences.append(lost)
    if comparison.added_tokens is not None and round(comparison.added_tokens):
        added = rounded(comparison.added_tokens)
        sentences.append(f"its prompt adds {added} tokens to every request")
    if comparison.added_cost_usd:
        money = format_money(abs(comparison.added_cost_usd))
        more = "more" if comparison.added_cost_usd > 0 else "less"
        sentences.append(f"a prompt costs {money} {more} than bare")
    if comparison.first_token_user_ms is not None and comparison.first_token_ms is not None:
        waited = format_latency(comparison.first_token_user_ms)
        sentences.append(f"a user waits {waited} for the first token, the program's start included")
    if comparison.added_messages:
        messages = plural(comparison.added_messages, "message")
        sentences.append(f"it put {messages} of its own into the user's mouth")
    if comparison.late:
        cells = plural(comparison.late, "prompt")
        sentences.append(f"in {cells} the machine was too full to pass replies on at once")
    return sentences


def _word_change(comparison: AgentComparison) -> str:
    if comparison.bare is None:
        return f"to see what the program changes, ask {_bare_label(comparison)} in the same run too"
    if comparison.passed is None or comparison.bare_passed is None or not comparison.n_shared:
        return ""
    difference = (comparison.passed - comparison.bare_passed) * comparison.n_shared
    if comparison.p is None or abs(difference) < 1e-6:
        return "as many right as without it"
    amount = rounded(abs(difference), 0 if abs(difference - round(difference)) < 1e-6 else 1)
    direction = "fewer" if difference < 0 else "more"
    is_sure = comparison.p <= ALPHA
    certainty = "more than luck" if is_sure else "may be luck"
    return f"{amount} {direction} right than without it ({certainty}, {word_p(comparison.p)})"


def _bare_label(comparison: AgentComparison) -> str:
    provider, _, model = comparison.target.partition(":")[2].partition("/")
    return f"-t {provider}:{model}"


def _word_lost(comparison: AgentComparison) -> str:
    parts = []
    if comparison.calls_lost:
        lost = f"{plural(comparison.calls_lost, 'call')} never reached the tools"
        if comparison.calls_written:
            lost += f" ({comparison.calls_written} of them written as text)"
        parts.append(lost)
    if comparison.calls_gained:
        calls = plural(comparison.calls_gained, "call")
        parts.append(f"{calls} ran that the model had not made as a call")
    if comparison.calls_altered:
        calls = plural(comparison.calls_altered, "call")
        parts.append(f"{calls} ran with other arguments")
    return ", ".join(parts)


def describe_all_agents(summaries: Sequence[RunSummary]) -> list[Section]:
    """The sections of several runs, those without a program left out."""
    return [describe_agents(summary) for summary in summaries if summary.agents]


def describe_cell(result: Result) -> list[str]:
    """The program, whose time it was, and every call on both sides of it."""
    facts = result.agent
    if facts is None:
        return []
    untested = "" if facts.is_tested_version else ", a version not tested with"
    lines = [
        f"{facts.program} {facts.version or 'of unknown version'}{untested}, over {facts.wire}",
        f"model {result.model_ms} ms, tools {result.tools_ms} ms, program {result.harness_ms} ms"
        f"{_word_parts(result)}",
    ]
    if result.ttft_user_ms is not None:
        lines.append(f"first token for the user after {result.ttft_user_ms} ms")
    if result.made is not None and result.made.objective_pass is not None:
        verdict = "pass" if result.made.objective_pass else f"fail: {result.made.violation}"
        lines.append(f"what the model said, judged by itself: {verdict}")
    for call in result.agent_calls:
        made = _word_side(call.made_name, call.made_arguments)
        run = _word_side(call.run_name, call.run_arguments)
        channel = ""
        if call.made_channel is not None and call.made_channel != "native":
            channel = f" ({call.made_channel})"
        lines.append(f"turn {call.turn}: made {made}{channel} / run {run} {call.fate}")
    return [clean_cell(line) for line in lines]


def _word_parts(result: Result) -> str:
    parts = result.harness_parts
    if parts is None:
        return ""
    return f" (start {parts.start}, between turns {parts.between}, end {parts.end})"


def _word_side(name: str | None, arguments: object) -> str:
    if name is None:
        return "–"
    return f"{name} {json.dumps(arguments, ensure_ascii=False)}"
