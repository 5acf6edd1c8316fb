"""Look at all runs in a browser: each run's answer and report, two beside each other, and a run as it goes on.

Prints the address on stdout and serves until interrupted, to this machine alone. It changes nothing."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from pathlib import Path

from clawgauge.cli.files import configured_runs_dir
from clawgauge.cli.process import DONE, run_async
from clawgauge.errors import ConfigError
from clawgauge.view import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-open", action="store_true", help="only print the address")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any that is free")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.port <= 65_535:
        raise ConfigError(f"--port is {arguments.port}: it must be a number up to 65535")
    runs_dir = arguments.runs_dir or configured_runs_dir()

    def ready(address: str) -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        if not arguments.no_open:
            # A browser may take its time to start, and must not keep the pages waiting.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        run_async(serve(runs_dir, arguments.port, ready))
    except OSError as fault:
        raise ConfigError(f"cannot serve on port {arguments.port} ({fault.strerror}); choose another --port") from None
    return DONE
