"""Flags, environment and clawgauge.toml made into one `Settings`, each option checked.

The long options of `run` and `[run]` of the file are the same words. A key is named in the file, never written. A file
that nobody has named counts in full only where the user has vouched for it, by place and content: a link elsewhere to
it, a copy of it and a changed one are not trusted.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.records import HARMLESS, Harmless, Job, Option, RunOptions
from clawgauge.small_file import UnfitFile, read_small_file, read_toml, replacing

DEFAULT_NAME = "clawgauge.toml"
DEFAULT_RUNS_DIR = "runs"
_MAX_TRUSTED_BYTES = 4 << 20
_KEY_FIELDS = ("api_key", "key", "token", "secret", "password")


class Settings(RunOptions, frozen=True, kw_only=True):
    """All that flags, environment and file decide of a run: the options that are recorded, and these that are not.

    A field's declaration says everything about it: its default, its bounds, whether an untrusted file may set it.
    """

    targets: list[str] = []
    suites: Harmless[list[str]] = []
    full: Harmless[bool] = False
    prices: str | None = None
    runs_dir: str = DEFAULT_RUNS_DIR
    fail_under: Harmless[Annotated[float | None, Option(0, 1, "a rate from 0 to 1")]] = None


def harmless_fields(settings: type) -> frozenset[str]:
    """The fields that are declared harmless; one that is not declared is not."""
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(name for name, hint in hints.items() if HARMLESS in get_args(hint)[1:])


_HINTS = get_type_hints(Settings, include_extras=True)
OPTIONS: dict[str, Option] = {
    field: next((extra for extra in get_args(hint)[1:] if isinstance(extra, Option)), Option())
    for field, hint in _HINTS.items()
}
"""What is declared of each field of `Settings`."""
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
    """The long option of a field."""
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


_run_fields = [(name, _HINTS[field] | None, None) for name, field in FIELDS.items()]
_RunTable = msgspec.defstruct("_RunTable", _run_fields, frozen=True, forbid_unknown_fields=True)
_tables = [("run", _RunTable, _RunTable()), ("providers", dict[str, ProviderTable], {}), ("jobs", dict[str, Job], {})]
_FileConfig = msgspec.defstruct("_FileConfig", _tables, frozen=True, forbid_unknown_fields=True)


class Configuration(msgspec.Struct, frozen=True):
    """What counts of a configuration file, and what was withheld because nobody has vouched for it.

    `run` is what `[run]` says. `withheld_run` are options of it, `withheld_providers` and `withheld_jobs` names of
    tables; all are empty for a file the user has named or trusted.
    """

    run: dict[str, Any] = {}
    providers: dict[str, ProviderTable] = {}
    path: Path | None = None
    standing: str = ""
    withheld_run: frozenset[str] = frozenset()
    withheld_providers: frozenset[str] = frozenset()
    jobs: dict[str, Job] = {}
    withheld_jobs: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """What the paths in the file are relative to."""
        return self.path.parent if self.path else Path()

    def under(self, said: Mapping[str, Any], wanted: Collection[str] = ()) -> dict[str, Any]:
        """What counts of `[run]` under these words of the command line, which win.

        Stops where one of the options that are `wanted` of it was withheld: the user may well expect it.
        """
        if withheld := sorted(self.withheld_run.intersection(wanted)):
            flags = ", ".join(flag_of(FIELDS[name]) for name in withheld)
            raise ConfigError(f"[run] {', '.join(withheld)} of {self.why_withheld()}, or say {flags} yourself")
        own = dict(self.run)
        if own.get("prices"):
            own["prices"] = str(self.folder / own["prices"])
        return {**own, **said}

    def demands(self) -> dict[str, Any]:
        """What `[run]` says that is not harmless."""
        harmless = harmless_fields(Settings)
        return {name: value for name, value in self.run.items() if FIELDS[name] not in harmless}

    def why_withheld(self) -> str:
        """What to do about what was withheld."""
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
    # It names suites beside it: what lies elsewhere is not for whoever wrote it to have asked.
    folder = Path().resolve()
    for ref in found.run.get("suites", []):
        try:
            far = ref.startswith("~") or not (folder / ref).resolve().is_relative_to(folder)
        except (OSError, ValueError, RuntimeError):
            far = True
        if far:
            raise ConfigError(
                f"{DEFAULT_NAME} here is not trusted and names the suite {ref!r} outside this folder: "
                "name it with -s, or run `clawgauge trust`"
            )
    # An untrusted file may say what is harmless of `[run]`, and has no other table.
    demands = found.demands()
    return Configuration(
        run={name: value for name, value in found.run.items() if name not in demands},
        path=here,
        standing="changed since it was trusted" if trusted_sha256 else "not trusted",
        withheld_run=frozenset(demands),
        withheld_providers=frozenset(found.providers),
        withheld_jobs=frozenset(found.jobs),
    )


def read_file(path: Path, standing: str = "") -> tuple[Configuration, str]:
    """A file, all of it, and the hash of what was read, from one reading."""
    file: Any
    file, raw = read_toml(path, _FileConfig, "configuration", check=partial(_refuse_keys, path))
    said = {name: value for name in FIELDS if (value := getattr(file.run, name)) is not None}
    return Configuration(said, file.providers, path, standing, jobs=file.jobs), hashlib.sha256(raw).hexdigest()


def _refuse_keys(path: Path, tables: Mapping[str, Any]) -> None:
    """A key in the file, at any depth of a provider's table: told in a sentence in which it is not echoed."""
    providers = tables.get("providers")
    left = list(providers.items()) if isinstance(providers, dict) else []
    while left:
        name, value = left.pop()
        if isinstance(value, dict) and (field := next((field for field in _KEY_FIELDS if field in value), None)):
            raise ConfigError(
                f"{path}: [providers.{name}] holds {field!r}; "
                'put the key in an environment variable and name it: api_key_env = "MY_KEY"'
            )
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        left += [(name, each) for each in inner]


