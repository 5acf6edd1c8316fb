"""JSON in two places where it is dangerous: inside an HTML page, and made of values that came from a model.

Owns: the escapes. Refuses: anything but text out.
"""

from __future__ import annotations

import json
import math
from typing import Any

_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def embed_json(value: Any) -> str:
    """`value` for a `<script type="application/json">`: plain ASCII without a character that HTML could act on."""
    try:
        encoded = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        encoded = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # A tag, a comment or an entity cannot begin without one of the three; all that is not ASCII is an escape already.
    return encoded.translate(_IN_SCRIPT)


def show_json(value: Any) -> str:
    """`value` as a person reads it; for showing, never for parsing, since a number may be no JSON number."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    return text if len(text) <= 100 else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _finite(value: Any) -> Any:
    """`value` with null for every number JSON does not know: sums of absurd figures overflow."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
