"""The live table: a bar for the whole run, what is asked just now, every kind of error once, a line a target."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clawgauge.console.plain import Progress, Tally
from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Target
from clawgauge.reports.clean import one_line
from clawgauge.reports.words import short_names
from clawgauge.stats.quantiles import percentile
from clawgauge.words import format_duration, format_money, format_ms, plural

# Redrawing takes time from the loop that stamps the clock: a few times a second is enough for a person.
_REFRESH_PER_SECOND = 4
_MAX_CHARS, _MAX_ERRORS, _BAR, _FIGURES, _ASKING = 400, 4, 60, 45, "asking"


class LiveTable(Tally):
    """Redrawn in place on stderr, from a thread of its own; the runner only updates numbers."""

    def __init__(self, rows: Mapping[Target, Progress], **shown: Any) -> None:
        super().__init__(rows, **shown)
        self._began_s, self._now = time.monotonic(), "getting ready"
        self._names = short_names(target.label for target in rows)
        self._console = Console(file=sys.stderr, highlight=False)
        self.can_redraw = not self._console.is_dumb_terminal
        how: Any = {"console": self._console, "refresh_per_second": _REFRESH_PER_SECOND, "transient": True}
        self._live = Live(get_renderable=self._draw, **how)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def call_started(self, target: Target, prompt: Prompt) -> None:
        self._now = f"asking {target.label}: {prompt.suite}/{prompt.id} {prompt.name}"

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        self._now = f"{target.label}: {prompt.suite}/{prompt.id}: {failure.failure_type}, again in {wait_s:.0f} s"

    def _draw(self) -> RenderableType:
        rows = self.rows.values()
        n_before = sum(row.n_before for row in rows)
        n_done, n_calls = n_before + sum(row.n_done for row in rows), n_before + sum(row.n_calls for row in rows)
        took = format_duration(1000 * max(1.0, time.monotonic() - self._began_s))
        left = f", about {format_duration(1000 * max(1.0, left_s))} left" if (left_s := self.left_s()) else ""
        bar, table = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        shown = ProgressBar(max(1, n_calls), n_done, max(10, min(_BAR, self._console.width - _FIGURES)))
        bar.add_row(shown, Text(f"{n_done}/{n_calls}"), Text(f"{took}{left}"))
        lines = [self._now]
        for (target, kind), n in list(self.errors.items())[-_MAX_ERRORS:]:
            lines.append(f"{n} × {kind}, {target.label}: {self.reasons.get((target, kind), '')}")
        # Where not all fit, those at the end are left out: who is being asked comes first.
        for target in sorted(self.rows, key=lambda target: self._state(target) != _ASKING):
            figures = (self._names[target.label], *self._figures(self.rows[target]), self._state(target))
            table.add_row(*map(_cell, figures))
        return Group(bar, *map(_cell, lines), table)

    def _state(self, target: Target) -> str:
        row = self.rows[target]
        if target in self.ended:
            return "cannot answer"
        return "done" if not row.n_left else "waiting" if row.started_s is None else _ASKING

    def _figures(self, row: Progress) -> Iterator[str]:
        median = percentile(sorted(row.latencies_ms), 0.5)
        yield f"{row.n_before + row.n_done}/{row.n_before + row.n_calls}"
        yield f"{row.n_passed}/{row.n_judged} passed" if row.n_judged else ""
        yield plural(row.n_errors, "error") if row.n_errors else ""
        yield "" if median is None else f"p50 {format_ms(median)}"
        yield "" if row.cost_usd is None else format_money(row.cost_usd)


def _cell(text: str) -> Text:
    return Text(one_line(text, _MAX_CHARS), no_wrap=True, overflow="ellipsis")
