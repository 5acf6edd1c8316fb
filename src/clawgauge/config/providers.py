"""Whom a run asks: where providers are, which keys they take, and how targets are named.

And which values nobody may see.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from clawgauge.config import local_servers
from clawgauge.config.settings import Configuration, ProviderTable
from clawgauge.environment import secrets_of_address, secrets_of_settings, secrets_of_variable
from clawgauge.errors import ConfigError, TargetError
from clawgauge.providers.base import ProviderSettings, provider_types, unknown_provider
from clawgauge.records import THINKING_LEVELS, Target
from clawgauge.registry import (
    DEFAULT_CHAT_SERVER,
    OLLAMA_PORT,
    OPENAI,
    OPENAI_CHAT,
    PROVIDER_TYPES,
    find_type,
)

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXAMPLE = "for example ollama_openai:llama3.2:3b or openai_responses:gpt-5-codex@high"
_MIN_SECRET_CHARS = 6
Tell: TypeAlias = Callable[[str], None]
Environ: TypeAlias = Mapping[str, str]


def provider_settings(
    configuration: Configuration,
    environ: Environ,
    tell: Tell,
    named: Collection[str] | None = None,
) -> dict[str, ProviderSettings]:
    """Settings of every provider a target may name.

    One that an untrusted file has a table for is not to be had: its own address would not be what
    was meant. Where all that are `named` are built in, plug-ins are not looked for.
    """
    withheld = configuration.withheld["providers"]
    types = _known_types(configuration, named)
    tables = {name: ProviderTable() for name in types}
    tables.update(configuration.providers)
    settings = {}
    for name, table in tables.items():
        settings[name] = _settings(name, table, types, environ, tell)
    for name in withheld:
        unusable = f"[providers.{name}] of {configuration.why_withheld()}"
        settings[name] = ProviderSettings(name, name, unusable=unusable)
    return _connect_agents(settings)


def _connect_agents(settings: Mapping[str, ProviderSettings]) -> dict[str, ProviderSettings]:
    """The settings; those of agent programs with the providers that they may be put before."""
    upstreams = {}
    for name, provider in settings.items():
        if find_type(provider.type).wires and not find_type(provider.type).is_agent:
            upstreams[name] = provider
    connected = {}
    for name, provider in settings.items():
        if find_type(provider.type).is_agent:
            provider = replace(provider, upstreams=upstreams)
        connected[name] = provider
    return connected


def leave_out_second_names(settings: Mapping[str, ProviderSettings]) -> dict[str, ProviderSettings]:
    """The providers without the bare chat server where another one has its address.

    One server is one provider: a model on llama.cpp's usual port is not to be had twice.
    """
    addresses = set()
    for provider in settings.values():
        if provider.name != OPENAI_CHAT.name and provider.type == OPENAI_CHAT.name:
            addresses.add(_comparable_address(provider))
    chosen = dict(settings)
    bare = chosen.get(OPENAI_CHAT.name)
    if bare is not None and bare.unusable is None and _comparable_address(bare) in addresses:
        del chosen[OPENAI_CHAT.name]
    return chosen


def _comparable_address(provider: ProviderSettings) -> str:
    """The address of a provider, the same for every way to write this machine's name."""
    address = provider.base_url or find_type(provider.type).default_address
    return address.rstrip("/").replace("://localhost", "://127.0.0.1", 1)


def _known_types(configuration: Configuration, named: Collection[str] | None) -> list[str]:
    """The built-in provider types, and those of plug-ins where one of these may be meant."""
    if named is not None:
        needed = {table.type or name for name, table in configuration.providers.items()}
        needed |= set(named) - set(configuration.providers) - configuration.withheld["providers"]
        if needed <= set(PROVIDER_TYPES):
            return list(PROVIDER_TYPES)
    return provider_types()


def _settings(
    name: str, table: ProviderTable, known_types: list[str], environ: Environ, tell: Tell
) -> ProviderSettings:
    """The settings of one provider; raises `ConfigError` for a table that cannot be used."""
    provider_type = table.type or name
    _check_table(name, provider_type, table, known_types)
    base_url, unusable = _find_address(name, provider_type, table, environ)
    key_variable = table.api_key_env
    if not key_variable:
        key_variable = _find_key_variable(name, provider_type, table, environ, base_url)
    api_key = None
    if key_variable:
        api_key = environ.get(key_variable, "").strip() or None
    extra = {
        "extra_body": table.extra_body,
        "command": table.command,
        "chat_template_file": table.chat_template_file,
        "context": table.context,
        "keep_alive": table.keep_alive,
        "local": bool(table.local),
        "stated_local": table.local,
    }
    return ProviderSettings(
        name=name,
        type=provider_type,
        base_url=base_url,
        api_key=api_key,
        api_key_env=key_variable,
        extra=extra,
        environ=environ,
        notify=tell,
        unusable=unusable,
    )


