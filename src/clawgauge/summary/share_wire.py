"""Strata on their way from one process to another."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import msgspec

from clawgauge.summary.groups import (
    COLUMNS,
    TIMES,
    TOTALS,
    Ending,
    FailureKey,
    OfferedAnswer,
    Strata,
    Stratum,
    StratumKey,
    ToolSign,
    Total,
)


class ShareRefused(Exception):
    """The second reader has no share to hand over; whoever asked reads it."""


class _Sent(msgspec.Struct, array_like=True):
    """One stratum: tallies as pairs, columns as bytes, totals as (n, value)."""

    key: StratumKey
    endings: list[tuple[Ending, int]]
    tool_signs: list[tuple[ToolSign, int]]
    offered: list[tuple[OfferedAnswer, int]]
    tallies: dict[str, dict[int, int]]
    columns: dict[str, bytes]
    totals: dict[str, tuple[int, int]]
    examples: list[tuple[FailureKey, str | None]]
    warnings: list[tuple[str, int]]
    n_flagged: int
    span: tuple[int, int] | None


class _Share(msgspec.Struct, array_like=True):
    strata: list[_Sent]
    bad_lines: int


def encode_share(strata: Strata, bad_lines: int) -> bytes:
    """A share as bytes, or `ShareRefused`."""
    if any(stratum.warnings_dropped for stratum in strata.values()):
        raise ShareRefused("warnings were dropped")
    try:
        return msgspec.msgpack.encode(_Share([_pack(key, stratum) for key, stratum in strata.items()], bad_lines))
    except OverflowError as error:
        raise ShareRefused("a sum has more than 64 bits") from error


def decode_share(data: bytes) -> tuple[Strata, int]:
    """The strata of a share and how many lines were no record, or `ShareRefused`."""
    try:
        share = msgspec.msgpack.decode(data, type=_Share)
    except msgspec.DecodeError as error:
        raise ShareRefused("no whole share came") from error
    return {sent.key: _unpack(sent) for sent in share.strata}, share.bad_lines


def _pack(key: StratumKey, stratum: Stratum) -> _Sent:
    started, ended = stratum.started_at_ms, stratum.ended_at_ms
    return _Sent(
        key=key,
        endings=_pairs(stratum.endings),
        tool_signs=_pairs(stratum.tool_signs),
        offered=_pairs(stratum.offered),
        tallies={name: dict(getattr(stratum, name)) for name in TIMES},
        columns={name: getattr(stratum, name).tobytes() for name in COLUMNS},
        totals={name: (getattr(stratum, name).n, getattr(stratum, name).value) for name in TOTALS},
        examples=list(stratum.examples.items()),
        warnings=list(stratum.warnings.items()),
        n_flagged=stratum.n_flagged,
        span=None if started is None or ended is None else (started, ended),
    )


def _pairs(tally: Counter[Any]) -> list[tuple[Any, int]]:
    return list(tally.items())


def _unpack(sent: _Sent) -> Stratum:
    stratum = Stratum()
    stratum.endings.update(dict(sent.endings))
    stratum.tool_signs.update(dict(sent.tool_signs))
    stratum.offered.update(dict(sent.offered))
    for name, tally in sent.tallies.items():
        getattr(stratum, name).update(tally)
    for name, data in sent.columns.items():
        column: array[float] = getattr(stratum, name)
        column.frombytes(data)
    for name, (n, value) in sent.totals.items():
        total: Total = getattr(stratum, name)
        total.n, total.value = n, value
    stratum.examples.update(sent.examples)
    stratum.warnings.update(dict(sent.warnings))
    stratum.n_flagged = sent.n_flagged
    if sent.span is not None:
        stratum.started_at_ms, stratum.ended_at_ms = sent.span
    return stratum
