"""The commands that go on with a run and show it, to be pasted into a shell."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from clawgauge.errors import ClawgaugeError
from clawgauge.records import Event
from clawgauge.run_data.row import Run


def resume_command(
    path: Path, config_file: Path | None = None, *, retry_errors: bool = False
) -> str:
    """The command that asks what has no record, and with `retry_errors` what had no answer as well.

    `config_file` is the one that the user named just now. The run folder's own word for it is not
    repeated: it may come from anyone, and a file that is named counts in full."""
    is_capacity = False
    budget: list[str] = []
    try:
        run = Run.open(path)
        is_capacity = run.config is not None and run.config.capacity is not None
        budget = _larger_budget(run.events)
    except ClawgaugeError:
        pass  # told by whoever reads the figures of this run
    command = ["clawgauge", "capacity" if is_capacity else "run", "--resume", path.name]
    if retry_errors and not is_capacity:
        command.append("--retry-errors")
    command += [*budget, *_runs_dir_option(path)]
    if config_file is not None:
        command += ["--config", str(config_file)]
    return shlex.join(command)


def show_command(path: Path, call: str = "") -> str:
    """The command that shows a run again, or one `call` of it."""
    command = ["clawgauge", "show", path.name]
    if call:
        command.append(call)
    return shlex.join([*command, *_runs_dir_option(path)])


def _runs_dir_option(path: Path) -> list[str]:
    """Nothing for a run where runs are looked for."""
    return [] if path.parent == Path("runs") else ["--runs-dir", str(path.parent)]


def _larger_budget(events: Iterable[Event]) -> list[str]:
    """Twice the budget that the last stretch of a run has spent, where it ended with one spent."""
    budget: list[str] = []
    for event in events:
        if event.event == "stretch_started":
            budget = []
        elif event.event == "budget_spent":
            limit = event.detail.get("limit")
            if isinstance(limit, int | float):
                budget = _budget_option(event.detail.get("budget"), 2 * limit)
    return budget


def _budget_option(name: object, limit: float) -> list[str]:
    """A run folder may come from anyone: no option but a budget, and no number but one it takes."""
    if name not in ("max_calls", "max_cost") or not math.isfinite(limit):
        return []
    # No exponent, and no fraction where there is none.
    number = str(int(limit)) if limit == int(limit) else f"{Decimal(repr(limit)):f}"
    return [f"--{str(name).replace('_', '-')}", number]
