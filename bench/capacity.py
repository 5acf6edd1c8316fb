"""Is what `clawgauge capacity` finds what is true? Against a server whose capacity is known by arithmetic.

Two reference servers, a sweep of lengths with a window in it, arrivals below and above what can be carried, and a
crowd of 512. The truth is worked out here, from the names of the models; `truthd` also slows down as its slots fill
(`b`), which our own server does not.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.command import CommandFailed
from bench.loaded_server import serving_load
from bench.peers import DEFAULT_TOKENIZER, TOKENIZER_VARIABLE
from bench.server_process import CalibratedServer
from bench.setting import Setting, load_average
from bench.workplace import CLAWGAUGE, Workplace

R1, R2 = ("s8-f50-t20-i10-n64", 1_000), ("s16-l1-f20-i10-b5-n65", 16_000)
CROWD = ("s512-f50-t100-i400-n8", 1_000)
SLO_MS = 2_000.0
PEER_CLIENTS, PEER_CALLS = (8, 16, 30), 120


def measure(setting: Setting) -> dict[str, Any]:
    """Every load beside its truth. With our own server where no truthd is given."""
    if setting.server.tags_requests:
        with serving_load() as address:
            port = int(address.removesuffix("/v1").rpartition(":")[2])
            return _measure(
                setting, CalibratedServer("bench.loaded_server", port, tags_requests=False)
            )
    return _measure(setting, setting.server)


def _measure(setting: Setting, server: CalibratedServer) -> dict[str, Any]:
    found: dict[str, Any] = {"server": server.name, "rows": [], "facts": []}
    with setting.workplace() as spare:
        folder = spare.folder / "load"
        folder.mkdir()
        place = _Place(folder, server)
        slo = ("--slo", f"ttft={SLO_MS:g}ms")
        references = (
            [(R1, slo), (R2, slo)] if not setting.quick else [(R1, ("--max-concurrency", "8"))]
        )
        for (model, tokens), words in references:
            entry = _load(setting, place, model, "--context", str(tokens), *words)
            found["rows"] += _steps(model, tokens, entry)
            if words is slo:
                found["facts"] += _bounds(model, tokens, entry)
        if not setting.quick:
            entry = _load(
                setting, place, CROWD[0], "--context", str(CROWD[1]), "--max-concurrency", "512"
            )
            found["rows"] += _steps(*CROWD, entry)
            found["facts"] += _arrivals(setting, place)
        found["facts"] += _sweep(setting, place)
        found["peers"], found["skipped"] = ([], {}) if setting.quick else _beside(setting, place)
    found["load_average"] = load_average()
    return found


class _Place(Workplace):
    """A workplace of a server that keeps no log of its own."""

    def reset_truth(self) -> None:
        pass


def _load(setting: Setting, place: Workplace, model: str, *words: str) -> dict[str, Any]:
    setting.tell(f"capacity: {model} {' '.join(words)}")
    n_tokens = str(int(_knobs(model)["n"]))
    argv = [
        *CLAWGAUGE,
        "capacity",
        "-t",
        f"bench_chat:{model}",
        "--config",
        "clawgauge.toml",
        "--output",
        n_tokens,
    ]
    done = subprocess.run(
        [*argv, "--quiet", "--json", *words],
        cwd=place.folder,
        env=place.environment,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(
            f"capacity of {model} ended with {done.returncode}: {done.stderr.decode()[-500:]}"
        )
    return {"entries": json.loads(done.stdout)["capacity"]}


def _knobs(model: str) -> dict[str, float]:
    found = dict.fromkeys("tisflbx", 0.0) | {"n": 16.0}
    parts = (re.fullmatch(r"([a-z])([0-9.]+)", part) for part in model.split("-"))
    return found | {part[1]: float(part[2]) for part in parts if part}


def truth(model: str, tokens: int, clients: int, *, batching: bool = True) -> tuple[float, float]:
    """Requests a second, and the first token in milliseconds, of a closed loop that is spread over its cycle."""
    k = _knobs(model)
    prefill, active = k["f"] * tokens / 1e3, min(clients, k["s"] or clients)
    decode = (k["n"] - 1) * k["i"] * (1 + (k["b"] / 100 * (active - 1) if batching else 0.0))
    rate = active / (prefill + k["t"] + decode)
    rate = min(rate, k["l"] / prefill) if k["l"] else rate
    return rate * 1000, clients / rate - decode


def _steps(model: str, tokens: int, entry: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for step in entry["entries"][0]["steps"]:
        rate, ttft = truth(model, tokens, step["concurrency"])
        first = step["ttft_ms"]
        rows.append(
            {
                "model": model,
                "tokens": tokens,
                "at_once": step["concurrency"],
                "n": step["n"],
                "rps": [rate, step["requests_per_s"]],
                "ttft_p50": [ttft, first["p50"]],
                "ttft_p95": [ttft, first["p95"]],
                "trusted": step["trusted"],
            }
        )
    return rows


def _bounds(model: str, tokens: int, entry: dict[str, Any]) -> list[dict[str, Any]]:
    (one,) = entry["entries"]
    saturated = truth(model, tokens, 4_096)[0]
    knee = next(c for c in range(1, 4_096) if truth(model, tokens, c)[0] >= saturated * (1 - 1e-9))
    most = max(c for c in range(1, 4_096) if truth(model, tokens, c)[1] <= SLO_MS)
    found = one["knee"] or {}
    return [
        _fact(
            f"{model}: knee, clients",
            knee,
            found.get("concurrency"),
            f"limited by {found.get('limited_by')}",
        ),
        _fact(f"{model}: saturated, requests/s", saturated, found.get("requests_per_s")),
        _fact(
            f"{model}: most within {SLO_MS / 1000:g} s, clients",
            most,
            one["within_slo"]["concurrency"],
        ),
    ]


def _fact(
    what: str, true: float | str, measured: float | str | None, note: str = ""
) -> dict[str, Any]:
    return {"what": what, "true": true, "measured": measured, "note": note}


def _sweep(setting: Setting, place: Workplace) -> list[dict[str, Any]]:
    """A line through the lengths that fit, and every length that does not."""
    model, lengths = (
        "s4-f50-t20-i5-n8-x12000",
        (1_000, 2_000, 4_000, 8_000, 11_900, 12_100, 13_000, 32_000),
    )
    context = ",".join(map(str, lengths))
    entries = _load(setting, place, model, "--context", context, "--max-concurrency", "1")[
        "entries"
    ]
    fit = next((one["ttft_fit"] for one in entries if one["ttft_fit"]), None) or {}
    cut = sum(one["truncated"] is True for one in entries)
    right = sum(one["truncated"] is (one["context_tokens"] > 12_000) for one in entries)
    return [
        _fact(f"{model}: ms per 1k tokens", 50.0, fit.get("ms_per_1k_tokens")),
        _fact(f"{model}: fixed, ms", 20.0, fit.get("fixed_ms")),
        _fact(f"{model}: lengths truncated", 3, cut, f"{right} of {len(lengths)} told right"),
    ]


def _arrivals(setting: Setting, place: Workplace) -> list[dict[str, Any]]:
    """R1 at 80% and at 120% of what it carries, beside a simulated queue of the same arrivals' law."""
    model, tokens = f"open-{R1[0]}", R1[1]
    saturated = truth(model, tokens, 8)[0]
    rates = [round(share * saturated, 3) for share in (0.8, 1.2)]
    words = ("--context", str(tokens), "--rate", ",".join(map(str, rates)), "--duration", "60s")
    below, above = _load(setting, place, model, *words)["entries"][0]["steps"]
    theory = _simulate([0.0], rates[0] / 1000)
    facts = [
        _fact(
            "R1 at 80%: first token mean, ms",
            sum(theory) / len(theory),
            below["ttft_ms"]["mean"],
            "M/D/8, a sample",
        ),
        _fact(
            "R1 at 80%: first token p95, ms",
            theory[int(len(theory) * 0.95)],
            below["ttft_ms"]["p95"],
            "M/D/8, a sample",
        ),
        _fact(
            "R1 at 120%: answered a second",
            saturated,
            above["requests_per_s"],
            f"growing: {above['growing']}",
        ),
    ]
    # Sharper: what these very arrivals must have waited, call by call.
    for share, step in (("80%", below), ("120%", above)):
        due, seen = _calls(place, step["step"])
        told, seen = _simulate(due), sorted(seen)
        for name, place_of in (("p50", 0.5), ("p95", 0.95)):
            n = int(len(told) * place_of)
            facts.append(
                _fact(
                    f"R1 at {share}: {name} of these {len(due)} arrivals, ms",
                    told[n],
                    seen[n],
                    "replayed",
                )
            )
    return facts


