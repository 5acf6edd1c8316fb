"""One target over time: latest, best, and whether it drifted; and all of them in one look."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import passed, passed_of_asked, timed
from clawgauge.history.findings import (
    FillStep,
    History,
    Point,
    RunEntry,
    RunLine,
    Trend,
    find_missing,
    read_entries,
)
from clawgauge.prices import settings_of
from clawgauge.records import (
    SCHEMA_VERSION,
    TPS_RULE,
    GroupSummary,
    JobVerdict,
    PromptKey,
    RunConfig,
    RunSummary,
    Target,
)
from clawgauge.records.summary import SuiteBreakdown
from clawgauge.run_data import read_schedule
from clawgauge.stats.paired import find_change
from clawgauge.verdict.jobs import (
    BUILT_IN,
    JudgedModel,
    best_first,
    judge_jobs,
    judge_model,
    order_targets,
)
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.wording import word_capacity
from clawgauge.words import format_percent, format_rate, plural

_FORM_CHARS = 8
# What was long ago is not looked at for drift.
_MAX_RUNS = 100
# With so many, `compare` can tell a change of times from a machine's mood.
_RUNS_A_SIDE = 3
# How much a machine's pace commonly shifts from one run to the next.
_USUAL_SHIFT = 0.03
# Luck with n prompts is known well: it counts as so many runs would.
_N_USUAL_RATE = 10
_LINE_COUNTS = ("n_ok", "n_passed", "n_judged", "n_scheduled", "n_attempted")
_Wanted: TypeAlias = Callable[[Target], bool]
_Part: TypeAlias = GroupSummary | SuiteBreakdown


class _Form(NamedTuple):
    digest: str
    suites: tuple[str, ...]
    n_prompts: int


def find_trends(entries: Sequence[RunEntry], wanted: _Wanted, suite: str | None) -> list[Trend]:
    """Every target's runs lined up, oldest first; with `suite` the figures of that suite alone."""
    rows: dict[tuple[Target, _Form], list[tuple[Point, RunEntry]]] = {}
    for entry in reversed(entries):
        for group, part in _parts(entry, wanted, suite):
            form = _form(entry, group, suite)
            rows.setdefault((group.target, form), []).append((_point(entry, group, part), entry))
    return [_trend(target, form, row, suite) for (target, form), row in rows.items()]


def _parts(
    entry: RunEntry, wanted: _Wanted, suite: str | None
) -> Iterator[tuple[GroupSummary, _Part]]:
    """The wanted models of a run, the best first, each with its figures: of `suite` alone where there is one."""
    for group in best_first(entry.summary.models, entry.summary.jobs):
        parts: list[_Part] = (
            [group] if suite is None else [part for part in group.suites if part.suite == suite]
        )
        if wanted(group.target) and parts:
            yield group, parts[0]


def _counts(part: _Part) -> dict[str, int]:
    """What is shown of a part of a run; what an earlier version's summary does not say of a suite, its records do."""
    n_judged = passed(part).n
    of_asked = passed_of_asked(part)
    n_asked = of_asked.n or n_judged
    return {
        "n_ok": part.n_ok,
        "n_scheduled": part.n_scheduled or part.n_total,
        "n_asked": n_asked,
        "n_attempted": part.attempted,
        "n_passed": of_asked.k,
        "n_judged": min(n_judged, n_asked),
    }


def _form(entry: RunEntry, group: GroupSummary, suite: str | None) -> _Form:
    """The prompts and sampling of a run, as far as its folder says."""
    config = entry.config
    if config is None:
        # The first harness kept no prompts: their number is all there is to go by.
        return _Form(f"first{group.n_total}"[:_FORM_CHARS], (), group.n_total)
    asked = sorted(
        (*key, fingerprint)
        for key, fingerprint in entry.fingerprints.items()
        if suite in (None, key[0])
    )
    sampling = config.sampling.get(group.target.label)
    digest = hashlib.sha256(msgspec.json.encode((asked, sampling), order="sorted")).hexdigest()
    return _Form(
        digest[:_FORM_CHARS], tuple(dict.fromkeys(name for name, _, _ in asked)), len(asked)
    )


def _point(entry: RunEntry, group: GroupSummary, part: _Part) -> Point:
    use = group.tool_use
    times = timed(part)
    of_answers = passed(part)
    return Point(
        run_id=entry.run_id,
        started_at_ms=entry.started_at_ms,
        **_counts(part),
        n_timed=part.n_success,
        pass_rate=of_answers.value,
        pass_ci95=of_answers.ci95,
        p50_ms=times.p50,
        p50_ci95=times.p50_ci95,
        p95_ms=times.p95,
        beyond=times.beyond,
        indicative=times.indicative,
        tier=use.tier,
        tier_label=use.label,
        decided=use.decided,
        stopped_early=group.stopped_early,
    )


