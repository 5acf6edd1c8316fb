"""What the runs of a folder amount to, as frozen structs: the JSON of `history --json`, and all its reports show.

Owns: the shapes. Refuses: computing and wording.
"""

from __future__ import annotations

import msgspec


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
    """One target's figures in one run."""

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
