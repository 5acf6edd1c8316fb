"""Let a clawgauge.toml count in full where it is found: shows what it would be allowed to do, and keeps its hash.

Without this, a file that merely lies in the current directory sets only what is harmless. A file that has changed since
must be trusted anew; a file named with --config needs no trust. See docs/security.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "let the clawgauge.toml found here count in full"
EXAMPLES = """\
examples:
  clawgauge trust                      show what ./clawgauge.toml asks for, and trust it as it is now
  clawgauge trust --list               every trusted file
  clawgauge trust --remove             trust ./clawgauge.toml no more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="default: ./clawgauge.toml")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="the files that are trusted")
    action.add_argument("--remove", action="store_true", help="trust the file no more")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.trusting import distrust, list_trusted, trust
    from clawgauge.config import DEFAULT_NAME

    if arguments.list:
        return list_trusted()
    file = arguments.file or Path(DEFAULT_NAME)
    return distrust(file) if arguments.remove else trust(file)