def _check_table(
    name: str, provider_type: str, table: ProviderTable, known_types: list[str]
) -> None:
    title = f"[providers.{name}]"
    if provider_type not in known_types:
        hint = "" if table.type else f'; add type = "{OPENAI_CHAT.name}"'
        raise ConfigError(f"{title}: {unknown_provider(provider_type, known_types)}{hint}")
    if ":" in name or not name.strip():
        raise ConfigError(
            f"[providers.{name!r}]: a provider's name cannot be empty or hold a colon"
        )
    if table.api_key_env is not None and not _VARIABLE_NAME.fullmatch(table.api_key_env):
        raise ConfigError(
            f"{title}: api_key_env is not the name of an environment variable; "
            "put the key into a variable and write that variable's name"
        )
    own_settings = find_type(provider_type).own_settings
    if table.chat_template_file is not None and "chat_template_file" not in own_settings:
        raise ConfigError(
            f"{title}: chat_template_file is for the embedded server; {provider_type} has its own"
        )
    if table.keep_alive is not None and "keep_alive" not in own_settings:
        raise ConfigError(
            f'{title}: keep_alive is for Ollama\'s own API, type = "ollama"; '
            f"{provider_type} takes none"
        )


def _find_key_variable(
    name: str, kind: str, table: ProviderTable, environ: Environ, base_url: str | None
) -> str | None:
    """The vendor's variable, where its key may be sent to this provider.

    A vendor's key goes to the vendor, and to where the same environment points: a chat server of
    the user's own takes OpenAI's if it is set. An address from a file gets the key that its table
    names, or none.
    """
    provider_type = find_type(kind)
    vendor = provider_type.vendor
    if vendor is None or not provider_type.uses_vendor_variables:
        return None
    if provider_type.is_any_server:
        has_own_address = name != kind or table.base_url is not None
        is_in_environment = (
            bool(environ.get(vendor.address_variable, "").strip()) and base_url is not None
        )
        key_variable = vendor.find_key_variable(environ)
        if has_own_address or not is_in_environment or not environ.get(key_variable):
            return None
    elif table.base_url is not None and not vendor.is_address(table.base_url):
        return None
    return vendor.find_key_variable(environ)


def _find_address(
    name: str, kind: str, table: ProviderTable, environ: Environ
) -> tuple[str | None, str | None]:
    """The address, and why there is none to be had.

    None and None is the type's own address. A bad variable is the trouble of those who need it
    alone; a bad table is refused.
    """
    if table.base_url:
        if not local_servers.is_http_address(table.base_url):
            raise ConfigError(_no_address(name))
        return table.base_url, None
    provider_type = find_type(kind)
    vendor = provider_type.vendor
    address = None
    if provider_type.is_ollama:
        try:
            address = ollama_base_url(environ)
        except ConfigError as fault:
            return None, str(fault)
    elif vendor is not None and provider_type.uses_vendor_variables:
        address = environ.get(vendor.address_variable, "").strip()
        if not address and provider_type.is_any_server:
            if name != kind:
                raise ConfigError(
                    f"[providers.{name}] says not where it is: "
                    'add base_url = "http://localhost:8000/v1"'
                )
            if environ.get(local_servers.VARIABLE, "").strip():
                return _find_replaced_default(environ)
    if not address:
        return None, None
    if not local_servers.is_http_address(address):
        return None, _no_address(name)
    return address, None


def _no_address(name: str) -> str:
    return f"the address of {name} is not an http(s) URL: give one like http://localhost:8080/v1"


def _find_replaced_default(environ: Environ) -> tuple[str | None, str | None]:
    """The address of `openai_chat`, or why there is none, with the user's own list of servers."""
    try:
        servers = local_servers.local_servers(environ)
    except ConfigError as fault:
        return None, str(fault)
    if DEFAULT_CHAT_SERVER in servers:
        return servers[DEFAULT_CHAT_SERVER], None
    return (
        None,
        f"{OPENAI_CHAT.name} has no address, because {local_servers.VARIABLE} names no "
        f"{DEFAULT_CHAT_SERVER}: set {OPENAI.address_variable}, "
        "or give it a base_url in clawgauge.toml",
    )


