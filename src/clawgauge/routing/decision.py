"""The policy, and every model measured against it: removed with its reason, or put in order. Deterministic."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.figures import passed_of_asked, timed
from clawgauge.records import Fit, JobVerdict, Percentiles, PromptKey
from clawgauge.routing.evidence import Cell, Evidence
from clawgauge.secrets import MASK
from clawgauge.small_file import read_toml
from clawgauge.stats.proportions import lower_end
from clawgauge.stats.tiers import effective_counts
from clawgauge.summary.groups import BEYOND_MS
from clawgauge.summary.tool_use import word_lacking
from clawgauge.verdict.jobs import BUILT_IN, FIT_ORDER, HALF_COST_USD, HALF_P95_MS, HALF_TTFT_MS, MAIN_AGENT, judge_jobs
from clawgauge.words import format_beyond, format_ms, format_percent, format_short_of, list_names, plural, word_unasked

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
# A model is the best where it is best in this share of the resamplings; short of it, it is one of a tie.
SURE_SHARE = 0.95
_MIN_RESAMPLES, _MAX_RESAMPLES = 200, 500
_STEPS = 1_000_000
# A percentile of more times than these is the same to any digit a score has.
_MAX_TIMES = 2_000
_FITNESS = {"no": "not fit as main agent", "cannot_tell": "cannot tell yet whether fit as main agent"}
_Figure: TypeAlias = float | None
# How often each family was drawn.
Drawn: TypeAlias = Mapping[PromptKey, int]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model must keep, of all that was *asked*. None: no such limit; what was not measured keeps none."""

    min_pass_rate: Rate | None = 0.5
    min_answered_rate: Rate | None = 0.8
    max_p95_ms: Positive | None = None
    max_ttft_p95_ms: Positive | None = None
    max_tier: Annotated[int, msgspec.Meta(ge=1, le=3)] | None = None
    max_cost_per_call_usd: Weight | None = None
    max_monthly_cost_usd: Weight | None = None
    local_only: bool = False


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each figure counts in the order of what the limits left. Scores are between 0 and 1."""

    pass_rate: Weight = 3.0
    tool_use: Weight = 2.0
    latency: Weight = 1.0
    ttft: Weight = 1.0
    cost: Weight = 1.0


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `calls_per_month` turns a cost per call into the monthly one that is limited."""

    limits: Limits = Limits()
    weights: Weights = Weights()
    calls_per_month: Annotated[int, msgspec.Meta(gt=0)] = 10_000
    max_fallbacks: Annotated[int, msgspec.Meta(ge=0, le=10)] = 3


def read_policy(path: Path | None) -> Policy:
    if path is None:
        return Policy()
    policy, _ = read_toml(path, Policy, "policy")
    if not any(msgspec.structs.astuple(policy.weights)):
        words = "all weights are 0, so nothing could be ordered; give one of them a value"
        raise ConfigError(f"the policy {path}: {words}")
    return policy


@dataclass(frozen=True, slots=True)
class Reason:
    """One configured thing, by its path, and why. `model` is None where the reason is about all of them."""

    path: str
    setting: str
    why: str
    model: str | None = None


@dataclass(slots=True)
class Routing:
    """The settings of a router, the reason for each of their lines, and what could not be decided."""

    settings: dict[str, Any] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def address_notes(name: str, address: str, key_env: str | None) -> list[str]:
    """What a person must see to: a run folder may be somebody else's, and a key in an address is not recorded."""
    notes = [f"{name} at {address} will be sent the key in {key_env}: see that the address is yours"] if key_env else []
    if MASK in address:
        notes.append(f"the address of {name} holds a key, which is not recorded: put it in the place of {MASK}")
    return notes


