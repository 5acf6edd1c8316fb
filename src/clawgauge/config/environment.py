"""The only reader of the process environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from clawgauge.errors import ConfigError

_OLLAMA_PORT = 11434


def read_environment() -> dict[str, str]:
    """A copy of the environment, taken once."""
    return dict(os.environ)


def ollama_base_url(environ: Mapping[str, str]) -> str | None:
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
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(parts.hostname or "", parts.hostname or "")  # noqa: S104  # compared, not bound
    shown = f"[{name}]" if ":" in name else name
    port = asked_port or {"https": 443}.get(parts.scheme, _OLLAMA_PORT)
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
