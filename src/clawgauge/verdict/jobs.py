"""The jobs, and every model judged for each: fit, not fit, or cannot tell yet, and who is the best of the fit."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from clawgauge.prices import is_free, is_local
from clawgauge.records import Fit, GroupSummary, Job, JobVerdict, Need, Percentiles
from clawgauge.stats.proportions import wilson_interval
from clawgauge.words import format_latency, format_money, format_percent, list_names

# The value at which a score is one half: a p95 of five seconds, a first token after one, a cent a call.
HALF_P95_MS = 5_000.0
HALF_TTFT_MS = 1_000.0
HALF_COST_USD = 0.01
_Z95_ONE_SIDED = 1.645
_Z95 = 1.96
_MAX_LACKING = 3
_COLUMN_CHARS = 8
# How a need says that a model was never shown what it is about.
UNSEEN = "cannot tell: "
_ORDER = {"yes": 0, "cannot_tell": 1, "no": 2}
_SUITES_OF = {"calls": "native_tools", "arguments": "native_tools", "restraint": "restraint", "tasks": "agentic"}
_RECOMMENDED = ("calls", "arguments", "restraint", "tasks")


# As they are shown. [jobs."NAME"] of clawgauge.toml has the same keys; one of the same name replaces it.
BUILT_IN: dict[str, Job] = {
    "main agent": Job(
        column="main",
        needs=["calls", "arguments", "restraint", "tasks"],
        weighs={"tasks": 3, "restraint": 2, "first_token": 1},
    ),
    "subagent with full tools": Job(
        column="sub",
        needs=["recommended"],
        weighs={"tasks": 3, "tools": 2, "cost": 1},
    ),
    "heartbeat and triage": Job(
        column="triage",
        needs=["restraint"],
        prompts=[
            "core/exact",
            "core/choice",
            "core/routing",
            "core/extraction",
            "core/normalising",
            "core/json",
            "core/schedule",
        ],
        called="format and extraction",
        weighs={"latency": 2, "cost": 1},
    ),
    "structured data": Job(
        column="data",
        prompts=["core/json", "core/extraction", "native_tools/json_schema"],
        called="JSON and extraction",
        weighs={"passes": 3, "cost": 1},
    ),
    "long context": Job(
        column="long",
        prompts=["long_context/16k", "long_context/32k", "long_context/64k"],
        called="16k tokens and more",
        weighs={"passes": 3, "first_token": 1},
    ),
    "offline fallback": Job(
        column="offline",
        needs=["local", "answers"],
        weighs={"answers": 1, "tasks": 1},
    ),
}


class _Figure(NamedTuple):
    """One thing that is weighed: a score between 0 and 1, how far off it may be, and its words."""

    score: float
    error: float
    words: str


class _Standing(NamedTuple):
    group: GroupSummary
    needs: list[Need]
    figures: list[_Figure]
    score: float
    error: float

    @property
    def fit(self) -> str:
        met = {need.met for need in self.needs}
        return "no" if "no" in met else "cannot_tell" if "cannot_tell" in met else "yes"

    def tied_with(self, best: _Standing) -> bool:
        """Whether the distance of the two scores could be luck."""
        return best.score - self.score <= _Z95_ONE_SIDED * math.hypot(self.error, best.error)


def judge_jobs(
    groups: Sequence[GroupSummary],
    jobs: Mapping[str, Job],
    settings: Mapping[str, Mapping[str, Any]],
    asked_in_full: Collection[str] = (),
) -> list[JobVerdict]:
    """Every job with its models, the best first. `settings` is what config.json says of each provider.

    `asked_in_full` names the suites that have nothing more to ask.
    """
    return [_judge(name, job, groups, settings, asked_in_full) for name, job in jobs.items()]


def best_first(groups: Sequence[GroupSummary], jobs: Sequence[JobVerdict]) -> list[GroupSummary]:
    """The one order in which models are shown: who is fit for the most jobs first, then who stands higher in them."""
    places: dict[str, list[tuple[int, int]]] = {}
    for job in jobs:
        for place, one in enumerate(job.ranking):
            places.setdefault(one.target, []).append((_ORDER[one.fit], place))

    def place_of(group: GroupSummary) -> tuple[int, int, int]:
        mine = places.get(group.target.label, [])
        fits = [fit for fit, _ in mine]
        return -fits.count(0), fits.count(2), sum(place for _, place in mine)

    return sorted(groups, key=place_of)


def _judge(
    name: str,
    job: Job,
    groups: Sequence[GroupSummary],
    settings: Mapping[str, Mapping[str, Any]],
    asked_in_full: Collection[str],
) -> JobVerdict:
    standings = [_stand(job, group, settings.get(group.provider, {"type": group.provider})) for group in groups]
    standings.sort(key=lambda one: (_ORDER[one.fit], not one.group.n_ok, -one.score, one.group.target.label))
    fit = [one for one in standings if one.fit == "yes"]
    tied = [one for one in fit if one.tied_with(fit[0])] if len(fit) > 1 else []
    ranking = [
        Fit(
            target=one.group.target.label,
            fit=one.fit,
            why=_why(one),
            n=sum(need.n for need in one.needs),
            tie=one in tied and len(tied) > 1,
        )
        for one in standings
    ]
    return JobVerdict(
        job=name,
        ranking=ranking,
        column=job.column or name.split()[0][:_COLUMN_CHARS],
        needs=None if fit else _command(job, standings, asked_in_full),
    )


def _why(one: _Standing) -> str:
    if one.fit == "yes":
        return ", ".join(figure.words for figure in one.figures if figure.words)
    lacking = [need for need in one.needs if need.met == one.fit]
    measured = [need.why.removeprefix(UNSEEN) for need in lacking if need.n or need.name == "local"]
    measured = list(dict.fromkeys(measured))
    missing = [_NAMES.get(need.name, need.name) for need in lacking if not need.n and need.name != "local"]
    measured += [f"not measured: {list_names(missing, len(_NAMES))}"] if missing else []
    return "; ".join(measured[:_MAX_LACKING])


def _command(job: Job, standings: Sequence[_Standing], asked_in_full: Collection[str]) -> str | None:
    """The run that would tell of those that may be fit; None where there is no more to ask, or nobody to ask."""
    # A model that never saw the tools will not see them in another run either.
    open_yet = [
        one
        for one in standings
        if one.fit == "cannot_tell" and one.group.n_ok and not any(need.why.startswith(UNSEEN) for need in one.needs)
    ]
    lacking = {need.name for one in open_yet for need in one.needs if need.met == "cannot_tell"}
    named = [one for name in job.needs for one in (_RECOMMENDED if name == "recommended" else (name,))]
    suites = [_SUITES_OF[name] for name in named if name in lacking and name in _SUITES_OF]
    suites += [prompts.partition("/")[0] for prompts in job.prompts if job.called in lacking]
    more = [suite for suite in dict.fromkeys(suites) if suite not in asked_in_full]
    if not more:
        return None
    asked = [f"-t {shlex.quote(one.group.target.label)}" for one in open_yet]
    return " ".join(["clawgauge run", *asked, *(f"-s {shlex.quote(suite)}" for suite in dict.fromkeys(suites))])


def _stand(job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> _Standing:
    passes = _pool(job, group)
    needs = [need for name in job.needs for need in _needs(name, job, group, settings)]
    needs += [passes] if job.prompts else []
    figures = [_figure(name, passes, group, settings) for name in job.weighs]
    whole = sum(job.weighs.values())
    weights = [weight / whole for weight in job.weighs.values()]
    score = sum(weight * figure.score for weight, figure in zip(weights, figures, strict=True))
    error = math.hypot(*(weight * figure.error for weight, figure in zip(weights, figures, strict=True)))
    return _Standing(group, needs, figures, score, error)


def _needs(name: str, job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> list[Need]:
    known = {need.name: need for need in group.tool_use.needs}
    if name == "recommended":
        return [*known.values()] or [Need(name=name, met="cannot_tell", n=0, k=0)]
    if name in known:
        return [_held_to(job.at_least, known[name], group)]
    return [_own_need(name, job, group, settings)]


def _held_to(limit: float, need: Need, group: GroupSummary) -> Need:
    """What a recommendation needs, held to a bound of the job's own. Harm stays harm, and what was not seen unseen."""
    rates = {"arguments": group.argument_accuracy, "restraint": group.restraint, "tasks": group.tasks}
    ci95 = rate.ci95 if (rate := rates.get(need.name)) else None
    if ci95 is None or need.limit in (None, limit) or need.met == "no" or need.why.startswith(UNSEEN):
        return need
    return hold_to(limit, need.name, _NAMES[need.name], need.k, need.n, ci95)


