"""Is the clock true? What clawgauge recorded against what the server knows it did.

The error of a time is what was recorded minus what really passed between the server's own stamps: the way through
both kernels, and how late the client looked. Over HTTP the truth begins when the request's last byte was read. A
program cannot know when it was spawned, so on the command-line path the truth begins at the record's own wall-clock
label, which has a resolution of a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.bare_client import BareCall
from bench.figures import median, median_of, spread
from bench.setting import Setting, load_average, observe_bare
from bench.truth import TruthRow
from bench.workplace import Record, Workplace

MODEL = "t100-i10-n16-r4"
NS_PER_MS = 1_000_000
HTTP_PATHS = ("chat", "responses")


@dataclass(frozen=True, slots=True)
class Level:
    """So many calls at once, so many in all."""

    concurrency: int
    calls: int


def measure(setting: Setting) -> dict[str, Any]:
    """Errors in milliseconds (tokens/s: per cent, without sign) by path and concurrency."""
    http = setting.pick(
        quick=[Level(1, 6), Level(64, 192)],
        normal=[Level(1, 20), Level(16, 96), Level(64, 384), Level(256, 1536)],
        full=[Level(1, 60), Level(16, 320), Level(64, 1280), Level(256, 5120)],
    )
    cli = setting.pick(
        quick=[Level(1, 4), Level(16, 32)],
        normal=[Level(1, 12), Level(16, 64), Level(64, 192), Level(256, 512)],
        full=[Level(1, 30), Level(16, 128), Level(64, 384), Level(256, 768)],
    )
    rows = []
    for path, levels in (*((path, http) for path in HTTP_PATHS), ("cli", cli)):
        for level in levels:
            setting.tell(f"fidelity: {path} at concurrency {level.concurrency}")
            rows.append(_measure_level(setting, path, level))
    return {"model": MODEL, "server": setting.server.name, "rows": rows}


def _measure_level(setting: Setting, path: str, level: Level) -> dict[str, Any]:
    with setting.workplace() as place:
        sides = {"clawgauge": lambda: _clawgauge_round(place, path, level)}
        if path in HTTP_PATHS:
            sides["bare"] = lambda: _bare_round(place, path, level)
        samples = setting.interleave(sides)
    row: dict[str, Any] = {"path": path, "concurrency": level.concurrency, "calls": level.calls}
    for side, rounds in samples.items():
        names = dict.fromkeys(name for one in rounds for name in one["errors"])
        row[side] = {
            name: median_of([one["errors"][name] for one in rounds if name in one["errors"]])
            for name in names
        }
        row[side]["server_late_ms"] = median_of([one["server_late_ms"] for one in rounds])
        row[side]["n_warm"] = median([one["n_warm"] for one in rounds])
    return row | {"load_average": load_average()}


def _clawgauge_round(place: Workplace, path: str, level: Level) -> dict[str, Any]:
    place.reset_truth()
    asked = place.ask(path, MODEL, prompts=level.calls, concurrency=level.concurrency)
    records = {record.prompt_id: record for record in asked.records()}
    pairs = pair_up(records, place.truth(path), by_tag=place.server.tags_requests or path == "cli")
    if path == "cli":
        pairs = [(record, _from_label(record, row)) for record, row in pairs]
    warm = [pair for pair in pairs if pair[0].timings_us.connect is None]
    return _round([row for _, row in pairs], len(warm), record_errors(warm or pairs))


def _bare_round(place: Workplace, path: str, level: Level) -> dict[str, Any]:
    place.reset_truth()
    calls = observe_bare(place, path, MODEL, calls=level.calls, concurrency=level.concurrency)
    truth = place.truth(path)
    if place.server.tags_requests:
        by_id = {row.id: row for row in truth}
        pairs = [(call, by_id[call.id]) for call in calls]
    else:
        pairs = list(zip(sorted(calls, key=lambda call: int(call.id[1:])), truth, strict=True))
    warm = [pair for pair in pairs if pair[0].warm]
    return _round(truth, len(warm), bare_errors(warm or pairs))


def _round(
    truth: Sequence[TruthRow], n_warm: int, errors: dict[str, dict[str, float]]
) -> dict[str, Any]:
    late_ms = spread([row.late_ns / NS_PER_MS for row in truth])
    return {"errors": errors, "server_late_ms": late_ms, "n_warm": n_warm}


def pair_up(
    records: dict[str, Record], truth: Sequence[TruthRow], *, by_tag: bool
) -> list[tuple[Record, TruthRow]]:
    """Each record with the server's row of the same call.

    Without tags in the log, calls are matched in the order in which they began; calls of one millisecond may be
    swapped, which costs no more than the server's own spread.
    """
    if by_tag:
        rows = {row.id: row for row in truth}
        return [(record, rows[prompt_id.lower()]) for prompt_id, record in records.items()]
    in_order = sorted(records.values(), key=lambda record: record.started_at_ms)
    return list(zip(in_order, truth, strict=True))


def record_errors(pairs: Sequence[tuple[Record, TruthRow]]) -> dict[str, dict[str, float]]:
    """How far records are from the truth.

    A record without a first-token time is a failure of the measurement. One without a rate is not: a client that was
    held up, and read all tokens at once, saw no rate. The `n` of the rates tells how many were seen. The server sends a
    token a piece, all of one length: all but the first were made between the first piece and the last.
    """
    ttft, ttfa, e2e, tps = [], [], [], []
    for record, row in pairs:
        timings = record.timings_us
        if timings.ttft is None or timings.ttfa is None:
            raise ValueError(f"{record.prompt_id} has no first-token time")
        ttft.append(timings.ttft / 1e3 - (row.first_of_any_ns - row.recv_ns) / NS_PER_MS)
        ttfa.append(timings.ttfa / 1e3 - (row.first_ns - row.recv_ns) / NS_PER_MS)
        e2e.append(timings.e2e / 1e3 - (row.last_ns - row.recv_ns) / NS_PER_MS)
        if record.output_tps is not None:
            true_tps = (row.tokens - 1) * 1e9 / (row.last_ns - row.first_of_any_ns)
            tps.append(abs(record.output_tps / true_tps - 1) * 100)
    errors = {"ttft_ms": ttft, "ttfa_ms": ttfa, "e2e_ms": e2e, "tps_pct": tps}
    return {name: spread(values) for name, values in errors.items() if values}


def bare_errors(pairs: Sequence[tuple[BareCall, TruthRow]]) -> dict[str, dict[str, float]]:
    """The same for the bare client, which sees the first token and the end."""
    ttft = [call.ttft_ns - (row.first_of_any_ns - row.recv_ns) for call, row in pairs]
    e2e = [call.e2e_ns - (row.last_ns - row.recv_ns) for call, row in pairs]
    return {
        "ttft_ms": spread([error / NS_PER_MS for error in ttft]),
        "e2e_ms": spread([error / NS_PER_MS for error in e2e]),
    }


def _from_label(record: Record, row: TruthRow) -> TruthRow:
    """The row with its beginning moved to the record's wall-clock label; the label was rounded down."""
    wall_minus_perf_ns = time.time_ns() - time.perf_counter_ns()
    return replace(
        row, recv_ns=record.started_at_ms * NS_PER_MS + NS_PER_MS // 2 - wall_minus_perf_ns
    )
