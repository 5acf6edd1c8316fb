"""What was promised, and whether it was kept. Reads the plain data of a bench run; measures nothing.

A target that was not measured is neither met nor missed, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the table. `met` is None where nothing can be said; `measured` then tells why."""

    what: str
    target: str
    measured: str
    met: bool | None


def judge(results: Results) -> list[Verdict]:
    """Every target in the order of the table."""
    return [verdict for check in _CHECKS for verdict in check(results)]


def _not_measured(what: str, target: str) -> Verdict:
    return Verdict(what, target, "not measured in this run", None)


def _throughput(results: Results) -> list[Verdict]:
    what, target = (
        "1,000 streaming calls at concurrency 64, whole command, judged and recorded",
        "≤ 1.0 s",
    )
    found = results.get("throughput")
    if found is None or found["calls"] != 1000:
        return [_not_measured(what, target)]
    wall_s = found["clawgauge"]["wall_s"]
    return [
        Verdict(
            what,
            target,
            f"{wall_s:.2f} s ({found['ratios']['wall_s']}× the bare client)",
            wall_s <= 1.0,
        )
    ]


def _peers(results: Results) -> list[Verdict]:
    what, target = "the same, against the fastest peer installed", "≥ 5× faster"
    rows = (results.get("peers") or {}).get("rows") or {}
    others = {name: row["wall_s"] for name, row in rows.items() if name != "clawgauge"}
    if not others:
        return [Verdict(what, target, "no peer is installed here", None)]
    fastest = min(others, key=lambda name: others[name])
    ratio = others[fastest] / rows["clawgauge"]["wall_s"]
    return [Verdict(what, target, f"{ratio:.1f}× faster than {fastest}", ratio >= 5)]


def _defaults(results: Results) -> list[Verdict]:
    side_by_side = "three targets elsewhere, by default, against a bare client"
    refused = "a host that answers 429, by default, against the best fixed number of calls at once"
    at_most = "≤ 1.5×, none lost, none before Retry-After"
    found = results.get("defaults")
    if found is None:
        return [_not_measured(side_by_side, "≤ 2×"), _not_measured(refused, at_most)]
    verdicts = [Verdict(side_by_side, "≤ 2×", f"{found['ratio']:.2f}×", found["ratio"] <= 2)]
    for limited in found["limited"].values():
        measured = (
            f"{limited['ratio']:.2f}×, {limited['lost']} lost, {limited['too_early']} too early"
        )
        is_kept = not limited["lost"] and not limited["too_early"]
        verdicts.append(Verdict(refused, at_most, measured, limited["ratio"] <= 1.5 and is_kept))
    return verdicts


def _first_token(results: Results) -> list[Verdict]:
    verdicts = []
    for concurrency, p99_ms in ((64, 1.0), (256, 3.0)):
        what = f"error of the first-token time, warm, concurrency {concurrency}"
        target = f"p50 ≤ 0.5 ms, p99 ≤ {p99_ms:g} ms"
        rows = (results.get("fidelity") or {}).get("rows", [])
        row = next(
            (r for r in rows if r["path"] == "chat" and r["concurrency"] == concurrency), None
        )
        if row is None:
            verdicts.append(_not_measured(what, target))
            continue
        error, late = row["clawgauge"]["ttft_ms"], row["clawgauge"]["server_late_ms"]
        measured = f"p50 {error['p50']:.2f}, p99 {error['p99']:.2f} ms (server late by p99 {late['p99']:.2f} ms)"
        verdicts.append(
            Verdict(what, target, measured, error["p50"] <= 0.5 and error["p99"] <= p99_ms)
        )
    return verdicts


def _cpu(results: Results) -> list[Verdict]:
    what, target = "CPU per call over a bare aiohttp client doing the same I/O", "≤ 1.5×"
    found = results.get("growth")
    if found is None:
        return [_not_measured(what, target)]
    ratio = found["marginal_cpu_ratio"]
    each = found["marginal_cpu_ms_per_call"]
    measured = f"{ratio:.2f}× ({each['clawgauge']:.3f} against {each['bare']:.3f} ms a call)"
    return [Verdict(what, target, measured, ratio <= 1.5)]


