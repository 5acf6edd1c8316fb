"""Flags, environment and clawgauge.toml made into one `Settings`, each option checked.

The long options of `run` and `[run]` of the file are the same words. A file that nobody has named counts in full only
where the user has vouched for it, by place and content: a link to it, a copy and a changed one are not trusted."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.records import HARMLESS, Harmless, Job, Option, RunOptions
from clawgauge.small_file import UnfitFile, read_small_file, read_toml, replacing

DEFAULT_NAME, DEFAULT_RUNS_DIR = "clawgauge.toml", "runs"
# The SHA-256 of each trusted file, by its absolute path.
_TRUSTED, _MAX_TRUSTED_BYTES = "trusted.json", 4 << 20
_Trusted: Any = msgspec.defstruct("_Trusted", [("files", dict[str, str], {})], forbid_unknown_fields=True)
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_KEY_FIELDS = ("api_key", "key", "token", "secret", "password")


class Settings(RunOptions, frozen=True, kw_only=True):
    """All that flags, environment and file decide of a run: the options that are recorded, and these that are not."""

    targets: list[str] = []
    nodes: list[str] = []
    suites: Harmless[list[str]] = []
    full: Harmless[bool] = False
    in_context: str | None = None
    prices: str | None = None
    runs_dir: str = DEFAULT_RUNS_DIR
    fail_under: Harmless[Annotated[float | None, Option(0, 1, "a rate from 0 to 1")]] = None

    def recorded(self) -> RunOptions:
        """The options among them that config.json has."""
        # Not by their names: every field has a default, so that a forgotten one would be recorded
        # as that.
        return RunOptions(**{name: getattr(self, name) for name in RunOptions.__struct_fields__})


def harmless_fields(settings: type) -> frozenset[str]:
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(name for name, hint in hints.items() if HARMLESS in get_args(hint)[1:])


_HINTS = get_type_hints(Settings, include_extras=True)
OPTIONS: dict[str, Option] = {
    field: next((extra for extra in get_args(hint)[1:] if isinstance(extra, Option)), Option())
    for field, hint in _HINTS.items()
}
FIELDS = {option.name or field: field for field, option in OPTIONS.items() if option.variable is None}
"""The field of each option, by the option's name: what a flag or `[run]` may set."""


