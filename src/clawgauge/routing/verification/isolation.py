"""A copy of a configuration in which every model is asked of us, and nothing else is reached."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clawgauge.environment import needed_environment, secrets_of_settings
from clawgauge.registry import VENDORS
from clawgauge.routing.openclaw_file import object_at
from clawgauge.routing.openclaw_keys import LOCAL_KEY_MARKER
from clawgauge.secrets import mask_strings

# What shapes a request. The rest listens, reaches out, runs programs or holds keys.
_COPIED_TABLES = ("agents", "models", "tools", "messages", "cron", "session")
_LEFT_OUT_OF_AGENTS = ("agentDir", "sandbox", "cliBackends", "memorySearch", "mcp", "skills")
_LEFT_OUT_OF_TOOLS = ("web", "media", "exec", "elevated", "agentToAgent")
# How a request is carried, and what OpenClaw would start for it.
_LEFT_OUT_OF_PROVIDERS = ("headers", "request", "localService", "auth", "authHeader", "region")
_KEY = "verify"
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_NOWHERE = "http://127.0.0.1:9"
# What OpenClaw would else do by itself; a release that does not know a variable reads none.
_SILENT = {
    "OPENCLAW_OFFLINE": "1",
    "OPENCLAW_NO_AUTO_UPDATE": "1",
    "OPENCLAW_TELEMETRY": "0",
    "OPENCLAW_DISABLE_BONJOUR": "1",
    "NODE_USE_ENV_PROXY": "1",
}
# OpenClaw's own providers, and what they speak.
_VENDOR_APIS = {
    "openai": "openai-responses",
    "anthropic": "anthropic-messages",
    "google": "google-generative-ai",
}
_VENDOR_PATHS = {"openai": "/v1", "anthropic": "", "google": "/v1beta"}


def isolate(
    config: Mapping[str, Any],
    workspace: Path,
    find_address: Callable[[str], str],
    refs: Collection[str],
) -> dict[str, Any]:
    """A copy without secrets, channels, hooks, plugins and MCP servers, whose providers are where
    `find_address` says. `refs` are the models that will be asked."""
    known_secrets = set(secrets_of_settings(config)) - {LOCAL_KEY_MARKER}

    def leave_out_secrets(text: str) -> str:
        return _KEY if text in known_secrets else _VARIABLE.sub(_KEY, text)

    tables = {name: config[name] for name in _COPIED_TABLES if isinstance(config.get(name), dict)}
    copied: dict[str, Any] = mask_strings(tables, leave_out_secrets)
    for key in _LEFT_OUT_OF_TOOLS:
        object_at(copied, "tools").pop(key, None)
    agents = copied.setdefault("agents", {})
    defaults = agents.setdefault("defaults", {})
    entries = [entry for entry in object_at(agents, "entries").values() if isinstance(entry, dict)]
    listed = agents.get("list")
    entries += (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )
    for table in (defaults, *entries):
        for key in _LEFT_OUT_OF_AGENTS:
            table.pop(key, None)
        table["workspace"] = str(workspace)
        if isinstance(table.get("heartbeat"), dict):
            table["heartbeat"]["target"] = "none"
    heartbeat = defaults.setdefault("heartbeat", {})
    heartbeat["target"] = "none"
    defaults["skipBootstrap"] = True
    _redirect_providers(copied, find_address, refs)
    return copied


def _redirect_providers(
    copied: dict[str, Any], find_address: Callable[[str], str], refs: Collection[str]
) -> None:
    models = copied.setdefault("models", {})
    providers = models.setdefault("providers", {})
    for ref in refs:
        provider_id = ref.partition("/")[0]
        if provider_id in _VENDOR_APIS and provider_id not in providers:
            providers[provider_id] = {"models": []}
    for provider_id, provider in providers.items():
        if not isinstance(provider, dict):
            continue
        path = _VENDOR_PATHS.get(provider_id, "")
        if isinstance(provider.get("baseUrl"), str):
            path = _path_of(provider["baseUrl"])
        provider["baseUrl"] = find_address(provider_id) + path
        if provider.get("apiKey") != LOCAL_KEY_MARKER and (
            "apiKey" in provider or provider_id in _VENDOR_APIS
        ):
            provider["apiKey"] = _KEY
        for key in _LEFT_OUT_OF_PROVIDERS:
            provider.pop(key, None)
        for model in provider.get("models") or ():
            if isinstance(model, dict):
                model.pop("baseUrl", None)
                model.pop("headers", None)


def _path_of(address: str) -> str:
    """The path of an address: OpenClaw tells from it what it speaks."""
    try:
        return urlsplit(address).path.rstrip("/")
    except ValueError:
        return ""


def is_vendors_own(ref: str) -> bool:
    """Whether OpenClaw has a provider of its own for a model, which knows its vendor's address."""
    provider_id = ref.partition("/")[0]
    return any(vendor.name == provider_id for vendor in VENDORS)


def find_variables(config: Mapping[str, Any]) -> set[str]:
    """The variables whose values OpenClaw would put into the texts of a configuration."""
    names: set[str] = set()
    unread: list[Any] = [config]
    while unread:
        value = unread.pop()
        if isinstance(value, dict):
            unread += value.values()
        elif isinstance(value, list):
            unread += value
        elif isinstance(value, str):
            names.update(text[2:-1] for text in _VARIABLE.findall(value))
    return names


def isolated_environment(environ: Mapping[str, str], root: Path, config: Path) -> dict[str, str]:
    """The environment of OpenClaw under `root`: no key, no home, and proxies that lead nowhere."""
    isolated = {}
    for name, value in needed_environment(environ).items():
        if not name.startswith("XDG_"):
            isolated[name] = value
    home = str(root / "home")
    isolated["HOME"] = home
    isolated["TMPDIR"] = home
    isolated["OPENCLAW_STATE_DIR"] = str(root / "state")
    isolated["OPENCLAW_CONFIG_PATH"] = str(config)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        isolated[name] = _NOWHERE
        isolated[name.lower()] = _NOWHERE
    isolated |= _SILENT
    isolated["NO_PROXY"] = isolated["no_proxy"] = "127.0.0.1,localhost"
    return isolated