def _tokens(results: Results) -> list[Verdict]:
    what, target = "streaming, every token parsed, on one core", "≥ 150,000 tokens/s"
    rate = ((results.get("streams") or {}).get("clawgauge") or {}).get("tokens_per_cpu_s")
    if rate is None:
        return [_not_measured(what, target)]
    return [Verdict(what, target, f"{rate:,} tokens per CPU second", rate >= 150_000)]


def _startup(results: Results) -> list[Verdict]:
    found = results.get("startup")
    verdicts = []
    for name, command, limit_ms in (
        ("help", "clawgauge --help", 60),
        ("dry_run", "clawgauge run --dry-run", 150),
    ):
        what, target = f"`{command}`", f"≤ {limit_ms} ms"
        if found is None:
            verdicts.append(_not_measured(what, target))
        else:
            wall_ms = found[name]["wall_ms"]
            bare_ms = found["bare_interpreter"]["wall_ms"]
            verdicts.append(
                Verdict(
                    what,
                    target,
                    f"{wall_ms:.0f} ms (Python alone {bare_ms:.0f})",
                    wall_ms <= limit_ms,
                )
            )
    return verdicts


def _summary(results: Results) -> list[Verdict]:
    what, target = "summary of 1,000,000 records", "≤ 5 s in one process, ≤ 150 MB"
    rows = (results.get("summary") or {}).get("rows", [])
    row = next((r["summarize"] for r in rows if r["records"] == 1_000_000), None)
    if row is None:
        return [_not_measured(what, target)]
    measured = f"{row['wall_s']:.2f} s, {row['peak_rss_mb']:.0f} MB"
    return [Verdict(what, target, measured, row["wall_s"] <= 5 and row["peak_rss_mb"] <= 150)]


def _memory(results: Results) -> list[Verdict]:
    what, target = "memory of a run at concurrency 256, growing with its length", "≤ 80 MB, flat"
    rows = (results.get("growth") or {}).get("rows")
    if not rows:
        return [_not_measured(what, target)]
    first, last = rows[0], rows[-1]
    small, large = first["clawgauge"]["peak_rss_mb"], last["clawgauge"]["peak_rss_mb"]
    measured = f"{small:.0f} MB at {first['calls']:,} calls, {large:.0f} MB at {last['calls']:,}"
    # "Flat" allows for the allocator: a tenth more for ten or a hundred times the calls.
    return [Verdict(what, target, measured, large <= 80 and large <= small * 1.1)]


def _sustained(results: Results) -> list[Verdict]:
    what = "100,000 calls at concurrency 256: nothing lost, memory flat, the last 1,000 timed as truly as the first"
    target = "0 lost, ≤ 1.1× the memory, p99 of ttft within 1 ms of the first's"
    found = results.get("sustained")
    if found is None or found["calls"] != 100_000 or found["rss_mb"]["early"] is None:
        return [_not_measured(what, target)]
    memory, first, last = found["rss_mb"], found["first"]["ttft_ms"], found["last"]["ttft_ms"]
    measured = (
        f"{found['lost']} lost, {memory['early']:.0f} → {memory['late']:.0f} MB, "
        f"p99 {first['p99']:.2f} → {last['p99']:.2f} ms"
    )
    flat = memory["late"] <= memory["early"] * 1.1
    return [
        Verdict(
            what, target, measured, not found["lost"] and flat and last["p99"] <= first["p99"] + 1
        )
    ]


def _recorded(results: Results) -> list[Verdict]:
    found = results.get("throughput")
    lines = (
        ("connect_recorded", "connecting is outside the clock and recorded apart"),
        ("loop_lag_recorded", "event-loop lag is sampled and recorded"),
    )
    verdicts = []
    for key, what in lines:
        if found is None:
            verdicts.append(_not_measured(what, "in every run"))
        else:
            verdicts.append(
                Verdict(what, "in every run", "yes" if found[key] else "no", found[key])
            )
    return verdicts


_CHECKS: tuple[Callable[[Results], list[Verdict]], ...] = (
    _throughput,
    _peers,
    _first_token,
    _defaults,
    _cpu,
    _tokens,
    _startup,
    _summary,
    _memory,
    _sustained,
    _recorded,
)
