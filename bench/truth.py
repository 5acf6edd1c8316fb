"""What a calibrated server knows about its own timing: one row per request, as a log, as CSV, as figures.

Owns: the row, its CSV form (readable and writable; the columns are those of other calibrated servers, with ours
after them) and the figures at `/truth`. Refuses: taking stamps. All stamps are nanoseconds of `perf_counter_ns`, which
all processes of a machine share; 0 stands for "did not happen".
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

from bench.figures import quantile

ROWS_KEPT = 1 << 20
COMPLETE, CUT, CLIENT_GONE = 0, 1, 2


@dataclass(slots=True)
class TruthRow:
    """One request. A `_ns` stamp of writing is taken right before the write that carries the thing named.

    `recv_ns` is when the request's last byte had been read; `reason_ns` and `first_ns` are the first token of
    reasoning and the first of the answer; `last_ns` the last token, which leaves together with the stream's end;
    `late_ns` is how far the worst token missed its schedule; `written_ns` is when the last write returned.
    """

    seq: int = 0
    id: str = ""
    model: str = ""
    api: str = ""
    stream: int = 0
    status: int = 200
    end: int = COMPLETE
    tokens: int = 0
    bytes: int = 0
    recv_ns: int = 0
    head_ns: int = 0
    reason_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0
    late_ns: int = 0
    written_ns: int = 0

    @property
    def first_of_any_ns(self) -> int:
        """The first token of any channel."""
        return self.reason_ns or self.first_ns


COLUMNS = tuple(field.name for field in fields(TruthRow))
_TEXT_COLUMNS = frozenset({"id", "model", "api"})


class TruthLog:
    """The newest rows, in the order in which requests ended."""

    def __init__(self) -> None:
        self._rows: deque[TruthRow] = deque(maxlen=ROWS_KEPT)

    def add(self, row: TruthRow) -> None:
        self._rows.append(row)

    def reset(self) -> None:
        self._rows.clear()

    def to_csv(self) -> str:
        return write_rows(self._rows)

    def figures(self) -> dict[str, Any]:
        """Counts, and distributions in microseconds."""
        rows = list(self._rows)
        return {
            "requests": len(rows),
            "complete": sum(row.end == COMPLETE for row in rows),
            "client_gone": sum(row.end == CLIENT_GONE for row in rows),
            "tokens": sum(row.tokens for row in rows),
            "bytes": sum(row.bytes for row in rows),
            "unit": "us",
            "ttft": _distribution([row.first_ns - row.recv_ns for row in rows if row.first_ns]),
            "head": _distribution([row.head_ns - row.recv_ns for row in rows if row.head_ns]),
            "e2e": _distribution([row.last_ns - row.recv_ns for row in rows if row.last_ns]),
            "late": _distribution([row.late_ns for row in rows]),
        }


def write_rows(rows: Iterable[TruthRow]) -> str:
    """The rows as CSV with a header line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(astuple(row) for row in rows)
    return out.getvalue()


def read_rows(text: str) -> list[TruthRow]:
    """The rows of a CSV with a header line; columns that are not ours are ignored, missing ones keep their zero."""
    return [_read_row(line) for line in csv.DictReader(io.StringIO(text))]


def _read_row(line: dict[str, str]) -> TruthRow:
    row = TruthRow()
    for name in COLUMNS:
        if name in line:
            setattr(row, name, line[name] if name in _TEXT_COLUMNS else int(line[name]))
    return row


def _distribution(values_ns: list[int]) -> dict[str, float] | None:
    if not values_ns:
        return None
    values_us = sorted(value / 1e3 for value in values_ns)
    return {
        "n": len(values_us),
        "min": round(values_us[0], 1),
        "p50": round(quantile(values_us, 0.50), 1),
        "p90": round(quantile(values_us, 0.90), 1),
        "p99": round(quantile(values_us, 0.99), 1),
        "max": round(values_us[-1], 1),
        "mean": round(sum(values_us) / len(values_us), 1),
    }
