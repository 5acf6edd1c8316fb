"""A run folder, read for comparing.

Owns: reading results.jsonl once, beside what the folder says of its plan, its machine and its events. Refuses: keeping
more of a call than its tally.
"""

from __future__ import annotations

from pathlib import Path

from clawgauge.compare.plans import complete_tallies
from clawgauge.compare.tallies import CallRow, PromptTally, RunSide
from clawgauge.journal import (
    is_first_harness,
    iter_results,
    read_config,
    read_events,
    read_inventory,
    started_at_ms,
)
from clawgauge.records import Target
from clawgauge.summary.schedule import PromptKey


def read_side(path: Path) -> RunSide:
    """Read the run in folder `path`, ours or the first harness's."""
    config = read_config(path)
    events = read_events(path)
    reader = iter_results(path, CallRow)
    tallies: dict[Target, dict[PromptKey, PromptTally]] = {}
    judged_by: dict[Target, set[str | None]] = {}
    reported: dict[Target, set[str]] = {}
    for row in reader:
        _tally_for(row, tallies).add(row)
        if row.objective_pass is not None:
            judged_by.setdefault(row.target, set()).add(row.judged_by)
        if row.model_reported is not None:
            reported.setdefault(row.target, set()).add(row.model_reported)
    return RunSide(
        path=path,
        run_id=config.run_id if config else path.resolve().name,
        started_at_ms=started_at_ms(path),
        config=config,
        # The first harness wrote an inventory of its own shape, which reads as none.
        inventory=read_inventory(path),
        first_harness=is_first_harness(path),
        n_unreadable_lines=reader.bad_lines,
        events=events,
        tallies=complete_tallies(config, events, tallies),
        judged_by=judged_by,
        reported=reported,
    )


def _tally_for(row: CallRow, tallies: dict[Target, dict[PromptKey, PromptTally]]) -> PromptTally:
    prompts = tallies.setdefault(row.target, {})
    key = (row.suite, row.prompt_id)
    if key not in prompts:
        prompts[key] = PromptTally(row.prompt_name)
    return prompts[key]
