"""What is recorded of a run and a model in words, each figure with the n it rests on; and the three questions that
everyone asks of a run, answered: for all reports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from clawgauge import words
from clawgauge.records import CallBalance, FailureCount, GroupSummary, Percentiles, Result, RunConfig, RunOptions
from clawgauge.records.summary import RunSummary, ToolUse
from clawgauge.reports.clean import one_line
from clawgauge.stats.quantiles import samples_needed
from clawgauge.summary.trust import word_violation
from clawgauge.verdict.jobs import best_first, rate_answers
from clawgauge.verdict.wording import word_capacity, word_lacking
from clawgauge.words import ABSENT, format_duration, format_latency, format_percent, format_rate, list_names, plural

INDICATIVE = "†"
MAX_HINT, MAX_EXAMPLE = 240, 160
MIN_SAMPLES_P95 = samples_needed(0.95)
PASSING_RATE = 0.8
_MAX_NAMED, _NAME_CHARS = 4, 80
LEGEND = f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls, p99 under {samples_needed(0.99)}"


def verdict_word(result: Result) -> str:
    if not result.was_asked:
        return f"not asked ({result.failure_type})"
    if not result.success:
        status = "no answer" if result.availability_status == "ok" else result.availability_status
        return f"{status} ({result.failure_type})"
    if result.not_judged is not None:
        return f"no verdict ({result.not_judged})"
    if result.objective_pass is None:
        return "answered"
    return "pass" if result.objective_pass else f"fail ({(result.violation or '').partition(':')[0]})"


def word_failure(failure: FailureCount) -> str:
    example = f": {one_line(failure.example, MAX_EXAMPLE)}" if failure.example else ""
    hint = f" → {one_line(failure.hint, MAX_HINT)}" if failure.hint else ""
    not_asked = plural(failure.n_not_asked, "prompt")
    if not failure.n_attempted:
        return f"{not_asked} not asked, {failure.failure_type}{example}{hint}"
    after = f" ({not_asked} not asked after it)" if failure.n_not_asked else ""
    return f"{failure.n_attempted} × {failure.failure_type}{after}{example}{hint}"


def word_given_up(n_calls: int, what_next: str) -> str:
    """What an ending lost of the calls that were made; `what_next` says how to get it back."""
    if n_calls == 1:
        return f"1 call was given up, in flight or with an answer that was not written: {what_next}"
    return f"{n_calls} calls were given up, in flight or with answers that were not written: {what_next}"


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
        f"at most {plural(options.max_retries, 'retry', 'retries')}" if options.max_retries else "no retries",
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
    likely = f", likely {words.rounded(use.ci95[0] * 100)}–{words.rounded(use.ci95[1] * 100)}%" if use.ci95 else ""
    said = f"called a tool in {use.k} of {use.n} ({format_percent(use.rate)}{likely})"
    if use.p_tier is not None and use.tier is not None:
        said += f"; Tier {use.tier}, {format_percent(use.p_tier[use.tier - 1])} sure"
    if use.n_eff is not None and use.n_eff < use.n:
        independent = plural(int(words.rounded(use.n_eff)), "independent one")
        said += f"; {use.n} answers, but repeats are alike: as good as {independent}"
    return said


def word_recommendation(use: ToolUse) -> str:
    access = "recommended for subagents with full tool access"
    if use.recommended_for_subagents:
        return access
    denial = "not" if any(need.met == "no" for need in use.needs) else "not yet"
    return f"{denial} {access}: {word_lacking(use.needs)}"


def word_balance(balance: CallBalance | None) -> str:
    """Empty where only one of the two was asked for. Restraint is another thing, a right answer without a call: so
    here the calls are counted, not the abstentions."""
    if balance is None or balance.rate is None:
        return ""
    uncalled_for = format_rate(balance.n_no_call - balance.k_no_call, balance.n_no_call)
    called = f"made where one was wanted {format_rate(balance.k_call, balance.n_call)}, where none was {uncalled_for}"
    text = f"native calls: {called} (balance of the two {format_percent(balance.rate)})"
    if balance.text_call or balance.text_no_call:
        wanted = format_rate(balance.text_call, balance.n_call)
        unwanted = format_rate(balance.text_no_call, balance.n_no_call)
        text += f"; calls written as text: {wanted} where one was wanted, {unwanted} where none was"
    return text


def context_rows(summary: RunSummary) -> list[list[str]]:
    """What the user's own context costs: model, what, bare, in context, and how sure that is; none if not measured."""
    called = {"calls": "right calls", "tasks": "tasks done", "other": "other answers", "harm": "tasks with harm"}
    names, rows = name_models(group.target.label for group in summary.models), []
    for group in summary.models:
        for one in group.in_context:
            show: Callable[[float], str] = format_percent if one.p is not None else str
            show = format_latency if one.what == "first_token" else show
            change = plural(one.n, "prompt")
            if one.p is not None:
                between = " to ".join(words.signed(end * 100) for end in one.ci95 or ())
                moved = f"{words.in_points(one.in_context - one.bare)} ({between})".replace("-", "−")
                change = f"{moved}, {words.word_p(one.p)}, {change}"
            what = called.get(one.what, one.what.replace("_", " "))
            rows.append([names[group.target.label], what, show(one.bare), show(one.in_context), change])
    return rows


