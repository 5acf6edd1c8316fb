"""Where each provider is and which key it takes: environment and file made into settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from clawgauge.config.environment import ollama_base_url
from clawgauge.config.file import FileConfig, ProviderTable
from clawgauge.errors import ConfigError
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.registry import BUILT_IN, provider_types, unknown_provider

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT_KEY_ENV = {"openai_responses": "OPENAI_API_KEY"}


def provider_settings(
    file: FileConfig,
    environ: Mapping[str, str],
    *,
    concurrency: int,
    tell: Callable[[str], None],
    named: Collection[str] | None = None,
) -> dict[str, ProviderSettings]:
    """Settings of every provider a target may name: the installed types, and the tables of the file.

    With `named`, the providers that are wanted, plug-ins are looked for only if one of these is no built-in.
    """
    types = {table.type or name for name, table in file.providers.items()}
    wanted = None if named is None else types | (set(named) - set(file.providers))
    known = list(BUILT_IN) if wanted is not None and wanted <= set(BUILT_IN) else provider_types()
    tables = {**{name: ProviderTable() for name in known}, **file.providers}
    return {
        name: _settings(name, table, known, environ, concurrency=concurrency, tell=tell)
        for name, table in tables.items()
    }


def _settings(
    name: str,
    table: ProviderTable,
    known: list[str],
    environ: Mapping[str, str],
    *,
    concurrency: int,
    tell: Callable[[str], None],
) -> ProviderSettings:
    kind = table.type or name
    if kind not in known:
        wrong = unknown_provider(kind, known)
        raise ConfigError(f"[providers.{name}]: {wrong}" + ("" if table.type else '; add type = "openai_chat"'))
    if ":" in name or not name.strip():
        raise ConfigError(f"[providers.{name!r}]: a provider's name cannot be empty or hold a colon")
    base_url = table.base_url or _address_from_environment(kind, environ)
    if base_url is None and kind == "openai_chat" and name != kind:
        raise ConfigError(f'[providers.{name}] says not where it is: add base_url = "http://localhost:8000/v1"')
    if table.api_key_env is not None and not _VARIABLE_NAME.fullmatch(table.api_key_env):
        raise ConfigError(
            f"[providers.{name}]: api_key_env is not the name of an environment variable; "
            "put the key into a variable and write that variable's name"
        )
    key_env = table.api_key_env or _key_env(kind, environ, custom=name != kind)
    if table.chat_template_file is not None and kind != "embedded":
        raise ConfigError(f"[providers.{name}]: chat_template_file is for the embedded server; {kind} has its own")
    extra = {
        "extra_body": table.extra_body,
        "local": bool(table.local),
        "command": table.command,
        "chat_template_file": table.chat_template_file,
    }
    return ProviderSettings(
        name=name,
        type=kind,
        base_url=_checked_address(name, base_url),
        api_key=environ.get(key_env, "").strip() or None if key_env else None,
        api_key_env=key_env,
        extra=extra,
        environ=environ,
        concurrency=concurrency,
        tell=tell,
    )


def _address_from_environment(kind: str, environ: Mapping[str, str]) -> str | None:
    if kind == "ollama_openai":
        return ollama_base_url(environ)
    if kind in ("openai_responses", "openai_chat"):
        return environ.get("OPENAI_BASE_URL", "").strip() or None
    return None


def _key_env(kind: str, environ: Mapping[str, str], *, custom: bool) -> str | None:
    """OpenAI needs its key; a chat server of the user's takes the same one only if it is set and nothing else is."""
    if kind == "openai_chat" and not custom and environ.get("OPENAI_API_KEY"):
        return "OPENAI_API_KEY"
    return None if custom and kind == "openai_chat" else _DEFAULT_KEY_ENV.get(kind)


def _checked_address(name: str, address: str | None) -> str | None:
    if address is None:
        return None
    parts = urlsplit(address)
    try:
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"the address of {name} is not an http(s) URL: give one like http://localhost:8080/v1")
    return address
