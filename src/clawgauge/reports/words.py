"""What is recorded of a run and a model in words, each figure with the n it rests on: for all reports.

And the answer, before any chart: who is Tier 1 and how sure that is, the fastest that passes, what failed and why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clawgauge.records import (
    CallBalance,
    FailureCount,
    GroupSummary,
    Percentiles,
    Result,
    RunConfig,
    RunOptions,
    RunSummary,
    Target,
    ToolUse,
)
from clawgauge.reports.clean import one_line
from clawgauge.stats.quantiles import samples_needed
from clawgauge.summary.tool_use import word_lacking
from clawgauge.words import (
    ABSENT,
    format_duration,
    format_latency,
    format_percent,
    format_rate,
    list_names,
    plural,
    rounded,
)

INDICATIVE = "†"
MAX_HINT = 240
MAX_EXAMPLE = 160
MIN_SAMPLES_P95 = samples_needed(0.95)
MIN_SAMPLES_P99 = samples_needed(0.99)
PASSING_RATE = 0.8
_MAX_NAMED = 4
_NAME_CHARS = 80
_CODE_CHARS = 60
LEGEND = f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls, p99 under {MIN_SAMPLES_P99}"


def verdict_word(result: Result) -> str:
    if not result.success:
        status = "no answer" if result.availability_status == "ok" else result.availability_status
        return f"{status} ({result.failure_type})"
    if result.objective_pass is None:
        return "answered"
    return "pass" if result.objective_pass else f"fail ({(result.violation or '').partition(':')[0]})"


def word_failure(failure: FailureCount) -> str:
    """How often calls failed in one way, the server's words, the way out: `3 × timeout: no answer → raise …`."""
    said = f": {one_line(failure.example, MAX_EXAMPLE)}" if failure.example else ""
    hint = f" → {one_line(failure.hint, MAX_HINT)}" if failure.hint else ""
    return f"{failure.n} × {failure.failure_type}{said}{hint}"


def word_unreadable(n_lines: int, where: str = "results.jsonl") -> str:
    return f"{plural(n_lines, 'line')} of {where} could not be read and counted in nothing"


def word_suites(config: RunConfig) -> str:
    """The suites with their versions and how much of each was asked: `core 3 (5 of 36 prompts)`."""
    asked = Counter(prompt.suite for prompt in config.prompts)
    parts = []
    for suite in config.suites:
        some = f"{asked[suite.name]} of " if asked[suite.name] not in (0, suite.n_prompts) else ""
        parts.append(f"{suite.name} {suite.version} ({some}{plural(suite.n_prompts, 'prompt')})")
    return ", ".join(parts)


def word_options(options: RunOptions) -> str:
    asked = [
        plural(options.repeats, "repeat"),
        f"concurrency {options.concurrency}",
        f"timeout {options.timeout_s:g} s",
        "streaming" if options.stream else "no streaming",
        f"at most {plural(options.max_retries, 'retry', 'retries')}",
        "" if options.max_tokens is None else f"at most {plural(options.max_tokens, 'token')}",
        "" if options.temperature is None else f"temperature {options.temperature:g}",
        "" if options.seed is None else f"seed {options.seed}",
        "warm-up calls" if options.warm_up else "",
        "a unique line before every prompt" if options.unique_prefix else "",
        "stopped when a tier was decided" if options.until_decided else "",
    ]
    return ", ".join(filter(None, asked))


def word_tier(use: ToolUse) -> str:
    """The evidence of a tier: `called a tool in 54 of 68 (79%, likely 68–87%); Tier 2, 59% sure`."""
    likely = f", likely {rounded(use.ci95[0] * 100)}–{rounded(use.ci95[1] * 100)}%" if use.ci95 else ""
    said = f"called a tool in {use.k} of {use.n} ({format_percent(use.rate)}{likely})"
    if use.p_tier is not None and use.tier is not None:
        said += f"; Tier {use.tier}, {format_percent(use.p_tier[use.tier - 1])} sure"
    if use.n_eff is not None and use.n_eff < use.n:
        said += f"; {use.n} answers, but repeats are alike: as good as {use.n_eff:.0f} independent ones"
    return said