def cite(evidence: Evidence) -> str:
    """Model, tier, k/n, confidence, p95, run: what every reason rests on."""
    group, tool_use = evidence.group, evidence.group.tool_use
    tier = tool_use.label
    if tool_use.tier is not None:
        sure = f", P(tier)={tool_use.p_tier[tool_use.tier - 1]:.2f}" if tool_use.p_tier else ""
        tier += f", tools {tool_use.k}/{tool_use.n} ({tool_use.source}){sure}"
    tier += f" (caution: {tool_use.caution})" if tool_use.caution else ""
    of_asked, times = passed_of_asked(group), timed(group)
    passed = f"passed {of_asked.k}/{of_asked.n}"
    passed += f"; {words}" if (words := word_agreement(evidence)) else ""
    p95 = "p95 not measured" if times.p95 is None else f"p95 {_word_p95(times)}"
    return f"{evidence.label}: {tier}; {passed}; {p95} (n={times.n}); run {evidence.run_id}"


def _word_p95(times: Percentiles) -> str:
    """`1250 ms`, or `> 120 s` where it lies among the timeouts."""
    if times.p95 is not None and "p95" in times.beyond:
        return format_beyond(times.p95)
    return format_ms(times.p95)


def word_agreement(evidence: Evidence) -> str:
    """How often a model did what the incumbent did, in words; empty where nobody asked."""
    own = evidence.group.agreement
    return f"would replace the incumbent in {format_percent(own.rate)} of {plural(own.n, 'moment')}" if own else ""


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's place. `main` judges it as main agent, `removed_by` holds every limit it broke, `scores` what its
    place rests on, `best_share` the share of resamplings in which it had the highest score of all that may be first."""

    evidence: Evidence
    main: Fit
    removed_by: tuple[str, ...]
    scores: dict[str, float]
    score: float
    best_share: float = 0.0

    @property
    def kept(self) -> bool:
        return not self.removed_by


@dataclass(frozen=True, slots=True)
class Decision:
    """Every model that was measured: the kept ones best first, then the removed ones, by fitness and score too. `jobs`
    judges them, as the run of the last one measured defines the jobs. `tied` are the first where none is surely the
    best; `in_use` the models in use now, as far as measured."""

    policy: Policy
    standings: tuple[Standing, ...]
    jobs: list[JobVerdict]
    tied: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()

    @property
    def ranked(self) -> list[Evidence]:
        return [standing.evidence for standing in self.standings if standing.kept]

    @property
    def tie(self) -> str | None:
        if not self.tied:
            return None
        shares = {one.evidence.label: format_short_of(one.best_share, SURE_SHARE) for one in self.standings}
        named = ", ".join(f"{label} ({shares[label]})" for label in self.tied)
        first = self.tied[0]
        why = f"{first} stays: it is in use" if first in self.in_use else f"{first} has the higher score, no more"
        return f"a tie: {named}; none is the best in {SURE_SHARE:.0%} of resamplings of the prompts; {why}"


def decide(evidence: Sequence[Evidence], policy: Policy, in_use: Sequence[str] = ()) -> Decision:
    """Limits first, then who is fit as main agent, then the weighted order; of a tie, the ones `in_use` go first."""
    weights, by_target = msgspec.structs.asdict(policy.weights), {one.target: one for one in evidence}
    own = next((one.jobs for one in reversed(evidence) if one.jobs), {})
    jobs = judge_jobs([one.group for one in evidence], {**BUILT_IN, **own}, lambda target: by_target[target].settings)
    main = {fit.target: fit for job in jobs if job.job == MAIN_AGENT for fit in job.ranking}
    standings = []
    for one in evidence:
        fit = main.get(one.label) or Fit(target=one.label, fit="cannot_tell", why="not measured", n=0)
        measured = Scores(one).measured
        standings.append(Standing(one, fit, tuple(_broken(one, policy)), measured, _weigh(measured, weights)))
    standings.sort(key=_place)
    first = [one for one in standings if one.kept and one.main.fit == standings[0].main.fit]
    shares = _best_shares([Scores(one.evidence) for one in first], weights)
    first = [replace(one, best_share=share) for one, share in zip(first, shares, strict=True)]
    best = _maybe_best(first)
    # A stable sort: what is not in use stays in the order of the scores.
    best.sort(key=lambda one: in_use.index(one.evidence.label) if one.evidence.label in in_use else len(in_use))
    labels = tuple(one.evidence.label for one in best)
    rest = [one for one in (*first, *standings[len(first) :]) if one.evidence.label not in labels]
    return Decision(policy, (*best, *rest), jobs, labels if len(labels) > 1 else (), tuple(in_use))


def word_places(placed: Iterable[tuple[Standing, str]]) -> list[str]:
    """What must be known of models that get a place, each with what is withheld from it: who is not shown to be fit."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one, without in placed:
        use, told = one.evidence.group.tool_use, f"{_FITNESS.get(one.main.fit)}; {one.main.why}"
        if one.main.fit == "yes":
            told = word_lacking(use.needs) or f"a caution stands; {use.caution}"
        if one.main.fit != "yes" or without or use.caution:
            alike.setdefault((without, told), []).append(one.evidence.label)
        if unasked := word_unasked(one.evidence.group.attempted, one.evidence.group.n_scheduled):
            alike.setdefault((" by a run that was cut short", unasked), []).append(one.evidence.label)
    return [
        f"{list_names(labels, len(labels))} {'is' if len(labels) == 1 else 'are'} placed{without}: {told}"
        for (without, told), labels in alike.items()
    ]


