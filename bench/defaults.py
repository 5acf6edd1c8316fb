"""How long does a run take that says nothing of concurrency? Whole commands against servers elsewhere.

Three targets are asked a suite of 36 prompts, half a second a call, as a user would ask them, and the same calls are
made by the bare client with eight connections to each. Then hosts with a limit, that answer 429 with Retry-After: the
same suite by default, and with every fixed number of calls at once, of which the quickest is what it is held against.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.limited_server import LimitedModel, serving_limited
from bench.setting import Setting, load_average, run_bare
from bench.workplace import CLAWGAUGE, Workplace

N_PROMPTS = 36
CONNECTIONS = 8
# Any prefix may stand before the schedule: three names, and one schedule.
SIDE_BY_SIDE = ("one-t500-i0-n1", "two-t500-i0-n1", "three-t500-i0-n1")
# Four calls at once; eight, of which no more than six in each second.
LIMITED = {"at_once": "t500-q4", "in_a_second": "t500-r6"}
FIXED = (1, 2, 3, 4, 6, 8)


def measure(setting: Setting) -> dict[str, Any]:
    """Wall times, and what they are of the bare client's and of the best fixed number's."""
    setting.tell(f"defaults: {len(SIDE_BY_SIDE)} targets of {N_PROMPTS} calls of 0.5 s")
    with setting.workplace() as place:
        write_provider(place, place.server.base_url)
        samples = setting.interleave(
            {
                "clawgauge": lambda: ask(place, SIDE_BY_SIDE),
                "bare": lambda: _ask_bare(place),
            }
        )
    walls = {side: round(median([one.wall_s for one in ran]), 2) for side, ran in samples.items()}
    return {
        "prompts": N_PROMPTS,
        "targets": len(SIDE_BY_SIDE),
        "wall_s": walls,
        "ratio": round(walls["clawgauge"] / walls["bare"], 2),
        "limited": {kind: _measure_limited(setting, name) for kind, name in LIMITED.items()},
        "load_average": load_average(),
    }


def _measure_limited(setting: Setting, name: str) -> dict[str, Any]:
    setting.tell(f"defaults: {N_PROMPTS} calls of {name}, by default and with {FIXED} at once")
    with setting.workplace() as place, serving_limited() as (base_url, models):
        write_provider(place, base_url)
        by_default = []
        hosts = []
        for number in range(setting.rounds):
            model = f"default{number}-{name}"
            by_default.append(ask(place, [model]).wall_s)
            hosts.append(models[model])
        fixed_s = {}
        for n_calls in FIXED:
            walls_s = []
            for number in range(setting.rounds):
                model = f"fixed{n_calls}x{number}-{name}"
                walls_s.append(ask(place, [model], n_calls).wall_s)
            fixed_s[n_calls] = round(median(walls_s), 2)
    best = min(fixed_s, key=lambda n_calls: fixed_s[n_calls])
    wall_s = round(median(by_default), 2)
    return {
        "wall_s": wall_s,
        "fixed_s": fixed_s,
        "best_fixed": best,
        "ratio": round(wall_s / fixed_s[best], 2),
        **_add_up(hosts),
    }


def _add_up(hosts: Sequence[LimitedModel]) -> dict[str, int]:
    """What the hosts saw of the runs by default."""
    return {
        "lost": sum(N_PROMPTS - host.n_answered for host in hosts),
        "refused": sum(host.n_refused for host in hosts),
        "too_early": sum(host.n_too_early for host in hosts),
    }


def write_provider(place: Workplace, base_url: str) -> None:
    """A server at an address of this machine that counts as one elsewhere."""
    table = f'[providers.elsewhere]\ntype = "openai_chat"\nbase_url = "{base_url}"\nlocal = false\n'
    (place.folder / "clawgauge.toml").write_text(table)


def ask(place: Workplace, models: Sequence[str], n_at_once: int | None = None) -> Finished:
    """One run, which raises where a call was not answered."""
    argv = [*CLAWGAUGE, "run", "-s", str(place.write_suite(N_PROMPTS)), "--quiet"]
    for model in models:
        argv += ["-t", f"elsewhere:{model}"]
    if n_at_once is not None:
        argv += ["--concurrency", str(n_at_once)]
    run_id = f"m{len(place.runs())}"
    argv += ["--run-id", run_id, "--config", "clawgauge.toml", "--yes"]
    finished = place.run(argv)
    _check(place.folder / "runs" / run_id, len(models))
    return finished


def _check(folder: Path, n_models: int) -> None:
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    n_answered = sum(row["success"] for row in rows)
    if n_answered != N_PROMPTS * n_models:
        raise ValueError(f"{n_answered} of {N_PROMPTS * n_models} calls were answered")


def _ask_bare(place: Workplace) -> Finished:
    """The bare client for every target at once; the slowest of them is what a user waits for."""
    finished: list[Finished] = []

    def ask(model: str) -> None:
        finished.append(run_bare(place, "chat", model, calls=N_PROMPTS, concurrency=CONNECTIONS))

    threads = [threading.Thread(target=ask, args=[model]) for model in SIDE_BY_SIDE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(finished) != len(threads):
        raise ValueError("the bare client did not come to its end")
    return max(finished, key=lambda one: one.wall_s)