def word_recommendation(use: ToolUse) -> str:
    """Whether a subagent may have its tools, and what stands in the way."""
    access = "recommended for subagents with full tool access"
    if use.recommended_for_subagents:
        return access
    denial = "not" if any(need.met == "no" for need in use.needs) else "not yet"
    return f"{denial} {access}: {word_lacking(use.needs)}"


def word_balance(balance: CallBalance | None) -> str:
    """Calling and leaving alone in one figure, with the two behind it; empty where only one of them was asked for."""
    if balance is None or balance.rate is None:
        return ""
    called, held = format_rate(balance.k_call, balance.n_call), format_rate(balance.k_no_call, balance.n_no_call)
    figure = f"calls when it should and only then: {format_percent(balance.rate)}"
    return f"{figure} (called where it should {called}, held back where it should {held})"


def format_measure(figures: Percentiles, name: str, digits: int = 0, *, interval: bool = True) -> str:
    """One percentile with its 95% interval, marked where it is only indicative: `204 (202–208)`, `310†`, `> 120 s`."""
    value = getattr(figures, name)
    if value is None:
        return ABSENT
    if name in figures.beyond:
        return f"> {rounded(value / 1000, 0 if value >= 10_000 else 1)} s"
    mark = INDICATIVE if name in figures.indicative else ""
    ends = getattr(figures, f"{name}_ci95") if interval else None
    between = f" ({rounded(ends[0], digits)}–{rounded(ends[1], digits)})" if ends else ""
    return f"{rounded(value, digits)}{mark}{between}"


def short_names(targets: Iterable[Target]) -> dict[Target, str]:
    """A name for each target, no two alike."""
    distinct = set(targets)
    bare = {target: target.label.removeprefix(f"{target.provider}:") for target in distinct}
    uses = Counter(bare.values())
    return {target: bare[target] if uses[bare[target]] == 1 and bare[target] else target.label for target in distinct}


@dataclass(frozen=True)
class Finding:
    """One question and its answer: the sentence that matters, and what it rests on."""

    question: str
    answer: str
    notes: list[str]


def pace_ms(group: GroupSummary) -> float:
    """What models are ranked by; those without a successful call come last."""
    return math.inf if group.latency_ms.p50 is None else group.latency_ms.p50


def is_passing(group: GroupSummary) -> bool:
    """Of what was scheduled: a model that is down most of the time is quick to no purpose."""
    return (group.pass_rate_scheduled or 0.0) >= PASSING_RATE


def word_median(group: GroupSummary) -> str:
    """`median 204 ms over 18 calls`."""
    return f"median {format_latency(group.latency_ms.p50 or 0.0)} over {plural(group.n_success, 'call')}"


def find_answers(summary: RunSummary, violations: Counter[str]) -> list[Finding]:
    """The three questions everyone asks of a run. `violations` counts the codes of its failed verdicts."""
    n_unreadable = summary.n_unreadable_lines
    unreadable = [f"{word_unreadable(n_unreadable)}."] if n_unreadable else []
    if not any(group.n_total for group in summary.models):
        scheduled = sum(group.n_scheduled for group in summary.models)
        notes = [f"{plural(scheduled, 'call was', 'calls were')} planned."] if scheduled else []
        return [Finding("What came of it?", "This run recorded no call.", notes + unreadable)]
    names = short_names(group.target for group in summary.models)
    models = [_Model(one_line(names[group.target], _NAME_CHARS), group) for group in summary.models]
    return [_tier_one(models), _fastest(models), _failed(models, violations, unreadable)]


class _Model(NamedTuple):
    """A group under the name it has in the sentences."""

    name: str
    figures: GroupSummary

    @property
    def passes(self) -> str:
        figures = self.figures
        if not figures.n_judged:
            return "nothing judged"
        judged = format_rate(figures.n_passed, figures.n_judged, figures.objective_pass_ci95)
        return f"{judged} of its judged answers, {figures.n_passed}/{figures.n_scheduled_judged} of what was scheduled"


