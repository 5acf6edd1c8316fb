"""When this program's own lateness could have moved a figure.

Owns: the rule by which a call is flagged. Refuses: correcting a figure; what was measured stands, marked.

A call is flagged when the loop was late by more than 1 ms while it was under way, or by more than 1% of the smallest
figure it could have moved: the first token's time, or the whole call's where no first token was stamped. Under 0.1 ms
nothing is flagged: that little is the grain of an operating system's timers, and cannot be told from a loop in time.
"""

from __future__ import annotations

from collections.abc import Iterable

from clawgauge.summary.rows import TimingsRow

LATE_US = 1_000
LATE_SHARE = 0.01
TIMER_NOISE_US = 100


def count_flagged(timings: Iterable[TimingsRow]) -> int:
    """How many of these calls could be off by more than 1 ms or 1%."""
    return len(
        [
            lag
            for timing in timings
            if (lag := timing.lag) is not None
            and lag > TIMER_NOISE_US
            and (lag > LATE_US or lag > LATE_SHARE * (timing.e2e or 0 if timing.ttft is None else timing.ttft))
        ]
    )