def _maybe_best(kept: Sequence[Standing]) -> list[Standing]:
    """The fewest models of which one is surely the best, in the order of the scores."""
    found: list[Standing] = []
    for one in sorted(kept, key=lambda standing: -standing.best_share):
        if sum(standing.best_share for standing in found) < SURE_SHARE:
            found.append(one)
    return sorted(found, key=_place)


def _place(standing: Standing) -> tuple[bool, int, float, str]:
    return not standing.kept, FIT_ORDER[standing.main.fit], -standing.score, standing.evidence.label


def _broken(evidence: Evidence, policy: Policy) -> Iterable[str]:
    """Every limit the model does not keep, each as a sentence with its figure and its n."""
    limits, group = policy.limits, evidence.group
    of_asked = passed_of_asked(group)
    tool_use, cost = group.tool_use, evidence.cost_per_call_usd
    for name, (k, n), least in (
        ("pass rate", (of_asked.k, of_asked.n), limits.min_pass_rate),
        ("answered", (group.n_success, group.attempted), limits.min_answered_rate),
    ):
        if least is not None and (not n or k / n < least):
            measured = f"{format_percent(k / n)} of {n}" if n else "not measured"
            yield f"{name} {measured}, wanted at least {format_percent(least)}"
    first = ("first token p95", group.ttft_ms, limits.max_ttft_p95_ms)
    for name, figures, most in (("p95", timed(group), limits.max_p95_ms), first):
        if most is None:
            continue
        # A figure that lies among the timeouts is more than it says, and how much more nobody knows.
        if figures.p95 is None or figures.p95 > most or "p95" in figures.beyond:
            measured = "not measured" if figures.p95 is None else f"{_word_p95(figures)} (n={figures.n})"
            yield f"{name} {measured}, wanted at most {format_ms(most)}"
    if limits.max_tier is not None and (tool_use.tier is None or tool_use.tier > limits.max_tier):
        yield f"{tool_use.label}, wanted Tier {limits.max_tier} or better"
    monthly = (limits.max_monthly_cost_usd, policy.calls_per_month, "a month")
    for limit, calls, per in ((limits.max_cost_per_call_usd, 1, "a call"), monthly):
        if limit is not None and not evidence.free_of_charge and (cost is None or cost * calls > limit):
            measured = f"cost {per} unknown" if cost is None else f"cost ${cost * calls:.4g} {per}"
            yield f"{measured}, wanted at most ${limit:g}"
    if limits.local_only and not evidence.local:
        yield "not local"