def _trend(
    target: Target, form: _Form, row: list[tuple[Point, RunEntry]], suite: str | None
) -> Trend:
    points, recent = [point for point, _ in row], row[-_MAX_RUNS:]
    # By what is shown for sure: two of two, the rest unanswered, are less than 29 of 30. Of equals, the newest.
    best = max(
        reversed(points), key=lambda point: point.asked_ci95[0] if point.asked_ci95 else -1.0
    )
    drift = (_rate_drift([point for point, _ in recent]), _pace_drift(target, recent, suite))
    return Trend(
        target=target.label, suites=list(form.suites), n_prompts=form.n_prompts, form=form.digest, points=points,
        latest=points[-1], best=best, drift=[sentence for sentence in drift if sentence],
    )  # fmt: skip


def _rate_drift(points: Sequence[Point]) -> str | None:
    """Where the pass rate of answers (an outage is no worse model) changed its level by more than luck has it."""
    # A run that its own results stopped asked other prompts.
    usable = [point for point in points if point.pass_rate is not None and not point.stopped_early]
    if len(usable) < 2:
        return None
    n, k = sum(point.n_judged for point in usable), sum(point.n_passed for point in usable)
    common = (k + 1) / (n + 2)
    usual_sd = math.sqrt(common * (1 - common) * len(usable) / n)
    since = find_change([point.pass_rate or 0.0 for point in usable], usual_sd, _N_USUAL_RATE)
    if since is None:
        return None
    k_before, n_before = (
        sum(p.n_passed for p in usable[:since]),
        sum(p.n_judged for p in usable[:since]),
    )
    k_after, n_after = k - k_before, n - n_before
    word = "fell" if k_after * n_before < k_before * n_after else "rose"
    change = (
        f"from {format_rate(k_before, n_before)} to {format_rate(k_after, n_after)} of the answers"
    )
    return f"pass rate {word} {change} {_word_since(usable, since)}"


def _pace_drift(
    target: Target, row: Sequence[tuple[Point, RunEntry]], suite: str | None
) -> str | None:
    if len(row) < 2:
        return None
    timed = [
        (point, medians)
        for point, entry in row
        if (medians := entry.prompt_medians_ms(target, suite))
    ]
    found = find_pace_change([medians for _, medians in timed])
    if found is None:
        return None
    since, change = found
    word = f"{format_percent(abs(change))} {'longer' if change > 0 else 'less'}"
    return f"calls take {word} {_word_since([point for point, _ in timed], since)}"


def find_pace_change(runs_ms: Sequence[Mapping[PromptKey, float]]) -> tuple[int, float] | None:
    """The run with which calls began to take longer or less, by what share; each prompt beside its own median."""
    logs: dict[PromptKey, list[float]] = {}
    for run in runs_ms:
        for key, value in run.items():
            logs.setdefault(key, []).append(math.log(max(1.0, value)))
    own = {key: median(values) for key, values in logs.items()}
    levels = [
        median(math.log(max(1.0, value)) - own[key] for key, value in run.items())
        for run in runs_ms
    ]
    since = find_change(levels, _USUAL_SHIFT)
    return (
        None
        if since is None
        else (since, math.exp(mean(levels[since:]) - mean(levels[:since])) - 1)
    )


def _word_since(points: Sequence[Point], since: int) -> str:
    ids = [point.run_id for point in points]
    runs = f"{plural(since, 'run')} before, {len(points) - since} since"
    n = _RUNS_A_SIDE if min(since, len(points) - since) >= _RUNS_A_SIDE else 1
    sides = f"{','.join(ids[since - n : since])} {','.join(ids[since : since + n])}"
    return f"since {ids[since]} ({runs}; clawgauge compare {sides})"


