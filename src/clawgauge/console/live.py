"""The live table of a run.

A bar for the whole run, what is asked just now, every kind of error once, and a line a target.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clawgauge.console.plain import (
    Progress,
    Tally,
    word_answer_so_far,
    word_best,
    word_told_apart,
)
from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Target
from clawgauge.reports.clean import one_line
from clawgauge.reports.words import short_names
from clawgauge.stats.quantiles import percentile
from clawgauge.verdict.states import JobState
from clawgauge.words import format_duration, format_money, format_ms, plural

# Redrawing takes time from the loop that stamps the clock: a few times a second is enough for a
# person.
_REFRESH_PER_SECOND = 4
_MAX_CHARS = 400
_MAX_ERRORS = 4
_MIN_BAR_CHARS = 10
_MAX_BAR_CHARS = 60
# What the figures beside the bar take.
_FIGURES_CHARS = 68
_ASKING = "asking"


class LiveTable(Tally):
    """Redrawn in place on stderr, from a thread of its own; the runner only updates numbers.

    `settings` are those of `Tally`.
    """

    def __init__(self, rows: Mapping[Target, Progress], **settings: Any) -> None:
        super().__init__(rows, **settings)
        self._entered_s = time.monotonic()
        self._activity = "getting ready"
        self._names = short_names(target.label for target in rows)
        self._console = Console(file=sys.stderr, highlight=False)
        self.can_redraw = not self._console.is_dumb_terminal
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=_REFRESH_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def call_started(self, target: Target, prompt: Prompt) -> None:
        self._activity = f"asking {target.label}: {prompt.suite}/{prompt.id} {prompt.name}"

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        self._activity = (
            f"{target.label}: {prompt.suite}/{prompt.id}: {failure.failure_type}, "
            f"again in {wait_s:.0f} s"
        )

    def answer_so_far(self, target: Target, n_answers: int, states: Mapping[str, JobState]) -> None:
        # It stays above the table, which goes on below it.
        for line in word_answer_so_far(target, n_answers, states):
            self._console.print(_cell(line))

    def told_apart(self, job: str, ahead: str, behind: str, n_shared: int) -> None:
        self._console.print(_cell(word_told_apart(job, ahead, behind, n_shared)))

    def best_sought(self, job: str, labels: Sequence[str]) -> None:
        self._console.print(_cell(word_best(job, labels)))

    def _draw(self) -> RenderableType:
        lines = [self._activity]
        for (target, failure_type), n_errors in list(self.errors.items())[-_MAX_ERRORS:]:
            reason = self.reasons.get((target, failure_type), "")
            lines.append(f"{n_errors} × {failure_type}, {target.label}: {reason}")
        table = Table.grid(padding=(0, 2))
        # Where not all fit, those at the end are left out: who is being asked comes first.
        for target in sorted(self.rows, key=lambda target: self._state(target) != _ASKING):
            row = self.rows[target]
            calls = self.word_calls(row.n_before + row.n_done, row.n_before + row.n_calls)
            cells = [self._names[target.label], calls, *_figures(row), self._state(target)]
            table.add_row(*map(_cell, cells))
        return Group(self._draw_bar(), *map(_cell, lines), table)

    def _draw_bar(self) -> Table:
        """How much of the whole run is done, how long that took, and what is left."""
        n_done = 0
        n_calls = 0
        for row in self.rows.values():
            n_done += row.n_before + row.n_done
            n_calls += row.n_before + row.n_calls
        elapsed_s = max(1.0, time.monotonic() - self._entered_s)
        times = format_duration(1000 * elapsed_s)
        left = self.word_left()
        if left:
            times += f", {left}"
        width = min(_MAX_BAR_CHARS, self._console.width - _FIGURES_CHARS)
        progress_bar = ProgressBar(max(1, n_calls), n_done, max(_MIN_BAR_CHARS, width))
        bar = Table.grid(padding=(0, 2))
        bar.add_row(progress_bar, Text(self.word_calls(n_done, n_calls)), Text(times))
        return bar

    def _state(self, target: Target) -> str:
        row = self.rows[target]
        if target in self.ended:
            return "cannot answer"
        if not row.n_left:
            return "done"
        if row.started_s is None:
            return "waiting"
        return _ASKING


def _figures(row: Progress) -> list[str]:
    """What came of a target; an empty text where there is nothing to show."""
    passed = f"{row.n_passed}/{row.n_judged} passed" if row.n_judged else ""
    errors = plural(row.n_errors, "error") if row.n_errors else ""
    median_ms = percentile(sorted(row.latencies_ms), 0.5)
    latency = "" if median_ms is None else f"p50 {format_ms(median_ms)}"
    cost = "" if row.cost_usd is None else format_money(row.cost_usd)
    return [passed, errors, latency, cost]


def _cell(text: str) -> Text:
    return Text(one_line(text, _MAX_CHARS), no_wrap=True, overflow="ellipsis")
