"""How numbers, counts and texts look to a reader: the one place for each kind of figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

# What stands where there is no figure.
ABSENT = "–"
_MAX_ROUNDED = 1e12


def plural(n: int, noun: str, many: str | None = None) -> str:
    """`1 cell`, `2 cells`. `many` is the plural where it is not the noun with an s."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {many or noun + 's'}"


def list_names(names: Sequence[str], at_most: int) -> str:
    """`a, b and c`; `a, b and 3 more` where there are more than `at_most`."""
    if len(names) > at_most:
        return f"{', '.join(names[:at_most])} and {len(names) - at_most} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def word_unasked(n_asked: int, n_planned: int) -> str:
    """How many planned prompts were not asked; empty where all were."""
    if n_asked >= n_planned:
        return ""
    planned = plural(n_planned, "planned prompt was", "planned prompts were")
    return f"{n_planned - n_asked} of {planned} never asked"


def rounded(value: float, digits: int = 0) -> str:
    """A half goes up, as it does in the page of a report: one figure must not be 140 here and 141
    there."""
    return f"{_half_up(value, digits):.{digits}f}"


def signed(value: float, digits: int = 0) -> str:
    """`rounded` with its sign: `+3`, `-12`."""
    return f"{_half_up(value, digits):+.{digits}f}"


def in_points(share: float) -> str:
    """A difference of rates: `-12 points`, `+1 point`."""
    points = signed(share * 100)
    noun = "point" if points in ("-1", "+1") else "points"
    return f"{points} {noun}"


def _half_up(value: float, digits: int) -> float:
    if abs(value) >= _MAX_ROUNDED:
        return value
    factor: int = 10**digits
    return math.floor(value * factor + 0.5) / factor


def format_number(value: float | None, digits: int = 0) -> str:
    return ABSENT if value is None else rounded(value, digits)


def format_percent(rate: float | None) -> str:
    """A rate in whole per cent; never rounded up to 100 or down to 0."""
    if rate is None:
        return ABSENT
    if 0 < rate < 0.01:
        return "<1%"
    if 0.99 < rate < 1:
        return ">99%"
    return f"{rounded(rate * 100)}%"


def format_short_of(share: float, limit: float) -> str:
    """In whole per cent, but for what is only just short of the limit: `69.8%`."""
    if share < limit and format_percent(share) == format_percent(limit):
        return f"{math.floor(share * 1000) / 10:.1f}%"
    return format_percent(share)


def format_rate(k: int, n: int, ci95: tuple[float, float] | None = None) -> str:
    """k of n: `83% · 5/6 · 44–97%`."""
    if not n:
        return ABSENT
    text = f"{format_percent(k / n)} · {k}/{n}"
    if ci95 is not None:
        low, high = ci95
        text += f" · {rounded(low * 100)}–{rounded(high * 100)}%"
    return text


def format_ms(value_ms: float | None) -> str:
    """A latency in whole milliseconds, as columns of them compare best."""
    return ABSENT if value_ms is None else f"{rounded(value_ms)} ms"


def format_latency(value_ms: float) -> str:
    """A latency in a sentence, as in the page of a report: `8.5 ms`, `204 ms`, `1.50 s`, `42.0 s`,
    `5 min 00 s`."""
    if value_ms < 10:
        return f"{rounded(value_ms, 1).removesuffix('.0')} ms"
    if value_ms < 1000:
        return f"{rounded(value_ms)} ms"
    if value_ms < 10_000:
        return f"{rounded(value_ms / 1000, 2)} s"
    if value_ms < 120_000:
        return f"{rounded(value_ms / 1000, 1)} s"
    return format_duration(value_ms)


def format_beyond(value_ms: float) -> str:
    """A time that is only known to be longer: `> 300 s`."""
    digits = 0 if value_ms >= 10_000 else 1
    return f"> {rounded(value_ms / 1000, digits)} s"


def format_duration(value_ms: float | None) -> str:
    """Milliseconds as a person says them: `850 ms`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if value_ms is None:
        return ABSENT
    if value_ms < 1000:
        return format_ms(value_ms)
    seconds = int(_half_up(value_ms / 1000, 0))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def format_date(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M")


def format_bytes(value: float | None) -> str:
    if value is None:
        return ABSENT
    mib = value / 2**20
    if mib < 1024:
        return f"{rounded(mib)} MiB"
    return f"{rounded(mib / 1024, 1)} GiB"


def format_money(usd: float | None) -> str:
    """Dollars with enough digits to be more than nothing: `$1.32`, `$0.0041`, `$0.000012`, `$0`."""
    if usd is None:
        return ABSENT
    if not usd or not math.isfinite(usd):
        return f"${usd:.0f}"
    least_digits = 2 if usd >= 1 else 4
    # Enough for two digits that are not zero.
    needed_digits = 1 - math.floor(math.log10(abs(usd)))
    return f"${usd:.{max(least_digits, needed_digits)}f}"


def format_p(p: float) -> str:
    """A p-value that never claims to be 0."""
    if p < 0.001:
        return "<0.001"
    if p < 0.1:
        return f"{p:.3f}"
    return f"{p:.2f}"


def word_p(p: float) -> str:
    """`p = 0.004`, `p < 0.001`."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {format_p(p)}"


def cut_text(text: str, limit: int) -> str:
    """The first `limit` characters, and how many there are besides."""
    if len(text) <= limit:
        return text
    n_left_out = len(text) - limit
    return f"{text[:limit]}\n… {plural(n_left_out, 'more character')}"


def word_ollama_apis(model: str) -> str:
    """Which of Ollama's two APIs is measured, and how to measure the other one."""
    return (
        "Ollama is asked over its /v1 unless you say otherwise; OpenClaw talks to Ollama's own "
        f"API: to measure that, name ollama:{model}"
    )
