"""A whole run in figures: rows, or a folder, in; `RunSummary` out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from clawgauge.journal import is_first_harness, iter_results, read_config, read_events
from clawgauge.records import SCHEMA_VERSION, Event, RunConfig, RunSummary
from clawgauge.summary.figures import summarize_group
from clawgauge.summary.groups import (
    BATCH_ROWS,
    Ending,
    Stratum,
    StratumKey,
    group_strata,
    in_batches,
    stratify,
    wall_clock_ms,
)
from clawgauge.summary.rows import SummaryRow
from clawgauge.summary.schedule import PromptKey, read_schedule


def summarize(
    rows: Iterable[SummaryRow],
    *,
    run_id: str,
    config: RunConfig | None = None,
    events: Sequence[Event] = (),
) -> RunSummary:
    """Every figure of a run, from its rows (read once) and from what it set out to do."""
    return _summarize_strata(stratify(in_batches(rows)), run_id=run_id, config=config, events=events)


def summarize_folder(path: Path, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of the run in folder `path`, which alone suffices."""
    config = read_config(path)
    reader = iter_results(path, SummaryRow)
    strata = stratify(reader.batches(BATCH_ROWS))
    return _summarize_strata(
        strata,
        run_id=config.run_id if config else path.resolve().name,
        config=config,
        events=read_events(path),
        n_unreadable_lines=reader.bad_lines,
        generated_at=generated_at,
        source="first_harness" if is_first_harness(path) else "clawgauge",
    )


def _summarize_strata(
    strata: Mapping[StratumKey, Stratum],
    *,
    run_id: str,
    config: RunConfig | None,
    events: Sequence[Event],
    n_unreadable_lines: int = 0,
    generated_at: datetime | None = None,
    source: str = "clawgauge",
) -> RunSummary:
    schedule = read_schedule(config, _prompts_with_verdict(strata))
    groups = group_strata(strata, schedule.targets)
    settings = config.providers if config else {}
    return RunSummary(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        generated_at=(generated_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        run_wall_clock_ms=wall_clock_ms(span for group in groups for span in group.spans()),
        models=[summarize_group(group, schedule, events, settings.get(group.target.provider, {})) for group in groups],
        n_unreadable_lines=n_unreadable_lines,
        source=source,
    )


def _prompts_with_verdict(strata: Mapping[StratumKey, Stratum]) -> set[PromptKey]:
    return {
        (key.suite, ending.prompt_id)
        for key, stratum in strata.items()
        for ending in map(Ending._make, stratum.endings)
        if ending.judged
    }
