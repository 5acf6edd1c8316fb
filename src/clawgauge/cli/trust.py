"""Let a clawgauge.toml count in full where it is found: shows what it would be allowed to do, and
keeps its hash.

Without this, a file that merely lies in the current directory sets only what is harmless. A file
that has changed since must be trusted anew; one that `clawgauge init` wrote here may be edited, and
a file named with --config needs no trust. See docs/security.md."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.cli.process import DONE
from clawgauge.config.settings import DEFAULT_NAME, Configuration, read_file
from clawgauge.config.trusted_files import (
    Standing,
    TrustedFiles,
    find_standing,
    place_of,
    read_trusted,
    write_trusted,
)
from clawgauge.errors import ConfigError, RequestError
from clawgauge.reports.clean import one_row
from clawgauge.secrets import public_address

_PHRASES = {
    "targets": "ask {}",
    "runs_dir": "keep runs in {}",
    "prices": "read prices from {}",
    "unload_others": "unload other models of an Ollama",
    "chat_template_file": "read the chat template {}",
    "command": "run the program {}",
    "base_url": "send calls to {}",
    "extra_body": "add {} to every call",
    "api_key_env": "send the value of the variable {} as the key",
    "ssh": "run clawgauge through ssh on {}",
    "ray": "run clawgauge on the machines of the Ray cluster {}",
}


class _Demand(NamedTuple):
    """One thing that a file asks for and that is not harmless."""

    table: str
    key: str
    value: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="default: ./clawgauge.toml"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="the files that are trusted")
    action.add_argument("--remove", action="store_true", help="trust the file no more")


def execute(arguments: argparse.Namespace) -> int:
    file = arguments.file or Path(DEFAULT_NAME)
    trusted = read_trusted(os.environ)
    if arguments.list:
        for file_key in sorted(trusted.files):
            sys.stdout.write(one_row(f"{file_key}: {_standing_of(file_key, trusted).value}"))
        return DONE
    file_key = place_of(file)
    if arguments.remove:
        if not trusted.remove(file_key):
            raise ConfigError(f"{file} was not trusted: `clawgauge trust --list` shows what is")
        write_trusted(os.environ, trusted)
        sys.stdout.write(one_row(f"no longer trusted: {file_key}"))
        return DONE
    configuration, sha256 = read_file(file)
    _show_demands(file_key, _find_demands(configuration))
    _warn_of_other_writers(file)
    if _find_demands(configuration):
        _ask()
    trusted.add(file_key, sha256)
    write_trusted(os.environ, trusted)
    sys.stdout.write(one_row(f"trusted {file_key} as it is now (sha256 {sha256[:12]}…)"))
    return DONE


def _standing_of(place: str, trusted: TrustedFiles) -> Standing:
    try:
        _, sha256 = read_file(Path(place))
    except ConfigError:
        return Standing.GONE
    return find_standing(Path(place), sha256, trusted)


def _find_demands(configuration: Configuration) -> list[_Demand]:
    """What the file would be allowed to do that is not harmless."""
    demands = []
    for name, value in configuration.demands().items():
        demands.append(_Demand("run", name, value))
    for name, job in configuration.jobs.items():
        demands.append(_Demand(f"jobs.{name}", "needs", job.needs + job.prompts))
    tables: dict[str, Any] = {}
    for name, provider in configuration.providers.items():
        tables[f"providers.{name}"] = provider
    for name, node in configuration.nodes.items():
        tables[f"nodes.{name}"] = node
    for title, table in tables.items():
        for key in table.__struct_fields__:
            value = getattr(table, key)
            if value:
                demands.append(_Demand(title, key, value))
    return demands


def _show_demands(place: str, demands: list[_Demand]) -> None:
    heading = "asks to" if demands else "asks for nothing that needs trust"
    sys.stderr.write(one_row(f"{place} {heading}"))
    for demand in demands:
        value = demand.value
        if demand.key == "base_url":
            with suppress(ValueError):
                value = public_address(value)
        # Written as literals, so that no value can forge a line.
        text = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
        phrase = _PHRASES.get(demand.key, f"set {demand.key} to {{}}").format(text)
        sys.stderr.write(one_row(f"  {phrase}  [{repr(demand.table)[1:-1]}]"))


def _warn_of_other_writers(file: Path) -> None:
    for path in (file, file.parent):
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            sys.stderr.write(
                "others can write to it or its folder: "
                "programs and files that it names may change without it changing\n"
            )
            return


def _ask() -> None:
    """Ask where somebody can answer; raises `RequestError` where the answer is not yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    sys.stderr.write("trust it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RequestError("not trusted: nothing was changed")