def read_history(
    root: Path, *, models: Sequence[str] = (), suite: str | None = None
) -> tuple[History, list[FillStep]]:
    """The history of the runs in `root`, and how to fill it; `models` are patterns for labels or models (`*llama*`)."""
    found, unreadable = read_entries(root)

    def wanted(target: Target) -> bool:
        return not models or any(
            fnmatchcase(target.label, p) or fnmatchcase(target.model, p) for p in models
        )

    # A run that recorded nothing yet has no group; it belongs in the table all the same.
    listed = [
        one
        for one in found
        if any(_parts(one, wanted, suite)) or (suite is None and not one.summary.models)
    ]
    # What a server was loaded with tells nothing of a model's answers.
    entries = [entry for entry in listed if not entry.is_load]
    coverage, steps, n_not_fillable = find_missing(entries, wanted, suite)
    jobs = judge_newest([(entry.summary, entry.config) for entry in entries], wanted)
    order, trends = order_targets(jobs), find_trends(entries, wanted, suite)
    trends = sorted(
        trends, key=lambda trend: (order.index(trend.target), -trend.latest.started_at_ms)
    )
    history = History(
        schema_version=SCHEMA_VERSION, runs_dir=str(root), runs=[_line(entry, wanted, suite) for entry in listed],
        unreadable=unreadable, trends=trends, coverage=coverage, n_not_fillable=n_not_fillable, jobs=jobs,
    )  # fmt: skip
    return history, steps


def judge_newest(
    runs: Sequence[tuple[RunSummary, RunConfig | None]], wanted: _Wanted = lambda _: True
) -> list[JobVerdict]:
    """Who is fit for which job, by the newest run that can tell; a later one that asked less undoes no answer."""
    jobs, found = BUILT_IN | next((config.jobs for _, config in runs if config), {}), []
    for name, job in jobs.items():
        newest: dict[Target, tuple[JudgedModel, str, RunConfig | None]] = {}
        for run, config in runs:
            for target, group in (
                (group.target, group) for group in run.models if wanted(group.target)
            ):
                one, held = (
                    judge_model(name, job, group, settings_of(config, target)),
                    newest.get(target),
                )
                if held is None or _tells_more(one, held[0]):
                    newest[target] = one, run.run_id, config
        from_run = {target.label: run_id for target, (_, run_id, _) in newest.items()}
        settings = {
            target: settings_of(config, target) for target, (_, _, config) in newest.items()
        }
        in_full = [read_schedule(config).asked_in_full for _, _, config in newest.values()]
        whole = frozenset.intersection(*in_full) if in_full else ()
        for verdict in judge_jobs(
            [one[0].group for one in newest.values()], {name: job}, settings.__getitem__, whole
        ):
            ranking = [
                msgspec.structs.replace(fit, why=f"{fit.why}; run {from_run[fit.target]}")
                if fit.n
                else fit
                for fit in verdict.ranking
            ]
            found.append(msgspec.structs.replace(verdict, ranking=ranking))
    return found


def _tells_more(older: JudgedModel, newer: JudgedModel) -> bool:
    if not newer.group.n_ok or newer.fitness is not Fitness.CANNOT_TELL:
        return not newer.group.n_ok and older.group.n_ok > 0
    since = {need.name: need.n for need in newer.needs}
    if older.fitness is Fitness.CANNOT_TELL:
        return not any(since.values()) and any(need.n for need in older.needs)
    # A yes rests on every need, a no on those that are not met: only a run that measured these as well undoes it.
    under = [(need.n, since.get(need.name, 0)) for need in older.needs if need.met is older.fitness]
    return (
        any(n and not n_since for n, n_since in under)
        or sum(n - n_since for n, n_since in under) > 0
    )


def _line(entry: RunEntry, wanted: _Wanted, suite: str | None) -> RunLine:
    found = list(_parts(entry, wanted, suite))
    counts = [_counts(part) for _, part in found]
    suites = dict.fromkeys(part.suite for group, _ in found for part in group.suites if part.suite)
    targets = [group.target.label for group, _ in found]
    carried = []
    for capacity in entry.summary.capacity:
        if capacity.target in targets:
            # Rates of two rules stand below each other here, and are not the same figure.
            has_rates = any(step.tokens_per_s_user is not None for step in capacity.steps)
            rule = capacity.tps_rule or 1
            older = f" (tokens/s by rule {rule})" if has_rates and rule < TPS_RULE else ""
            carried.append(f"{capacity.target}: {word_capacity(capacity)}{older}")
    return RunLine(
        run_id=entry.run_id, path=str(entry.path), started_at_ms=entry.started_at_ms, targets=targets,
        suites=[name for name in suites if suite in (None, name)],
        **{name: sum(one[name] for one in counts) for name in _LINE_COUNTS},
        n_unreadable_lines=entry.summary.n_unreadable_lines, source=entry.summary.source,
        passes={one[0].target.label: (n["n_passed"], n["n_asked"]) for one, n in zip(found, counts, strict=True)},
        load=carried or ["nothing was measured"] if entry.is_load else [],
    )  # fmt: skip