def shown_ms(exact_us: int | None, recorded_ms: int | None) -> float | None:
    """Tenths where a time is shown with them, else as recorded: what is rounded twice is another figure."""
    if recorded_ms is None or exact_us is None or exact_us >= 10_000:
        return recorded_ms
    return float(words.rounded(exact_us / 1000, 1))


def format_measure(figures: Percentiles, name: str, digits: int = 0, *, interval: bool = True) -> str:
    """One percentile with its 95% interval, marked where it is only indicative: `204 (202–208)`, `310†`, `> 120 s`."""
    value = getattr(figures, name)
    if value is None:
        return ABSENT
    if name in figures.beyond:
        return words.format_beyond(value)
    mark = INDICATIVE if name in figures.indicative else ""
    ends = getattr(figures, f"{name}_ci95") if interval else None
    between = f" ({words.rounded(ends[0], digits)}–{words.rounded(ends[1], digits)})" if ends else ""
    return f"{words.rounded(value, digits)}{mark}{between}"


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """A name for each target, no two alike: without its provider where that is enough."""
    bare = {label: label.partition(":")[2] or label for label in labels}
    uses = Counter(bare.values())
    return {label: name if uses[name] == 1 else label for label, name in bare.items()}


def name_models(labels: Iterable[str]) -> dict[str, str]:
    return {label: one_line(name, _NAME_CHARS) for label, name in short_names(labels).items()}


class Finding(NamedTuple):
    question: str
    answer: str
    notes: list[str]


def pace_ms(group: GroupSummary) -> float:
    """The median that every report shows, which models are ranked by; last come those that mostly did not answer."""
    timed = group.timed_ms
    return math.inf if timed.p50 is None or "p50" in timed.beyond else timed.p50


def word_median(group: GroupSummary) -> str:
    return f"median {format_latency(pace_ms(group))} over {plural(group.timed_ms.n, 'call')}"


def find_answers(summary: RunSummary, violations: Counter[str]) -> list[Finding]:
    """The three questions everyone asks of a run. `violations` counts the codes of its failed verdicts."""
    unreadable = [f"{word_unreadable(n)}."] if (n := summary.n_unreadable_lines) else []
    if not any(group.attempted for group in summary.models):
        scheduled = sum(group.n_scheduled for group in summary.models)
        notes = [f"{plural(scheduled, 'call was', 'calls were')} planned."] if scheduled else []
        for group in summary.models:
            notes += [f"{one_line(group.target.label, _NAME_CHARS)}: {word_failure(one)}" for one in group.failures]
        return [Finding("What came of it?", "This run recorded no call.", notes + unreadable)]
    if summary.capacity:
        loads = [(one_line(entry.target, _NAME_CHARS), word_capacity(entry)) for entry in summary.capacity]
        return [Finding(f"What can {name} carry?", found, unreadable) for name, found in loads]
    names = name_models(group.target.label for group in summary.models)
    models = [_Model(names[group.target.label], group) for group in best_first(summary.models, summary.jobs)]
    found = [_tier_one(models), _fastest(models), _failed(models, violations, unreadable)]
    rows = context_rows(summary)
    costs = [f"{name}: {what} {a} bare, {b} in context; {change}." for name, what, a, b, change in rows]
    return [*([Finding("What does your own prompt cost?", costs[0], costs[1:])] if costs else []), *found]


class _Model(NamedTuple):
    name: str
    figures: GroupSummary

    @property
    def is_passing(self) -> bool:
        """Of all its prompts: a model that is down most of the time, or was given up, is quick to no purpose."""
        k, n = self.figures.passes_if_given_up
        return n > 0 and k / n >= PASSING_RATE

    @property
    def passes(self) -> str:
        k, n, ci95 = rate_answers(self.figures)
        if not n:
            return "nothing judged"
        judged = format_rate(k, n, ci95)
        return "{} of its judged answers, {}/{} of what was asked".format(judged, *self.figures.passes)


