"""The jobs, and every model judged for each: fit, not fit, or cannot tell yet, and who is the best of the fit."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import passed, timed
from clawgauge.prices import is_free, is_local
from clawgauge.records import TOOLS_DROPPED, Fit, GroupSummary, Job, JobVerdict, Need, Percentiles, Target, ToolUse
from clawgauge.registry import find_type
from clawgauge.stats.proportions import wilson_interval
from clawgauge.words import format_latency, format_money, format_percent, format_short_of, list_names, plural

# The value at which a score is one half: a p95 of five seconds, a first token after one, a cent a call.
HALF_P95_MS = 5_000.0
HALF_TTFT_MS, HALF_COST_USD = 1_000.0, 0.01
_Z95_ONE_SIDED, _Z95 = 1.645, 1.96
_MAX_LACKING, _COLUMN_CHARS = 3, 8
# How a need says that a model was never shown what it is about.
UNSEEN = "cannot tell: "
# Of `long_context/16k`, the length of the text.
_LENGTH = re.compile(r"/(\d+)k$")
FIT_ORDER = {"yes": 0, "cannot_tell": 1, "no": 2}
_SUITES_OF = {"calls": "native_tools", "arguments": "native_tools", "restraint": "restraint", "tasks": "agentic"}
_RECOMMENDED = tuple(_SUITES_OF)
# The suites that together show what a recommendation needs. One run must: what several show is not added up.
SUBAGENT_SUITES = tuple(dict.fromkeys(_SUITES_OF[name] for name in _RECOMMENDED))
_PIECE_SUITES = 3
SettingsOf: TypeAlias = Callable[[Target], Mapping[str, Any]]


MAIN_AGENT = "main agent"
_JOBS = tomllib.loads(Path(__file__).with_name("jobs.toml").read_text("utf-8"))
BUILT_IN = msgspec.convert(_JOBS, dict[str, Job])


class _Figure(NamedTuple):
    """One thing that is weighed: a score between 0 and 1, how far off it may be, and its words."""

    score: float
    error: float
    words: str


class Standing(NamedTuple):
    group: GroupSummary
    needs: list[Need]
    figures: list[_Figure]
    score: float
    error: float

    @property
    def fit(self) -> str:
        met = {need.met for need in self.needs}
        return "no" if "no" in met else "cannot_tell" if "cannot_tell" in met else "yes"

    def tied_with(self, best: Standing) -> bool:
        """Whether the distance of the two scores could be luck."""
        return best.score - self.score <= _Z95_ONE_SIDED * math.hypot(self.error, best.error)


def judge_jobs(
    groups: Sequence[GroupSummary], jobs: Mapping[str, Job], settings_of: SettingsOf, in_full: Collection[str] = ()
) -> list[JobVerdict]:
    """Every job with its models, the best first. `in_full` names the suites that have nothing more to ask."""
    is_own = any(group.agreement for group in groups)
    known = {name: job for name, job in jobs.items() if is_own or "agreement" not in job.needs}
    return [_judge(name, job, groups, settings_of, in_full) for name, job in known.items()]


def word_run(targets: Sequence[str], suites: Sequence[str]) -> list[str]:
    """The run that asks these suites of these targets, in the pieces a shell reads on from."""
    asked, named = ([f"{flag} {shlex.quote(w)}" for w in words] for flag, words in (("-t", targets), ("-s", suites)))
    pieces = [" ".join(named[n : n + _PIECE_SUITES]) for n in range(0, len(named), _PIECE_SUITES)]
    return ["clawgauge run", *asked, *pieces]


def order_targets(jobs: Sequence[JobVerdict]) -> list[str]:
    """The one order in which models are shown: who is fit for the most jobs first, then who stands higher in them."""
    places: dict[str, list[tuple[int, int]]] = {}
    for job in jobs:
        whys = [one.why for one in job.ranking]
        for one in job.ranking:
            # Who is alike in all that a job looks at has the same place in it.
            places.setdefault(one.target, []).append((FIT_ORDER.get(one.fit, len(FIT_ORDER)), whys.index(one.why)))

    def place_of(target: str) -> tuple[int, int, int]:
        fits = [fit for fit, _ in places[target]]
        return -fits.count(0), fits.count(2), sum(place for _, place in places[target])

    return sorted(places, key=place_of)


def best_first(groups: Sequence[GroupSummary], jobs: Sequence[JobVerdict]) -> list[GroupSummary]:
    places = {target: place for place, target in enumerate(order_targets(jobs))}
    return sorted(groups, key=lambda group: places.get(group.target.label, len(places)))


def _judge(
    name: str, job: Job, groups: Sequence[GroupSummary], settings_of: SettingsOf, asked_in_full: Collection[str]
) -> JobVerdict:
    standings = [stand(job, group, settings_of(group.target)) for group in groups]
    standings.sort(key=lambda one: (FIT_ORDER[one.fit], not one.group.n_ok, -one.score, one.group.target.label))
    fit = [one for one in standings if one.fit == "yes"]
    tied = [one for one in fit if one.tied_with(fit[0])] if len(fit) > 1 else []
    ranking = []
    for one in standings:
        n, tie = sum(need.n for need in one.needs), one in tied and len(tied) > 1
        ranking.append(Fit(target=one.group.target.label, fit=one.fit, why=_why(one), n=n, tie=tie))
    targets, suites = ([], []) if fit else _open_yet(job, standings, asked_in_full)
    column = job.column or name.split()[0][:_COLUMN_CHARS]
    needs = " ".join(word_run(targets, suites)) if suites else None
    return JobVerdict(job=name, ranking=ranking, column=column, needs=needs, targets=targets, suites=suites)


def _why(one: Standing) -> str:
    if one.fit == "yes":
        return ", ".join(figure.words for figure in one.figures if figure.words)
    lacking = [need for need in one.needs if need.met == one.fit]
    known = [need for need in lacking if need.n or need.name == "local" or need.why.startswith(UNSEEN)]
    measured = list(dict.fromkeys(need.why.removeprefix(UNSEEN) for need in known))
    missing = [_NAMES.get(need.name, need.name) for need in lacking if need not in known]
    measured += [f"not measured: {list_names(missing, len(_NAMES))}"] if missing else []
    return "; ".join(measured[:_MAX_LACKING])


def _open_yet(job: Job, standings: Sequence[Standing], asked_in_full: Collection[str]) -> tuple[list[str], list[str]]:
    """Whom to ask what to tell of those that may be fit; nothing where there is no more to ask, or nobody to ask."""
    # A model that never saw the tools will not see them in another run either, nor a text beyond its window.
    unseen = [one for one in standings if any(need.why.startswith(UNSEEN) for need in one.needs)]
    open_yet = [one for one in standings if one.fit == "cannot_tell" and one.group.n_ok and one not in unseen]
    lacking = {need.name for one in open_yet for need in one.needs if need.met == "cannot_tell"}
    named = [one for name in job.needs for one in (_RECOMMENDED if name == "recommended" else (name,))]
    shown_by = [(_SUITES_OF[name], name) for name in named if name in _SUITES_OF]
    shown_by += [(prompts.partition("/")[0], job.called) for prompts in job.prompts]
    if all(suite in asked_in_full for suite, name in shown_by if name in lacking):
        return [], []
    # All that the job needs, not only what is lacking: what several runs show is not added up.
    return [one.group.target.label for one in open_yet], list(dict.fromkeys(suite for suite, _ in shown_by))


def stand(job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> Standing:
    passes = _pool(job, group, settings)
    needs = [need for name in job.needs for need in _needs(name, job, group, settings)]
    needs += [passes] if job.prompts else []
    figures = [_figure(name, passes, group, settings) for name in job.weighs]
    weighed = [(w / sum(job.weighs.values()), one) for w, one in zip(job.weighs.values(), figures, strict=True)]
    score, error = sum(w * one.score for w, one in weighed), math.hypot(*(w * one.error for w, one in weighed))
    return Standing(group, needs, figures, score, error)


def _needs(name: str, job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> list[Need]:
    """What a recommendation needs is held to the job's own bound; harm stays harm, and what was not seen unseen."""
    known = {need.name: need for need in group.tool_use.needs}
    if name == "recommended":
        return [*known.values()] or [Need(name=name, met="cannot_tell", n=0, k=0)]
    if name not in known:
        return [_own_need(name, job, group, settings)]
    need, limit = known[name], job.at_least
    rate = {"arguments": group.argument_accuracy, "restraint": group.restraint, "tasks": group.tasks}.get(name)
    ci95 = rate.ci95 if rate else None
    if ci95 is None or need.limit in (None, limit) or need.met == "no" or need.why.startswith(UNSEEN):
        return [need]
    return [hold_to(limit, name, _NAMES[name], need.k, need.n, ci95)]


