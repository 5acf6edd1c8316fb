"""What nobody specified and yet is the same every time: the world's own time, and numbers that look arbitrary.

The time starts where the specification says, on UTC, and moves on with the calls.
"""

from __future__ import annotations

import datetime as dt
import hashlib

from clawgauge.errors import SuiteError
from clawgauge.world.fields import Fields, refusal

DEFAULT_START = "2026-03-02T09:14:07"
_LATEST_S = 4_102_444_800  # 2100-01-01: `sleep` in a loop cannot run past what a date can show


class Clock:
    """Seconds since 1970, moved on by calls and by `sleep`."""

    def __init__(self, start_s: int) -> None:
        self.start_s = start_s
        self.now_s = start_s

    def advance(self, seconds: float) -> None:
        self.now_s = min(_LATEST_S, self.now_s + max(0, int(seconds)))

    def moment(self, at_s: int | None = None) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.now_s if at_s is None else at_s, dt.UTC)


class Incidentals:
    """Numbers that look arbitrary and are the same every time."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def between(self, least: int, most: int, *name: object) -> int:
        """A whole number from `least` to `most` for the thing called `name`."""
        digest = hashlib.sha256(repr((self._seed, *name)).encode("utf-8", "replace")).digest()
        return least + int.from_bytes(digest[:8], "big") % (most - least + 1)


def read_clock(spec: Fields) -> Clock:
    """The clock of a specification: `clock = "2026-03-02T09:14:07"`."""
    return Clock(read_moment(spec, "clock", DEFAULT_START))


def read_moment(spec: Fields, key: str, default: str | None = None) -> int:
    """A moment of the world, in seconds since 1970."""
    written = spec.text(key, default)
    try:
        moment = dt.datetime.fromisoformat(written)
    except ValueError:
        raise refusal(spec.at(key), "a date and time such as '2026-03-02T09:00:00'", written) from None
    if moment.tzinfo is not None:
        raise SuiteError(f"key '{spec.at(key)}' has a time zone; the world runs on UTC, so leave it out")
    at_s = int(moment.replace(tzinfo=dt.UTC).timestamp())
    if not 0 <= at_s < _LATEST_S:
        raise refusal(spec.at(key), "a moment from 1970 to 2099", written)
    return at_s