def _own_need(name: str, job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> Need:
    if name == "local":
        is_here = is_local(settings)
        why = "runs on your own machines" if is_here else "not on your own machines"
        return Need(name=name, met="yes" if is_here else "no", n=0, k=0, why=why)
    if name == "answers":
        return _bounded(name, group.n_success, group.n_total, float(group.n_total), job.at_least)
    # A summary of an earlier version has no needs.
    return Need(name=name, met="cannot_tell", n=0, k=0)


def _pool(job: Job, group: GroupSummary) -> Need:
    """The job's own prompts together; of a job without any, all that has a verdict."""
    if not job.prompts:
        return _bounded("passes", group.n_passed, group.n_judged, float(group.n_judged), job.at_least)
    rates = [(s.n_passed, s.n_judged, s.n_eff) for s in group.suites if s.suite in job.prompts]
    rates += [
        (rate.k, rate.n, rate.n_eff)
        for suite in group.suites
        for category, rate in suite.by_category.items()
        if suite.suite not in job.prompts and f"{suite.suite}/{category}" in job.prompts
    ]
    k, n = sum(passed for passed, _, _ in rates), sum(judged for _, judged, _ in rates)
    worth = math.fsum(judged if n_eff is None else n_eff for _, judged, n_eff in rates)
    return _bounded(job.called, k, n, worth, job.at_least)


def _bounded(name: str, k: int, n: int, n_eff: float, limit: float) -> Need:
    interval = wilson_interval(k / n * n_eff, n_eff) if n else None
    if interval is None:
        return Need(name=name, met="cannot_tell", n=0, k=0, limit=limit)
    return hold_to(limit, name, _NAMES.get(name, name), k, n, interval)


def hold_to(limit: float, name: str, called: str, k: int, n: int, ci95: tuple[float, float]) -> Need:
    """A rate held against the limit of a need: met where its interval lies above it, not met where it lies below."""
    low, high = ci95
    met = "yes" if low >= limit else "no" if high < limit else "cannot_tell"
    bound = f"at most {format_percent(high)}" if met == "no" else f"at least {format_percent(low)}"
    words = f"{called} {k} of {n} ({bound}, needs {format_percent(limit)})"
    return Need(name=name, met=met, n=n, k=k, lower=low, limit=limit, why=words)


_NAMES = {
    "calls": "native calls",
    "arguments": "right arguments",
    "restraint": "restraint",
    "tasks": "tasks",
    "answers": "answered",
    "passes": "passed",
}


def _figure(name: str, passes: Need, group: GroupSummary, settings: Mapping[str, Any]) -> _Figure:
    use = group.tool_use
    rates = {
        "tasks": (group.tasks.k, group.tasks.n),
        "restraint": (group.restraint.k, group.restraint.n),
        "tools": (use.k, use.n) if use.source == "native" else (0, 0),
        "answers": (group.n_success, group.n_total),
    }
    if name in rates:
        return _rate(_NAMES.get(name, name), *rates[name])
    if name == "passes":
        return _rate(_NAMES.get(passes.name, passes.name), passes.k, passes.n)
    if name == "first_token":
        return _time("first token", group.ttft_ms, "p50", HALF_TTFT_MS)
    if name == "latency":
        return _time("p95", group.timed_ms, "p95", HALF_P95_MS)
    if group.cost is not None:
        usd = group.cost.per_call_usd
        return _Figure(HALF_COST_USD / (HALF_COST_USD + usd), 0.0, f"{format_money(usd)} a call")
    free = is_free(settings)
    return _Figure(1.0 if free else 0.0, 0.0, "free of charge" if free else "cost unknown")


def _rate(name: str, k: int, n: int) -> _Figure:
    """Drawn towards one half by two answers: ten of ten says less than a hundred of a hundred."""
    if not n:
        return _Figure(0.0, 0.5, "")
    rate = (k + 1) / (n + 2)
    return _Figure(rate, math.sqrt(rate * (1 - rate) / (n + 3)), f"{name} {k}/{n}")


def _time(name: str, times: Percentiles, figure: str, half_ms: float) -> _Figure:
    value = getattr(times, figure)
    if value is None:
        return _Figure(0.0, 0.5, f"{name} not measured")
    ends = getattr(times, f"{figure}_ci95")
    # Of too few calls for an interval, half as much again is nothing unusual.
    error_ms = (ends[1] - ends[0]) / (2 * _Z95) if ends else value / 2
    slope = half_ms / (half_ms + value) ** 2
    over = "over " if figure in times.beyond else ""
    return _Figure(half_ms / (half_ms + value), slope * error_ms, f"{name} {over}{format_latency(value)}")
