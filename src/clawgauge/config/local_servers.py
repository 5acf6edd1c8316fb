"""Which chat servers are looked for on this machine although nothing names their address.

`clawgauge init` asks all of them, and `openai_chat` without an address of its own is the one called
`llamacpp`. `CLAWGAUGE_LOCAL_SERVERS` replaces the usual list. Ollama has a variable of its own,
`OLLAMA_HOST`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from clawgauge.errors import ConfigError
from clawgauge.registry import CHAT_SERVER_ADDRESSES, DEFAULT_CHAT_SERVER, PROVIDER_TYPES

VARIABLE = "CLAWGAUGE_LOCAL_SERVERS"
NOWHERE = "none"
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")


def local_servers(environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses to look at, by the names that the servers get as providers.

    Raises `ConfigError` where the variable cannot be read, without its value: an address may hold a
    password.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return dict(CHAT_SERVER_ADDRESSES)
    if text == NOWHERE:
        return {}
    servers: dict[str, str] = {}
    for entry in text.split(","):
        name, _, address = entry.strip().partition("=")
        is_free_name = _SERVER_NAME.fullmatch(name) is not None and name not in PROVIDER_TYPES
        if not is_free_name or name in servers or not is_http_address(address):
            example = f"{DEFAULT_CHAT_SERVER}={CHAT_SERVER_ADDRESSES[DEFAULT_CHAT_SERVER]}"
            raise ConfigError(
                f"{VARIABLE} is not a list of servers: give NAME=ADDRESS, separated by commas, "
                f"like {example}, or the word {NOWHERE}, or unset it"
            )
        servers[name] = address
    return servers


def is_http_address(address: str) -> bool:
    """Whether this is an http(s) URL with a host and, if it names a port, a port that exists."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
