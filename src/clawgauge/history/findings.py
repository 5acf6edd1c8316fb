"""What the runs of a folder amount to, as frozen structs."""

from __future__ import annotations

import msgspec

from clawgauge.records import JobVerdict
from clawgauge.stats.proportions import wilson_interval


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the table of runs. `passes` has what each target passed of what it was asked, the
    best one first. `load` is what a capacity run says, a line each target and length of prompt;
    nothing else of it counts here."""

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
    passes: dict[str, tuple[int, int]] = {}
    load: list[str] = []
    n_attempted: int = 0


class UnreadableRun(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One target's figures in one run: `n_passed` of `n_asked` prompts with a verdict, `n_judged`
    of them answered. `pass_rate` and its interval are of the answers. The percentiles named in
    `beyond` are longer than the deadline given; those named in `indicative` rest on too few calls.
    """

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
    decided: bool = False
    n_asked: int = 0
    n_attempted: int = 0
    indicative: list[str] = []

    @property
    def asked_ci95(self) -> tuple[float, float] | None:
        """The interval of what is shown: what was asked and not answered is no pass."""
        if self.n_judged == self.n_asked:
            return self.pass_ci95
        return wilson_interval(self.n_passed, self.n_asked)


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One target over all runs that asked it the same prompts in the same way (its `form`), oldest
    first.

    Where answers decided what was asked, the figures are over the `n_compared` prompts that every
    run has asked but for those broken off early; null where all runs asked one list. `pace_spread`
    is how much times differ from run to run (a standard deviation of logarithms), where that is so
    much that a change of pace cannot be told from it. With `decides_jobs` the runs asked until jobs
    were decided, out of `n_prompts`."""

    target: str
    suites: list[str]
    n_prompts: int
    form: str
    points: list[Point]
    latest: Point
    best: Point
    drift: list[str]
    n_compared: int | None = None
    pace_spread: float | None = None
    decides_jobs: bool = False


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which prompts of a suite a target has answered in any run; `n_outdated` missing ones, in an
    earlier content."""

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
    """Everything `history` says. `jobs` judges each target by the newest run that can tell; its
    `why` names it. `no_key` has the targets that no command of `fill` asks, as a key is not set
    here: which, and how many prompts."""

    schema_version: int
    runs_dir: str
    runs: list[RunLine]
    unreadable: list[UnreadableRun]
    trends: list[Trend]
    coverage: list[Coverage]
    fill: list[FillCommand] | None = None
    n_not_fillable: int = 0
    jobs: list[JobVerdict] = []
    no_key: dict[str, tuple[str, int]] = {}
