"""How a call ended, as one of eight words that every chart, table and filter of the page shares.

Owns: the order of the words, which is their code in the page's data. Refuses: shapes and colours; those are the
page's.
"""

from __future__ import annotations

from typing import Protocol

PASS, FAIL, ANSWERED, NO_ANSWER, ERROR, RATE_LIMITED, AUTH_ERROR, UNAVAILABLE = range(8)
OUTCOMES = ("pass", "fail", "no_verdict", "no_answer", "error", "rate_limited", "auth_error", "unavailable")
_BY_STATUS = {
    "ok": NO_ANSWER,
    "error": ERROR,
    "rate_limited": RATE_LIMITED,
    "auth_error": AUTH_ERROR,
    "skipped_unavailable": UNAVAILABLE,
}


class Ended(Protocol):
    """The fields an outcome depends on; a whole result has them, and so has a slim row."""

    @property
    def availability_status(self) -> str: ...
    @property
    def success(self) -> bool: ...
    @property
    def objective_pass(self) -> bool | None: ...


def classify(call: Ended) -> int:
    """The code of a call's outcome: its verdict where it was answered, else why it was not."""
    if not call.success:
        return _BY_STATUS[call.availability_status]
    if call.objective_pass is None:
        return ANSWERED
    return PASS if call.objective_pass else FAIL


def needs_a_look(outcome: int) -> bool:
    """Whether a reader wants to see this call even where not all can be shown."""
    return outcome not in (PASS, ANSWERED)
