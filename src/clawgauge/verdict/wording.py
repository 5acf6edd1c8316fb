"""The text of verdicts: every `why`, label and command that summary.json, the screens and `route`
have of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from clawgauge.records import CapacitySummary, Fit, Need, Percentiles, StepSummary, WithinSlo
from clawgauge.stats.load import carried, is_range_thin, keeps_slo
from clawgauge.stats.visits import N_ROUNDS
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.reasons import NEVER_SHOWN, Reason, ReasonCode
from clawgauge.words import format_latency, format_p, format_percent, list_names, plural, rounded

# How what is counted is called; any other subject, as a job's own name for its prompts, stands for
# itself.
_SUBJECTS = {
    "calls": "native calls",
    "arguments": "right arguments",
    "answers": "answered",
    "passes": "passed",
    "useful": "right answers",
    "agreement": "agrees with the reference model in",
}
# What a recommendation for subagents says of tasks differs from what a job says of them.
_RECOMMENDATION_SUBJECTS = _SUBJECTS | {"tasks": "tasks done"}
# The text of each reason; `{0}` and `{1}` are its figures.
_TEXTS = {
    ReasonCode.RATE_AT_LEAST: "{subject} {k} of {n} (at least {0}, needs {1})",
    ReasonCode.RATE_AT_MOST: "{subject} {k} of {n} (at most {0}, needs {1})",
    ReasonCode.DECIDED_YES: "{subject} {k} of {n} (over {0}, needs {1})",
    ReasonCode.DECIDED_NO: "{subject} {k} of {n} (too few: needs {1})",
    ReasonCode.STILL_OPEN: "{subject} {k} of {n} (not decided, needs {1})",
    ReasonCode.TOO_FEW_TO_TELL: "{subject} {k} of {n} (too few to tell)",
    ReasonCode.TOO_FEW_SESSIONS: (
        "agrees in {k} of {turns} of {0}: too few sessions to say more; about {1} would tell"
    ),
    ReasonCode.TIER_DECIDED: "{subject} {k} of {n} (Tier {0})",
    ReasonCode.TIER_NOT_DECIDED: "{subject} {k} of {n} (Tier {0}, not decided)",
    ReasonCode.NOT_TIER_1: "{subject} {k} of {n} (Tier {0}, not Tier 1)",
    ReasonCode.HARM: "{subject} {k} of {n}, harm in {0}",
    ReasonCode.NOT_MEASURED: "{subject} not measured",
    ReasonCode.ONLY_TEXT_CALLS: (
        "{subject} not measured, and calls written as text are not enough"
    ),
    ReasonCode.TEMPLATE_WITHOUT_TOOLS: (
        "the model never saw the tools: its chat template has no place for them "
        "({k} of {calls} with tools)"
    ),
    ReasonCode.TOO_FEW_PROMPT_TOKENS: (
        "the model never saw the tools: in {k} of {calls} with tools the server counted "
        "too few prompt tokens to have shown them"
    ),
    ReasonCode.TAKES_NO_TOOLS: "its server says that it takes no tools",
    ReasonCode.WINDOW_TOO_SMALL: (
        "its window is {0} tokens here (the line context = 32768 under [providers.{1}] in "
        "clawgauge.toml may raise it)"
    ),
    ReasonCode.RUNS_HERE: "runs on your own machines",
    ReasonCode.RUNS_ELSEWHERE: "not on your own machines",
    ReasonCode.WANTS_KEY: "it wants a key, so it may pass calls on to another machine",
    ReasonCode.RATE: "{subject} {k}/{n}",
    ReasonCode.TIME: "{subject} {0}",
    ReasonCode.TIME_BEYOND_DEADLINE: "{subject} over {0}",
    ReasonCode.COST: "{0} a call",
    ReasonCode.FREE_OF_CHARGE: "free of charge",
    ReasonCode.COST_UNKNOWN: "cost unknown",
    ReasonCode.CALLED_UNWANTED: "it called a tool in {k} of {answers} where none was wanted",
    ReasonCode.WROTE_UNWANTED: "it wrote a call as text in {k} of {answers} where none was wanted",
    ReasonCode.CALLS_RESCUED: "{k} of {calls_were} written as text and had to be rescued",
    ReasonCode.WRONG_ARGUMENTS: "{k} of {calls} made had wrong arguments",
}
_LIMITED_BY = {
    "slots": " Limited by its slots: the rest wait in line.",
    "prefill": " Limited by prefill.",
    "decode": " Limited by decoding.",
    "refusals": " More are refused.",
}
_RAISE_WINDOW = (
    "raise its context window "
    "(Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx; llama.cpp: -c; "
    "embedded: a line such as context = 32768 under [providers.embedded])"
)
_FITNESS_TEXTS = {"yes": "fit", "no": "not fit", "cannot_tell": "cannot tell yet"}
_STATE_TEXTS = {
    "decided_fit": "fit",
    "decided_not_fit": "not fit",
    "likely_fit": "likely fit",
    "likely_not_fit": "likely not fit",
    "open": "open",
    "not_asked": "not asked",
}
_CANNOT_TELL = "cannot tell: "
_SUITES_PER_LINE = 3


def word_run(targets: Sequence[str], suites: Sequence[str]) -> list[str]:
    """The command that asks these suites of these targets, in pieces after each of which a shell
    may go on."""
    pieces = ["clawgauge run"]
    for target in targets:
        pieces.append(f"-t {shlex.quote(target)}")
    options = [f"-s {shlex.quote(suite)}" for suite in suites]
    for first in range(0, len(options), _SUITES_PER_LINE):
        pieces.append(" ".join(options[first : first + _SUITES_PER_LINE]))
    return pieces


def word_need(reason: Reason) -> str:
    """A need on its own, as summary.json has it."""
    text = word_reason(reason)
    return f"{_CANNOT_TELL}{text}" if reason.code in NEVER_SHOWN else text


def word_fit(fitness: Fitness, reasons: Sequence[Reason]) -> str:
    """Why a model is fit for a job: all that was weighed; or why it is not: what it lacks."""
    separator = ", " if fitness is Fitness.YES else "; "
    return separator.join(word_reason(reason) for reason in reasons)


def word_state(fit: Fit) -> str:
    """What is known of a model for a job: `likely fit (88%)`."""
    if fit.state is None:
        return _FITNESS_TEXTS[fit.fit]
    if fit.never_shown:
        return "cannot tell"
    if fit.by_interval and fit.state == "open":
        return "cannot tell yet"
    return word_fit_state(fit.state, fit.chance)


def word_fit_state(state: str, chance: float | None) -> str:
    """`likely fit (88%)`, `not fit`, `nothing against it yet`."""
    text = _STATE_TEXTS[state]
    if chance is None:
        return "nothing against it yet" if state == "open" else text
    if state == "likely_not_fit":
        chance = 1 - chance
    return f"{text} ({format_percent(chance)})"


def word_behind(p: float) -> str:
    """That another model is ahead: `behind by more than luck (p 0.012)`."""
    return f"behind by more than luck (p {format_p(p)})"


def word_lacking(needs: Sequence[Need]) -> str:
    """What stands in the way of a recommendation: what is not met, else what cannot be told yet."""
    lacking = [need for need in needs if need.met == Fitness.NO]
    if not lacking:
        lacking = [need for need in needs if need.met == Fitness.CANNOT_TELL]
    texts: list[str] = []
    unmeasured: list[str] = []
    for need in lacking:
        if not need.n:
            unmeasured.append(_RECOMMENDATION_SUBJECTS.get(need.name, need.name))
        elif need.why not in texts:
            texts.append(need.why)
    if unmeasured:
        texts.append(f"no evidence of {list_names(unmeasured, len(unmeasured))}")
    return "; ".join(texts)


def word_reason(reason: Reason) -> str:
    """One reason, without a full stop: `restraint 18 of 20 (at least 69.9%, needs 70%)`."""
    if reason.code is ReasonCode.NEEDS_NOT_MEASURED:
        names = [_SUBJECTS.get(name, name) for name in reason.figures]
        return f"not measured: {list_names(names, len(names))}"
    return _TEXTS[reason.code].format(
        *reason.figures,
        subject=_SUBJECTS.get(reason.subject, reason.subject),
        k=reason.k,
        n=reason.n,
        answers=plural(reason.n, "answer"),
        calls=plural(reason.n, "call"),
        turns=plural(reason.n, "turn"),
        calls_were=plural(reason.n, "call was", "calls were"),
    )


def word_sessions(n: int, n_effective: float) -> str:
    """`4 sessions`; where a few of them have most of the turns, what they are worth besides."""
    sessions = plural(n, "session")
    worth = math.floor(n_effective + 0.5)
    if worth < n - 1:
        return f"{sessions} (worth {worth}, so much do they differ in length)"
    return sessions


def word_caution(reasons: Sequence[Reason]) -> str | None:
    """What a reader of a tier must also know, without a full stop; None where nothing is amiss."""
    return "; ".join(word_reason(reason) for reason in reasons) or None


def word_open_tier(tier: int, *, n_needed: int | None, is_repeated: bool) -> str:
    """A tier that is not decided, and what would decide it.

    `n_needed` more clean passes would make a Tier 1 sure; None where one prompt is all that was
    asked. Where it `is_repeated`, answers count for less than one trial each, and only other
    prompts are worth a whole one.
    """
    if n_needed is None:
        return f"Tier {tier} (provisional: one prompt says nothing about others)"
    if tier > 1:
        return f"Tier {tier} (provisional)"
    passes = plural(n_needed, "more clean pass", "more clean passes")
    other = " of other prompts" if is_repeated else ""
    return f"Tier 1 (provisional: {passes}{other} would decide it)"


def word_tier_of_search(tier: int, likelihood: float) -> str:
    """The likeliest tier of a model that a search told to be below Tier 1."""
    likely = f"Tier {tier} is {format_percent(likelihood)} likely"
    return f"Tier {tier} (not Tier 1: decided; {likely})"


def word_tokens(n: float) -> str:
    """`16k`, `1.5k`, `300`: k is 1,000."""
    return f"{n / 1000:g}k" if n >= 1000 else f"{n:g}"


def word_capacity(entry: CapacitySummary) -> str:
    """`6 at once at 16k: first token p95 1.70 s, 41 tokens/s each; at 8 it breaks your 2.00 s.
    Limited by prefill.`"""
    length = word_tokens(entry.context_tokens)
    if entry.swap_ms:
        return _word_swap(entry.swap_ms)
    if entry.truncated:
        cut_note = f" to {entry.counted_tokens} tokens" if entry.truncated_by == "count" else ""
        what = f"prompts of {length} tokens are SILENTLY TRUNCATED{cut_note} by the server"
        return f"{what}: {_RAISE_WINDOW}"
    if entry.refused:
        return f"prompts of {length} tokens are refused: {entry.refused}"
    if not entry.steps:
        return "not measured: no load was held for long enough"
    limited_by = _LIMITED_BY.get(entry.knee.limited_by, "") if entry.knee else ""
    return f"{_word_load(entry, length)}.{limited_by}"


def _word_swap(first_token_ms: Mapping[str, Percentiles]) -> str:
    """How long the first token takes with the model loaded, and right after another one."""
    times = []
    for kind, ms in first_token_ms.items():
        if ms.p50 is not None:
            times.append(f"{kind} {format_latency(ms.p50)}")
    return f"first token {', '.join(times)} (change: right after another model)"


def _word_load(entry: CapacitySummary, length: str) -> str:
    """How much a target carries, without a full stop."""
    within = entry.within_slo
    if entry.mode == "closed":
        level: float | None = carried(entry)
        unit = "at once"
    else:
        level = within.rate if within is not None else None
        unit = "requests a second"
    is_ever_kept = within is not None and bool(within.concurrency_to)
    if level == 0 and not is_ever_kept:
        first = entry.steps[0]
        load = f"{first.level:g} {unit} at {length}"
        return f"not even {load} keeps your limits: {_word_step(first)}"
    step = entry.steps[-1]
    if level == 0:
        step = entry.steps[0]
    for candidate in entry.steps:
        if candidate.level == level:
            step = candidate
            break
    load = f"{step.level:g} {unit} at {length}"
    if within is None or level is None:
        return _word_load_without_limits(entry, step, load, is_limit_seen=level is not None)
    if within.concurrency_to is not None and within.concurrency_to > level:
        return _word_range(entry, within, step)
    if within.broken_at is None:
        return f"{step.level:g} {unit} or more at {length}: {_word_step(step)}"
    broken_limit = _word_broken_limit(entry, within.broken_at)
    breaks = f"at {within.broken_at:.3g} it breaks your {broken_limit}"
    return f"{load}: {_word_step(step)}; {breaks}"


def _word_range(entry: CapacitySummary, within: WithinSlo, step: StepSummary) -> str:
    """`6 to 11 at once at 16k: 6 always, 11 in its quiet moments; at 6 first token p95 1.70 s …`.

    `step` is the lower end, or the first step where that is 0.
    """
    low = within.concurrency
    high = within.concurrency_to
    or_more = " or more" if within.broken_at is None else ""
    load = f"{low} to {high} at once{or_more} at {word_tokens(entry.context_tokens)}"
    if entry.n_rounds < N_ROUNDS:
        rounds = f"{entry.n_rounds} of {N_ROUNDS} rounds were made"
        load = f"{load}: {rounds}, so the range is wider"
    elif is_range_thin(entry.steps, entry.n_rounds):
        load = f"{load}: this program was late at some visits, so the range is wider"
    elif low == 0:
        load = f"{load}: none always, {high}{or_more} in its quiet moments"
    else:
        load = f"{load}: {low} always, {high}{or_more} in its quiet moments"
    parts = [load, f"at {step.level:g} {_word_step(step)}"]
    if within.broken_at is not None and within.broken_at > (high or 0):
        broken_limit = _word_broken_limit(entry, within.broken_at)
        parts.append(f"at {within.broken_at:.3g} it breaks your {broken_limit}")
    return "; ".join(parts)


def _word_load_without_limits(
    entry: CapacitySummary, step: StepSummary, load: str, *, is_limit_seen: bool
) -> str:
    if entry.mode == "closed" and is_limit_seen:
        load = f"up to {load} before it slows down"
    elif entry.mode == "closed":
        load = f"{_word_why_no_limit(entry, step)}: {load}"
    queue = "; the queue grew all the time" if step.growing else ""
    return f"{load}: {step.requests_per_s:.3g} requests/s, {_word_step(step)}{queue}"


def _word_why_no_limit(entry: CapacitySummary, step: StepSummary) -> str:
    """Why the most that a target carries is not among the steps."""
    n_late = sum(not step.trusted for step in entry.steps)
    if n_late:
        steps = plural(len(entry.steps), "step")
        return f"cannot tell, this program was late in {n_late} of {steps}"
    if keeps_slo(step):
        return "no limit seen"
    return "cannot tell, too many calls failed"


def _word_broken_limit(entry: CapacitySummary, broken_at: float) -> str:
    """The limit that is broken first: `2.00 s`, `50 ms a token`."""
    broken = next(step for step in entry.steps if step.level == broken_at)
    for name, most in entry.slo.limits.items():
        measured: Percentiles = getattr(broken, name)
        if measured.beyond or (measured.p95 or 0.0) > most:
            per_token = " a token" if name == "tpot_ms" else ""
            return f"{format_latency(most)}{per_token}"
    return "limits"


def _word_step(step: StepSummary) -> str:
    """The first token, the pace and the failures of a step."""
    first_ms = step.ttft_ms.p95
    if first_ms is None:
        text = "no first token"
    else:
        beyond = "over " if "p95" in step.ttft_ms.beyond else ""
        text = f"first token p95 {beyond}{format_latency(first_ms)}"
    if step.tokens_per_s_user is not None:
        text += f", {rounded(step.tokens_per_s_user)} tokens/s each"
    if step.n_failed:
        text += f", {step.n_failed} of {step.n + step.n_dropped} failed"
    return text