def ollama_base_url(environ: Environ) -> str | None:
    """`OLLAMA_OPENAI_BASE` as it stands, else `OLLAMA_HOST` in any form that Ollama accepts."""
    base_url = environ.get("OLLAMA_OPENAI_BASE", "").strip()
    if base_url:
        return base_url
    host = environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return None
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        port = parts.port
    except ValueError:
        raise ConfigError(
            "OLLAMA_HOST is not an address: give one like 127.0.0.1:11434, or unset it"
        ) from None
    name = parts.hostname or ""
    # A server told to listen everywhere is reached on this machine.
    if name in ("0.0.0.0", ""):  # noqa: S104  # compared, not bound
        name = "127.0.0.1"
    elif name == "::":
        name = "::1"
    if ":" in name:
        name = f"[{name}]"
    if not port:
        port = 443 if parts.scheme == "https" else OLLAMA_PORT
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/')}/v1"


class TargetPattern(NamedTuple):
    """One `-t`."""

    target: Target
    excludes: bool = False
    """Whether it has a leading `!`."""
    is_wild: bool = False
    """Whether its model has a `*`, `?` or `[`, and matches what the provider lists."""


def parse_target(text: str, providers: Collection[str]) -> TargetPattern:
    """One `-t` with its provider; raises `TargetError` where it cannot be read."""
    excludes = text.startswith("!")
    provider, colon, rest = text.removeprefix("!").partition(":")
    if not colon or not provider or not rest:
        raise TargetError(f"target {text!r} is not PROVIDER:MODEL[@THINKING]; {EXAMPLE}")
    if provider not in providers:
        raise TargetError(f"target {text!r}: {unknown_provider(provider, sorted(providers))}")
    model, at, level = rest.rpartition("@")
    if at and not (level in THINKING_LEVELS and model):
        levels = ", ".join(THINKING_LEVELS)
        raise TargetError(
            f"target {text!r}: {level!r} is not a thinking level; "
            f"use one of {levels}, or leave out the @"
        )
    target = Target(provider, model, level) if at else Target(provider, rest)
    is_wild = any(character in target.model for character in "*?[")
    return TargetPattern(target, excludes, is_wild)


def apply_patterns(
    patterns: Sequence[TargetPattern], listed_models: Mapping[str, Sequence[str]]
) -> list[Target]:
    """The targets that patterns name, in their order and each once, without those excluded."""
    chosen: dict[Target, None] = {}
    for pattern in patterns:
        if pattern.excludes:
            continue
        pattern_target = pattern.target
        models: Sequence[str] = [pattern_target.model]
        if pattern.is_wild:
            listed = listed_models.get(pattern_target.provider, [])
            models = [model for model in listed if fnmatch.fnmatchcase(model, pattern_target.model)]
        for model in models:
            chosen[Target(pattern_target.provider, model, pattern_target.thinking_level)] = None
    exclusions = [pattern.target for pattern in patterns if pattern.excludes]
    targets = []
    for target in chosen:
        if not any(_is_excluded(target, exclusion) for exclusion in exclusions):
            targets.append(target)
    return targets


def _is_excluded(target: Target, exclusion: Target) -> bool:
    if target.provider != exclusion.provider:
        return False
    # No thinking level in an exclusion means any.
    if exclusion.thinking_level not in (None, target.thinking_level):
        return False
    return fnmatch.fnmatchcase(target.model, exclusion.model)


def find_secrets(settings: Mapping[str, ProviderSettings], environ: Environ) -> dict[str, str]:
    """Every secret value, and how a user knows it: the variable's name, or the address it is in."""
    origins: dict[str, str] = {}
    for name, value in environ.items():
        for secret in secrets_of_variable(name, value):
            origins[secret.value] = f"the address in {name}" if secret.in_address else name
    for provider, provider_settings in settings.items():
        extra = {name: value for name, value in provider_settings.extra.items() if value}
        for secret_value in secrets_of_settings(extra):
            origins[secret_value] = f"a setting of {provider}"
        if provider_settings.base_url:
            for secret_value in secrets_of_address(provider_settings.base_url):
                origins[secret_value] = f"the address of {provider}"
        if provider_settings.api_key:
            key_variable = provider_settings.api_key_env
            origins[provider_settings.api_key] = key_variable or f"the key of {provider}"
    secrets = {}
    for value, origin in origins.items():
        # Numbers are never secrets: `MAX_TOKENS=100000` is no token.
        if len(value) >= _MIN_SECRET_CHARS and not value.isdecimal():
            secrets[value] = origin
    return secrets
