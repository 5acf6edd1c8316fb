"""Makes the pictures of README.md and the docs anew: docs/images/terminal.svg and docs/images/page.png.

Both show one real run of four scripted models (those of screens.py): how it ends on a terminal, and its report in
Chromium. The terminal is drawn by rich from what the command prints; without a Chromium the page is left as it is.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from rich.console import Console
from rich.text import Text
from screens import make_run

from support.browser import chromium, find_chromium
from support.command import clawgauge, clean_environment

IMAGES = ROOT / "docs" / "images"
LABELS = ("here:steady", "gateway:thorough", "here:hasty", "here:talker")
COLUMNS = 104
PAGE_WIDTH = 1200
PAGE_HEIGHT = 700
MAX_BYTES = 150_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", default=IMAGES)
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        cwd = Path(scratch)
        run = make_run(cwd, LABELS)
        draw_terminal(cwd, run, folder / "terminal.svg")
        if find_chromium() is None:
            print("no Chromium: the picture of the page stays as it is", file=sys.stderr)
        else:
            photograph_page(cwd, run, folder / "page.png")
    for path in sorted(folder.iterdir()):
        n_bytes = path.stat().st_size
        if n_bytes > MAX_BYTES:
            sys.exit(f"{path} has {n_bytes:,} bytes, over {MAX_BYTES:,}")
        print(path)


def draw_terminal(cwd: Path, run: str, path: Path) -> None:
    """The end of the run as a terminal shows it, in its colours."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(show_on_terminal(cwd, run)))
    drawing = console.export_svg(title="clawgauge show latest")
    # Without the fonts that rich would have a browser load from elsewhere.
    drawing = re.sub(r"\s*@font-face \{[^}]*\}", "", drawing)
    path.write_text(drawing, encoding="utf-8")


def show_on_terminal(cwd: Path, run: str) -> str:
    """What `clawgauge show` writes to a terminal."""
    environment = clean_environment(COLUMNS=str(COLUMNS), TERM="xterm-256color")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "clawgauge", "show", run]
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=theirs, stdin=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        shown = b""
        while piece := read_piece(ours):
            shown += piece
    os.close(ours)
    if process.returncode != 0:
        sys.exit(f"clawgauge show ended with {process.returncode}")
    return shown.decode().replace("\r\n", "\n").rstrip()


def read_piece(terminal: int) -> bytes:
    """The next bytes of a terminal; nothing once whoever wrote to it has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        # Linux says EIO where other systems say that the file is at its end.
        return b""


def photograph_page(cwd: Path, run: str, path: Path) -> None:
    """The top of the run's report, as large as a small window."""
    report = cwd / "report.html"
    clawgauge(cwd, "report", run, "-o", str(report))
    with chromium() as browser:
        browser.resize(PAGE_WIDTH, PAGE_HEIGHT)
        browser.prefer("light")
        browser.open(report.as_uri())
        browser.photograph(path)


if __name__ == "__main__":
    main()
