"""How the value of a figure looks in a table."""

from __future__ import annotations

from enum import Enum, auto

from clawgauge.figures.values import Amount, Percentile, Rate, Unit, Value
from clawgauge.words import (
    ABSENT,
    format_beyond,
    format_bytes,
    format_latency,
    format_money,
    format_ms,
    format_number,
    format_percent,
    format_rate,
    rounded,
)

INDICATIVE = "†"


class Style(Enum):
    """How much of a value a cell shows."""

    SHORT = auto()  # 5/6, 204, 310†
    WITH_PERCENT = auto()  # 83% 5/6
    FULL = auto()  # 83% · 5/6 · 44–97%, 204 (202–208)
    COUNTS = auto()  # 5/6, and 0/0 where nothing was asked
    WITH_UNIT = auto()  # 1504 ms
    IN_WORDS = auto()  # 1.50 s, 1.50 s†


def format_cell(value: Value, unit: Unit, style: Style = Style.SHORT, digits: int = 0) -> str:
    """`value` as a cell; `digits` are those behind the point of a time, a speed or a count."""
    if isinstance(value, Rate):
        return _format_rate(value, style)
    if isinstance(value, Percentile):
        if unit == "ms" and style in (Style.WITH_UNIT, Style.IN_WORDS):
            return _word_time(value, style)
        return format_percentile(value, digits, with_interval=style is Style.FULL)
    return _format_amount(value, unit, style, digits)


def _format_rate(rate: Rate, style: Style) -> str:
    if style is Style.FULL:
        return format_rate(rate.k, rate.n, rate.ci95)
    counts = f"{rate.k}/{rate.n}"
    if style is Style.COUNTS:
        return counts
    if not rate.n:
        return ABSENT
    if style is Style.WITH_PERCENT:
        return f"{format_percent(rate.value)} {counts}"
    return counts


def format_percentile(
    percentile: Percentile, digits: int = 0, *, with_interval: bool = False
) -> str:
    """`204 (202–208)`, `310†` where it is only indicative, `> 120 s` where it lies among the
    timeouts."""
    if percentile.value is None:
        return ABSENT
    if percentile.is_beyond:
        return format_beyond(percentile.value)
    mark = INDICATIVE if percentile.is_indicative else ""
    interval = ""
    if with_interval and percentile.ci95 is not None:
        low, high = percentile.ci95
        interval = f" ({rounded(low, digits)}–{rounded(high, digits)})"
    return f"{rounded(percentile.value, digits)}{mark}{interval}"


def _word_time(percentile: Percentile, style: Style) -> str:
    if percentile.value is None:
        return ABSENT
    if percentile.is_beyond:
        return format_beyond(percentile.value)
    mark = INDICATIVE if percentile.is_indicative else ""
    return f"{_format_time(percentile.value, style)}{mark}"


def _format_amount(amount: Amount, unit: Unit, style: Style, digits: int) -> str:
    if unit == "ms" and amount.share is not None:
        return f"{_format_time(amount.value, style)} ({format_percent(amount.share)})"
    if amount.value is None:
        return ABSENT
    if unit == "ms" and style in (Style.WITH_UNIT, Style.IN_WORDS):
        return _format_time(amount.value, style)
    if unit == "tier":
        return f"{amount.value:g}?" if amount.is_provisional else f"{amount.value:g}"
    if unit == "usd":
        return format_money(amount.value)
    if unit == "bytes":
        return format_bytes(amount.value)
    if unit == "joules":
        if style is Style.FULL:
            return f"{rounded(amount.value)} J"
        return f"{rounded(amount.value / 1000, 1)} kJ"
    if unit == "rate":
        return format_percent(amount.value)
    if unit == "per_s":
        return f"{amount.value:.3g}"
    return format_number(amount.value, digits)


def _format_time(value_ms: float | None, style: Style) -> str:
    if value_ms is None:
        return ABSENT
    return format_latency(value_ms) if style is Style.IN_WORDS else format_ms(value_ms)