class Scores:
    """One model's scores between 0 and 1, as measured and over families drawn anew; rates by their lower end."""

    def __init__(self, evidence: Evidence) -> None:
        group, tool_use, cells = evidence.group, evidence.group.tool_use, evidence.cells.values()
        effective = effective_counts(list(evidence.verdicts.values()))
        self._n_verdicts, self._n_tools = effective.trials if effective else 0.0, tool_use.n_eff or tool_use.n
        self._verdicts = [(family, *cluster) for family, cluster in evidence.verdicts.items()]
        self._tools = [(cell.family, int(cell.used_tool), 1) for cell in cells if cell.used_tool is not None]
        self._times_ms = _descending(_censored_times(cells))
        self._ttfts_ms = _descending((cell.ttft_ms, cell.family) for cell in cells if cell.ttft_ms is not None)
        self._cost = 1.0 if evidence.free_of_charge else _falling(evidence.cost_per_call_usd, HALF_COST_USD)
        passed = effective.passes / effective.trials if effective else None
        times = timed(group)
        p95_ms = None if "p95" in times.beyond else times.p95
        self.measured = self._score(passed, tool_use.rate, p95_ms, group.ttft_ms.p50)
        self.families = {*evidence.verdicts, *(cell.family for cell in cells)}
        self.n_steps = 1 + len(self._verdicts) + len(self._tools) + len(self._times_ms) + len(self._ttfts_ms)

    def over(self, drawn: Drawn) -> dict[str, float]:
        passed, used = _drawn_rate(self._verdicts, drawn), _drawn_rate(self._tools, drawn)
        p95_ms = _drawn_percentile(self._times_ms, drawn, 0.95)
        if p95_ms == BEYOND_MS:
            # Among the timeouts: nobody knows how long it is, and a short deadline must not make it look short.
            p95_ms = None
        return self._score(passed, used, p95_ms, _drawn_percentile(self._ttfts_ms, drawn, 0.50))

    def _score(self, passed: _Figure, used: _Figure, p95_ms: _Figure, ttft_ms: _Figure) -> dict[str, float]:
        rates = {"pass_rate": lower_end(passed, self._n_verdicts), "tool_use": lower_end(used, self._n_tools)}
        times = {"latency": _falling(p95_ms, HALF_P95_MS), "ttft": _falling(ttft_ms, HALF_TTFT_MS)}
        return rates | times | {"cost": self._cost}


def _weigh(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights[name] * scores[name] for name in scores) / sum(weights.values())


def _best_shares(models: Sequence[Scores], weights: Mapping[str, float]) -> list[float]:
    """In which share of resamplings, the same for all, each model has the highest score; equals share it."""
    families = sorted({family for one in models for family in one.families})
    if not families or len(models) < 2:
        return [1.0 / len(models) for _ in models]
    n_resamples = max(_MIN_RESAMPLES, min(_MAX_RESAMPLES, _STEPS // sum(one.n_steps for one in models)))
    generator, wins = random.Random(0), [0.0] * len(models)
    for _ in range(n_resamples):
        drawn = dict.fromkeys(families, 0) | Counter(generator.choices(families, k=len(families)))
        scores = [_weigh(one.over(drawn), weights) for one in models]
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        for place in best:
            wins[place] += 1 / len(best)
    return [count / n_resamples for count in wins]


def _drawn_rate(clusters: Iterable[tuple[PromptKey, int, int]], drawn: Drawn) -> float | None:
    weighed = [(drawn[family] * k, drawn[family] * n) for family, k, n in clusters]
    trials = sum(n for _, n in weighed)
    return sum(k for k, _ in weighed) / trials if trials else None


def _censored_times(cells: Iterable[Cell]) -> Iterator[tuple[int, PromptKey]]:
    """The time of every answer, and of every timeout a time that is longer than any answer's."""
    for cell in cells:
        if cell.cut_off_ms is not None:
            yield BEYOND_MS, cell.family
        elif cell.latency_ms is not None:
            yield cell.latency_ms, cell.family


def _descending(times: Iterable[tuple[int, PromptKey]]) -> list[tuple[int, PromptKey]]:
    ordered = sorted(times, reverse=True)
    return ordered[:: len(ordered) // _MAX_TIMES + 1]


def _drawn_percentile(descending: Sequence[tuple[int, PromptKey]], drawn: Drawn, q: float) -> float | None:
    above = (1 - q) * sum(drawn[family] for _, family in descending)
    for time_ms, family in descending:
        above -= drawn[family]
        if above < 0:
            return time_ms
    return None


def _falling(value: float | None, half: float) -> float:
    return 0.0 if value is None else half / (half + value)
