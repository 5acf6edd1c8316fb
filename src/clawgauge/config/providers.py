"""Whom a run asks: where providers are and which keys they take, target patterns; and which values nobody may see."""

from __future__ import annotations

import fnmatch
import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from clawgauge.child_processes import KEY_WORDS
from clawgauge.config.settings import Configuration, ProviderTable
from clawgauge.errors import ConfigError, TargetError
from clawgauge.providers.base import BUILT_IN, ProviderSettings, is_vendor, provider_types, unknown_provider
from clawgauge.records import THINKING_LEVELS, Target
from clawgauge.secrets import is_bare_key, looks_like_key, looks_secret

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXAMPLE = "for example ollama_openai:llama3.2:3b or openai_responses:gpt-5-codex@high"
_VENDORS = {"anthropic_messages": "anthropic", "openai_chat": "openai", "openai_responses": "openai"}
_PASSED_ON = ("extra_body", "command", "chat_template_file", "context", "keep_alive")
_SECRET_NAME = re.compile(rf"(?:{'|'.join(KEY_WORDS)})S?(?=$|[_0-9])", re.IGNORECASE)
# What such a variable names is not itself the secret.
_PLACE_NAME = re.compile(r"_(?:FILE|PATH|DIR|URL|URI|HOST|NAME|ENV|TYPE|MODEL)$", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(r"key|token|secret|password|sig|code|auth", re.IGNORECASE)
_MIN_VARIABLE_CHARS, _MIN_CHARS = 8, 6
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
    known = list(BUILT_IN) if wanted is not None and wanted <= set(BUILT_IN) else provider_types()
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
    # A vendor's key goes to the vendor, and to where the same environment points: a chat server of the user's own takes
    # OpenAI's if it is set. An address from a file gets the key that its table names, or none.
    vendor = _VENDORS.get(kind, "")
    takes_key = bool(vendor) and (table.base_url is None or is_vendor(vendor, table.base_url))
    if kind == "openai_chat":
        takes_key = name == kind and table.base_url is None and base_url is not None
        takes_key = takes_key and bool(environ.get("OPENAI_API_KEY"))
    key_env = table.api_key_env or (f"{vendor.upper()}_API_KEY" if takes_key else None)
    extra = {name: getattr(table, name) for name in _PASSED_ON} | {"local": bool(table.local)}
    key = environ.get(key_env, "").strip() or None if key_env else None
    return ProviderSettings(name, kind, base_url, key, key_env, extra, environ, tell=tell, unusable=unusable)


def _find_address(name: str, kind: str, table: ProviderTable, environ: Environ) -> tuple[str | None, str | None]:
    """The address, and why there is none to be had: a bad variable is the trouble of those who need it alone."""
    address = table.base_url
    if not address and kind in ("ollama", "ollama_openai"):
        try:
            address = ollama_base_url(environ)
        except ConfigError as fault:
            return None, str(fault)
    elif not address and kind in _VENDORS:
        address = environ.get(f"{_VENDORS[kind].upper()}_BASE_URL", "").strip()
        if not address and kind == "openai_chat" and name != kind:
            raise ConfigError(f'[providers.{name}] says not where it is: add base_url = "http://localhost:8000/v1"')
    if not address:
        return None, None
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0:
            return address, None
    why = f"the address of {name} is not an http(s) URL: give one like http://localhost:8080/v1"
    if table.base_url:
        raise ConfigError(why)
    return None, why


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
    port = asked_port or (443 if parts.scheme == "https" else 11434)
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


def apply_patterns(patterns: list[TargetPattern], listed: dict[str, list[str]]) -> list[Target]:
    """Expand patterns against what providers list, take out exclusions, drop doubles, keep the order."""
    chosen: dict[Target, None] = {}
    for wanted, excludes, is_wild in patterns:
        models = listed.get(wanted.provider, []) if is_wild else [wanted.model]
        for model in models if not excludes else ():
            if not is_wild or fnmatch.fnmatchcase(model, wanted.model):
                chosen[Target(wanted.provider, model, wanted.thinking_level)] = None
    for unwanted in (pattern.target for pattern in patterns if pattern.excludes):
        for target in [one for one in chosen if fnmatch.fnmatchcase(one.model, unwanted.model)]:
            # No thinking level in an exclusion means any.
            if target.provider == unwanted.provider and unwanted.thinking_level in (None, target.thinking_level):
                del chosen[target]
    return list(chosen)


def find_secrets(settings: Mapping[str, ProviderSettings], environ: Environ) -> dict[str, str]:
    """Every secret value, and the words by which a user knows it: the variable's name, or the address it is in."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and not _PLACE_NAME.search(name) and len(value) >= _MIN_VARIABLE_CHARS:
            within: Iterable[str] = (value,)
            # Of a JSON document (a service account's credentials) what is secret in it, not its common words.
            if value.lstrip().startswith("{"):
                with suppress(ValueError, RecursionError):
                    within = list(secrets_of_settings(json.loads(value)))
            found |= dict.fromkeys(within, name)
        elif "://" in value or "@" in value:
            # A proxy may be named without its scheme, and still with a password.
            address = value if "://" in value else f"http://{value}"
            found |= dict.fromkeys(_secrets_of_address(address), f"the address in {name}")
    for provider, setting in settings.items():
        if given := {name: value for name, value in setting.extra.items() if value}:
            found |= dict.fromkeys(secrets_of_settings(given), f"a setting of {provider}")
        if setting.base_url:
            found |= dict.fromkeys(_secrets_of_address(setting.base_url), f"the address of {provider}")
        if setting.api_key:
            found[setting.api_key] = setting.api_key_env or f"the key of {provider}"
    # Numbers are never secrets: `MAX_TOKENS=100000` is no token.
    return {value: origin for value, origin in found.items() if len(value) >= _MIN_CHARS and not value.isdecimal()}


def secrets_of_settings(value: Any, name: str = "") -> Iterator[str]:
    """The texts in a JSON-like value that are named like a secret or are a key by their shape."""
    if isinstance(value, str):
        if is_bare_key(value) or (_SECRET_NAME.search(name) and looks_secret(value)):
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from secrets_of_settings(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from secrets_of_settings(item, name)


def _secrets_of_address(address: str) -> Iterator[str]:
    """Credentials in an address, as written, as decoded, and as a request's Basic header carries them."""
    try:
        parts = urlsplit(address)
        user, password = parts.username or "", parts.password or ""
    except ValueError:
        return
    if user or password:
        decoded = f"{unquote(user)}:{unquote(password)}"
        yield from (password, unquote(password), b64encode(decoded.encode("utf-8", "surrogateescape")).decode())
        # A token may stand alone, or beside a word such as x-oauth-basic; a plain login name is no secret.
        if not password or looks_secret(user):
            yield from (user, unquote(user))
    raw = dict(pair.partition("=")[::2] for pair in parts.query.split("&"))
    for name, value in [*raw.items(), *parse_qsl(parts.query)]:
        if _SECRET_PARAMETER.search(name) or looks_like_key(value):
            yield value
    for word in parts.path.split("/"):
        if looks_like_key(unquote(word)):
            yield from (word, unquote(word))