def _calls(place: Workplace, step: str) -> tuple[list[float], list[float]]:
    """When the calls of a step were due, and how long after that each had its first token; in milliseconds."""
    rows = [
        json.loads(line)
        for line in (place.newest_run() / "results.jsonl").read_bytes().splitlines()
    ]
    mine = sorted(
        (row["load"]["due_us"], row) for row in rows if row["prompt_id"] == step and row["success"]
    )
    waits = [(row["load"]["queued_us"] + row["timings_us"]["ttft"]) / 1000 for _, row in mine]
    return [due_us / 1000 for due_us, _ in mine], waits


def _simulate(due: list[float], rate: float | None = None) -> list[float]:
    """First tokens of R1 for arrivals due then, or at random times of a rate; in ascending order."""
    draw, free, firsts = random.Random(1), [-1e12] * 8, list[float]()
    if rate is not None:
        due = list(itertools.accumulate(draw.expovariate(rate) for _ in range(400_000)))
    for at in due:
        begin = max(at, heapq.heappop(free))
        firsts.append(begin - at + 70)
        heapq.heappush(free, begin + 700)
    return sorted(firsts)


def _beside(setting: Setting, place: Workplace) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The first reference server by other people's tools: what they say of it, beside the same truth."""
    (model, tokens), rows, skipped = R1, list[dict[str, Any]](), dict[str, str]()
    write_prompts(place.folder, tokens)
    for name, (argv_of, read) in PEERS.items():
        if shutil.which(name) is None:
            skipped[name] = "not installed"
            continue
        for clients in PEER_CLIENTS:
            setting.tell(f"capacity: {name}, {clients} at once")
            folder = place.folder / f"{name}{clients}"
            try:
                place.run([name, *argv_of(model, place.server.base_url, clients, folder)])
                rate, first, late = read(folder)
            except (CommandFailed, OSError, KeyError, ValueError, StopIteration) as failure:
                skipped[name] = str(failure)[-200:]
                break
            true_rate, ttft = truth(model, tokens, clients)
            figures = {
                "rps": [true_rate, rate],
                "ttft_p50": [ttft, first],
                "ttft_p95": [ttft, late],
            }
            rows.append({"tool": name, "at_once": clients, "n": PEER_CALLS, **figures})
    return rows, skipped


