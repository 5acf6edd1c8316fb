"""How long a person waits for nothing: the help text, a dry run, and, beside them, an interpreter that does nothing."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

from bench.command import Finished
from bench.figures import median
from bench.setting import Setting, load_average
from bench.workplace import CLAWGAUGE

MODEL = "t0-i0-n16"


def measure(setting: Setting) -> dict[str, Any]:
    """Milliseconds of wall and CPU time per command."""
    setting = replace(setting, rounds=setting.pick(quick=5, normal=11, full=31))
    setting.tell(f"startup: {setting.rounds} starts of each command")
    with setting.workplace() as place:
        commands = {
            "bare_interpreter": [sys.executable, "-c", "pass"],
            "help": [*CLAWGAUGE, "--help"],
            "dry_run": [
                *CLAWGAUGE,
                "run",
                "--dry-run",
                "-t",
                f"bench_chat:{MODEL}",
                "--config",
                "clawgauge.toml",
            ],
        }
        for argv in commands.values():
            place.run(argv)  # once unmeasured: the disk cache and the compiled files
        samples = setting.interleave(
            {name: partial(place.run, argv) for name, argv in commands.items()}
        )
    return {
        "rounds": setting.rounds,
        **{name: _describe(rounds) for name, rounds in samples.items()},
        "load_average": load_average(),
    }


def _describe(rounds: list[Finished]) -> dict[str, float]:
    return {
        "wall_ms": round(median([one.wall_s for one in rounds]) * 1000, 1),
        "cpu_ms": round(median([one.cpu_s for one in rounds]) * 1000, 1),
        "peak_rss_mb": round(median([one.peak_rss_mb for one in rounds]), 1),
    }
