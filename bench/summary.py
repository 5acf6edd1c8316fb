"""How long `clawgauge summarize` takes, and how much memory, for a hundred thousand records and for a million.

The records are those of a real run, repeated with other repeat numbers and other times; `wc -l` of the same file stands
beside it, as the least a reader can do.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.setting import Setting, load_average
from bench.workplace import CLAWGAUGE, Workplace

PROMPTS = 50
MODEL = "t0-i0-n16"
_VARIED = re.compile(rb'"(repeat|e2e_ms|ttft_ms|ttfa_ms)":\d+')


def measure(setting: Setting) -> dict[str, Any]:
    """One row per size."""
    sizes = setting.pick(
        quick=[10_000, 100_000], normal=[100_000, 1_000_000], full=[100_000, 1_000_000]
    )
    rows = []
    for size in sizes:
        setting.tell(f"summary: {size:,} records")
        with setting.workplace() as place:
            rows.append(_measure_size(setting, place, size))
    return {"rows": rows, "load_average": load_average()}


def _measure_size(setting: Setting, place: Workplace, size: int) -> dict[str, Any]:
    folder = make_run(place, size)
    samples = setting.interleave(
        {
            "summarize": lambda: place.run([*CLAWGAUGE, "summarize", str(folder)]),
            "wc": lambda: place.run(["wc", "-l", str(folder / "results.jsonl")]),
        }
    )
    summary = json.loads((folder / "summary.json").read_bytes())
    counted = sum(group["n_total"] for group in summary["models"])
    if counted != size:
        raise ValueError(f"the summary counts {counted} of {size} records")
    return {
        "records": size,
        "file_mb": round((folder / "results.jsonl").stat().st_size / 1e6, 1),
        "summarize": _describe(samples["summarize"]),
        "wc": _describe(samples["wc"]),
    }


def make_run(place: Workplace, size: int) -> Path:
    """A run folder of `size` records, made from a real one."""
    folder = place.ask("chat", MODEL, prompts=PROMPTS, concurrency=8).folder
    results = folder / "results.jsonl"
    templates = [_template(line) for line in results.read_bytes().splitlines()]
    repeats = size // PROMPTS
    rng = random.Random(1)
    with results.open("wb") as out:
        for repeat in range(repeats):
            times = {b"repeat": repeat, b"e2e_ms": rng.randrange(500, 9000)}
            times |= {b"ttft_ms": times[b"e2e_ms"] // 4, b"ttfa_ms": times[b"e2e_ms"] // 3}
            out.write(b"".join(template % times for template in templates))
    config_path = folder / "config.json"
    config = json.loads(config_path.read_bytes())
    config["options"]["repeats"] = repeats
    config_path.write_text(json.dumps(config))
    return folder


def _template(line: bytes) -> bytes:
    """The line as a format, with places for what differs between repeats. `attempts` keeps its own times."""
    return _VARIED.sub(rb'"\1":%(\1)d', line.replace(b"%", b"%%")) + b"\n"


def _describe(rounds: list[Finished]) -> dict[str, float]:
    return {
        "wall_s": round(median([one.wall_s for one in rounds]), 3),
        "cpu_s": round(median([one.cpu_s for one in rounds]), 3),
        "peak_rss_mb": round(median([one.peak_rss_mb for one in rounds]), 1),
    }
