"""A bench run as markdown, and its place in bench/RESULTS.md. Pure but for that one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.targets import Verdict, judge

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
_MARKS = {True: "met", False: "**not met**", None: "–"}

Results = dict[str, Any]


def render(results: Results) -> str:
    """Everything that was measured, table by table, each with the load it was measured under."""
    parts = [_machine(results["machine"]), _targets(judge(results))]
    parts += [draw(results[name]) for name, draw in _TABLES.items() if results.get(name)]
    return "\n\n".join(parts)


def render_capacity(results: Results) -> str:
    """The part that is measured by itself."""
    return f"{_machine(results['machine'])}\n\n{_capacity(results['capacity'])}"


def place(text: str, path: Path, name: str = "bench") -> None:
    """Put `text` between the marks of the page. Raises where the page has none: it is not ours to make up."""
    page = path.read_text(encoding="utf-8")
    opening, closing = BEGIN.replace("bench", name), END.replace("bench", name)
    before, begin, rest = page.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise ValueError(f"{path} has no {opening} … {closing} to write between")
    path.write_text(f"{before}{opening}\n{text}\n{closing}{after}", encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def _load(measured: Results) -> str:
    return f"load average {' '.join(f'{load:.2f}' for load in measured['load_average'])}"


def _machine(machine: Results) -> str:
    busy = machine["load_average"][0] > machine["cores"] / 2
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    return (
        f"Measured {machine['date']} on {machine['system']}, {machine['cores']} × {machine['cpu']}, "
        f"{machine['memory_gb']} GB, Python {machine['python']}; {libraries}; commit {machine['commit'] or 'unknown'}; "
        f"{_load(machine)} at the start."
        + (
            " **The machine was busy with other work: only the ratios mean anything.**"
            if busy
            else ""
        )
    )


def _targets(verdicts: list[Verdict]) -> str:
    rows = [
        (verdict.what, verdict.target, verdict.measured, _MARKS[verdict.met])
        for verdict in verdicts
    ]
    return "### Targets\n\n" + table(("what", "target", "measured", ""), rows)


def _fidelity(measured: Results) -> str:
    rows = []
    for row in measured["rows"]:
        for side in ("clawgauge", "bare"):
            if side not in row:
                continue
            figures = row[side]
            cells = [
                _trio(figures.get(name))
                for name in ("ttft_ms", "ttfa_ms", "e2e_ms", "tps_pct", "server_late_ms")
            ]
            load = f"{row['load_average'][0]:.2f}"
            rows.append(
                (row["path"], row["concurrency"], side, int(figures["ttft_ms"]["n"]), *cells, load)
            )
    head = (
        "path",
        "at once",
        "client",
        "calls",
        "ttft ms",
        "ttfa ms",
        "e2e ms",
        "tokens/s %",
        "server late ms",
        "load",
    )
    words = (
        f"Model `{measured['model']}`, server {measured['server']}; "
        "calls on reused connections; medians of the rounds."
    )
    return f"### Error of the recorded times: p50 / p95 / p99\n\n{words}\n\n" + table(head, rows)


def _trio(figures: dict[str, float] | None) -> str:
    return (
        "–"
        if figures is None
        else " / ".join(f"{figures[share]:.2f}" for share in ("p50", "p95", "p99"))
    )


def _throughput(measured: Results) -> str:
    rows = [
        (side, f["wall_s"], f["calls_per_s"], f["cpu_s"], f["cpu_ms_per_call"], f["peak_rss_mb"])
        for side in ("clawgauge", "bare")
        if (f := measured[side])
    ]
    ratios = measured["ratios"]
    rows.append(
        (
            "ratio",
            ratios["wall_s"],
            ratios["calls_per_s"],
            ratios["cpu_s"],
            "",
            ratios["peak_rss_mb"],
        )
    )
    head = ("client", "wall s", "calls/s", "CPU s", "CPU ms a call", "peak MB")
    title = f"### {measured['calls']:,} calls of 16 instant tokens, {measured['concurrency']} at once, whole command"
    return f"{title}\n\n{_load(measured)}\n\n" + table(head, rows)


def _streams(measured: Results) -> str:
    rows = [
        (side, f["tokens_per_s"], f["tokens_per_cpu_s"], f["peak_rss_mb"])
        for side in ("clawgauge", "bare_unparsed")
        if (f := measured[side])
    ]
    head = ("client", "tokens/s", "tokens per CPU s", "peak MB")
    return f"### Long streams (`{measured['model']}`)\n\n{_load(measured)}\n\n" + table(head, rows)


def _growth(measured: Results) -> str:
    rows = [
        (f"{row['calls']:,}", side, f["wall_s"], f["cpu_s"], f["peak_rss_mb"])
        for row in measured["rows"]
        for side in ("clawgauge", "bare")
        if (f := row[side])
    ]
    marginal = measured["marginal_cpu_ms_per_call"]
    words = (
        f"CPU of one more call: {marginal['clawgauge']} ms, bare {marginal['bare']} ms: "
        f"{measured['marginal_cpu_ratio']}×; memory kept of it: {measured['marginal_bytes_per_call']} bytes. "
        f"{_load(measured)}"
    )
    head = ("calls", "client", "wall s", "CPU s", "peak MB")
    return f"### A longer run, {measured['concurrency']} at once\n\n{words}\n\n" + table(head, rows)


def _sustained(measured: Results) -> str:
    names = ("ttft_ms", "ttfa_ms", "e2e_ms", "tps_pct")
    rows = [
        (words, *(_trio(measured[key].get(name)) for name in names))
        for key, words in (("first", "first 1,000"), ("last", "last 1,000"))
    ]
    memory = measured["rss_mb"]
    words = (
        f"Model `{measured['model']}`; {measured['wall_s']} s, {measured['cpu_ms_per_call']} ms of CPU a call; "
        f"{measured['lost']} calls lost; memory {memory['early']} MB early, {memory['late']} MB late, "
        f"{memory['peak']} MB at most. Errors as above, p50 / p95 / p99. {_load(measured)}"
    )
    head = ("calls", "ttft ms", "ttfa ms", "e2e ms", "tokens/s %")
    title = f"### A sustained run: {measured['calls']:,} calls, {measured['concurrency']} at once"
    return f"{title}\n\n{words}\n\n" + table(head, rows)


def _summary(measured: Results) -> str:
    rows = [
        (
            f"{row['records']:,}",
            row["file_mb"],
            f["wall_s"],
            f["cpu_s"],
            f["peak_rss_mb"],
            row["wc"]["wall_s"],
        )
        for row in measured["rows"]
        if (f := row["summarize"])
    ]
    head = ("records", "file MB", "wall s", "CPU s", "peak MB", "`wc -l` s")
    return f"### `clawgauge summarize`\n\n{_load(measured)}\n\n" + table(head, rows)


def _viewer(measured: Results) -> str:
    rows = [
        (words, f["wall_s"], f["cpu_s"], f["lag_p99_ms"], f["viewer_cpu_s"])
        for side, words in (("alone", "alone"), ("followed", "followed by `clawgauge view`"))
        if (f := measured[side])
    ]
    ratio = measured["ratios"]
    rows.append(("ratio", ratio["wall_s"], ratio["cpu_s"], ratio.get("lag_p99_ms", "–"), ""))
    head = ("run", "wall s", "CPU s", "loop lag p99 ms", "CPU s of the viewer")
    title = f"### {measured['calls']:,} calls, {measured['concurrency']} at once, with and without a viewer"
    return f"{title}\n\nModel `{measured['model']}`. {_load(measured)}\n\n" + table(head, rows)


def _startup(measured: Results) -> str:
    names = {
        "bare_interpreter": "`python -c pass`",
        "help": "`clawgauge --help`",
        "dry_run": "`clawgauge run --dry-run`",
    }
    rows = [
        (words, f["wall_ms"], f["cpu_ms"], f["peak_rss_mb"])
        for key, words in names.items()
        if (f := measured[key])
    ]
    return f"### Starting\n\n{_load(measured)}\n\n" + table(
        ("command", "wall ms", "CPU ms", "peak MB"), rows
    )


def _peers(measured: Results) -> str:
    rows = [
        (
            f"{name} (no streaming)" if name in measured["not_streaming"] else name,
            f["wall_s"],
            f["cpu_s"],
            f["peak_rss_mb"],
        )
        for name, f in measured["rows"].items()
    ]
    skipped = "; ".join(
        f"{name}: {why.splitlines()[-1][:100]}" for name, why in measured["skipped"].items() if why
    )
    words = f"{_load(measured)}" + (f". Skipped: {skipped}" if skipped else "")
    title = f"### {measured['calls']:,} calls by other tools"
    return f"{title}\n\n{words}" + (
        "\n\n" + table(("tool", "wall s", "CPU s", "peak MB"), rows) if rows else ""
    )


def _capacity(measured: Results) -> str:
    rows = [
        (
            f"`{row['model']}`",
            f"{row['tokens']:,}",
            f"{row['at_once']}{'' if row['trusted'] else '*'}",
            row["n"],
            *_beside_truth(row),
        )
        for row in measured["rows"]
    ]
    head = (
        "server",
        "prompt",
        "at once",
        "calls",
        "requests/s",
        "first token p50 ms",
        "first token p95 ms",
    )
    facts = [
        (fact["what"], *(_digits(fact[key]) for key in ("true", "measured")), fact["note"])
        for fact in measured["facts"]
    ]
    peers = [
        (row["tool"], row["at_once"], row["n"], *_beside_truth(row)) for row in measured["peers"]
    ]
    skipped = "".join(f" {name}: {why}." for name, why in measured["skipped"].items())
    words = (
        f"True / found (error), server {measured['server']}. * this program was late, and says so."
    )
    words += f" {_load(measured)}.{skipped}"
    tables = f"{table(head, rows)}\n\n{table(('what', 'true', 'found', ''), facts)}"
    if peers:
        tables += (
            f"\n\nThe first of these servers by other tools:\n\n{table(('tool', *head[2:]), peers)}"
        )
    return f"### What a server can carry\n\n{words}\n\n{tables}"


def _beside_truth(row: Results) -> list[str]:
    pairs = (row["rps"], row["ttft_p50"], row["ttft_p95"])
    return [f"{true:.4g} / {seen:.4g} ({100 * (seen / true - 1):+.1f}%)" for true, seen in pairs]


def _digits(value: object) -> str:
    return (
        f"{value:.4g}" if isinstance(value, int | float) else "–" if value is None else str(value)
    )


def _defaults(measured: Results) -> str:
    walls = measured["wall_s"]
    rows = [
        (
            f"{measured['targets']} targets side by side",
            f"{walls['clawgauge']:.2f}",
            f"{walls['bare']:.2f} (bare client, eight connections to each)",
            f"{measured['ratio']:.2f}",
            "–",
            "–",
            "–",
        )
    ]
    names = {
        "at_once": "a host that takes 4 at once",
        "in_a_second": "a host that takes 6 a second",
    }
    for kind, limited in measured["limited"].items():
        best = limited["best_fixed"]
        best_s = limited["fixed_s"][best]
        rows.append(
            (
                names[kind],
                f"{limited['wall_s']:.2f}",
                f"{best_s:.2f} (--concurrency {best}, the best)",
                f"{limited['ratio']:.2f}",
                str(limited["lost"]),
                str(limited["refused"]),
                str(limited["too_early"]),
            )
        )
    head = ("", "by default, s", "beside, s", "ratio", "lost", "refused", "too early")
    words = (
        f"Whole commands, {measured['prompts']} calls of 0.5 s to each target. {_load(measured)}."
    )
    return f"### How long a run takes by default\n\n{words}\n\n{table(head, rows)}"


_TABLES: dict[str, Callable[[Results], str]] = {
    "fidelity": _fidelity,
    "throughput": _throughput,
    "streams": _streams,
    "growth": _growth,
    "sustained": _sustained,
    "summary": _summary,
    "defaults": _defaults,
    "capacity": _capacity,
    "viewer": _viewer,
    "startup": _startup,
    "peers": _peers,
}
