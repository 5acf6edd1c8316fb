"""The live table: target, cells done, pass rate, p50, first token, time left, current prompt."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from clawgauge.console.plain import outcome_words
from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Result, Target
from clawgauge.reports.clean import one_line
from clawgauge.runner.target import Observer
from clawgauge.stats.quantiles import percentile
from clawgauge.words import ABSENT, format_duration, format_money, format_ms

# Redrawing takes time from the loop that stamps the clock: a few times a second is enough for a person.
_REFRESH_PER_SECOND = 4
# Medians shown live are of the newest calls: sorting them must stay cheap in a run of any length.
_RECENT = 500
_PROMPT_CHARS = 34
_WIDE = 100
_COLUMNS = ("target", "done", "passed", "failed", "p50", "ttft p50", "cost", "left", "now")
_NARROW_COLUMNS = ("target", "done", "passed", "p50", "cost", "left")
_TARGET_CHARS = 80


@dataclass(slots=True)
class _Row:
    label: str
    n_cells: int
    n_done: int = 0
    n_failed: int = 0
    n_judged: int = 0
    n_passed: int = 0
    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    first_tokens_ms: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    cost_usd: float | None = None
    started_s: float | None = None
    current: str = "waiting"
    stopped: bool = False


class LiveTable(Observer):
    """A rich table redrawn in place on stderr. Draws from its own thread; the runner only updates numbers."""

    def __init__(self, targets: list[Target], cells_per_target: int) -> None:
        self._rows = {target: _Row(one_line(target.label, _TARGET_CHARS), cells_per_target) for target in targets}
        self._console = Console(file=sys.stderr, highlight=False)
        # Whether the terminal can move its cursor.
        self.can_redraw = not self._console.is_dumb_terminal
        how: Any = {"console": self._console, "refresh_per_second": _REFRESH_PER_SECOND, "transient": True}
        self._live = Live(get_renderable=self._table, **how)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def target_started(self, target: Target, n_cells: int) -> None:
        row = self._rows[target]
        row.n_cells, row.started_s = n_cells, time.monotonic()

    def call_started(self, target: Target, prompt: Prompt) -> None:
        self._rows[target].current = one_line(f"{prompt.id} {prompt.name}", _PROMPT_CHARS)

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        now = f"{prompt.id}: {failure.failure_type}, again in {wait_s:.0f} s"
        self._rows[target].current = one_line(now, _PROMPT_CHARS)

    def recorded(self, target: Target, result: Result) -> None:
        row = self._rows[target]
        row.n_done += 1
        row.n_failed += not result.success
        row.n_judged += result.objective_pass is not None
        row.n_passed += result.objective_pass is True
        if result.success:
            row.latencies_ms.append(result.e2e_ms)
        if result.ttft_ms is not None:
            row.first_tokens_ms.append(result.ttft_ms)
        if result.cost_usd is not None:
            row.cost_usd = (row.cost_usd or 0.0) + result.cost_usd

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        self._rows[target].current = failure.failure_type

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        row = self._rows[target]
        row.n_cells, row.stopped = row.n_done, True
        row.current = one_line(outcome_words(event, detail), _PROMPT_CHARS)

    def target_finished(self, target: Target) -> None:
        row = self._rows[target]
        if row.latencies_ms and not row.stopped:
            row.current = "done"

    def _table(self) -> Table:
        width, height = self._console.size
        columns: tuple[str, ...] = _COLUMNS if width >= _WIDE else _NARROW_COLUMNS
        if all(row.cost_usd is None for row in self._rows.values()):
            columns = tuple(name for name in columns if name != "cost")
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            # Numbers keep their width; names give way.
            shape: Any = {"justify": "right", "min_width": len(name) + 1}
            if name in ("target", "now"):
                shape = {"justify": "left", "ratio": 1, "max_width": max(12, width // 3)}
            table.add_column(name, no_wrap=True, overflow="ellipsis", **shape)
        # The rows that fit, the newest begun one among them.
        rows, room = list(self._rows.values()), max(1, height - 3)
        begun = max((number for number, row in enumerate(rows) if row.started_s is not None), default=0)
        first = max(0, min(begun - room // 2, len(rows) - room))
        for row in rows[first : first + room]:
            cells = _cells(row)
            table.add_row(*(Text(cells[name]) for name in columns))
        return table


def _cells(row: _Row) -> dict[str, str]:
    left = ABSENT
    if row.started_s is not None and 0 < row.n_done < row.n_cells:
        left_s = (time.monotonic() - row.started_s) / row.n_done * (row.n_cells - row.n_done)
        left = format_duration(max(1.0, left_s) * 1000)
    return {
        "target": row.label,
        "done": f"{row.n_done}/{row.n_cells}",
        "passed": f"{row.n_passed}/{row.n_judged}" if row.n_judged else ABSENT,
        "failed": str(row.n_failed or ABSENT),
        "p50": format_ms(percentile(sorted(row.latencies_ms), 0.5)),
        "ttft p50": format_ms(percentile(sorted(row.first_tokens_ms), 0.5)),
        "cost": format_money(row.cost_usd),
        "left": left,
        "now": row.current,
    }
