"""The only reader of the process environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlsplit

from clawgauge.errors import ConfigError

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_MIN_SECRET_CHARS = 8
_OLLAMA_PORT = 11434


def read_environment() -> dict[str, str]:
    """A copy of the environment, taken once."""
    return dict(os.environ)


def secret_values(environ: Mapping[str, str], addresses: Iterable[str | None]) -> set[str]:
    """Every value that must not be shown: variables named like secrets, and what stands inside addresses."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET_CHARS}
    for address in filter(None, addresses):
        parts = urlsplit(address)
        found.update(filter(None, (parts.password, parts.username)))
        found.update(value for _, value in parse_qsl(parts.query))
    return found


def ollama_base_url(environ: Mapping[str, str]) -> str | None:
    """`OLLAMA_OPENAI_BASE` as it stands, else `OLLAMA_HOST` in any of the forms Ollama itself accepts."""
    if base := environ.get("OLLAMA_OPENAI_BASE", "").strip():
        return base
    host = environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return None
    parts = urlsplit(host if "://" in host else f"http://{host}")
    # A server told to listen everywhere is reached on this machine.
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(parts.hostname or "", parts.hostname or "")  # noqa: S104  # compared, not bound
    shown = f"[{name}]" if ":" in name else name
    port = parts.port or {"https": 443}.get(parts.scheme, _OLLAMA_PORT)
    return f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}/v1"


def retry_base_s(environ: Mapping[str, str], default: float) -> float:
    """`CLAWGAUGE_RETRY_BASE_S` shortens the backoff."""
    value = environ.get("CLAWGAUGE_RETRY_BASE_S")
    if not value:
        return default
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"CLAWGAUGE_RETRY_BASE_S is {value!r}: give a number of seconds, 0 or more")
    return seconds