def _tier_one(models: Sequence[_Model]) -> Finding:
    question = "Who may be a subagent?"
    uses = [(model, model.figures.tool_use) for model in models]
    sure = [model for model, use in uses if use.recommended_for_subagents]
    unsure = [m for m, use in uses if use.tier == 1 and not any(need.met == "no" for need in use.needs)]
    notes = [f"{m.name}, {use.label}: {word_tier(use)}." for m, use in uses if use.n]
    notes += [f"{m.name} {words}." for m, _ in uses if (words := word_balance(m.figures.call_balance))]
    notes += [f"{m.name}: {word_recommendation(use)}." for m, use in uses if m.figures.n_ok]
    notes += [f"{m.name}: {use.caution}" for m, use in uses if use.caution]
    if sure:
        answer = f"{list_names([m.name for m in sure], _MAX_NAMED)}: recommended for subagents with full tool access."
    elif unsure:
        named = list_names([m.name for m in unsure], _MAX_NAMED)
        answer = f"Nobody for certain yet. {named} could be: Tier 1 so far, but not all that it takes is shown."
    elif any(use.n for _, use in uses):
        answer = "No model here."
    else:
        answer = "Not known: no answered prompt expected a tool call."
    return Finding(question, answer, notes)


def _fastest(models: Sequence[_Model]) -> Finding:
    question = "Which is the fastest that passes?"
    timed = sorted((m for m in models if m.figures.latency_ms.p50 is not None), key=lambda m: pace_ms(m.figures))
    passing = [m for m in timed if is_passing(m.figures)]
    bar = f"{format_percent(PASSING_RATE)} of what was scheduled"
    if not timed:
        return Finding(question, "None: no call succeeded.", [])
    if not passing:
        first = timed[0]
        note = f"The fastest of all is {first.name}: {word_median(first.figures)}; it passes {first.passes}."
        return Finding(question, f"None: no model passes {bar}.", [note])
    best, *others = passing
    notes = [f"It passes {best.passes}. Passing here means at least {bar}."]
    notes += [f"Next: {other.name}, {word_median(other.figures)}, passes {other.passes}." for other in others[:2]]
    if faster := timed[: timed.index(best)]:
        notes.append(f"Faster, but not passing: {list_names([f'{m.name} ({m.passes})' for m in faster], _MAX_NAMED)}.")
    return Finding(question, f"{best.name}, {word_median(best.figures)}.", notes)


def _failed(models: Sequence[_Model], violations: Counter[str], unreadable: list[str]) -> Finding:
    question = "What failed, and why?"
    groups = [model.figures for model in models]
    n_total, n_judged = sum(g.n_total for g in groups), sum(g.n_judged for g in groups)
    silent, wrong = n_total - sum(g.n_success for g in groups), n_judged - sum(g.n_passed for g in groups)
    if not silent and not wrong:
        answer = f"Nothing: {plural(n_total, 'call')}, all answered, none failed."
        return Finding(question, answer, unreadable)
    parts = [f"{wrong} of {n_judged} judged answers failed" if wrong else "No judged answer failed"]
    parts += [f"{silent} of {n_total} calls brought no answer" if silent else "every call was answered"]
    notes = []
    if violations:
        named = [f"{one_line(code, _CODE_CHARS)} ({n})" for code, n in violations.most_common(_MAX_NAMED)]
        notes.append(f"Failed answers broke, most often: {', '.join(named)}.")
    # The commonest ways of not answering, each with who, how often, the server's words and the way out.
    counted = sorted(((f.n, m.name, f) for m in models for f in m.figures.failures), key=lambda found: -found[0])
    notes += [f"{name}: {word_failure(failure)}" for _, name, failure in counted[:_MAX_NAMED]]
    rest = sum(n for n, _, _ in counted[_MAX_NAMED:])
    notes += [f"{plural(rest, 'more call')} ended in other ways."] if rest else []
    return Finding(question, f"{', '.join(parts)}.", notes + unreadable)


def describe_run(summary: RunSummary) -> str:
    n_total, n_ok = sum(g.n_total for g in summary.models), sum(g.n_ok for g in summary.models)
    parts = [plural(len(summary.models), "model"), plural(n_total, "call"), f"{n_ok} answered"]
    if summary.run_wall_clock_ms is not None:
        parts.append(format_duration(summary.run_wall_clock_ms))
    return " · ".join(parts)
