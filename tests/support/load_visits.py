"""Visits of a load that are made up: their windows, and their calls."""

from __future__ import annotations

from clawgauge.stats.load import Sample, Window


def make_window(level: int, visit: int = 1, *, is_late: bool = False) -> Window:
    """A visit of so many clients, which holds every call that is made up for it."""
    return Window(
        step=f"c{level}v{visit}",
        context_tokens=1000,
        concurrency=level,
        visit=visit,
        from_ms=0.0,
        to_ms=1e9,
        untrusted="late" if is_late else None,
    )


def make_sample(client: int, ttft_ms: float, cycle_ms: float) -> Sample:
    """A call that was answered, from due to end in `cycle_ms`."""
    return Sample(
        client=client,
        due_ms=1.0,
        queued_ms=0.0,
        ttft_ms=ttft_ms,
        e2e_ms=cycle_ms,
        ok=True,
        input_tokens=1000,
        output_tokens=24,
        cached_tokens=None,
        gaps_us=(),
    )
