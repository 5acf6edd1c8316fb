"""clawgauge.toml: further servers, and defaults for `run`. A key is named here, never written.

A file that was named with --config, or trusted with `clawgauge trust`, counts as it stands. One that merely lies in the
current directory may have come with a clone: of it only what `settings` declares harmless counts, and whoever needs
the rest is refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.config.settings import RunSettings, harmless_fields
from clawgauge.config.trust import TrustStore, hash_content
from clawgauge.errors import ConfigError
from clawgauge.toml_file import fit_toml, parse_toml, read_toml_bytes

DEFAULT_NAME = "clawgauge.toml"
_WHAT = "configuration"
_KEY_FIELDS = ("api_key", "key", "token", "secret", "password")


class ProviderTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[providers.NAME]`. `type` may be left out where NAME is itself a provider type."""

    type: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    local: bool | None = None
    command: str | None = None
    chat_template_file: str | None = None
    extra_body: dict[str, Any] = {}


class FileConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    run: RunSettings = RunSettings()
    providers: dict[str, ProviderTable] = {}


class Configuration(msgspec.Struct, frozen=True):
    """What counts of a configuration file, and what was withheld because nobody has vouched for it.

    `withheld_run` are options of `[run]`, `withheld_providers` names of tables; both are empty for a file the user has
    named or trusted. `sha256` is of the very bytes that were read.
    """

    file: FileConfig = FileConfig()
    path: Path | None = None
    sha256: str = ""
    standing: str = ""
    withheld_run: frozenset[str] = frozenset()
    withheld_providers: frozenset[str] = frozenset()

    def why_withheld(self) -> str:
        """What to do about what was withheld."""
        return f"{DEFAULT_NAME} here is {self.standing}: read it, then run `clawgauge trust`, or name it with --config"

    def refuse_withheld(self, options: Collection[str]) -> None:
        """Stop where one of these options of `[run]` would have counted: the user may well expect it."""
        if wanted := sorted(self.withheld_run & set(options)):
            flags = ", ".join("--" + {"targets": "target"}.get(name, name).replace("_", "-") for name in wanted)
            raise ConfigError(f"[run] {', '.join(wanted)} of {self.why_withheld()}, or say {flags} yourself")


def read_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """The file that was named, else ./clawgauge.toml where there is one, else nothing."""
    if path is not None:
        found, sha256 = read_file(path)
        return Configuration(found, path, sha256, "named with --config")
    here = Path(DEFAULT_NAME)
    if not os.path.lexists(here):
        return Configuration()
    found, sha256 = read_file(here)
    store = TrustStore.of(environ)
    if store.trusts(here, sha256):
        return Configuration(found, here, sha256, "trusted")
    standing = "changed since it was trusted" if store.knows(here) else "not trusted"
    return _withhold(Configuration(found, here, sha256, standing))


def read_file(path: Path) -> tuple[FileConfig, str]:
    """A file and the hash of what was read, from one reading."""
    raw = read_toml_bytes(path, _WHAT)
    table = parse_toml(raw, path, _WHAT)
    _refuse_keys(path, table)
    return fit_toml(table, FileConfig, path, _WHAT), hash_content(raw)


def _withhold(whole: Configuration) -> Configuration:
    """What an untrusted file may say: the harmless settings of `[run]`, and no other table."""
    harmless = harmless_fields(RunSettings)
    said = whole.file.run.said()
    kept = {name: value for name, value in said.items() if name in harmless}
    if suites := kept.get("suites"):
        _refuse_far_suites(suites)
    return msgspec.structs.replace(
        whole,
        file=FileConfig(run=RunSettings(**kept)),
        withheld_run=frozenset(said.keys() - harmless),
        withheld_providers=frozenset(whole.file.providers),
    )


def _refuse_far_suites(refs: list[str]) -> None:
    """An untrusted file names suites beside it: what lies elsewhere is not for whoever wrote it to have asked."""
    here = Path().resolve()
    for ref in refs:
        try:
            far = ref.startswith("~") or not (here / ref).resolve().is_relative_to(here)
        except (OSError, ValueError, RuntimeError):
            far = True
        if far:
            raise ConfigError(
                f"{DEFAULT_NAME} here is not trusted and names the suite {ref!r} outside this folder: "
                "name it with -s, or run `clawgauge trust`"
            )


def _refuse_keys(path: Path, table: dict[str, Any]) -> None:
    """A key written into the file gets its own sentence, and is not echoed."""
    providers = table.get("providers")
    for name, provider in (providers if isinstance(providers, dict) else {}).items():
        if (field := _find_key_field(provider)) is not None:
            raise ConfigError(
                f"{path}: [providers.{name}] holds {field!r}; "
                'put the key in an environment variable and name it: api_key_env = "MY_KEY"'
            )


def _find_key_field(value: Any) -> str | None:
    """The first field, at any depth, that is named as keys are."""
    fields = value if isinstance(value, dict) else {}
    inner = fields.values() if fields else value if isinstance(value, list) else ()
    named = (field for field in _KEY_FIELDS if field in fields)
    return next(named, None) or next(filter(None, map(_find_key_field, inner)), None)
