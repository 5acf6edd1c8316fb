"""Flags, environment and clawgauge.toml made into one `Settings`, each option checked.

The long options of `run` and `[run]` of the file are the same words. A file that nobody has named
counts in full only where the user has vouched for it (`trusted_files`).
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from clawgauge.config.trusted_files import find_standing, read_trusted
from clawgauge.errors import ConfigError
from clawgauge.records import HARMLESS, Harmless, Job, Option, RunOptions
from clawgauge.small_file import read_toml

DEFAULT_NAME = "clawgauge.toml"
DEFAULT_RUNS_DIR = "runs"
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Names under which people put a key itself into the file.
_KEY_FIELDS = ("api_key", "key", "token", "secret", "password")


class Settings(RunOptions, frozen=True, kw_only=True):
    """All that flags, environment and file decide of a run.

    Those are the options that are recorded, and these that are not.
    """

    targets: list[str] = []
    nodes: list[str] = []
    suites: Harmless[list[str]] = []
    full: Harmless[bool] = False
    in_context: str | None = None
    prices: str | None = None
    runs_dir: str = DEFAULT_RUNS_DIR
    fail_under: Harmless[Annotated[float | None, Option(0, 1, "a rate from 0 to 1")]] = None
    require: Harmless[list[str]] = []

    def recorded(self) -> RunOptions:
        """The options among them that config.json has."""
        # Not by their names: every field has a default, so that a forgotten one would be recorded
        # as that.
        return RunOptions(**{name: getattr(self, name) for name in RunOptions.__struct_fields__})


def harmless_fields(settings: type) -> frozenset[str]:
    """The fields that a file may set although nobody has vouched for it."""
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(name for name, hint in hints.items() if HARMLESS in get_args(hint)[1:])


def _find_option(hint: Any) -> Option:
    """What is declared beside the type of a field; nothing special where nothing is."""
    for extra in get_args(hint)[1:]:
        if isinstance(extra, Option):
            return extra
    return Option()


_HINTS = get_type_hints(Settings, include_extras=True)
OPTIONS = {field: _find_option(hint) for field, hint in _HINTS.items()}
FIELDS = {
    option.name or field: field for field, option in OPTIONS.items() if option.variable is None
}
"""The field of each option, by the option's name: what a flag or `[run]` may set."""