def write_prompts(folder: Path, tokens: int) -> None:
    """Prompts of so many tokens, each of its own beginning, in the forms that other tools read."""
    texts = [f"{n} {'a quiet word ' * tokens}"[: tokens * 4] for n in range(PEER_CALLS)]
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    turns = (json.dumps({"text": text, "prompt": text}) for text in texts)
    (folder / "turns.jsonl").write_text("".join(f"{turn}\n" for turn in turns))


def _aiperf(model: str, base_url: str, clients: int, folder: Path) -> list[str]:
    host, tokenizer = (
        base_url.removesuffix("/v1"),
        os.environ.get(TOKENIZER_VARIABLE, DEFAULT_TOKENIZER),
    )
    argv = [
        "profile",
        "--model",
        model,
        "--url",
        host,
        "--endpoint-type",
        "chat",
        "--streaming",
        "--ui",
        "none",
    ]
    argv += [
        "--concurrency",
        str(clients),
        "--request-count",
        str(PEER_CALLS),
        "--tokenizer",
        tokenizer,
    ]
    argv += [
        "--input-file",
        "turns.jsonl",
        "--custom-dataset-type",
        "single-turn",
        "--use-server-token-count",
    ]
    return [*argv, "--output-artifact-dir", str(folder)]


def _read_aiperf(folder: Path) -> tuple[float, float, float]:
    said = json.loads((folder / "profile_export_aiperf.json").read_bytes())
    first = said["time_to_first_token"]
    return said["request_throughput"]["avg"], first["p50"], first["p95"]


def _evalscope(model: str, base_url: str, clients: int, folder: Path) -> list[str]:
    argv = ["perf", "--url", f"{base_url}/chat/completions", "--model", model, "--api", "openai"]
    argv += [
        "--parallel",
        str(clients),
        "--number",
        str(PEER_CALLS),
        "--stream",
        "--min-prompt-length",
        "1",
    ]
    return [
        *argv,
        "--dataset",
        "line_by_line",
        "--dataset-path",
        "lines.txt",
        "--outputs-dir",
        str(folder),
    ]


def _read_evalscope(folder: Path) -> tuple[float, float, float]:
    summary = json.loads(next(folder.rglob("benchmark_summary.json")).read_bytes())
    rows = json.loads(next(folder.rglob("benchmark_percentile.json")).read_bytes())
    first = {row["Percentiles"]: row["TTFT (ms)"] for row in rows}
    return summary["Req Throughput (req/s)"], first["50%"], first["95%"]


def _servebench(model: str, base_url: str, clients: int, folder: Path) -> list[str]:
    argv = ["run", "--url", base_url, "--model", model, "--concurrency", str(clients), "--no-gpu"]
    argv += [
        "--num-requests",
        str(PEER_CALLS),
        "--prompts",
        "turns.jsonl",
        "--output-len",
        str(int(_knobs(model)["n"])),
    ]
    return [*argv, "--out", f"{folder}.json"]


def _read_servebench(folder: Path) -> tuple[float, float, float]:
    (level,) = json.loads(Path(f"{folder}.json").read_bytes())["levels"]
    firsts = sorted(1000 * one["ttft"] for one in level["requests"])
    said = level["summary"]
    return said["request_throughput"], 1000 * said["ttft"]["p50"], firsts[int(len(firsts) * 0.95)]


Peer = tuple[
    Callable[[str, str, int, Path], list[str]], Callable[[Path], tuple[float, float, float]]
]
PEERS: dict[str, Peer] = {
    "servebench": (_servebench, _read_servebench),
    "aiperf": (_aiperf, _read_aiperf),
    "evalscope": (_evalscope, _read_evalscope),
}
