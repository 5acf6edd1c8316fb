"""summary.json as a reader may take it: made by this version, out of the records as they are now.

Whatever else stands there, an older version's figures, a stale file, one that somebody wrote or
changed by hand, is not believed: the records are what counts."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

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


def _can_be(part: msgspec.Struct) -> bool:
    """Whether no count is below nothing or above its whole, and every rate is one: anyone may
    write a summary, with a right digest too."""
    values = {}
    inner_parts: list[msgspec.Struct] = []
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, msgspec.Struct):
            inner_parts.append(value)
        elif isinstance(value, list):
            inner_parts += [item for item in value if isinstance(item, msgspec.Struct)]
        elif value is not None:
            values[name] = value
    for few, whole in _PARTS:
        if few in values and whole in values and values[few] > values[whole]:
            return False
    for name, value in values.items():
        # A count may have "rate" in its name, as `n_rate_limited` has.
        is_count = name in ("k", "n", "n_eff") or name.startswith("n_")
        is_rate = "_rate" in name or (name == "rate" and "k" in values)
        if is_count:
            if value < 0:
                return False
        elif is_rate and not 0 <= value <= 1:
            return False
    return all(_can_be(inner) for inner in inner_parts)
