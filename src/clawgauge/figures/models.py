"""The figures of a model, and of one suite's share of it. A name that the gate knows is the name
in its rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from clawgauge.figures.values import (
    Amount,
    Better,
    Figure,
    Percentile,
    Rate,
    Titles,
    Unit,
    Value,
)
from clawgauge.records import SERVER_PARTS, GroupSummary, Percentiles, Resources
from clawgauge.records.summary import SuiteBreakdown
from clawgauge.stats.proportions import wilson_interval
from clawgauge.stats.quantiles import mark_few

ModelOrSuite: TypeAlias = GroupSummary | SuiteBreakdown


def answered(part: ModelOrSuite) -> Rate:
    return Rate(part.n_ok, part.attempted)


def passed(part: ModelOrSuite) -> Rate:
    """What passed of the judged answers; of the bare prompts alone, where these were asked in a
    context too."""
    if isinstance(part, SuiteBreakdown):
        return Rate(part.n_passed, part.n_judged, part.ci95, part.n_eff)
    bare = part.bare
    if not bare:
        return Rate(part.n_passed, part.n_judged, part.objective_pass_ci95)
    return add_up(passed(suite) for suite in bare)


def add_up(rates: Iterable[Rate]) -> Rate:
    """Rates of different prompts as one. Their interval is that of as many answers as they are
    worth together."""
    parts = list(rates)
    if len(parts) == 1:
        return parts[0]
    k = sum(part.k for part in parts)
    n = sum(part.n for part in parts)
    n_eff = math.fsum(part.n if part.n_eff is None else part.n_eff for part in parts)
    ci95 = wilson_interval(k / n * n_eff, n_eff) if n else None
    return Rate(k, n, ci95, n_eff)


def passed_of_asked(part: ModelOrSuite) -> Rate:
    """What passed of the prompts with a verdict that were asked, answered or not: the rate that
    every screen shows."""
    if isinstance(part, GroupSummary) and part.bare:
        return _sum_of(passed_of_asked(suite) for suite in part.bare)
    # An earlier version's summary does not say how many of the scheduled prompts were asked.
    n_asked = part.n_scheduled_judged if part.n_asked_judged is None else part.n_asked_judged
    return Rate(part.n_passed, n_asked)


def passed_of_planned(model: GroupSummary) -> Rate:
    """What passed of the prompts with a verdict that were planned, asked or not."""
    parts: Sequence[ModelOrSuite] = model.bare or [model]
    return _sum_of(Rate(part.n_passed, part.n_scheduled_judged) for part in parts)


def passed_of_needed(model: GroupSummary) -> Rate:
    """What passed of those asked, and of those too that have a record and were not asked: of a
    target that was given up, the few that it answered before do not stand for the rest."""
    of_asked = passed_of_asked(model)
    parts: Sequence[ModelOrSuite] = model.bare or [model]
    n_planned = sum(part.n_scheduled_judged for part in parts)
    n_not_asked = sum(part.n_not_asked for part in parts)
    return Rate(of_asked.k, max(of_asked.n, min(n_planned, of_asked.n + n_not_asked)))


def _sum_of(rates: Iterable[Rate]) -> Rate:
    parts = list(rates)
    return Rate(sum(part.k for part in parts), sum(part.n for part in parts))


def timed(part: ModelOrSuite) -> Percentiles:
    """The times of whole calls, timeouts counted as longer than any answer; of an earlier
    version's summary, and of a suite without a timeout, those of the answers."""
    times = part.latency_censored_ms
    if times is None and isinstance(part, GroupSummary):
        times = part.latency_all_ms
    if times is None:
        plain = part.latency_ms
        times = Percentiles(
            n=part.n_success, p50=plain.p50, p95=plain.p95, p99=plain.p99, mean=plain.mean
        )
    return mark_few(times)


def _tier(model: GroupSummary) -> Amount:
    return Amount(model.tool_use.tier, is_provisional=not model.tool_use.decided)


def _tier_probability(model: GroupSummary, tier: int) -> Amount:
    chances = model.tool_use.p_tier
    return Amount(None if chances is None else chances[tier - 1])


def _cost_per_call(model: GroupSummary) -> Amount:
    return Amount(None if model.cost is None else model.cost.per_call_usd)


def _memory(state: Resources | None) -> Amount:
    return Amount(None if state is None else state.memory_used_bytes)


def _server_part(model: GroupSummary, part: str) -> Amount:
    """The mean time that a server tells of, and its share of all that it tells of; nothing of
    one that tells not."""
    if not model.server_ms:
        return Amount(None)
    means = {name: times.mean or 0.0 for name, times in model.server_ms.items()}
    whole = sum(means.values())
    return Amount(means.get(part), share=means.get(part, 0.0) / whole if whole else 0.0)


