"""summary.json as a reader may take it: made by this version, out of the records as they are now.

Whatever else stands there, an older version's figures, a stale file, one that somebody wrote or
changed by hand, is not believed: the records are what counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal import encode_line, stat_file
from clawgauge.records import RunSummary
from clawgauge.run_data import Run
from clawgauge.version import __version__

# Counts, and what they are counted among.
_PARTS = (
    ("k", "n"),
    ("n_eff", "n"),
    ("n_passed", "n_judged"),
    ("n_passed", "n_asked_judged"),
    ("n_ok", "n_total"),
    ("n_ok", "n_attempted"),
    ("n_attempted", "n_total"),
)


def seal_summary(summary: RunSummary, path: Path) -> RunSummary:
    """The summary for the run folder `path`, with what tells a reader that it still holds. The
    folder must be locked: nothing is recorded meanwhile."""
    results = stat_file(path, "results.jsonl")
    results_bytes = None if results is None else results.st_size
    counted = msgspec.structs.replace(summary, results_bytes=results_bytes, figures_sha256=None)
    return msgspec.structs.replace(counted, figures_sha256=_digest(counted))


def _digest(summary: RunSummary) -> str:
    return sha256(encode_line(summary)).hexdigest()


def read_summary(run: Run) -> RunSummary | None:
    """summary.json of the run; None where it has to be made anew from the records."""
    written = stat_file(run.path, "summary.json")
    results = stat_file(run.path, "results.jsonl")
    config = stat_file(run.path, "config.json")
    if written is None or results is None or config is None:
        return None
    if max(results.st_mtime_ns, config.st_mtime_ns) > written.st_mtime_ns:
        return None
    try:
        summary = run.summary
    except RunFolderError:
        return None
    if summary is None or summary.clawgauge_version != __version__:
        return None
    if summary.results_bytes != results.st_size:
        return None
    if summary.figures_sha256 != _digest(msgspec.structs.replace(summary, figures_sha256=None)):
        return None
    return summary if _can_be(summary) else None


class _Checks(NamedTuple):
    """The fields of one kind of struct that have bounds, and those that may hold structs."""

    counts: list[str]
    rates: list[str]
    parts: list[tuple[str, str]]
    others: list[str]


@cache
def _find_checks(kind: type[msgspec.Struct]) -> _Checks:
    names = kind.__struct_fields__
    checks = _Checks(counts=[], rates=[], parts=[], others=[])
    for name in names:
        # A count may have "rate" in its name, as `n_rate_limited` has.
        if name in ("k", "n", "n_eff") or name.startswith("n_"):
            checks.counts.append(name)
        elif "_rate" in name or (name == "rate" and "k" in names):
            checks.rates.append(name)
        else:
            checks.others.append(name)
    for few, whole in _PARTS:
        if few in names and whole in names:
            checks.parts.append((few, whole))
    return checks


def _can_be(part: msgspec.Struct) -> bool:
    """Whether no count is below nothing or above its whole, and every rate is one: anyone may
    write a summary, with a right digest too."""
    checks = _find_checks(type(part))
    for name in checks.counts:
        count = getattr(part, name)
        if count is not None and count < 0:
            return False
    for name in checks.rates:
        rate = getattr(part, name)
        if rate is not None and not 0 <= rate <= 1:
            return False
    for few, whole in checks.parts:
        n_few = getattr(part, few)
        n_whole = getattr(part, whole)
        if n_few is not None and n_whole is not None and n_few > n_whole:
            return False
    return all(_can_be(inner) for inner in _inner_parts(part, checks))


def _inner_parts(part: msgspec.Struct, checks: _Checks) -> Iterator[msgspec.Struct]:
    """The structs in the fields of a struct, also those in lists."""
    for name in checks.others:
        value = getattr(part, name)
        inner_parts = value if isinstance(value, list) else [value]
        for inner in inner_parts:
            if isinstance(inner, msgspec.Struct):
                yield inner