def make_settings(said: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """What is said, by the names of options, with defaults for the rest. A value out of bounds is refused."""
    values = {field: said[name] for name, field in FIELDS.items() if name in said}
    values["runs_dir"] = said.get("runs_dir") or DEFAULT_RUNS_DIR
    for field, option in OPTIONS.items():
        if option.variable and (word := environ.get(option.variable)):
            values[field] = math.nan
            with suppress(ValueError):
                values[field] = float(word)
            if not option.low <= values[field] <= option.high:
                raise ConfigError(f"{option.variable} is {word!r}: give {option.meaning}")
    settings = Settings(**values)
    check_options(settings)
    return settings


def check_options(options: RunOptions) -> None:
    """Refuse a value that an option does not take; recorded ones too, since a run folder may come from anyone."""
    for name in options.__struct_fields__:
        option, value = OPTIONS[name], getattr(options, name)
        if option.meaning and value is not None and not option.low <= value <= option.high:
            raise ConfigError(f"{flag_of(name)} is {value}: it must be {option.meaning}")


def flag_of(field: str) -> str:
    name = OPTIONS[field].name or field
    return "--" + {"targets": "target", "suites": "suite"}.get(name, name).replace("_", "-")


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
    """`[nodes.NAME]`: a machine by its `ssh` destination, where clawgauge is called `command`, or the machines of a
    `ray` cluster that bear these `labels`. At `address` others reach the servers there, which `route` needs."""

    ssh: str | None = None
    ray: str | None = None
    command: str = "clawgauge"
    labels: dict[str, str] = {}
    address: str | None = None


_run_fields = [(name, _HINTS[field] | None, None) for name, field in FIELDS.items()]
_RunTable = msgspec.defstruct("_RunTable", _run_fields, frozen=True, forbid_unknown_fields=True)
_TABLES = {"providers": dict[str, ProviderTable], "jobs": dict[str, Job], "nodes": dict[str, NodeTable]}
_tables = [("run", _RunTable, _RunTable()), *((name, kind, {}) for name, kind in _TABLES.items())]
_FileConfig = msgspec.defstruct("_FileConfig", _tables, frozen=True, forbid_unknown_fields=True)


class Configuration(msgspec.Struct, frozen=True):
    """What counts of a configuration file; `withheld` is, by table, what nobody has vouched for."""

    run: dict[str, Any] = {}
    providers: dict[str, ProviderTable] = {}
    path: Path | None = None
    standing: str = ""
    jobs: dict[str, Job] = {}
    nodes: dict[str, NodeTable] = {}
    withheld: Mapping[str, frozenset[str]] = MappingProxyType(dict.fromkeys(("run", *_TABLES), frozenset()))

    @property
    def folder(self) -> Path:
        """What the paths in the file are relative to."""
        return self.path.parent if self.path else Path()

    def under(self, said: Mapping[str, Any], wanted: Collection[str] = ()) -> dict[str, Any]:
        """What counts of `[run]` under these words of the command line; stops if what is `wanted` was withheld."""
        if withheld := sorted(self.withheld["run"].intersection(wanted)):
            flags = ", ".join(flag_of(FIELDS[name]) for name in withheld)
            what = ", ".join(withheld).replace("suites", "suites (outside this folder)")
            raise ConfigError(f"[run] {what} of {self.why_withheld()}, or say {flags} yourself")
        own = dict(self.run)
        own |= {name: str(self.folder / own[name]) for name in ("prices", "in_context") if own.get(name)}
        return {**own, **said}

    def demands(self) -> dict[str, Any]:
        """What `[run]` says that is not harmless."""
        return {name: value for name, value in self.run.items() if FIELDS[name] not in harmless_fields(Settings)}

    def find_node(self, name: str) -> NodeTable:
        if name in self.withheld["nodes"]:
            raise ConfigError(f"[nodes.{name}] of {self.why_withheld()}")
        table = self.nodes.get(name)
        if table is None or not _NODE_NAME.fullmatch(name) or bool(table.ssh) == bool(table.ray):
            known = f"known: {', '.join(self.nodes)}" if self.nodes else "none is known yet"
            needs = f'[nodes.{name}] with ssh = "HOST" or ray = "HEAD:PORT"'
            raise ConfigError(f"there is no node {name!r} ({known}): clawgauge.toml needs {needs}")
        return table

    def why_withheld(self) -> str:
        return f"{DEFAULT_NAME} here is {self.standing}: read it, then run `clawgauge trust`, or name it with --config"


def read_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """The file that was named, else ./clawgauge.toml where there is one, else nothing."""
    if path is not None:
        return read_file(path, "named with --config")[0]
    here = Path(DEFAULT_NAME)
    if not os.path.lexists(here):
        return Configuration()
    found, sha256 = read_file(here, "trusted")
    trusted_sha256 = read_trusted(environ).get(place_of(here))
    if trusted_sha256 == sha256:
        return found
    # An untrusted file may say what is harmless of `[run]`, and has no other table. It names suites beside it: what
    # lies elsewhere is not for whoever wrote it to have asked.
    demands = found.demands() | ({} if all(map(_is_here, found.run.get("suites", []))) else {"suites": None})
    kept = {name: value for name, value in found.run.items() if name not in demands}
    standing = "changed since it was trusted" if trusted_sha256 else "not trusted"
    withheld = {"run": frozenset(demands)} | {name: frozenset(getattr(found, name)) for name in _TABLES}
    return Configuration(run=kept, path=here, standing=standing, withheld=withheld)


def _is_here(ref: str) -> bool:
    with suppress(OSError, ValueError, RuntimeError):
        return not ref.startswith("~") and Path(ref).resolve().is_relative_to(Path().resolve())
    return False


def read_file(path: Path, standing: str = "") -> tuple[Configuration, str]:
    """A file, and the hash of what was read, from one reading."""
    file: Any
    file, raw = read_toml(path, _FileConfig, "configuration", check=partial(_refuse_keys, path))
    said = {name: value for name in FIELDS if (value := getattr(file.run, name)) is not None}
    found = Configuration(said, file.providers, path, standing, jobs=file.jobs, nodes=file.nodes)
    return found, hashlib.sha256(raw).hexdigest()


def _refuse_keys(path: Path, tables: Mapping[str, Any]) -> None:
    """A key in the file, at any depth of a provider's table: told in a sentence in which it is not echoed."""
    providers = tables.get("providers")
    left = list(providers.items()) if isinstance(providers, dict) else []
    while left:
        name, value = left.pop()
        if isinstance(value, dict) and (field := next((field for field in _KEY_FIELDS if field in value), None)):
            how = 'put the key in an environment variable and name it: api_key_env = "MY_KEY"'
            raise ConfigError(f"{path}: [providers.{name}] holds {field!r}; {how}")
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        left += [(name, each) for each in inner]


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """`$XDG_STATE_HOME/clawgauge`, else in `~/.local/state`; None where the user has no folder for it."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
    if not state.is_absolute():
        state = home / ".local" / "state"
    return state / "clawgauge" if state.is_absolute() else None


def read_trusted(environ: Mapping[str, str]) -> dict[str, str]:
    """Every trusted place with its hash. A list that others could have written is refused."""
    folder = state_folder(environ)
    if folder is None or not (path := folder / _TRUSTED).exists():
        return {}
    try:
        for place in (path, folder) if hasattr(os, "geteuid") else ():
            found = place.stat()
            if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ValueError(f"others can write to {place}")
        found_list = msgspec.json.decode(read_small_file(path, _MAX_TRUSTED_BYTES, "it is over 4 MiB"), type=_Trusted)
        return dict(found_list.files)
    except (UnfitFile, OSError, ValueError) as fault:
        why = f"the list of trusted files {path} cannot be used ({fault})"
        raise ConfigError(f"{why}: remove it and trust your files again") from None


def write_trusted(environ: Mapping[str, str], entries: dict[str, str]) -> None:
    folder = state_folder(environ)
    if folder is None:
        raise ConfigError("there is no folder to keep trusted files in: set HOME, or XDG_STATE_HOME")
    content = msgspec.json.format(msgspec.json.encode(_Trusted(entries)), indent=2)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(folder / _TRUSTED, 0o600) as file:
            file.write(content)
    except OSError as fault:
        raise DiskFailure(f"cannot keep the list of trusted files {folder / _TRUSTED}: {fault.strerror}") from fault


def place_of(file: Path) -> str:
    """Where a file is: its folder's real path, but its own name as it stands, so that a link is a place of its own."""
    try:
        return os.fspath(file.parent.resolve() / file.name)
    except (OSError, ValueError, RuntimeError) as fault:
        raise ConfigError(f"cannot tell where {file} is: {getattr(fault, 'strerror', None) or fault}") from None