def _longest_load(model: GroupSummary) -> Amount:
    load = model.server_ms.get("load")
    return Amount(None if load is None else load.max)


def _rate(name: str, titles: Titles, read: Callable[[GroupSummary], Rate]) -> Figure[GroupSummary]:
    return Figure(name, "rate", "higher", read, titles)


def _amount(
    name: str,
    unit: Unit,
    better: Better,
    titles: Titles,
    read: Callable[[GroupSummary], float | None],
) -> Figure[GroupSummary]:
    return Figure(name, unit, better, lambda model: Amount(read(model)), titles)


def _percentiles(
    names: str, unit: Unit, titles: Titles, read: Callable[[GroupSummary], Percentiles]
) -> list[Figure[GroupSummary]]:
    """The percentiles and the mean of one measure. `names` and `titles` have `{}` where the
    percentile goes."""
    better: Better = "lower" if unit == "ms" else "higher"

    def define(which: str, read_value: Callable[[GroupSummary], Value]) -> Figure[GroupSummary]:
        titles_of_one = Titles(titles.short.format(which), titles.long.format(which))
        return Figure(names.format(which), unit, better, read_value, titles_of_one)

    return [
        define("p50", lambda model: Percentile.of(read(model), "p50")),
        define("p95", lambda model: Percentile.of(read(model), "p95")),
        define("p99", lambda model: Percentile.of(read(model), "p99")),
        define("mean", lambda model: Amount(read(model).mean)),
    ]


def _server_parts() -> list[Figure[GroupSummary]]:
    figures = []
    for part in SERVER_PARTS:
        titles = Titles(part, part.capitalize())
        read = partial(_server_part, part=part)
        figures.append(Figure(f"server_{part}_ms", "ms", "lower", read, titles))
    return figures


