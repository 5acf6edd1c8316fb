"""Text that every encoder and every regular expression engine accepts.

Owns: the repair of lone surrogates, which JSON escapes and broken streams can leave in a Python string. Refuses: any
other normalisation; two answers that differ stay different.
"""

from __future__ import annotations

from typing import Any


def well_formed(text: str) -> str:
    """`text` with surrogate halves joined where they meet and replaced by U+FFFD where they stand alone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_value(value: Any) -> Any:
    """The same for every string in a decoded JSON value of bounded depth."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_value(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed_value(item) for key, item in value.items()}
    return value