def make_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings that are given, by the names of options, with defaults for the rest.

    Raises `ConfigError` for a value out of bounds.
    """
    values = {}
    for name, field in FIELDS.items():
        if name in given:
            values[field] = given[name]
    values["runs_dir"] = given.get("runs_dir") or DEFAULT_RUNS_DIR
    for field, option in OPTIONS.items():
        if option.variable is not None:
            text = environ.get(option.variable)
            if text:
                values[field] = _read_variable(option.variable, text, option)
    settings = Settings(**values)
    check_options(settings)
    return settings


def _read_variable(name: str, text: str, option: Option) -> float:
    number = math.nan
    with suppress(ValueError):
        number = float(text)
    if not option.low <= number <= option.high:
        raise ConfigError(f"{name} is {text!r}: give {option.meaning}")
    return number


def check_options(options: RunOptions) -> None:
    """Raise `ConfigError` for a value that an option does not take.

    Recorded ones are checked too, since a run folder may come from anyone.
    """
    for name in options.__struct_fields__:
        option = OPTIONS[name]
        value = getattr(options, name)
        if not option.meaning or value is None:
            continue
        if not option.low <= value <= option.high:
            raise ConfigError(f"{flag_of(name)} is {value}: it must be {option.meaning}")


def flag_of(field: str) -> str:
    """The flag that sets a field, as a user types it."""
    name = OPTIONS[field].name or field
    singular = {"targets": "target", "suites": "suite"}.get(name, name)
    return f"--{singular.replace('_', '-')}"


class ProviderTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[providers.NAME]`. `type` may be left out where NAME is itself a provider type."""

    type: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    local: bool | None = None
    command: str | None = None
    chat_template_file: str | None = None
    context: Annotated[int, msgspec.Meta(ge=512, le=16_777_216)] | None = None
    extra_body: dict[str, Any] = {}
    keep_alive: str | int | None = None


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[nodes.NAME]`: a machine by its `ssh` destination, or the machines of a `ray` cluster."""

    ssh: str | None = None
    ray: str | None = None
    command: str = "clawgauge"
    """What clawgauge is called there."""
    labels: dict[str, str] = {}
    """Those that the machines of the cluster bear."""
    address: str | None = None
    """Where others reach the servers of the machine, which `route` needs."""


# `[run]` has the options of `run` under the names they have there, all of which may be left out.
_RunTable: Any = msgspec.defstruct(
    "_RunTable",
    [(name, _HINTS[field] | None, None) for name, field in FIELDS.items()],
    frozen=True,
    forbid_unknown_fields=True,
)


class _FileConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration file."""

    run: _RunTable = _RunTable()
    providers: dict[str, ProviderTable] = {}
    jobs: dict[str, Job] = {}
    nodes: dict[str, NodeTable] = {}


_NOTHING: frozenset[str] = frozenset()
_NOTHING_WITHHELD = MappingProxyType(dict.fromkeys(_FileConfig.__struct_fields__, _NOTHING))


class Configuration(msgspec.Struct, frozen=True):
    """What counts of a configuration file."""

    run: dict[str, Any] = {}
    providers: dict[str, ProviderTable] = {}
    path: Path | None = None
    standing: str = ""
    """Why it counts, or why not all of it does, in words."""
    jobs: dict[str, Job] = {}
    nodes: dict[str, NodeTable] = {}
    withheld: Mapping[str, frozenset[str]] = _NOTHING_WITHHELD
    """By table, what nobody has vouched for."""

    @property
    def folder(self) -> Path:
        """What the paths in the file are relative to."""
        return self.path.parent if self.path else Path()

    def under(self, given: Mapping[str, Any], from_file: Collection[str] = ()) -> dict[str, Any]:
        """The options `given` on the command line, and those of `[run]` under them.

        Raises `ConfigError` where one that counts `from_file` was withheld.
        """
        withheld = sorted(self.withheld["run"].intersection(from_file))
        if withheld:
            flags = ", ".join(flag_of(FIELDS[name]) for name in withheld)
            names = ", ".join(withheld).replace("suites", "suites (outside this folder)")
            raise ConfigError(f"[run] {names} of {self.why_withheld()}, or say {flags} yourself")
        options = dict(self.run)
        for name in ("prices", "in_context"):
            if options.get(name):
                options[name] = str(self.folder / options[name])
        options.update(given)
        return options

    def demands(self) -> dict[str, Any]:
        """What `[run]` says that is not harmless."""
        harmless = harmless_fields(Settings)
        return {name: value for name, value in self.run.items() if FIELDS[name] not in harmless}

    def find_node(self, name: str) -> NodeTable:
        """The table of a node; raises `ConfigError` where there is none that can be used."""
        if name in self.withheld["nodes"]:
            raise ConfigError(f"[nodes.{name}] of {self.why_withheld()}")
        table = self.nodes.get(name)
        if table is not None and _NODE_NAME.fullmatch(name) and bool(table.ssh) != bool(table.ray):
            return table
        known = f"known: {', '.join(self.nodes)}" if self.nodes else "none is known yet"
        raise ConfigError(
            f"there is no node {name!r} ({known}): clawgauge.toml needs "
            f'[nodes.{name}] with ssh = "HOST" or ray = "HEAD:PORT"'
        )

    def why_withheld(self) -> str:
        """Which file is meant, and the way out: the rest of a sentence that starts with the
        table."""
        return (
            f"{DEFAULT_NAME} here does not count ({self.standing}; it may say what somebody else "
            "wants): read it, then run `clawgauge trust`, or name it with --config"
        )


def read_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """The file that was named, else ./clawgauge.toml where there is one, else nothing."""
    if path is not None:
        named, _ = read_file(path, "named with --config")
        return named
    here = Path(DEFAULT_NAME)
    if not os.path.lexists(here):
        return Configuration()
    configuration, sha256 = read_file(here)
    standing = find_standing(here, sha256, read_trusted(environ))
    if standing.counts_in_full:
        return replace(configuration, standing=standing.value)
    return _withhold(configuration, standing.value)


def _withhold(configuration: Configuration, standing: str) -> Configuration:
    """What an untrusted file may say: what is harmless of `[run]`, and no other table."""
    demands = set(configuration.demands())
    # It names suites beside it: what lies elsewhere is not for whoever wrote it to have asked.
    if not all(_is_here(ref) for ref in configuration.run.get("suites", [])):
        demands.add("suites")
    harmless = {name: value for name, value in configuration.run.items() if name not in demands}
    withheld = {
        "run": frozenset(demands),
        "providers": frozenset(configuration.providers),
        "jobs": frozenset(configuration.jobs),
        "nodes": frozenset(configuration.nodes),
    }
    return Configuration(
        run=harmless, path=configuration.path, standing=standing, withheld=withheld
    )


def _is_here(ref: str) -> bool:
    """Whether a suite's name leads to nothing outside the current directory."""
    if ref.startswith("~"):
        return False
    with suppress(OSError, ValueError, RuntimeError):
        return Path(ref).resolve().is_relative_to(Path().resolve())
    return False


def read_file(path: Path, standing: str = "") -> tuple[Configuration, str]:
    """A file, and the hash of what was read, from one reading."""
    file: _FileConfig
    file, raw = read_toml(path, _FileConfig, "configuration", check=partial(_refuse_keys, path))
    options = {}
    for name in FIELDS:
        value = getattr(file.run, name)
        if value is not None:
            options[name] = value
    configuration = Configuration(
        run=options,
        providers=file.providers,
        path=path,
        standing=standing,
        jobs=file.jobs,
        nodes=file.nodes,
    )
    return configuration, hashlib.sha256(raw).hexdigest()


def _refuse_keys(path: Path, tables: Mapping[str, Any]) -> None:
    """Refuse a key at any depth of a provider's table, in a sentence that does not echo it."""
    providers = tables.get("providers")
    if not isinstance(providers, dict):
        return
    unchecked = list(providers.items())
    while unchecked:
        name, value = unchecked.pop()
        if isinstance(value, dict):
            for field in _KEY_FIELDS:
                if field in value:
                    raise ConfigError(
                        f"{path}: [providers.{name}] holds {field!r}; put the key in an "
                        'environment variable and name it: api_key_env = "MY_KEY"'
                    )
            unchecked += [(name, inner) for inner in value.values()]
        elif isinstance(value, list):
            unchecked += [(name, inner) for inner in value]
