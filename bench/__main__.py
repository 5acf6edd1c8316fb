"""`python -m bench`: measure, print, and write results/<date>.json and the tables of bench/RESULTS.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import (
    capacity,
    defaults,
    fidelity,
    growth,
    peers,
    startup,
    streams,
    summary,
    sustained,
    throughput,
    viewer,
)
from bench.command import CommandFailed
from bench.machine import describe_machine
from bench.report import place, render, render_capacity
from bench.server_process import ROOT, serving
from bench.setting import Setting

MEASUREMENTS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "startup": startup.measure,
    "throughput": throughput.measure,
    "streams": streams.measure,
    "fidelity": fidelity.measure,
    "growth": growth.measure,
    "sustained": sustained.measure,
    "summary": summary.measure,
    "defaults": defaults.measure,
    "capacity": capacity.measure,
    "viewer": viewer.measure,
    "peers": peers.measure,
}
ROUNDS = 3
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "bench" / "RESULTS.md"


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    results: dict[str, Any] = {"machine": describe_machine(), "options": _spoken(arguments)}
    with serving(arguments.truthd) as server:
        setting = Setting(
            server, quick=arguments.quick, full=arguments.full, rounds=arguments.rounds
        )
        for name in arguments.only or [name for name in MEASUREMENTS if name != "capacity"]:
            try:
                results[name] = MEASUREMENTS[name](setting)
            except (CommandFailed, ValueError) as failure:
                results.setdefault("failed", {})[name] = str(failure)
                setting.tell(f"{name} failed: {failure}")
    text = render(results)
    print(text)
    if not arguments.dry:
        path = write_results(results)
        print(f"\nwritten: {path}", file=sys.stderr)
        if _fit_for_page(arguments) and "failed" not in results:
            place(text, PAGE)
            print(f"written: {PAGE}", file=sys.stderr)
        elif arguments.only == ["capacity"] and not arguments.quick and "failed" not in results:
            # It takes as long as all the others together, and stands between marks of its own.
            place(render_capacity(results), PAGE, "capacity")
            print(f"written: {PAGE}", file=sys.stderr)
    return 1 if "failed" in results else 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it works; not for the page"
    )
    size.add_argument(
        "--full", action="store_true", help="more calls at every level of concurrency"
    )
    parser.add_argument(
        "--only", action="append", choices=sorted(MEASUREMENTS), help="one measurement; repeatable"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often each side is measured (default 3)"
    )
    parser.add_argument(
        "--truthd", type=Path, metavar="PATH", help="a truthd binary to measure against instead"
    )
    parser.add_argument("--dry", action="store_true", help="print only; write nothing")
    return parser.parse_args(argv)


def _fit_for_page(arguments: argparse.Namespace) -> bool:
    """The page promises whole runs and medians of three: a part of one, or a quick one, is only printed and kept."""
    return not arguments.only and not arguments.quick and arguments.rounds >= ROUNDS


def write_results(results: dict[str, Any]) -> Path:
    """The whole run as data, named by its date and time."""
    RESULTS.mkdir(exist_ok=True)
    stamp = results["machine"]["date"][:19].replace(":", "").replace("T", "_")
    path = RESULTS / f"{stamp}.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _spoken(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
    }


if __name__ == "__main__":
    sys.exit(main())
