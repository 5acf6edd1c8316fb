"""Puts summary.json and summary.md into a held run folder."""

from __future__ import annotations

import shlex
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from clawgauge.journal import read_config, read_events
from clawgauge.journal.folder import RunFolder
from clawgauge.records import RunConfig, RunSummary
from clawgauge.reports.markdown import render_markdown
from clawgauge.summary import summarize_folder

_BUDGETS = {"max_calls": "--max-calls", "max_cost": "--max-cost"}


def write_summary(folder: RunFolder) -> RunSummary:
    """Summarise what is recorded now, and keep it."""
    summary = summarize_folder(folder.path)
    config = read_config(folder.path)
    refill = refill_command(folder.path, config) if config else None
    folder.write_json("summary.json", summary)
    folder.write_text("summary.md", render_markdown(summary, config, refill=refill))
    return summary


def refill_command(path: Path, config: RunConfig) -> str:
    """The command that asks again what was not answered, from where the run was started."""
    words = ["clawgauge", "run", "--resume", path.name, "--retry-errors", *_larger_budget(path)]
    if path.parent != Path("runs"):
        words += ["--runs-dir", str(path.parent)]
    if (file := _config_file(config)) is not None:
        words += ["--config", file]
    return shlex.join(words)


def _larger_budget(path: Path) -> list[str]:
    """Twice the budget that the last stretch of the run has spent, where it ended with one spent."""
    words: list[str] = []
    for event in read_events(path):
        if event.event == "stretch_started":
            words = []
        elif event.event == "budget_spent" and isinstance(limit := event.detail.get("limit"), int | float):
            # A run folder may come from anyone, and this is to be pasted into a shell.
            option = _BUDGETS.get(str(event.detail.get("budget")))
            words = [option, _written_out(2 * limit)] if option else []
    return words


def _written_out(number: float) -> str:
    """A number as an option takes it: no exponent, and no fraction where there is none."""
    return str(int(number)) if number == int(number) else f"{Decimal(repr(number)):f}"


def _config_file(config: RunConfig) -> str | None:
    """What the run's own command line said after --config."""
    for word, following in pairwise([*config.argv, ""]):
        option, equals, value = word.partition("=")
        if option == "--config":
            return value if equals else following
    return None