class _Trusted(msgspec.Struct, forbid_unknown_fields=True):
    """trusted.json: the SHA-256 of each file, by its absolute path."""

    files: dict[str, str] = {}


def _list_path(environ: Mapping[str, str]) -> Path | None:
    """`$XDG_STATE_HOME/clawgauge/trusted.json`, else in `~/.local/state`; None where the user has no folder for it."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
    if not state.is_absolute():
        state = home / ".local" / "state"
    return state / "clawgauge" / "trusted.json" if state.is_absolute() else None


def read_trusted(environ: Mapping[str, str]) -> dict[str, str]:
    """Every trusted place with its hash. A list that others could have written is refused."""
    path = _list_path(environ)
    if path is None or not path.exists():
        return {}
    try:
        for place in (path, path.parent) if hasattr(os, "geteuid") else ():
            found = place.stat()
            if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ValueError(f"others can write to {place}")
        return msgspec.json.decode(read_small_file(path, _MAX_TRUSTED_BYTES, "it is over 4 MiB"), type=_Trusted).files
    except (UnfitFile, OSError, ValueError) as fault:
        raise ConfigError(
            f"the list of trusted files {path} cannot be used ({fault}): remove it and trust your files again"
        ) from None


def write_trusted(environ: Mapping[str, str], entries: dict[str, str]) -> None:
    """Put the list in place at one stroke, readable by the user alone."""
    path = _list_path(environ)
    if path is None:
        raise ConfigError("there is no folder to keep trusted files in: set HOME, or XDG_STATE_HOME")
    content = msgspec.json.format(msgspec.json.encode(_Trusted(entries)), indent=2)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path, 0o600) as file:
            file.write(content)
    except OSError as fault:
        raise DiskFailure(f"cannot keep the list of trusted files {path}: {fault.strerror}") from fault


def place_of(file: Path) -> str:
    """Where a file is: its folder's real path, but its own name as it stands, so that a link is a place of its own."""
    try:
        return os.fspath(file.parent.resolve() / file.name)
    except (OSError, ValueError, RuntimeError) as fault:
        raise ConfigError(f"cannot tell where {file} is: {getattr(fault, 'strerror', None) or fault}") from None