def _own_need(name: str, job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> Need:
    if name == "local":
        met = "no" if not is_local(settings) else "cannot_tell" if settings.get("api_key_env") else "yes"
        return Need(name=name, met=met, n=0, k=0, why=_WHERE[met])
    if name == "answers":
        return _bounded(name, group.n_success, group.attempted, float(group.attempted), job.at_least)
    if name == "agreement" and (own := group.agreement) is not None:
        why_unseen = word_unseen(group.tool_use)
        if group.tool_use.tools_seen is None and any(text.startswith(TOOLS_DROPPED) for text in group.warnings):
            why_unseen = f"{UNSEEN}the model never saw the tools"  # a summary of an earlier version
        if why_unseen is not None:
            return Need(name=name, met="cannot_tell", n=own.n, k=own.k, why=why_unseen)
        return _bounded(name, own.k, own.n, own.n_eff or own.n, job.at_least)
    # A summary of an earlier version has no needs.
    return Need(name=name, met="cannot_tell", n=0, k=0)


def word_unseen(use: ToolUse) -> str | None:
    """Why nothing can be told of a model that never saw the tools it was offered; None where it saw them."""
    seen = use.tools_seen
    if seen is None or not seen.unseen:
        return None
    calls = plural(seen.n_offered, "call")
    if seen.n_no_template >= seen.n_too_few_tokens:
        why = f"its chat template has no place for them ({seen.n_no_template} of {calls} with tools)"
    else:
        counted = "the server counted too few prompt tokens to have shown them"
        why = f"in {seen.n_too_few_tokens} of {calls} with tools {counted}"
    return f"{UNSEEN}the model never saw the tools: {why}"


def _pool(job: Job, group: GroupSummary, settings: Mapping[str, Any]) -> Need:
    """The job's own prompts together; of a job without any, all that has a verdict."""
    window = settings.get("context") or find_type(str(settings.get("type"))).default_context
    lengths = [_LENGTH.search(prompts) for prompts in job.prompts]
    if isinstance(window, int) and lengths and all(found and window < int(found[1]) * 1000 for found in lengths):
        # They are not asked: no run would tell.
        why = f"{UNSEEN}its window is {window} tokens here (context in the provider's table)"
        return Need(name=job.called, met="cannot_tell", n=0, k=0, why=why)
    if not job.prompts:
        rate = passed(group)
        return _bounded("passes", rate.k, rate.n, float(rate.n), job.at_least)
    rates = [(s.n_passed, s.n_judged, s.n_eff) for s in group.suites if s.suite in job.prompts]
    parts = [suite for suite in group.suites if suite.suite not in job.prompts]
    named = [rate for s in parts for name, rate in s.by_category.items() if f"{s.suite}/{name}" in job.prompts]
    rates += [(rate.k, rate.n, rate.n_eff) for rate in named]
    return _bounded(job.called, *_add_up(rates), job.at_least)


def _add_up(rates: Sequence[tuple[int, int, float | None]]) -> tuple[int, int, float]:
    """Passes, answers, and what these are worth."""
    k, n = sum(passed for passed, _, _ in rates), sum(judged for _, judged, _ in rates)
    return k, n, math.fsum(judged if n_eff is None else n_eff for _, judged, n_eff in rates)


def _bounded(name: str, k: int, n: int, n_eff: float, limit: float) -> Need:
    interval = wilson_interval(k / n * n_eff, n_eff) if n else None
    if interval is None:
        return Need(name=name, met="cannot_tell", n=0, k=0, limit=limit)
    return hold_to(limit, name, _NAMES.get(name, name), k, n, interval)


def hold_to(limit: float, name: str, called: str, k: int, n: int, ci95: tuple[float, float]) -> Need:
    """A rate held against the limit of a need: met where its interval lies above it, not met where it lies below."""
    low, high = ci95
    met = "yes" if low >= limit else "no" if high < limit else "cannot_tell"
    bound = f"at most {format_short_of(high, limit)}" if met == "no" else f"at least {format_short_of(low, limit)}"
    words = f"{called} {k} of {n} ({bound}, needs {format_percent(limit)})"
    return Need(name=name, met=met, n=n, k=k, lower=low, limit=limit, why=words)


_WHERE = {"yes": "runs on your own machines", "no": "not on your own machines"}
_WHERE |= {"cannot_tell": "it wants a key, so it may pass calls on to another machine"}
_NAMES = {
    "calls": "native calls", "arguments": "right arguments", "restraint": "restraint", "tasks": "tasks",
    "answers": "answered", "passes": "passed", "agreement": "agrees with the incumbent in",
}  # fmt: skip


def _figure(name: str, passes: Need, group: GroupSummary, settings: Mapping[str, Any]) -> _Figure:
    native = group.tool_use if group.tool_use.source == "native" else None
    rates = {"tasks": group.tasks, "restraint": group.restraint, "tools": native, "agreement": group.agreement}
    if name in rates:
        return _rate(_NAMES.get(name, name), one.k, one.n) if (one := rates[name]) else _rate("", 0, 0)
    if name == "answers":
        return _rate(_NAMES[name], group.n_success, group.attempted)
    if name == "passes":
        return _rate(_NAMES.get(passes.name, passes.name), passes.k, passes.n)
    if name == "first_token":
        return _time("first token", group.ttft_ms, "p50", HALF_TTFT_MS)
    if name == "latency":
        return _time("p95", timed(group), "p95", HALF_P95_MS)
    usd = call_cost_usd(group, settings)
    return _Figure(0.0 if usd is None else HALF_COST_USD / (HALF_COST_USD + usd), 0.0, word_cost(group, settings))


def call_cost_usd(group: GroupSummary, settings: Mapping[str, Any]) -> float | None:
    return group.cost.per_call_usd if group.cost else 0.0 if is_free(settings) else None


def word_cost(group: GroupSummary, settings: Mapping[str, Any]) -> str:
    """`$0.0041 a call`, `free of charge`, `cost unknown`."""
    usd = call_cost_usd(group, settings)
    return "cost unknown" if usd is None else f"{format_money(usd)} a call" if group.cost else "free of charge"


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
    score = half_ms / (half_ms + value)
    if figure in times.beyond:
        # Among the timeouts: it lies somewhere between nothing and what a time just over the deadline would get.
        return _Figure(0.0, score / 2, f"{name} over {format_latency(value)}")
    return _Figure(score, slope * error_ms, f"{name} {format_latency(value)}")
