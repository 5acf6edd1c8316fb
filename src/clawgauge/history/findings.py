"""The runs of a folder, each with its summary, and what they amount to as frozen structs."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TypeAlias

import msgspec

from clawgauge.compare.comparability import prompt_fingerprint
from clawgauge.errors import RunFolderError
from clawgauge.journal import is_run_folder, list_runs, stat_file
from clawgauge.records import PromptKey, RunSummary, Target
from clawgauge.run_data import Run
from clawgauge.summary import Strata, summarize


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the table of runs."""

    run_id: str
    path: str
    started_at_ms: float
    targets: list[str]
    suites: list[str]
    n_ok: int
    n_scheduled: int
    n_passed: int
    n_judged: int
    n_unreadable_lines: int
    source: str


class UnreadableRun(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that could not be read, and why."""

    path: str
    reason: str


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One target's figures in one run; the percentiles `beyond` are longer than the deadline that is given."""

    run_id: str
    started_at_ms: float
    n_ok: int
    n_scheduled: int
    n_passed: int
    n_judged: int
    pass_rate: float | None
    pass_ci95: tuple[float, float] | None
    p50_ms: float | None
    p50_ci95: tuple[float, float] | None
    p95_ms: float | None
    n_timed: int
    tier: int | None
    tier_label: str
    stopped_early: bool
    beyond: list[str] = []


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One target over all runs that asked it the same prompts in the same way, oldest first.

    `form` tells apart trends of the same target and suites whose prompts or sampling differ.
    """

    target: str
    suites: list[str]
    n_prompts: int
    form: str
    points: list[Point]
    latest: Point
    best: Point
    drift: list[str]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which prompts of a suite a target has answered in any run.

    `n_outdated` counts the missing ones that were answered in an earlier content of the prompt. `n_in_suite` is how
    many prompts the suite itself has: some may never have been asked.
    """

    target: str
    suite: str
    n_prompts: int
    n_answered: int
    n_outdated: int
    n_in_suite: int | None
    missing: list[str]


class FillCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and the cells (target, suite, prompt) it would fill."""

    command: str
    cells: list[tuple[str, str, str]]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `history` says."""

    schema_version: int
    runs_dir: str
    runs: list[RunLine]
    unreadable: list[UnreadableRun]
    trends: list[Trend]
    coverage: list[Coverage]
    fill: list[FillCommand] | None = None
    n_not_fillable: int = 0


Cell: TypeAlias = tuple[Target, PromptKey]


class RunEntry:
    """One run that could be read. `fingerprints` tells the content of every prompt it holds."""

    def __init__(self, run: Run) -> None:
        self.path, self.config, self.started_at_ms = run.path, run.config, run.started_at_ms
        self.fingerprints = {p.key: prompt_fingerprint(p) for p in run.config.prompts} if run.config else {}
        self._run = run
        self.summary = _fresh_summary(run) or summarize(run, self._strata)

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @cached_property
    def cells(self) -> dict[Cell, bool]:
        """Which prompts have a record of which target, and whether one of these is an answer."""
        cells: dict[Cell, bool] = {}
        for target, group in self._strata.groups().items():
            for ending in group.endings:
                key = (target, ending.prompt)
                cells[key] = cells.get(key, False) or ending.answered
        return cells

    def prompt_medians_ms(self, target: Target, suite: str | None) -> dict[PromptKey, float]:
        """How long a whole call of each prompt took in the middle; with `suite`, of its prompts alone."""
        group = self._strata.groups().get(target)
        times = group.prompt_times_ms() if group else {}
        return {key: median(values) for key, values in times.items() if suite in (None, key[0])}

    @cached_property
    def _strata(self) -> Strata:
        # A summary that is still fresh spares most runs this pass over their records.
        strata = Strata()
        self._run.feed(strata)
        return strata


def read_entries(runs_dir: Path) -> tuple[list[RunEntry], list[UnreadableRun]]:
    """Every run in `runs_dir`, the newest first, and what could not be read."""
    entries: list[RunEntry] = []
    try:
        # Folders nobody may look into: there may be a run in them.
        unreadable = [
            UnreadableRun(path=str(path), reason=f"Cannot read {path}; check its permissions.")
            for path in sorted(runs_dir.iterdir())
            if path.is_dir() and not os.access(path, os.R_OK | os.X_OK) and not is_run_folder(path)
        ]
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(
            f"There is no folder {runs_dir}; make a run with `clawgauge run`, or name its --runs-dir."
        ) from None
    except OSError as error:
        raise RunFolderError(f"Cannot read {runs_dir} ({error.strerror or error}); check its permissions.") from error
    for path in list_runs(runs_dir):
        try:
            entries.append(RunEntry(Run.open(path)))
        except RunFolderError as error:
            unreadable.append(UnreadableRun(path=str(path), reason=str(error)))
    return entries, unreadable


def _fresh_summary(run: Run) -> RunSummary | None:
    """summary.json, unless something it sums up was written after it, or it is not one of ours."""
    written, *summed_up = (stat_file(run.path, name) for name in ("summary.json", "results.jsonl", "config.json"))
    if written is None or any(file is None or file.st_mtime_ns > written.st_mtime_ns for file in summed_up):
        return None
    try:
        return run.summary
    except RunFolderError:
        # Whatever is wrong with a summary, the records are what counts.
        return None