def _tier_one(models: Sequence[_Model]) -> Finding:
    uses = [(model, model.figures.tool_use) for model in models]
    sure = [model for model, use in uses if use.recommended_for_subagents]
    unsure = [m for m, use in uses if use.tier == 1 and not any(need.met == "no" for need in use.needs)]
    notes = []
    for m, use in uses:
        told = [word_tier(use) if use.n else "", word_recommendation(use) if m.figures.n_ok else "", use.caution or ""]
        notes += [f"{m.name}, {use.label}: {'; '.join(filter(None, told))}."] if any(told) else []
    if sure:
        answer = f"{list_names([m.name for m in sure], _MAX_NAMED)}: recommended for subagents with full tool access."
    elif unsure:
        named = list_names([m.name for m in unsure], _MAX_NAMED)
        answer = f"Nobody for certain yet. {named} could be: Tier 1 so far, but not all that it takes is shown."
    elif any(use.n for _, use in uses):
        answer = "No model here."
    else:
        answer = "Not known: no answered prompt expected a tool call."
    return Finding("Who may be a subagent?", answer, notes)


def _fastest(models: Sequence[_Model]) -> Finding:
    question = "Which is the fastest that passes?"
    timed = sorted((m for m in models if math.isfinite(pace_ms(m.figures))), key=lambda m: pace_ms(m.figures))
    passing = [model for model in timed if model.is_passing]
    bar = f"{format_percent(PASSING_RATE)} of its prompts"
    if not timed:
        return Finding(question, "None: no model answered most of its calls.", [])
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
    n_attempted = sum(g.attempted for g in groups)
    n_not_asked = sum(g.n_not_asked for g in groups)
    n_judged = sum(g.n_judged for g in groups)
    silent = n_attempted - sum(g.n_success for g in groups)
    wrong = n_judged - sum(g.n_passed for g in groups)
    n_unjudged = sum(g.n_unjudged for g in groups)
    if not silent and not wrong and not n_not_asked and not n_unjudged:
        return Finding(question, f"Nothing: {plural(n_attempted, 'call')}, all answered, none failed.", unreadable)
    # These are calls to look at; a model's rates leave out those in the user's own context.
    inside = ", those in your own context included" if any(group.bare for group in groups) else ""
    parts = [f"{wrong} of {plural(n_judged, 'judged answer')} failed{inside}" if wrong else "No judged answer failed"]
    parts += [f"{silent} of {plural(n_attempted, 'call')} brought no answer" if silent else "every call was answered"]
    if n_not_asked:
        parts.append(f"{plural(n_not_asked, 'prompt was', 'prompts were')} not asked")
    if n_unjudged:
        parts.append(f"{plural(n_unjudged, 'answer has', 'answers have')} no verdict because the check broke")
    notes = []
    if violations:
        common = [(word_violation(code), n) for code, n in violations.most_common(_MAX_NAMED)]
        notes.append(f"Most often: {'; '.join(f'{one_line(words, 60)} ({n})' for words, n in common)}.")
    # The commonest ways of not answering, each with who, how often, the server's words and the way out.
    failures = [(f.n_attempted, m.name, f) for m in models for f in m.figures.failures]
    counted = sorted(failures, key=lambda found: -found[0])
    notes += [f"{name}: {word_failure(failure)}" for _, name, failure in counted[:_MAX_NAMED]]
    rest = sum(n for n, _, _ in counted[_MAX_NAMED:])
    notes += [f"{plural(rest, 'more call')} ended in other ways."] if rest else []
    return Finding(question, f"{', '.join(parts)}.", notes + unreadable)


def describe_run(summary: RunSummary) -> str:
    n_attempted = sum(group.attempted for group in summary.models)
    n_not_asked = sum(group.n_not_asked for group in summary.models)
    n_ok = sum(group.n_ok for group in summary.models)
    parts = [plural(len(summary.models), "model"), plural(n_attempted, "call"), f"{n_ok} answered"]
    if n_not_asked:
        parts.append(f"{plural(n_not_asked, 'prompt')} not asked")
    if summary.run_wall_clock_ms is not None:
        parts.append(format_duration(summary.run_wall_clock_ms))
    return " · ".join(parts)
