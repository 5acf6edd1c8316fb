"""What is recorded of a run and a model in words, each figure with the n it rests on: for all reports."""

from __future__ import annotations

from collections import Counter

from clawgauge.records import (
    CallBalance,
    ClockTrust,
    CostSummary,
    FailureCount,
    GroupSummary,
    Percentiles,
    Repeatability,
    Result,
    RunConfig,
    RunOptions,
    ToolUse,
)
from clawgauge.reports.clean import one_line
from clawgauge.stats.quantiles import samples_needed
from clawgauge.summary.tool_use import word_lacking
from clawgauge.words import (
    ABSENT,
    format_duration,
    format_money,
    format_ms,
    format_number,
    format_percent,
    format_rate,
    plural,
    rounded,
)

INDICATIVE = "†"
MAX_HINT = 240
_MAX_EXAMPLE = 160
MIN_SAMPLES_P95 = samples_needed(0.95)
MIN_SAMPLES_P99 = samples_needed(0.99)
LEGEND = f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls, p99 under {MIN_SAMPLES_P99}"


def verdict_word(result: Result) -> str:
    """One call's outcome in a word or two."""
    if not result.success:
        status = "no answer" if result.availability_status == "ok" else result.availability_status
        return f"{status} ({result.failure_type})"
    if result.objective_pass is None:
        return "answered"
    return "pass" if result.objective_pass else f"fail ({(result.violation or '').partition(':')[0]})"


def word_failure(failure: FailureCount) -> str:
    """How often calls failed in one way, the server's words, the way out: `3 × timeout: no answer → raise …`."""
    said = f": {one_line(failure.example, _MAX_EXAMPLE)}" if failure.example else ""
    hint = f" → {one_line(failure.hint, MAX_HINT)}" if failure.hint else ""
    return f"{failure.n} × {failure.failure_type}{said}{hint}"


def format_percentile(value: float | None, n: int, min_samples: int = 0) -> str:
    """A percentile, marked where n is too small for it to be more than indicative."""
    mark = INDICATIVE if value is not None and n < min_samples else ""
    return format_number(value) + mark


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


def word_unreadable(n_lines: int, where: str = "results.jsonl") -> str:
    """What becomes of lines that nobody can read."""
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
    """How the prompts were asked."""
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


def word_source(use: ToolUse) -> str:
    """Which prompts a tier rests on: `prompts that offer tools, in agent_tools`."""
    kind = "prompts that offer tools" if use.source == "native" else "text prompts"
    return f"{kind} in {', '.join(use.suites)}" if any(use.suites) else kind


def word_channels(use: ToolUse) -> str:
    """How the calls came, kinds that did not occur left out: `5 text (5 xml), 1 none`."""
    channels = use.channels
    formats = ", ".join(f"{n} {name}" for name, n in use.formats.items())
    counts = {
        "native": channels.native,
        f"text ({formats})" if formats else "text": channels.text,
        "malformed": channels.malformed,
        # Where no tool is offered, a command in prose or code is the call that is asked for.
        "mentioned only" if use.source == "native" else "in prose or code": channels.mention,
        "none": channels.none,
    }
    said = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    return said + (f"; {plural(use.rescued, 'answer')} rescued from text" if use.rescued else "")


def word_tier(use: ToolUse) -> str:
    """The evidence of a tier: k of n with its interval, how sure, what the trials are worth."""
    parts = [f"{format_rate(use.k, use.n, use.ci95)} called"]
    if use.p_tier is not None and use.tier is not None:
        parts.append(f"{format_percent(use.p_tier[use.tier - 1])} sure")
    if use.n_eff is not None and use.n_eff < use.n:
        parts.append(f"repeats count: worth {use.n_eff:.1f} of {use.n}")
    return ", ".join(parts)


def word_recommendation(use: ToolUse) -> str:
    """Whether a subagent may have its tools, and what stands in the way."""
    access = "recommended for subagents with full tool access"
    if use.recommended_for_subagents:
        return access
    denial = "not" if any(need.met == "no" for need in use.needs) else "not yet"
    return f"{denial} {access}: {word_lacking(use.needs)}"


