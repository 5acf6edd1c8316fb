"""Keeps secrets out of everything that is written or printed.

Owns: knowing what a secret looks like and replacing it with `***`. Refuses: deciding where text goes, and finding
secrets; it is told the known ones. Two strengths: a `Redactor` for the words of servers and programs, where one mask
too many does no harm, and a `SecretMask` for all bytes on their way to the disk, a model's answer among them, where
nothing but a known value may be touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit, urlunsplit

MASK = "***"
_MIN_SECRET_CHARS = 6
# Some cap may have cut a known secret: this much of it in a row still gives it away.
_FRAGMENT_CHARS = 12
_CUT_END_CHARS = 8
_SHORTEST_SURE_CHARS = 8
_LONG_CHARS = 20

_KEY_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_\-]{8,}                        # OpenAI, Anthropic, OpenRouter style
    | \b(?:AIza|hf_|gsk_|xai-|gh[a-z]_)[A-Za-z0-9_\-]{16,}   # Google, Hugging Face, Groq, xAI, GitHub
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
_NUMBER = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?")


def looks_secret(value: str) -> bool:
    """Whether a value that is used as a key can be nothing else: `ollama`, `not-needed` and `100000` can."""
    if len(value) < _SHORTEST_SURE_CHARS or _NUMBER.fullmatch(value):
        return False
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return len(value) >= _LONG_CHARS or (has_digit and has_letter)


class Redactor:
    """Replaces known secret values, long pieces of them, and anything shaped like a key."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        known = {s for s in secrets if s and len(s) >= _MIN_SECRET_CHARS}
        ordered = sorted({form for secret in known for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE) if ordered else None
        self._fragments = {
            secret[at : at + _FRAGMENT_CHARS]
            for secret in filter(looks_secret, known)
            for at in range(len(secret) - _FRAGMENT_CHARS + 1)
        }

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        if self._fragments:
            text = self._mask_fragments(text)
        return _KEY_SHAPES.sub(_mask_shape, text)

    def _mask_fragments(self, text: str) -> str:
        size = _FRAGMENT_CHARS
        pieces: list[str] = []
        done = 0
        for at in range(len(text) - size + 1):
            if text[at : at + size] in self._fragments:
                if at > done or not pieces:
                    pieces.append(text[done:at] + MASK)
                done = at + size
        return "".join(pieces) + text[done:]


def _forms(secret: str) -> set[str]:
    """A secret as it is, in lower case as a tool's name is recorded, inside an address, and inside JSON.

    Twice inside JSON too: an answer that is JSON is recorded as a JSON string.
    """
    plain = {secret, secret.lower(), quote(secret, safe="", errors="replace")}
    quoted = set(map(_quoted, plain))
    return plain | quoted | set(map(_quoted, quoted))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _mask_shape(match: re.Match[str]) -> str:
    found = match.group()
    if found.endswith("@"):
        return MASK + "@"
    kept = _PREFIX_KEPT.match(found)
    return (kept.group() if kept else "") + MASK


class SecretMask:
    """Replaces known secrets in text and in JSON that is already encoded.

    Takes only values that `looks_secret`: to mask `ollama` in every answer would spoil what was measured.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted(filter(looks_secret, secrets), key=len, reverse=True)
        forms = {form.encode("utf-8", "replace") for secret in self._secrets for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)

    def mask(self, data: bytes) -> bytes:
        """`data` with every secret replaced."""
        for form in self._forms:
            data = data.replace(form, MASK.encode())
        return data

    def mask_cut_end(self, text: str) -> str:
        """`text`, which a cap may have cut, without the beginning of a secret at its very end."""
        for secret in self._secrets:
            for n_chars in range(len(secret) - 1, _CUT_END_CHARS - 1, -1):
                if text.endswith(secret[:n_chars]):
                    return text[:-n_chars] + MASK
        return text


def public_address(url: str) -> str:
    """The address without user-info, query and fragment: what may be shown and stored."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None:
        host = f"{host}:{parts.port}"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
