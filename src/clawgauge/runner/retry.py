"""When to try again, and how long to wait first. Pure: it decides, the runner waits."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter; a server's own `Retry-After` is honoured up to `max_wait_s`."""

    max_retries: int
    base_s: float
    max_wait_s: float

    @classmethod
    def of(cls, options: RunOptions) -> RetryPolicy:
        return cls(options.max_retries, options.retry_base_s, options.max_wait_s)

    def wait_s(self, failure: CallFailure, tries: int, jitter: float, *, answered_before: bool = False) -> float | None:
        """Seconds before the next attempt after `tries` of them, or None to give up. `jitter` is in [0, 1)."""
        may_return = answered_before and failure.failure_type in _MAY_RETURN
        if not (failure.retryable or may_return) or tries > self.max_retries:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s if failure.retry_after_s <= self.max_wait_s else None
        ceiling = min(self.base_s * 2.0 ** min(tries - 1, 30), BACKOFF_CAP_S, self.max_wait_s)
        return float(ceiling * (0.5 + jitter / 2))


def ends_target(failure: CallFailure) -> bool:
    """Whether this failure is evidence about the whole target, not about one call."""
    return failure.failure_type in TARGET_ENDING
