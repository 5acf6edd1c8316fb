"""Look at all runs in a browser: each run's answer and report, two beside each other, a run as it
goes on.

Prints an address on stdout, and a new one after each use. Serves until interrupted, to this machine
alone. It changes nothing."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from pathlib import Path

from clawgauge.cli.files import configured_runs_dir
from clawgauge.cli.process import DONE, run_async, tell
from clawgauge.errors import ConfigError
from clawgauge.view import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-open", action="store_true", help="only print the address")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="default: any that is free"
    )
    parser.add_argument(
        "--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs"
    )


def execute(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.port <= 65_535:
        raise ConfigError(f"--port is {arguments.port}: it must be a number up to 65535")
    runs_dir = arguments.runs_dir or configured_runs_dir()
    announcer = _Announcer(opens_browser=not arguments.no_open)
    open_browser = None if arguments.no_open else _open_browser
    try:
        run_async(serve(runs_dir, arguments.port, announcer.announce, open_browser))
    except OSError as fault:
        problem = f"cannot serve on port {arguments.port} ({fault.strerror})"
        raise ConfigError(f"{problem}; choose another --port") from None
    return DONE


class _Announcer:
    """Prints addresses: each on a line of stdout, what to do with it on stderr."""

    def __init__(self, *, opens_browser: bool) -> None:
        self._opens_browser = opens_browser
        self._is_first = True

    def announce(self, address: str) -> None:
        if not self._is_first:
            tell("To open the view in another browser, use this address, once, within 10 minutes:")
        elif self._opens_browser:
            tell(
                "The view opens in your browser; Ctrl-C ends it. If it does not open, or for "
                "another browser, use this address, once, within 10 minutes:"
            )
        else:
            tell("Open this address in a browser, once, within 10 minutes; Ctrl-C ends the view:")
        self._is_first = False
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()


def _open_browser(page: Path) -> None:
    def work() -> None:
        if not webbrowser.open(page.as_uri()):
            tell("No browser could be started; open the address above yourself.")

    # A browser may take its time to start, and must not keep the pages waiting.
    threading.Thread(target=work, daemon=True).start()
