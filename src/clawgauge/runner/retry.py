"""When to try again and how long to wait first, and whose fault a failure was."""

from __future__ import annotations

import time

from clawgauge.errors import CallFailure
from clawgauge.records import RunOptions

BACKOFF_CAP_S = 60.0

# After one of these every further call to the target would fail the same way: it is asked once.
TARGET_ENDING = frozenset(
    {
        "api_key_missing",
        "cli_auth",
        "cli_missing",
        "cli_not_executable",
        "connect_timeout",
        "connection_refused",
        "dns_error",
        "http_401",
        "model_not_found",
        "runtime_missing",
    }
)
# A server that answered before and is gone now may be restarting: worth the same patience as a reset.
_MAY_RETURN = frozenset({"connection_refused", "connect_timeout"})
# Shorter hold-ups are recorded as the call's lag, and decide nothing.
_DECISIVE_NS = 1_000_000_000
_DEADLINES = frozenset({"timeout", "connect_timeout"})
# What a connection looks like after this machine has slept: the other side gave up on us.
_AFTER_SLEEP = _DEADLINES | {"stream_interrupted", "connection_reset", "connection_refused", "dns_error"}
# Two clocks of which only the first goes on while the machine sleeps: Linux's, then macOS's.
_COUNTING = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_PAUSING = getattr(time, "CLOCK_MONOTONIC" if hasattr(time, "CLOCK_BOOTTIME") else "CLOCK_UPTIME_RAW", None)


def retry_wait_s(
    options: RunOptions, failure: CallFailure, tries: int, jitter: float, *, answered_before: bool = False
) -> float | None:
    """Seconds before the next attempt after `tries` of them, or None to give up.

    Exponential backoff, with `jitter` in [0, 1); a server's own `Retry-After` is honoured up to `--max-wait`.
    """
    may_return = answered_before and failure.failure_type in _MAY_RETURN
    if not (failure.retryable or may_return) or tries > options.max_retries:
        return None
    if failure.retry_after_s is not None:
        return failure.retry_after_s if failure.retry_after_s <= options.max_wait_s else None
    ceiling = min(options.retry_base_s * 2.0 ** min(tries - 1, 30), BACKOFF_CAP_S, options.max_wait_s)
    return float(ceiling * (0.5 + jitter / 2))


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