def word_beside(group: GroupSummary) -> str:
    """Arguments, restraint and tasks, those that were measured."""
    parts = []
    if (arguments := group.argument_accuracy) is not None and arguments.n:
        parts.append(f"arguments right {format_rate(arguments.k, arguments.n, arguments.ci95)}")
    if group.restraint.n:
        parts.append(f"restraint {format_rate(group.restraint.k, group.restraint.n, group.restraint.ci95)}")
    if (tasks := group.tasks).n:
        turns = "" if tasks.mean_turns is None else f", {tasks.mean_turns:.1f} turns"
        tokens = "" if tasks.mean_tokens is None else f" and {tasks.mean_tokens:.0f} tokens each"
        parts.append(f"tasks done {format_rate(tasks.k, tasks.n, tasks.ci95)}{turns}{tokens}")
    return "; ".join(parts)


def word_balance(balance: CallBalance | None) -> str:
    """Calling and leaving alone in one figure, with the two behind it; empty where only one of them was asked for."""
    if balance is None or balance.rate is None:
        return ""
    called, held = format_rate(balance.k_call, balance.n_call), format_rate(balance.k_no_call, balance.n_no_call)
    figure = f"calls when it should and only then: {format_percent(balance.rate)}"
    return f"{figure} (called where it should {called}, held back where it should {held})"


def word_repeats(repeats: Repeatability | None) -> str:
    """pass@k and pass^k in words; empty where no prompt was judged that often."""
    if repeats is None or not repeats.n_prompts:
        return ""
    of = f"over {plural(repeats.n_prompts, 'prompt')} asked {repeats.k} times"
    one, all_of = format_percent(repeats.pass_at_k), format_percent(repeats.pass_hat_k)
    return (
        f"{of}, one of {repeats.k} passes in {one} (pass@{repeats.k}), all {repeats.k} in {all_of} (pass^{repeats.k})"
    )


def word_temperatures(group: GroupSummary) -> str:
    """Cold calls apart from warm ones; empty where there was no cold call."""
    cold, warm = group.latency_cold_ms, group.latency_warm_ms
    if not cold.n:
        return ""
    said = f"cold calls p50 {format_ms(cold.p50)} (n={cold.n})"
    return said + (f", warm calls p50 {format_ms(warm.p50)} (n={warm.n})" if warm.n else "")


def word_clock(clock: ClockTrust) -> str:
    """How far to trust the timings, and what was waited for retries."""
    watched, retried = plural(clock.n_watched, "call"), plural(clock.n_retried, "call")
    parts = [
        "" if clock.lag_p99_ms is None else f"loop lag p99 {_milliseconds(clock.lag_p99_ms)}",
        f"{clock.n_flagged} of {watched} could be off by more than 1 ms or 1%" if clock.n_watched else "",
        f"{retried} tried again, {format_duration(clock.retry_wait_ms)} waited" if clock.n_retried else "",
        f"the machine was busy before the first call (load {_load(clock)})" if clock.busy else "",
    ]
    return "; ".join(filter(None, parts))


def word_cost(clock: ClockTrust) -> str:
    """What the measuring itself took; empty where it was not watched."""
    parts = [
        "" if clock.resolution_ns is None else f"clock resolution {clock.resolution_ns} ns",
        "" if clock.client_cpu_s is None else f"clawgauge used {clock.client_cpu_s:.1f} s of CPU",
        "" if clock.load_1m is None or clock.busy else f"load {_load(clock)}",
    ]
    return "; ".join(filter(None, parts))


def word_money(cost: CostSummary | None) -> str:
    """What the calls cost: `$0.1320 ($0.0020 a call, n=66; $0.0041 a pass)`."""
    if cost is None:
        return ABSENT
    per_pass = "" if cost.per_pass_usd is None else f"; {format_money(cost.per_pass_usd)} a pass"
    return f"{format_money(cost.usd)} ({format_money(cost.per_call_usd)} a call, n={cost.n_priced}{per_pass})"


def _load(clock: ClockTrust) -> str:
    cores = "" if clock.cores is None else f" on {plural(clock.cores, 'core')}"
    return f"{clock.load_1m:.1f}{cores}"


def _milliseconds(value_ms: float) -> str:
    return f"{value_ms:.1f} ms" if value_ms >= 0.05 else f"{value_ms:.2f} ms"
