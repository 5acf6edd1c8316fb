"""What is recorded of a run and a model in words, each figure with the n it rests on; and the
three questions that everyone asks of a run, answered: for all reports."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clawgauge import words
from clawgauge.figures import INDICATIVE, passed, passed_of_asked, passed_of_needed, timed
from clawgauge.records import CallBalance, FailureCount, GroupSummary, Result, RunConfig, RunOptions
from clawgauge.records.summary import InContext, RunSummary, ToolUse
from clawgauge.registry import find_type
from clawgauge.reports.clean import one_line
from clawgauge.stats.quantiles import samples_needed
from clawgauge.summary.trust import word_violation
from clawgauge.verdict.jobs import best_first
from clawgauge.verdict.wording import word_capacity, word_lacking
from clawgauge.words import (
    format_duration,
    format_latency,
    format_percent,
    format_rate,
    list_names,
    plural,
)

MAX_HINT = 240
MAX_EXAMPLE = 160
MIN_SAMPLES_P95 = samples_needed(0.95)
PASSING_RATE = 0.8
_MAX_NAMED = 4
_MAX_NEXT = 2
_NAME_CHARS = 80
# The path of a model file, which may have a thinking level behind it.
_MODEL_FILE = re.compile(r"[/\\][^/\\]*\.gguf(@\w+)?$", re.IGNORECASE)
_VIOLATION_CHARS = 60
_FEW_CALLS = f"p95 under {MIN_SAMPLES_P95} calls, p99 under {samples_needed(0.99)}"
# What a run asks that was given no list of prompts.
UNTIL_DECIDED = "until decided"
LEGEND = f"{INDICATIVE} indicative only: {_FEW_CALLS}"


def verdict_word(result: Result) -> str:
    """How a call ended, in a word or two, with the code of what was wrong."""
    if not result.was_asked:
        return f"not asked ({result.failure_type})"
    if not result.success:
        is_empty = result.availability_status == "ok"
        status = "no answer" if is_empty else result.availability_status
        return f"{status} ({result.failure_type})"
    if result.not_judged is not None:
        return f"no verdict ({result.not_judged})"
    if result.objective_pass is None:
        return "answered"
    if result.objective_pass:
        return "pass"
    violation = (result.violation or "").partition(":")[0]
    return f"fail ({violation})"


def word_failure(failure: FailureCount) -> str:
    """`3 × timeout (2 prompts not asked after it): its words → what to do`."""
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
        lost = "1 call was given up, in flight or with an answer that was not written"
        return f"{lost}: {what_next}"
    lost = f"{n_calls} calls were given up, in flight or with answers that were not written"
    return f"{lost}: {what_next}"


def word_unreadable(n_lines: int, where: str = "results.jsonl") -> str:
    return f"{plural(n_lines, 'line')} of {where} could not be read and counted in nothing"


def word_suites(config: RunConfig) -> str:
    """The suites with their versions and how much of each was asked: `core 3 (5 of 36 prompts)`."""
    n_asked = Counter(prompt.suite for prompt in config.prompts)
    parts = []
    for suite in config.suites:
        prompts = plural(suite.n_prompts, "prompt")
        if n_asked[suite.name] not in (0, suite.n_prompts):
            prompts = f"{n_asked[suite.name]} of {prompts}"
        parts.append(f"{suite.name} {suite.version} ({prompts})")
    return ", ".join(parts)


def word_options(options: RunOptions) -> str:
    """How a run asked: `1 repeat, concurrency 4, timeout 120 s, streaming, no retries`."""
    # Recorded as 0 where nobody named a number.
    concurrency = str(options.concurrency) if options.concurrency else "found out"
    parts = [
        plural(options.repeats, "repeat"),
        f"concurrency {concurrency}",
        f"timeout {options.timeout_s:g} s",
        "streaming" if options.stream else "no streaming",
    ]
    if options.max_retries:
        parts.append(f"at most {plural(options.max_retries, 'retry', 'retries')}")
    else:
        parts.append("no retries")
    if options.max_tokens is not None:
        parts.append(f"at most {plural(options.max_tokens, 'token')}")
    if options.temperature is not None:
        parts.append(f"temperature {options.temperature:g}")
    if options.seed is not None:
        parts.append(f"seed {options.seed}")
    if options.warm_up:
        parts.append("warm-up calls")
    if options.unique_prefix:
        parts.append("a unique line before every prompt")
    if options.until_decided:
        parts.append("stopped when a tier was decided")
    return ", ".join(parts)


def word_tier(use: ToolUse) -> str:
    """The evidence of a tier: `called a tool in 54 of 68 (79%, likely 68–87%); Tier 2, 59%
    sure`."""
    likely = ""
    if use.ci95:
        low, high = use.ci95
        likely = f", likely {words.rounded(low * 100)}–{words.rounded(high * 100)}%"
    parts = [f"called a tool in {use.k} of {use.n} ({format_percent(use.rate)}{likely})"]
    if use.p_tier is not None and use.tier is not None:
        parts.append(f"Tier {use.tier}, {format_percent(use.p_tier[use.tier - 1])} sure")
    if use.n_eff is not None and use.n_eff < use.n:
        independent = plural(int(words.rounded(use.n_eff)), "independent one")
        parts.append(f"{use.n} answers, but repeats are alike: as good as {independent}")
    return "; ".join(parts)


def word_recommendation(use: ToolUse) -> str:
    """Whether a model is recommended for subagents, and what stands in the way."""
    access = "recommended for subagents with full tool access"
    if use.recommended_for_subagents:
        return access
    denial = "not" if any(need.met == "no" for need in use.needs) else "not yet"
    return f"{denial} {access}: {word_lacking(use.needs)}"


def word_balance(balance: CallBalance | None) -> str:
    """Empty where only one of the two was asked for. Restraint is another thing, a right answer
    without a call: so here the calls are counted, not the abstentions."""
    if balance is None or balance.rate is None:
        return ""
    n_uncalled_for = balance.n_no_call - balance.k_no_call
    rate_of_calls = format_rate(balance.k_call, balance.n_call)
    uncalled_for = format_rate(n_uncalled_for, balance.n_no_call)
    calls = f"made where one was wanted {rate_of_calls}, where none was {uncalled_for}"
    text = f"native calls: {calls} (balance of the two {format_percent(balance.rate)})"
    if balance.text_call or balance.text_no_call:
        rate_of_calls = format_rate(balance.text_call, balance.n_call)
        unwanted = format_rate(balance.text_no_call, balance.n_no_call)
        in_text = f"{rate_of_calls} where one was wanted, {unwanted} where none was"
        text += f"; calls written as text: {in_text}"
    return text


# What the figures of a context are called, where their name is not enough.
_IN_CONTEXT = {
    "calls": "right calls",
    "tasks": "tasks done",
    "other": "other answers",
    "harm": "tasks with harm",
}


def context_rows(summary: RunSummary) -> list[list[str]]:
    """What the user's own context costs: model, what, bare, in context, and how sure that is;
    none if not measured."""
    names = name_models(group.target.label for group in summary.models)
    rows = []
    for group in summary.models:
        for figure in group.in_context:
            what = _IN_CONTEXT.get(figure.what, figure.what.replace("_", " "))
            bare = _word_in_context(figure, figure.bare)
            inside = _word_in_context(figure, figure.in_context)
            rows.append([names[group.target.label], what, bare, inside, _word_change(figure)])
    return rows


def _word_in_context(figure: InContext, value: float) -> str:
    """A rate has a p-value; of the other figures one is a time, and one counts tasks."""
    if figure.what == "first_token":
        return format_latency(value)
    return str(value) if figure.p is None else format_percent(value)


def _word_change(figure: InContext) -> str:
    n_prompts = plural(figure.n, "prompt")
    if figure.p is None:
        return n_prompts
    interval = " to ".join(words.signed(end * 100) for end in figure.ci95 or ())
    moved = f"{words.in_points(figure.in_context - figure.bare)} ({interval})".replace("-", "−")
    return f"{moved}, {words.word_p(figure.p)}, {n_prompts}"


def shown_ms(exact_us: int | None, recorded_ms: int | None) -> float | None:
    """Tenths where a time is shown with them, else as recorded: what is rounded twice is another
    figure."""
    if recorded_ms is None or exact_us is None or exact_us >= 10_000:
        return recorded_ms
    return float(words.rounded(exact_us / 1000, 1))


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """A name for each target, no two alike: without its provider where that is enough, and a model
    file without its folder."""
    names = {label: _bare_name(label) for label in labels}
    uses = Counter(names.values())
    return {label: name if uses[name] == 1 else label for label, name in names.items()}


def _bare_name(label: str) -> str:
    provider, _, model = label.partition(":")
    if find_type(provider).is_agent:
        # What it is inside of is what tells it from the bare model.
        return label
    name = model or label
    if _MODEL_FILE.search(name):
        return re.split(r"[/\\]", name)[-1]
    return name


def name_models(labels: Iterable[str]) -> dict[str, str]:
    """The same, each on one line and of a bearable length."""
    return {label: one_line(name, _NAME_CHARS) for label, name in short_names(labels).items()}


class Finding(NamedTuple):
    question: str
    answer: str
    notes: list[str]


def pace_ms(group: GroupSummary) -> float:
    """The median that every report shows, which models are ranked by; last come those that
    mostly did not answer."""
    times = timed(group)
    if times.p50 is None or "p50" in times.beyond:
        return math.inf
    return times.p50


def word_median(group: GroupSummary) -> str:
    return f"median {format_latency(pace_ms(group))} over {plural(timed(group).n, 'call')}"


def find_answers(summary: RunSummary, violations: Counter[str]) -> list[Finding]:
    """The three questions everyone asks of a run. `violations` counts the codes of its failed
    verdicts."""
    unreadable = []
    if summary.n_unreadable_lines:
        unreadable.append(f"{word_unreadable(summary.n_unreadable_lines)}.")
    if not any(group.attempted for group in summary.models):
        return [_explain_silence(summary, unreadable)]
    if summary.capacity:
        findings = []
        for entry in summary.capacity:
            question = f"What can {one_line(entry.target, _NAME_CHARS)} carry?"
            findings.append(Finding(question, word_capacity(entry), unreadable))
        return findings
    names = name_models(group.target.label for group in summary.models)
    models = []
    for group in best_first(summary.models, summary.jobs):
        models.append(_Model(names[group.target.label], group))
    is_about_tools = summary.asked == "decision" or any(
        model.figures.tool_use.n for model in models
    )
    findings = [
        _find_tier_1(models) if is_about_tools else _find_best_passing(models),
        _find_fastest(models),
        _find_failures(models, violations, unreadable),
    ]
    costs = []
    for name, what, bare, inside, change in context_rows(summary):
        costs.append(f"{name}: {what} {bare} bare, {inside} in context; {change}.")
    if costs:
        findings.insert(0, Finding("What does your own prompt cost?", costs[0], costs[1:]))
    return findings


def _explain_silence(summary: RunSummary, unreadable: list[str]) -> Finding:
    notes = []
    n_scheduled = sum(group.n_scheduled for group in summary.models)
    if n_scheduled:
        notes.append(f"{plural(n_scheduled, 'call was', 'calls were')} planned.")
    for group in summary.models:
        name = one_line(group.target.label, _NAME_CHARS)
        notes += [f"{name}: {word_failure(failure)}" for failure in group.failures]
    return Finding("What came of it?", "This run recorded no call.", notes + unreadable)


class _Model(NamedTuple):
    """A model of a run and the name that it goes by there."""

    name: str
    figures: GroupSummary

    @property
    def is_passing(self) -> bool:
        """Of all its prompts: a model that is down most of the time, or was given up, is quick
        to no purpose."""
        rate = passed_of_needed(self.figures).value
        return rate is not None and rate >= PASSING_RATE

    @property
    def passes(self) -> str:
        """`83% · 5/6 · 44–97% of its judged answers, 5/10 of what was asked`."""
        of_answers = passed(self.figures)
        if not of_answers.n:
            return "nothing judged"
        rate = format_rate(of_answers.k, of_answers.n, of_answers.ci95)
        of_asked = passed_of_asked(self.figures)
        return f"{rate} of its judged answers, {of_asked.k}/{of_asked.n} of what was asked"


def _find_tier_1(models: Sequence[_Model]) -> Finding:
    notes = []
    recommended = []
    possible = []
    for model in models:
        use = model.figures.tool_use
        is_ruled_out = any(need.met == "no" for need in use.needs)
        if use.recommended_for_subagents:
            recommended.append(model.name)
        if use.tier == 1 and not is_ruled_out:
            possible.append(model.name)
        parts = []
        if use.n:
            parts.append(word_tier(use))
        if model.figures.n_ok:
            parts.append(word_recommendation(use))
        if use.caution:
            parts.append(use.caution)
        if parts:
            notes.append(f"{model.name}, {use.label}: {'; '.join(parts)}.")
    if recommended:
        names = list_names(recommended, _MAX_NAMED)
        answer = f"{names}: recommended for subagents with full tool access."
    elif possible:
        names = list_names(possible, _MAX_NAMED)
        so_far = "Tier 1 so far, but not all that it takes is shown"
        answer = f"Nobody for certain yet. {names} could be: {so_far}."
    elif any(model.figures.tool_use.n for model in models):
        answer = "No model here."
    else:
        # Of a run that asks until all is decided: it was given up before.
        answer = "Not known: no answered prompt expected a tool call."
    return Finding("Who may be a subagent?", answer, notes)


def _find_best_passing(models: Sequence[_Model]) -> Finding:
    """Who passes most of prompts that expect no tool call; they tell nothing of subagents."""
    question = "Which passes most?"
    judged = [model for model in models if passed_of_asked(model.figures).n]
    if not judged:
        return Finding(question, "Not known: no answer has a verdict.", [])

    def share(model: _Model) -> float:
        of_asked = passed_of_asked(model.figures)
        return of_asked.k / of_asked.n

    judged.sort(key=share, reverse=True)
    best = [model.name for model in judged if share(model) == share(judged[0])]
    of_asked = passed_of_asked(judged[0].figures)
    answer = f"{list_names(best, _MAX_NAMED)}: {of_asked.k} of {of_asked.n} passed."
    notes = []
    for model in judged[len(best) : len(best) + _MAX_NEXT]:
        notes.append(f"Next: {model.name}, {model.passes}.")
    return Finding(question, answer, notes)


def _find_fastest(models: Sequence[_Model]) -> Finding:
    question = "Which is the fastest that passes?"
    bar = f"{format_percent(PASSING_RATE)} of its prompts"
    timed_models = [model for model in models if math.isfinite(pace_ms(model.figures))]
    timed_models.sort(key=lambda model: pace_ms(model.figures))
    if not timed_models:
        return Finding(question, "None: no model answered most of its calls.", [])
    passing = [model for model in timed_models if model.is_passing]
    if not passing:
        first = timed_models[0]
        fastest = f"{first.name}: {word_median(first.figures)}; it passes {first.passes}"
        note = f"The fastest of all is {fastest}."
        return Finding(question, f"None: no model passes {bar}.", [note])
    best = passing[0]
    notes = [f"It passes {best.passes}. Passing here means at least {bar}."]
    for other in passing[1 : 1 + _MAX_NEXT]:
        notes.append(f"Next: {other.name}, {word_median(other.figures)}, passes {other.passes}.")
    faster = timed_models[: timed_models.index(best)]
    if faster:
        names = list_names([f"{model.name} ({model.passes})" for model in faster], _MAX_NAMED)
        notes.append(f"Faster, but not passing: {names}.")
    return Finding(question, f"{best.name}, {word_median(best.figures)}.", notes)


def _find_failures(
    models: Sequence[_Model], violations: Counter[str], unreadable: list[str]
) -> Finding:
    question = "What failed, and why?"
    groups = [model.figures for model in models]
    n_attempted = sum(group.attempted for group in groups)
    n_not_asked = sum(group.n_not_asked for group in groups)
    n_judged = sum(group.n_judged for group in groups)
    n_unjudged = sum(group.n_unjudged for group in groups)
    n_silent = n_attempted - sum(group.n_success for group in groups)
    n_wrong = n_judged - sum(group.n_passed for group in groups)
    if not n_silent and not n_wrong and not n_not_asked and not n_unjudged:
        calls = plural(n_attempted, "call")
        return Finding(question, f"Nothing: {calls}, all answered, none failed.", unreadable)
    parts = []
    if n_wrong:
        # These are calls to look at; a model's rates leave out those in the user's own context.
        in_context = any(group.bare for group in groups)
        inside = ", those in your own context included" if in_context else ""
        parts.append(f"{n_wrong} of {plural(n_judged, 'judged answer')} failed{inside}")
    else:
        parts.append("No judged answer failed")
    if n_silent:
        parts.append(f"{n_silent} of {plural(n_attempted, 'call')} brought no answer")
    else:
        parts.append("every call was answered")
    if n_not_asked:
        parts.append(f"{plural(n_not_asked, 'prompt was', 'prompts were')} not asked")
    if n_unjudged:
        answers = plural(n_unjudged, "answer has", "answers have")
        parts.append(f"{answers} no verdict because the check broke")
    notes = _word_causes(models, violations)
    return Finding(question, f"{', '.join(parts)}.", notes + unreadable)


def _word_causes(models: Sequence[_Model], violations: Counter[str]) -> list[str]:
    notes = []
    if violations:
        commonest = []
        for code, n in violations.most_common(_MAX_NAMED):
            commonest.append(f"{one_line(word_violation(code), _VIOLATION_CHARS)} ({n})")
        notes.append(f"Most often: {'; '.join(commonest)}.")
    # The commonest ways of not answering, each with who, how often, the server's words and the way
    # out.
    failures = [(model.name, failure) for model in models for failure in model.figures.failures]
    failures.sort(key=lambda named: -named[1].n_attempted)
    notes += [f"{name}: {word_failure(failure)}" for name, failure in failures[:_MAX_NAMED]]
    n_others = sum(failure.n_attempted for _, failure in failures[_MAX_NAMED:])
    if n_others:
        notes.append(f"{plural(n_others, 'more call')} ended in other ways.")
    return notes


def describe_run(summary: RunSummary) -> str:
    """`2 models · 72 calls · 71 answered · 3 min 05 s`."""
    n_attempted = sum(group.attempted for group in summary.models)
    n_not_asked = sum(group.n_not_asked for group in summary.models)
    n_ok = sum(group.n_ok for group in summary.models)
    parts = [
        plural(len(summary.models), "model"),
        plural(n_attempted, "call"),
        f"{n_ok} answered",
    ]
    if n_not_asked:
        parts.append(f"{plural(n_not_asked, 'prompt')} not asked")
    if summary.run_wall_clock_ms is not None:
        parts.append(format_duration(summary.run_wall_clock_ms))
    return " · ".join(parts)
