"""The grammar of `Retry-After` and `retry-after-ms`. Pure; the runner decides what to do with the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def parse_retry_after(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds to wait, or None where the server said nothing usable. A date in the past is 0."""
    in_ms = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(in_ms):
        return float(in_ms) / 1000
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if _NUMBER.fullmatch(value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    try:
        return max(0.0, when.timestamp() - now_s)
    except (OverflowError, OSError, ValueError):
        return None
