"""Whom a run asks: where each provider is and which key it takes, and target strings, patterns and exclusions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from clawgauge.config.settings import Configuration, ProviderTable, ollama_base_url
from clawgauge.errors import ConfigError, TargetError
from clawgauge.providers.base import ProviderSettings, is_vendor
from clawgauge.providers.registry import BUILT_IN, provider_types, unknown_provider
from clawgauge.records import THINKING_LEVELS, Target

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENAI_KEY = "OPENAI_API_KEY"
_WILD = frozenset("*?[")
_EXAMPLE = "for example ollama_openai:llama3.2:3b or openai_responses:gpt-5-codex@high"
_OPENAI_TYPES = ("openai_responses", "openai_chat")


def provider_settings(
    configuration: Configuration,
    environ: Mapping[str, str],
    *,
    concurrency: int,
    tell: Callable[[str], None],
    named: Collection[str] | None = None,
) -> dict[str, ProviderSettings]:
    """Settings of every provider a target may name: the installed types, and the tables of the file.

    With `named`, the providers that are wanted, plug-ins are looked for only if one of these is no built-in. A provider
    that an untrusted file has a table for is there, but not to be had: its own address would not be what was meant.
    """
    own, withheld = configuration.providers, configuration.withheld_providers
    types = {table.type or name for name, table in own.items()}
    wanted = None if named is None else types | (set(named) - set(own) - withheld)
    known = list(BUILT_IN) if wanted is not None and wanted <= set(BUILT_IN) else provider_types()
    tables = {**{name: ProviderTable() for name in known}, **own}
    settings = {
        name: _settings(name, table, known, environ, concurrency=concurrency, tell=tell)
        for name, table in tables.items()
    }
    for name in withheld:
        why = f"[providers.{name}] of {configuration.why_withheld()}"
        settings[name] = ProviderSettings(name, name, unusable=why)
    return settings


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
    if table.api_key_env is not None and not _VARIABLE_NAME.fullmatch(table.api_key_env):
        raise ConfigError(
            f"[providers.{name}]: api_key_env is not the name of an environment variable; "
            "put the key into a variable and write that variable's name"
        )
    if table.chat_template_file is not None and kind != "embedded":
        raise ConfigError(f"[providers.{name}]: chat_template_file is for the embedded server; {kind} has its own")
    base_url, unusable = _find_address(name, kind, table, environ)
    key_env = table.api_key_env or _default_key_env(name, kind, table, base_url, environ)
    extra = {
        "extra_body": table.extra_body,
        "local": bool(table.local),
        "command": table.command,
        "chat_template_file": table.chat_template_file,
        "context": table.context,
    }
    return ProviderSettings(
        name=name,
        type=kind,
        base_url=base_url,
        api_key=environ.get(key_env, "").strip() or None if key_env else None,
        api_key_env=key_env,
        extra=extra,
        environ=environ,
        concurrency=concurrency,
        tell=tell,
        unusable=unusable,
    )


def _find_address(
    name: str, kind: str, table: ProviderTable, environ: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """The address, and why there is none to be had: a bad variable is the trouble of those who need it alone."""
    if table.base_url:
        return _checked_address(name, table.base_url), None
    try:
        found = ollama_base_url(environ) if kind == "ollama_openai" else None
        if kind in _OPENAI_TYPES:
            found = environ.get("OPENAI_BASE_URL", "").strip() or None
        base_url = found and _checked_address(name, found)
    except ConfigError as fault:
        return None, str(fault)
    if base_url is None and kind == "openai_chat" and name != kind:
        raise ConfigError(f'[providers.{name}] says not where it is: add base_url = "http://localhost:8000/v1"')
    return base_url, None


def _default_key_env(
    name: str, kind: str, table: ProviderTable, base_url: str | None, environ: Mapping[str, str]
) -> str | None:
    """The key of a provider that names none: OpenAI's goes to OpenAI, and to where the same environment points.

    An address from a file gets the key that its table names, or none.
    """
    if kind == "openai_responses":
        return _OPENAI_KEY if table.base_url is None or is_vendor("openai", table.base_url) else None
    # A chat server of the user's own takes the key only if one is set.
    from_environment = kind == name == "openai_chat" and table.base_url is None and base_url is not None
    return _OPENAI_KEY if from_environment and environ.get(_OPENAI_KEY) else None


def _checked_address(name: str, address: str) -> str:
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"the address of {name} is not an http(s) URL: give one like http://localhost:8080/v1")
    return address


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """One `-t`. `excludes` is a leading `!`; a model with `*`, `?` or `[` matches what the provider lists."""

    target: Target
    excludes: bool = False

    @property
    def is_wild(self) -> bool:
        return bool(_WILD & set(self.target.model))

    def matches(self, other: Target) -> bool:
        """Whether an expanded target falls under this pattern. No thinking level in an exclusion means any."""
        same_level = self.target.thinking_level in (None, other.thinking_level)
        return (
            self.target.provider == other.provider
            and same_level
            and fnmatch.fnmatchcase(other.model, self.target.model)
        )


def provider_name(text: str) -> str:
    """The provider that a target's text names, right or wrong."""
    return text.removeprefix("!").partition(":")[0]


def parse_target(text: str, providers: Collection[str]) -> TargetPattern:
    """Read one target. Raises `TargetError` naming what is wrong and what would be right."""
    excludes = text.startswith("!")
    provider, colon, rest = text.removeprefix("!").partition(":")
    if not colon or not provider or not rest:
        raise TargetError(f"target {text!r} is not PROVIDER:MODEL[@THINKING]; {_EXAMPLE}")
    if provider not in providers:
        raise TargetError(f"target {text!r}: {unknown_provider(provider, sorted(providers))}")
    model, at, level = rest.rpartition("@")
    if not at:
        return TargetPattern(Target(provider, rest), excludes)
    if level in THINKING_LEVELS and model:
        return TargetPattern(Target(provider, model, level), excludes)
    raise TargetError(
        f"target {text!r}: {level!r} is not a thinking level; use one of {', '.join(THINKING_LEVELS)}, "
        "or leave out the @"
    )


def apply_patterns(patterns: list[TargetPattern], listed: dict[str, list[str]]) -> list[Target]:
    """Expand patterns against what providers list, take out exclusions, drop doubles, keep the order."""
    chosen: dict[Target, None] = {}
    for pattern in patterns:
        if pattern.excludes:
            continue
        target = pattern.target
        if not pattern.is_wild:
            chosen[target] = None
            continue
        for name in listed.get(target.provider, []):
            if fnmatch.fnmatchcase(name, target.model):
                chosen[Target(target.provider, name, target.thinking_level)] = None
    excluded = [pattern for pattern in patterns if pattern.excludes]
    return [target for target in chosen if not any(pattern.matches(target) for pattern in excluded)]
