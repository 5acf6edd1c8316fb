"""Whose fault it was: what this machine did to a call is never held against the server."""

from __future__ import annotations

import time

from clawgauge.errors import CallFailure

# Shorter hold-ups are recorded as the call's lag, and decide nothing.
_DECISIVE_NS = 1_000_000_000
_DEADLINES = frozenset({"timeout", "connect_timeout"})
# What a connection looks like after this machine has slept: the other side gave up on us.
_AFTER_SLEEP = _DEADLINES | {"stream_interrupted", "connection_reset", "connection_refused", "dns_error"}

# Two clocks of which only the first goes on while the machine sleeps: Linux's, then macOS's.
_COUNTING = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_PAUSING = getattr(time, "CLOCK_MONOTONIC" if hasattr(time, "CLOCK_BOOTTIME") else "CLOCK_UPTIME_RAW", None)


def own_fault(failure: CallFailure, *, held_ns: int, slept_ns: int) -> CallFailure | None:
    """The failure as our own, where the machine slept during the attempt, or this program stood still at its deadline.

    While we stand still the whole answer may be waiting in the socket, and the deadline is heard first. Such an attempt
    says nothing of the server: it may be made again, and it never ends a target.
    """
    still_ns = slept_ns if failure.failure_type in _AFTER_SLEEP else 0
    if failure.failure_type in _DEADLINES:
        still_ns = max(still_ns, held_ns)
    if still_ns < _DECISIVE_NS:
        return None
    words = f"this machine or program stood still for {still_ns / 1e9:.0f} s during the call ({failure.failure_type})"
    return CallFailure("error", "client_stalled", words, retryable=True)


def suspended_ns() -> int:
    """How long this machine has slept since it was started; it only grows. 0 where the system does not say."""
    if _COUNTING is None or _PAUSING is None:
        return 0
    return time.clock_gettime_ns(_COUNTING) - time.clock_gettime_ns(_PAUSING)
