"""Keeps secrets out of everything that is written or printed.

Owns: knowing what a secret looks like and replacing it with `***`. Refuses: deciding where text goes; callers pass
every server-made string through here before it reaches a file or a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

MASK = "***"
_MIN_SECRET_CHARS = 6

_KEY_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_\-]{8,}                        # OpenAI, Anthropic, OpenRouter style
    | (?i:\bbearer\s+)[A-Za-z0-9._~+/=\-]{8,}                # Authorization header values
    | (?i:[?&](?:api[_-]?key|key|token|access_token|secret)=)[^&\s"'<>]+
    | (?i:\b(?:x-api-key|api[_-]?key|authorization)["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=\-]{8,}
    | (?<=://)[^/\s@"'<>]+@                                  # user-info of an address
    """,
    re.VERBOSE,
)
_PREFIX_KEPT = re.compile(
    r"(?i)^(bearer\s+|[?&][a-z_\-]+=|(?:x-api-key|api[_-]?key|authorization)[\"']?\s*[:=]\s*[\"']?)"
)


class Redactor:
    """Replaces known secret values and anything shaped like one."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        known = {s for s in secrets if s and len(s) >= _MIN_SECRET_CHARS}
        ordered = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _KEY_SHAPES.sub(_mask_shape, text)


def _mask_shape(match: re.Match[str]) -> str:
    found = match.group()
    if found.endswith("@"):
        return MASK + "@"
    kept = _PREFIX_KEPT.match(found)
    return (kept.group() if kept else "") + MASK


def public_address(url: str) -> str:
    """The address without user-info, query and fragment: what may be shown and stored."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None:
        host = f"{host}:{parts.port}"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
