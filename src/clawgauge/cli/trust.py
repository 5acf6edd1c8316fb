"""Let a clawgauge.toml count in full where it is found: shows what it would be allowed to do, and keeps its hash.

Without this, a file that merely lies in the current directory sets only what is harmless. A file that has changed since
must be trusted anew; a file named with --config needs no trust. See docs/security.md.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from clawgauge.cli.process import DONE
from clawgauge.config.settings import DEFAULT_NAME, Configuration, read_file
from clawgauge.config.trust import TrustStore, place_of
from clawgauge.errors import ConfigError, RequestError
from clawgauge.reports.clean import clean_terminal
from clawgauge.secrets import public_address

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
    file, store = arguments.file or Path(DEFAULT_NAME), TrustStore.of(os.environ)
    if arguments.list:
        # Every trusted place, and whether what is there now is still what was trusted.
        for place, sha256 in sorted(store.entries().items()):
            try:
                standing = "trusted" if read_file(Path(place))[1] == sha256 else "changed, no longer trusted"
            except ConfigError:
                standing = "gone or unreadable"
            sys.stdout.write(clean_terminal(f"{place}: {standing}").replace("\n", " ") + "\n")
    elif arguments.remove:
        # Whether or not it is still there.
        if not store.remove(file):
            raise ConfigError(f"{file} was not trusted: `clawgauge trust --list` shows what is")
        sys.stdout.write(clean_terminal(f"no longer trusted: {place_of(file)}") + "\n")
    else:
        trust(file, store)
    return DONE


_PHRASES = {
    "command": "run the program {}",
    "base_url": "send calls to {}",
    "api_key_env": "send the value of the variable {} as the key",
    "extra_body": "add {} to every call",
    "chat_template_file": "read the chat template {}",
    "targets": "ask {}",
    "runs_dir": "keep runs in {}",
    "prices": "read prices from {}",
    "unload_others": "unload other models of an Ollama",
}


def trust(file: Path, store: TrustStore) -> None:
    """Show, ask where somebody can answer, and keep the hash of what was shown."""
    found, sha256 = read_file(file)
    place = place_of(file)
    asks = _demands(found)
    _tell(f"{place} asks to" if asks else f"{place} asks for nothing that needs trust")
    for line in asks:
        _tell(f"  {line}")
    if any(there.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for there in (file, file.parent)):
        _tell("others can write to it or its folder: programs and files that it names may change without it changing")
    if asks and sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write("trust it? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RequestError("not trusted: nothing was changed")
    store.add(file, sha256)
    sys.stdout.write(clean_terminal(f"trusted {place} as it is now (sha256 {sha256[:12]}…)") + "\n")


def _demands(file: Configuration) -> list[str]:
    """What the file would be allowed to do, a line each; whatever is not declared harmless is a demand."""
    lines = [_phrase("run", name, value) for name, value in file.demands().items()]
    for provider, table in file.providers.items():
        said = {name: value for name in table.__struct_fields__ if (value := getattr(table, name))}
        lines += [_phrase(f"providers.{provider}", name, value) for name, value in said.items()]
    return lines


def _phrase(table: str, name: str, value: Any) -> str:
    if name == "base_url":
        with suppress(ValueError):
            value = public_address(value)
    shown = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
    # Written as a literal, so that no value can forge a line.
    return f"{_PHRASES.get(name, f'set {name} to {{}}').format(shown)}  [{repr(table)[1:-1]}]"


def _tell(line: str) -> None:
    sys.stderr.write(clean_terminal(line).replace("\n", " ") + "\n")
