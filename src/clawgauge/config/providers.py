"""Whom a run asks: where providers are and which keys they take, target patterns; and which values nobody may see."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from clawgauge.config import local_servers
from clawgauge.config.settings import Configuration, ProviderTable
from clawgauge.environment import secrets_of_address, secrets_of_settings, secrets_of_variable
from clawgauge.errors import ConfigError, TargetError
from clawgauge.providers.base import ProviderSettings, provider_types, unknown_provider
from clawgauge.records import THINKING_LEVELS, Target
from clawgauge.registry import OLLAMA_PORT, PROVIDER_TYPES, find_type

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXAMPLE = "for example ollama_openai:llama3.2:3b or openai_responses:gpt-5-codex@high"
_PASSED_ON = ("extra_body", "command", "chat_template_file", "context", "keep_alive")
_MIN_CHARS = 6
Tell: TypeAlias = Callable[[str], None]
Environ: TypeAlias = Mapping[str, str]


def provider_settings(
    configuration: Configuration, environ: Environ, tell: Tell, named: Collection[str] | None = None
) -> dict[str, ProviderSettings]:
    """Settings of every provider a target may name. One that an untrusted file has a table for is not to be had: its
    own address would not be what was meant. Where all that are `named` are built in, plug-ins are not looked for."""
    own, withheld = configuration.providers, configuration.withheld["providers"]
    types = {table.type or name for name, table in own.items()}
    wanted = None if named is None else types | (set(named) - set(own) - withheld)
    known = list(PROVIDER_TYPES)
    if wanted is None or not wanted <= set(PROVIDER_TYPES):
        known = provider_types()
    tables = {**{name: ProviderTable() for name in known}, **own}
    settings = {name: _settings(name, table, known, environ, tell) for name, table in tables.items()}
    for name in withheld:
        settings[name] = ProviderSettings(name, name, unusable=f"[providers.{name}] of {configuration.why_withheld()}")
    return settings


def _settings(name: str, table: ProviderTable, known: list[str], environ: Environ, tell: Tell) -> ProviderSettings:
    kind, place = table.type or name, f"[providers.{name}]"
    if kind not in known:
        hint = "" if table.type else '; add type = "openai_chat"'
        raise ConfigError(f"{place}: {unknown_provider(kind, known)}{hint}")
    if ":" in name or not name.strip():
        raise ConfigError(f"[providers.{name!r}]: a provider's name cannot be empty or hold a colon")
    if table.api_key_env is not None and not _VARIABLE_NAME.fullmatch(table.api_key_env):
        how = "put the key into a variable and write that variable's name"
        raise ConfigError(f"{place}: api_key_env is not the name of an environment variable; {how}")
    if table.chat_template_file is not None and kind != "embedded":
        raise ConfigError(f"{place}: chat_template_file is for the embedded server; {kind} has its own")
    if table.keep_alive is not None and kind != "ollama":
        raise ConfigError(f'{place}: keep_alive is for Ollama\'s own API, type = "ollama"; {kind} takes none')
    base_url, unusable = _find_address(name, kind, table, environ)
    key_env = table.api_key_env or _find_key_variable(name, kind, table, environ, base_url)
    extra = {name: getattr(table, name) for name in _PASSED_ON} | {"local": bool(table.local)}
    key = environ.get(key_env, "").strip() or None if key_env else None
    return ProviderSettings(name, kind, base_url, key, key_env, extra, environ, tell=tell, unusable=unusable)


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
        is_in_environment = bool(environ.get(vendor.address_variable, "").strip()) and base_url is not None
        if has_own_address or not is_in_environment or not environ.get(vendor.key_variable):
            return None
    elif table.base_url is not None and not vendor.is_address(table.base_url):
        return None
    return vendor.key_variable


def _find_address(name: str, kind: str, table: ProviderTable, environ: Environ) -> tuple[str | None, str | None]:
    """The address, and why there is none to be had: a bad variable is the trouble of those who need it alone."""
    address = table.base_url
    provider_type = find_type(kind)
    vendor = provider_type.vendor
    if not address and provider_type.is_ollama:
        try:
            address = ollama_base_url(environ)
        except ConfigError as fault:
            return None, str(fault)
    elif not address and vendor is not None and provider_type.uses_vendor_variables:
        address = environ.get(vendor.address_variable, "").strip()
        if not address and provider_type.is_any_server and name != kind:
            raise ConfigError(f'[providers.{name}] says not where it is: add base_url = "http://localhost:8000/v1"')
        is_list_replaced = bool(environ.get(local_servers.VARIABLE, "").strip())
        if not address and provider_type.is_any_server and is_list_replaced:
            return _find_replaced_default(environ)
    if not address:
        return None, None
    if local_servers.is_http_address(address):
        return address, None
    why = f"the address of {name} is not an http(s) URL: give one like http://localhost:8080/v1"
    if table.base_url:
        raise ConfigError(why)
    return None, why


def _find_replaced_default(environ: Environ) -> tuple[str | None, str | None]:
    """The address of `openai_chat` where the user has replaced the list of local servers, or why there is none."""
    try:
        servers = local_servers.local_servers(environ)
    except ConfigError as fault:
        return None, str(fault)
    if "llamacpp" in servers:
        return servers["llamacpp"], None
    how = "set OPENAI_BASE_URL, or give it a base_url in clawgauge.toml"
    return None, f"openai_chat has no address, because {local_servers.VARIABLE} names no llamacpp: {how}"


def ollama_base_url(environ: Environ) -> str | None:
    """`OLLAMA_OPENAI_BASE` as it stands, else `OLLAMA_HOST` in any of the forms Ollama itself accepts."""
    if base := environ.get("OLLAMA_OPENAI_BASE", "").strip():
        return base
    host = environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return None
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        asked_port = parts.port
    except ValueError:
        raise ConfigError("OLLAMA_HOST is not an address: give one like 127.0.0.1:11434, or unset it") from None
    # A server told to listen everywhere is reached on this machine.
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # compared, not bound
    name = everywhere.get(parts.hostname or "", parts.hostname or "")
    port = asked_port or (443 if parts.scheme == "https" else OLLAMA_PORT)
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}/v1"


class TargetPattern(NamedTuple):
    """One `-t`. `excludes` is a leading `!`; a model with `*`, `?` or `[` matches what the provider lists."""

    target: Target
    excludes: bool = False
    is_wild: bool = False


def parse_target(text: str, providers: Collection[str]) -> TargetPattern:
    excludes = text.startswith("!")
    provider, colon, rest = text.removeprefix("!").partition(":")
    if not colon or not provider or not rest:
        raise TargetError(f"target {text!r} is not PROVIDER:MODEL[@THINKING]; {EXAMPLE}")
    if provider not in providers:
        raise TargetError(f"target {text!r}: {unknown_provider(provider, sorted(providers))}")
    model, at, level = rest.rpartition("@")
    if at and not (level in THINKING_LEVELS and model):
        use = f"use one of {', '.join(THINKING_LEVELS)}, or leave out the @"
        raise TargetError(f"target {text!r}: {level!r} is not a thinking level; {use}")
    target = Target(provider, model, level) if at else Target(provider, rest)
    return TargetPattern(target, excludes, is_wild=not set("*?[").isdisjoint(target.model))


def apply_patterns(
    patterns: Sequence[TargetPattern], listed_models: Mapping[str, Sequence[str]]
) -> list[Target]:
    """Expand patterns against what providers list, take out exclusions, drop doubles, keep the order."""
    chosen: dict[Target, None] = {}
    for pattern in patterns:
        if pattern.excludes:
            continue
        wanted = pattern.target
        models: Sequence[str] = [wanted.model]
        if pattern.is_wild:
            listed = listed_models.get(wanted.provider, [])
            models = [model for model in listed if fnmatch.fnmatchcase(model, wanted.model)]
        for model in models:
            chosen[Target(wanted.provider, model, wanted.thinking_level)] = None
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
    """Every secret value, and the words by which a user knows it: the variable's name, or the address it is in."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        for secret in secrets_of_variable(name, value):
            found[secret.value] = f"the address in {name}" if secret.in_address else name
    for provider, setting in settings.items():
        if given := {name: value for name, value in setting.extra.items() if value}:
            found |= dict.fromkeys(secrets_of_settings(given), f"a setting of {provider}")
        if setting.base_url:
            found |= dict.fromkeys(secrets_of_address(setting.base_url), f"the address of {provider}")
        if setting.api_key:
            found[setting.api_key] = setting.api_key_env or f"the key of {provider}"
    # Numbers are never secrets: `MAX_TOKENS=100000` is no token.
    return {value: origin for value, origin in found.items() if len(value) >= _MIN_CHARS and not value.isdecimal()}
