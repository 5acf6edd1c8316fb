"""Figures as a person reads them, each with the n it rests on.

Owns: rounding, units, the dagger for percentiles that are only indicative. Refuses: choosing which figures to show.
"""

from __future__ import annotations

from clawgauge.records import GroupSummary, Percentiles, Target
from clawgauge.stats import samples_needed

ABSENT = "–"
INDICATIVE = "†"
MIN_SAMPLES_P95 = samples_needed(0.95)
MIN_SAMPLES_P99 = samples_needed(0.99)


def name_target(group: GroupSummary) -> str:
    """`provider:model@thinking`, as on the command line."""
    return Target(group.provider, group.model, group.thinking_level).label


def format_number(value: float | None, digits: int = 0) -> str:
    """A plain number, or a dash where there is none."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def format_percentile(value: float | None, n: int, min_samples: int = 0) -> str:
    """A percentile, marked where n is too small for it to be more than indicative."""
    mark = INDICATIVE if value is not None and n < min_samples else ""
    return format_number(value) + mark


def format_measure(figures: Percentiles, name: str, digits: int = 0) -> str:
    """One percentile with its 95% interval, marked where it is only indicative: `204 (202–208)`, `310†`."""
    value = getattr(figures, name)
    if value is None:
        return ABSENT
    mark = INDICATIVE if name in figures.indicative else ""
    ends = getattr(figures, f"{name}_ci95")
    interval = f" ({format_number(ends[0], digits)}–{format_number(ends[1], digits)})" if ends else ""
    return f"{format_number(value, digits)}{mark}{interval}"


def format_spread(figures: Percentiles, digits: int = 0) -> str:
    """p50 and p95 of a column with its n: `120 / 310† (n=22)`."""
    if not figures.n:
        return ABSENT
    mark = INDICATIVE if figures.n < MIN_SAMPLES_P95 else ""
    return f"{format_number(figures.p50, digits)} / {format_number(figures.p95, digits)}{mark} (n={figures.n})"


def format_percent(rate: float | None) -> str:
    """A rate in whole per cent; never rounded up to 100 or down to 0."""
    if rate is None:
        return ABSENT
    if 0 < rate < 0.01:
        return "<1%"
    if 0.99 < rate < 1:
        return ">99%"
    return f"{rate * 100:.0f}%"


def format_interval(ci95: tuple[float, float] | None) -> str:
    """A 95% interval in per cent."""
    return ABSENT if ci95 is None else f"{ci95[0] * 100:.0f}–{ci95[1] * 100:.0f}%"


def format_rate(k: int, n: int, ci95: tuple[float, float] | None = None) -> str:
    """k of n: `83% · 5/6 · 44–97%`."""
    if not n:
        return ABSENT
    parts = [format_percent(k / n), f"{k}/{n}"]
    return " · ".join(parts if ci95 is None else [*parts, format_interval(ci95)])


def format_bytes(value: float | None) -> str:
    """Bytes in GiB or MiB."""
    if value is None:
        return ABSENT
    mib = value / 2**20
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def format_duration(value_ms: float | None) -> str:
    """Milliseconds as a person says them: `850 ms`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if value_ms is None:
        return ABSENT
    if value_ms < 1000:
        return f"{value_ms:.0f} ms"
    seconds = round(value_ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def plural(n: int, noun: str, many: str | None = None) -> str:
    """`1 cell`, `2 cells`."""
    return f"{n} {noun if n == 1 else many or noun + 's'}"
