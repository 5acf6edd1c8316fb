"""What a run folder already says of each target, for the rules that end the asking early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from clawgauge.journal import CellKey, cell_key, iter_results, iter_superseded, read_events
from clawgauge.records import CellRow, Prompt, Target
from clawgauge.runner.stopping import Evidence
from clawgauge.runner.tier_pool import pool_key
from clawgauge.summary.rows import Amount


class _Line(CellRow, frozen=True, kw_only=True, gc=False):
    """The part of a result that a budget or a tier depends on."""

    attempts: tuple[Any, ...] = ()
    cost_usd: Amount | None = None


def read_evidence(
    path: Path, pool: Collection[Prompt], *, without: Collection[CellKey] = frozenset()
) -> dict[Target, Evidence]:
    """The evidence in run folder `path`; cells in `without` are about to lose their record and count as open."""
    keys = {pool_key(prompt) for prompt in pool}
    counts: dict[Target, Counter[str]] = {}
    costs: dict[Target, float] = {}
    for line in iter_results(path, _Line):
        if cell_key(line) in without:
            continue
        target = Target(line.provider, line.model, line.thinking_level)
        count = counts.setdefault(target, Counter())
        costs[target] = costs.get(target, 0.0) + _paid(line.cost_usd)
        count["n_calls"] += bool(line.attempts)
        if (line.suite, line.prompt_id) not in keys:
            continue
        count["n_pool"] += 1
        count["n_repeats"] += line.repeat > 0
        if line.repeat == 0 and line.availability_status == "ok":
            count["n"] += 1
            count["k"] += line.tool_use_success
    return {target: Evidence(**count, cost_usd=costs[target]) for target, count in counts.items()}


def read_superseded_cost(path: Path) -> float:
    """What the calls cost whose records were superseded: they were paid for, though they count in no figure."""
    return sum(_paid(line.cost_usd) for line in iter_superseded(path, _Line))


def read_unrecorded_cost(path: Path) -> float:
    """What earlier stretches spent, or may have, that no record tells: warm-ups, lost attempts, calls given up."""
    ended = (event.detail.get("unrecorded_usd") for event in read_events(path) if event.event == "stretch_ended")
    return sum(float(usd) for usd in ended if isinstance(usd, int | float) and usd > 0)


def _paid(cost_usd: float | None) -> float:
    """A folder may come from anyone, and no line in it earns money back."""
    return max(0.0, cost_usd or 0.0)