_OF_MODELS_AND_SUITES: list[Figure[ModelOrSuite]] = [
    Figure("answered", "rate", "higher", answered, Titles("answered", "Answered")),
    Figure("objective_pass_rate", "rate", "higher", passed, Titles("passed", "Pass rate")),
    Figure("passed_of_asked", "rate", "higher", passed_of_asked,
           Titles("pass", "Pass of asked")),
    Figure("p50_ms", "ms", "lower", lambda part: Percentile.of(timed(part), "p50"),
           Titles("p50 ms", "p50")),
    Figure("p95_ms", "ms", "lower", lambda part: Percentile.of(timed(part), "p95"),
           Titles("p95 ms", "p95")),
    Figure("p99_ms", "ms", "lower", lambda part: Percentile.of(timed(part), "p99"),
           Titles("p99 ms", "p99")),
    Figure("mean_ms", "ms", "lower", lambda part: Amount(timed(part).mean),
           Titles("mean ms", "Mean")),
    Figure("n_timed", "count", None, lambda part: Amount(timed(part).n), Titles("n", "Calls")),
    Figure("n_timeouts", "count", "lower", lambda part: Amount(part.n_timeouts),
           Titles("timeouts", "Timeouts")),
]  # fmt: skip
_OF_MODELS: list[Figure[GroupSummary]] = [
    # Verdicts
    _rate("success_rate_ok", Titles("success", "Success"), lambda m: Rate(m.n_success, m.n_ok)),
    _rate("pass_rate_scheduled", Titles("of planned", "Pass of planned"), passed_of_planned),
    Figure("tier", "tier", "lower", _tier, Titles("tier", "Tool tier")),
    Figure("tier_1_probability", "rate", "higher", partial(_tier_probability, tier=1),
           Titles("P(1)", "P(1)")),
    Figure("tier_2_probability", "rate", None, partial(_tier_probability, tier=2),
           Titles("P(2)", "P(2)")),
    Figure("tier_3_probability", "rate", "lower", partial(_tier_probability, tier=3),
           Titles("P(3)", "P(3)")),
    _rate("tool_use_rate", Titles("tools", "Answers with a call"), lambda m: Rate.of(m.tool_use)),
    _amount("tool_use_n_eff", "count", None, Titles("worth n", "Worth n"),
            lambda m: m.tool_use.n_eff),
    _rate("argument_accuracy", Titles("arguments", "Arguments right"),
          lambda m: Rate.of(m.argument_accuracy)),
    _rate("restraint", Titles("restraint", "Restraint"), lambda m: Rate.of(m.restraint)),
    _rate("tasks", Titles("tasks", "Tasks done"), lambda m: Rate.of(m.tasks)),
    _rate("agreement", Titles("agrees", "Agreement with the reference model"),
          lambda m: Rate.of(m.agreement)),
    _amount("turns_per_task", "count", None, Titles("turns", "Turns"),
            lambda m: m.tasks.mean_turns),
    _amount("tokens_per_task", "count", "lower", Titles("tokens", "Tokens"),
            lambda m: m.tasks.mean_tokens),
    _amount("n_native_calls", "count", None, Titles("native calls", "Native calls"),
            lambda m: m.tool_use.channels.native),
    _amount("n_text_calls", "count", None, Titles("calls in text", "Calls in text"),
            lambda m: m.tool_use.channels.text),
    _amount("n_malformed_calls", "count", "lower", Titles("malformed calls", "Malformed calls"),
            lambda m: m.tool_use.channels.malformed),
    _amount("n_mentions", "count", None, Titles("mentions", "Mentions"),
            lambda m: m.tool_use.channels.mention),
    _amount("n_without_call", "count", None, Titles("no call", "No call"),
            lambda m: m.tool_use.channels.none),
    # Times
    *_percentiles("cold_{}_ms", "ms", Titles("cold {}", "Cold {}"), lambda m: m.latency_cold_ms),
    *_percentiles("warm_{}_ms", "ms", Titles("warm {}", "Warm {}"), lambda m: m.latency_warm_ms),
    *_percentiles(
        "ttft_{}_ms", "ms", Titles("first token {}", "First token {}"), lambda m: m.ttft_ms
    ),
    *_percentiles("ttfa_{}_ms", "ms", Titles("ttfa {}", "First answer token {}"),
                  lambda m: m.ttfa_ms),
    *_percentiles("output_tps_{}", "tps", Titles("tok/s", "Tokens/s {}"), lambda m: m.output_tps),
    *_server_parts(),
    Figure("longest_load_ms", "ms", "lower", _longest_load,
           Titles("longest load", "Longest load")),
    # What it took
    Figure("cost_per_call_usd", "usd", "lower", _cost_per_call,
           Titles("cost", "Cost of a call")),
    _amount("cost_usd", "usd", "lower", Titles("cost", "Cost"), lambda m: m.cost_usd),
    _amount("input_tokens", "count", None, Titles("tokens in", "Tokens in"),
            lambda m: m.input_tokens),
    _amount("output_tokens", "count", None, Titles("tokens out", "Tokens out"),
            lambda m: m.output_tokens),
    _amount("cached_tokens", "count", "higher", Titles("cached", "Cached"),
            lambda m: m.cached_tokens),
    _amount("wall_clock_ms", "ms", "lower", Titles("took", "Suite took"),
            lambda m: m.wall_clock_ms),
    Figure("memory_before_bytes", "bytes", None, lambda m: _memory(m.resources_before),
           Titles("memory before", "Memory before")),
    Figure("memory_after_bytes", "bytes", None, lambda m: _memory(m.resources_after),
           Titles("memory after", "Memory after")),
    _amount("peak_memory_bytes", "bytes", "lower", Titles("peak", "Its peak"),
            lambda m: m.peak_memory_bytes),
    _amount("peak_vram_bytes", "bytes", "lower", Titles("peak VRAM", "Peak VRAM"),
            lambda m: m.peak_vram_bytes),
    _amount("energy_j", "joules", "lower", Titles("energy", "Energy"), lambda m: m.energy_j),
    # Counts
    _amount("n_ok", "count", "higher", Titles("answered", "Answers"), lambda m: m.n_ok),
    _amount("n_error", "count", "lower", Titles("errors", "Errors"), lambda m: m.n_error),
    _amount("n_truncated", "count", "lower", Titles("cut", "Cut by the token limit"),
            lambda m: m.n_truncated_by_max_tokens),
]  # fmt: skip
SUITE_FIGURES: Mapping[str, Figure[SuiteBreakdown]] = {
    figure.name: figure for figure in _OF_MODELS_AND_SUITES
}
MODEL_FIGURES: Mapping[str, Figure[GroupSummary]] = {
    **{figure.name: figure for figure in _OF_MODELS_AND_SUITES},
    **{figure.name: figure for figure in _OF_MODELS},
}


def read_rate(name: str, part: ModelOrSuite) -> Rate:
    """A figure that is a rate. Raises TypeError for one that is not."""
    value = read_figure(name, part)
    if not isinstance(value, Rate):
        raise TypeError(f"{name} is no rate")
    return value


def read_percentile(name: str, part: ModelOrSuite) -> Percentile:
    """A figure that is a percentile. Raises TypeError for one that is not."""
    value = read_figure(name, part)
    if not isinstance(value, Percentile):
        raise TypeError(f"{name} is no percentile")
    return value


def read_figure(name: str, part: ModelOrSuite) -> Value:
    """The figure of a model or a suite. Raises KeyError for a name that is not in the table."""
    if isinstance(part, GroupSummary):
        return MODEL_FIGURES[name].read(part)
    return SUITE_FIGURES[name].read(part)
