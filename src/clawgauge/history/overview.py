"""All runs of a folder in one look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from clawgauge.history.coverage import IsWanted, cover_targets, describe_coverage, find_prompts
from clawgauge.history.entries import RunEntry, read_entries
from clawgauge.history.filling import MissingPrompts, find_missing
from clawgauge.history.findings import History, RunLine, Trend
from clawgauge.history.jobs import judge_newest
from clawgauge.history.trends import count_part, find_parts, find_trends
from clawgauge.records import SCHEMA_VERSION, TPS_RULE, GroupSummary, JobVerdict, Target
from clawgauge.records.summary import CapacitySummary
from clawgauge.verdict.jobs import order_targets
from clawgauge.verdict.wording import word_capacity


class Overview(NamedTuple):
    """The history of a folder, and what its targets have not answered."""

    history: History
    missing: MissingPrompts


def read_history(root: Path, *, models: Sequence[str] = (), suite: str | None = None) -> Overview:
    """The history of the runs in `root`. `models` are patterns for labels or models (`*llama*`);
    with `suite`, figures and coverage are of that suite alone."""

    def is_wanted(target: Target) -> bool:
        return not models or _fits_any(target, models)

    all_entries, unreadable = read_entries(root)
    listed = [entry for entry in all_entries if _is_listed(entry, is_wanted, suite)]
    # What a server was loaded with tells nothing of a model's answers.
    entries = [entry for entry in listed if not entry.is_load]
    prompts = find_prompts(entries, suite)
    covered = cover_targets(entries, prompts, is_wanted, suite)
    missing = find_missing(entries, covered, prompts)
    jobs = judge_newest([(entry.summary, entry.config) for entry in entries], is_wanted)
    trends = find_trends(entries, is_wanted, suite)
    history = History(
        schema_version=SCHEMA_VERSION,
        runs_dir=str(root),
        runs=[_make_line(entry, is_wanted, suite) for entry in listed],
        unreadable=unreadable,
        trends=_sort_trends(trends, jobs),
        coverage=describe_coverage(covered, prompts),
        n_not_fillable=missing.n_without_run,
        jobs=jobs,
    )
    return Overview(history=history, missing=missing)


def _fits_any(target: Target, patterns: Sequence[str]) -> bool:
    names = (target.label, target.model)
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _is_listed(entry: RunEntry, is_wanted: IsWanted, suite: str | None) -> bool:
    """Whether a run is shown: where it has something of what is wanted. One that recorded nothing
    yet has no group; it belongs in the table all the same."""
    if suite is None and not entry.summary.models:
        return True
    return any(True for _ in find_parts(entry, is_wanted, suite))


def _sort_trends(trends: Sequence[Trend], jobs: Sequence[JobVerdict]) -> list[Trend]:
    """The best model first, and of one model the trend with the latest run."""
    rank_of = {target: rank for rank, target in enumerate(order_targets(jobs))}
    return sorted(trends, key=lambda trend: (rank_of[trend.target], -trend.latest.started_at_ms))


def _make_line(entry: RunEntry, is_wanted: IsWanted, suite: str | None) -> RunLine:
    parts = list(find_parts(entry, is_wanted, suite))
    targets = [group.target.label for group, _ in parts]
    counts = [count_part(part) for _, part in parts]
    passes = {}
    for target, target_counts in zip(targets, counts, strict=True):
        passes[target] = (target_counts.n_passed, target_counts.n_asked)
    return RunLine(
        run_id=entry.run_id,
        path=str(entry.path),
        started_at_ms=entry.started_at_ms,
        targets=targets,
        suites=_list_suites([group for group, _ in parts], suite),
        n_ok=sum(count.n_ok for count in counts),
        n_scheduled=sum(count.n_scheduled for count in counts),
        n_passed=sum(count.n_passed for count in counts),
        n_judged=sum(count.n_judged for count in counts),
        n_attempted=sum(count.n_attempted for count in counts),
        n_unreadable_lines=entry.summary.n_unreadable_lines,
        source=entry.summary.source,
        passes=passes,
        load=_list_loads(entry, targets),
    )


def _list_suites(groups: Iterable[GroupSummary], wanted_suite: str | None) -> list[str]:
    """The suites that were asked, each once, or the wanted one alone."""
    suites: dict[str, None] = {}
    for group in groups:
        for breakdown in group.suites:
            if breakdown.suite and wanted_suite in (None, breakdown.suite):
                suites[breakdown.suite] = None
    return list(suites)


def _list_loads(entry: RunEntry, targets: Collection[str]) -> list[str]:
    """What a capacity run says of each of these targets."""
    if not entry.is_load:
        return []
    loads = []
    for capacity in entry.summary.capacity:
        if capacity.target in targets:
            loads.append(_word_load(capacity))
    return loads or ["nothing was measured"]


def _word_load(capacity: CapacitySummary) -> str:
    """What a capacity run says of one target. Rates of two rules stand below each other in a
    history, and are not the same figure: those of the older rule are marked."""
    has_rates = any(step.tokens_per_s_user is not None for step in capacity.steps)
    rule = capacity.tps_rule or 1
    older = f" (tokens/s by rule {rule})" if has_rates and rule < TPS_RULE else ""
    return f"{capacity.target}: {word_capacity(capacity)}{older}"
