"""clawgauge.toml: further servers, and defaults for `run`. A key is named here, never written."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.config.settings import RunSettings
from clawgauge.errors import ConfigError
from clawgauge.suites.document import has_key_bomb

DEFAULT_NAME = "clawgauge.toml"
_SIZE_CAP_BYTES = 1 << 20
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


def read_file_config(path: Path | None, cwd: Path) -> tuple[FileConfig, Path | None]:
    """The file that was named, else ./clawgauge.toml where there is one, else nothing."""
    chosen = path
    if chosen is None:
        chosen = cwd / DEFAULT_NAME
        if not chosen.is_file():
            return FileConfig(), None
    return _parse(chosen), chosen


def _parse(path: Path) -> FileConfig:
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise ConfigError(f"cannot read the configuration {path}: {fault.strerror}") from fault
    if len(raw) > _SIZE_CAP_BYTES:
        raise ConfigError(f"the configuration {path} is over 1 MiB; it should hold a few tables")
    table = _parse_toml(path, raw)
    _refuse_keys(path, table)
    try:
        return msgspec.convert(table, FileConfig)
    except msgspec.ValidationError as fault:
        raise ConfigError(f"the configuration {path}: {fault}") from fault


def _parse_toml(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig")
        if has_key_bomb(text):
            raise ConfigError(f"the configuration {path} has a key of too many dotted parts; flatten it")
        return tomllib.loads(text)
    # Python's own cap on the digits of a number is a plain ValueError, which the others are kinds of.
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"the configuration {path} is not TOML: {fault}") from fault


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
