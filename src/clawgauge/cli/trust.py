"""Let a clawgauge.toml count in full where it is found: shows what it would be allowed to do, and keeps its hash.

Without this, a file that merely lies in the current directory sets only what is harmless. A file that has changed since
must be trusted anew; a file named with --config needs no trust. See docs/security.md."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from clawgauge.cli.process import DONE
from clawgauge.config.settings import DEFAULT_NAME, place_of, read_file, read_trusted, write_trusted
from clawgauge.errors import ConfigError, RequestError
from clawgauge.reports.clean import one_row
from clawgauge.secrets import public_address


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="default: ./clawgauge.toml"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="the files that are trusted")
    action.add_argument("--remove", action="store_true", help="trust the file no more")


_PHRASES = {
    "targets": "ask {}", "runs_dir": "keep runs in {}", "prices": "read prices from {}",
    "unload_others": "unload other models of an Ollama", "chat_template_file": "read the chat template {}",
    "command": "run the program {}", "base_url": "send calls to {}", "extra_body": "add {} to every call",
    "api_key_env": "send the value of the variable {} as the key", "ssh": "run clawgauge through ssh on {}",
    "ray": "run clawgauge on the machines of the Ray cluster {}",
}  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    file, entries = arguments.file or Path(DEFAULT_NAME), read_trusted(os.environ)
    if arguments.list:
        for place, sha256 in sorted(entries.items()):
            try:
                standing = (
                    "trusted"
                    if read_file(Path(place))[1] == sha256
                    else "changed, no longer trusted"
                )
            except ConfigError:
                standing = "gone or unreadable"
            sys.stdout.write(one_row(f"{place}: {standing}"))
        return DONE
    place = place_of(file)
    if arguments.remove:
        if entries.pop(place, None) is None:
            raise ConfigError(f"{file} was not trusted: `clawgauge trust --list` shows what is")
        write_trusted(os.environ, entries)
        sys.stdout.write(one_row(f"no longer trusted: {place}"))
    else:
        sha256 = _vouch_for(file, place)
        write_trusted(os.environ, {**entries, place: sha256})
        sys.stdout.write(one_row(f"trusted {place} as it is now (sha256 {sha256[:12]}…)"))
    return DONE


def _vouch_for(file: Path, place: str) -> str:
    """Show what the file would be allowed to do that is not harmless, and ask where somebody can answer; its hash."""
    found, sha256 = read_file(file)
    asked = [("run", name, value) for name, value in found.demands().items()]
    asked += [
        (f"jobs.{name}", "needs", job.needs + job.prompts) for name, job in found.jobs.items()
    ]
    tables: dict[str, Any] = {f"providers.{name}": table for name, table in found.providers.items()}
    for where, table in (
        tables | {f"nodes.{name}": table for name, table in found.nodes.items()}
    ).items():
        asked += [(where, n, v) for n in table.__struct_fields__ if (v := getattr(table, n))]
    sys.stderr.write(
        one_row(f"{place} asks to" if asked else f"{place} asks for nothing that needs trust")
    )
    for where, name, value in asked:
        if name == "base_url":
            with suppress(ValueError):
                value = public_address(value)
        shown = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
        # Written as a literal, so that no value can forge a line.
        sys.stderr.write(
            one_row(
                f"  {_PHRASES.get(name, f'set {name} to {{}}').format(shown)}  [{repr(where)[1:-1]}]"
            )
        )
    if any(there.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for there in (file, file.parent)):
        what = "programs and files that it names may change without it changing"
        sys.stderr.write(f"others can write to it or its folder: {what}\n")
    if asked and sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write("trust it? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RequestError("not trusted: nothing was changed")
    return sha256
