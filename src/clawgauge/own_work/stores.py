"""OpenClaw's sessions as they lie on disk: JSON Lines up to 2026.7, SQLite from 2026.8 on.

Not a byte of a store changes: not even a lock is taken on a database. A store may be anyone's: sizes are bounded, links
below the state folder are not followed, and every value is looked at before it is used. What SQLite may do with a
database is in `clawgauge.own_work.database`."""

from __future__ import annotations

import importlib
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.errors import ConfigError, RunFolderError
from clawgauge.journal.disk import open_file, read_lines, stat_file
from clawgauge.json_limits import RECORD_LIMITS, find_excess
from clawgauge.own_work.database import MAX_ROW_BYTES, Database, DatabaseTooSlow

# 19 (2026.8.1) and 23 (2026.9.6) were looked at; those between them hold the same columns.
_SCHEMAS = range(19, 24)
# An older SQLite takes a schema with a STRICT table for a broken one.
_STRICT_TABLES_SINCE = (3, 37)
_WINDOWS = "session_windows"
_EVENTS = "transcript_events"
_RUNS = "trajectory_runtime_events"
_LOGINS = "auth_profile_store"
_COLUMNS = {
    _WINDOWS: {"session_id", "created_at"},
    _EVENTS: {"session_id", "seq", "event_json"},
    _RUNS: {"session_id", "seq", "event_json"},
}
_PACKED_COLUMN = "event_zstd"
_LOGINS_COLUMN = "store_json"
_MAX_SESSION_BYTES = 256 << 20
_MAX_STORE_BYTES = 16 << 30
# What is read of one agent's database, once it is unpacked. Rows cost something even where they are empty: the pages of
# a small file can be linked so that its rows never end.
_MAX_UNPACKED_BYTES = 4 << 30
_ROW_COST_BYTES = 512
_MAX_SESSIONS = 100_000
_MAX_LOGINS = 1_000
_TRANSCRIPT = re.compile(r"(?P<stem>.+?)(?<!\.trajectory)\.jsonl(?:\.reset\..+|\.imported-[0-9]+)?")
_DATABASE = ("openclaw-agent.sqlite", "openclaw-agent.sqlite-wal")
Record = dict[str, Any]


class Session(NamedTuple):
    """One session window: its records in their order, and from when to when runs went that had to ask again."""

    id: str
    records: list[Record]
    retried: list[tuple[str, str]]


def look_up(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_sessions(
    state: Path, agents: Collection[str], left_out: Counter[str], logins: list[Any]
) -> Iterator[Session]:
    """Every session of these agents, or of all, once, the rewound after what became of them; `logins` are added to."""
    folders = [one for one in _entries(state / "agents", left_out) if one.is_dir()]
    if not (folders := [one for one in folders if not agents or one.name in agents]):
        wanted = " or ".join(agents) or "agents"
        raise ConfigError(
            f"{state} holds no {wanted}: name OpenClaw's state folder with --state-dir"
        )
    seen: set[str] = set()
    for folder in folders:
        for session in chain(
            _from_database(folder / "agent", left_out, logins), _from_files(folder, left_out)
        ):
            if session.records and session.id not in seen:
                seen.add(session.id)
                yield session


def _entries(folder: Path, left_out: Counter[str]) -> list[Path]:
    try:
        found = sorted(folder.iterdir()) if not folder.is_symlink() else [folder]
    except OSError as fault:
        left_out["folders that cannot be read"] += not isinstance(
            fault, FileNotFoundError | NotADirectoryError
        )
        return []
    left_out["links, which are not followed"] += sum(one.is_symlink() for one in found)
    return [one for one in found if not one.is_symlink()]


def _from_database(folder: Path, left_out: Counter[str], logins: list[Any]) -> Iterator[Session]:
    path = folder / _DATABASE[0]
    if path not in _entries(folder, left_out):
        return
    with tempfile.TemporaryDirectory(prefix="clawgauge-") as private:
        try:
            _copy(folder, Path(private))
            with closing(Database(Path(private) / path.name)) as database:
                yield from _read_tables(database, path, left_out, logins)
        except DatabaseTooSlow as slow:
            raise ConfigError(
                f"{path} is not read: {slow}; look at it with `openclaw doctor`"
            ) from slow
        except (sqlite3.Error, OSError, RunFolderError, MemoryError) as fault:
            why = getattr(fault, "strerror", None) or str(fault) or "it takes too much memory"
            advice = "look at it with `openclaw doctor`"
            if (
                isinstance(fault, sqlite3.Error)
                and sqlite3.sqlite_version_info < _STRICT_TABLES_SINCE
            ):
                version = sqlite3.sqlite_version
                advice += f", or use a Python with a newer SQLite than {version}, which may read it"
            raise ConfigError(f"{path} cannot be read ({why}): {advice}") from fault


def _copy(folder: Path, private: Path) -> None:
    """Copy the database and its write-ahead log, both from a moment when nobody wrote to either."""

    def states() -> list[tuple[str, int, int]]:
        found = [(name, stat_file(folder, name)) for name in _DATABASE]
        return [(name, one.st_size, one.st_mtime_ns) for name, one in found if one is not None]

    for _ in range(5):
        before = states()
        if sum(size for _, size, _ in before) > _MAX_STORE_BYTES:
            raise ConfigError(
                f"{folder / _DATABASE[0]} is larger than {_MAX_STORE_BYTES >> 30} GiB: it is not read"
            )
        (private / _DATABASE[1]).unlink(missing_ok=True)
        for name, *_ in before:
            with open_file(folder, name) as source, (private / name).open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        if states() == before:
            return
    raise ConfigError(
        f"{folder / _DATABASE[0]} changes faster than it is copied: try again when OpenClaw is at rest"
    )


def _read_tables(
    database: Database, path: Path, left_out: Counter[str], logins: list[Any]
) -> Iterator[Session]:
    version = database.user_version()
    if version not in _SCHEMAS:
        known = f"OpenClaw's schemas {_SCHEMAS[0]} to {_SCHEMAS[-1]} are known"
        raise ConfigError(
            f"{path} has schema {version}, and {known}: a newer clawgauge may read it"
        )
    columns = {table: database.plain_columns(table) for table in (*_COLUMNS, _LOGINS)}
    for table, needed in _COLUMNS.items():
        if not needed <= columns[table]:
            why = f"{table} in it is not the plain table that OpenClaw has"
            raise ConfigError(f"{path} is not read, for {why}: look at it with `openclaw doctor`")
    if _LOGINS_COLUMN in columns[_LOGINS]:  # not every release has them there
        for row in islice(database.select(_LOGINS, [_LOGINS_COLUMN]), _MAX_LOGINS):
            logins.append(decode(row[0]))
    is_packed = _PACKED_COLUMN in columns[_EVENTS]
    event_columns = ["event_json", _PACKED_COLUMN] if is_packed else ["event_json"]
    budget = _Budget(_MAX_UNPACKED_BYTES)
    windows = database.select(_WINDOWS, ["session_id"], order="created_at DESC, rowid DESC")
    session_ids = [session_id for (session_id,) in islice(windows, _MAX_SESSIONS + 1)]
    if len(session_ids) > _MAX_SESSIONS:
        raise ConfigError(f"{path} names more than {_MAX_SESSIONS:,} sessions: it is not read")
    for session_id in session_ids:
        try:
            rows = database.select(_EVENTS, event_columns, session_id=session_id, order="seq")
            records = _take(_texts(rows), left_out, budget)
            runs = database.select(_RUNS, ["event_json"], session_id=session_id, order="seq")
            run_events = _take(_texts(runs), left_out, budget)
        except sqlite3.DataError:
            left_out["sessions with a row that is too large"] += 1
        else:
            yield Session(str(session_id), records, _find_retried(run_events))


def _texts(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """The text of each row: its first column, else its second, unpacked."""
    for row in rows:
        if row[0] is None and len(row) > 1:
            yield _unpack(row[1])
        else:
            yield row[0]


def _unpack(frame: object) -> bytes | None:
    try:
        zstandard = importlib.import_module("zstandard")
    except ModuleNotFoundError:
        words = "this history is packed with zstd, which needs a package more: pip install 'clawgauge[openclaw]'"
        raise ConfigError(words) from None
    try:
        # Never by the size that the frame claims to have.
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(frame)
        text: bytes = reader.read(MAX_ROW_BYTES + 1)
    except (zstandard.ZstdError, TypeError, ValueError):
        return None
    return text if len(text) <= MAX_ROW_BYTES else None


def _from_files(folder: Path, left_out: Counter[str]) -> Iterator[Session]:
    """Sessions of their own, those that a reset put aside, and those that were moved into a database since."""

    def read(path: Path) -> list[Record]:
        try:
            with open_file(path.parent, path.name) as file:
                return _take(read_lines(file), left_out)
        except (OSError, RunFolderError):
            left_out["files that cannot be read"] += 1
            return []

    places = [folder / "sessions", folder / "session-sqlite-import-archive"]
    paths = [path for place in places for path in _entries(place, left_out)]
    for path, named in ((path, _TRANSCRIPT.fullmatch(path.name)) for path in paths):
        if named is not None:
            records, told = read(path), path.with_name(f"{named['stem']}.trajectory.jsonl")
            headers = [
                str(record.get("id")) for record in records if record.get("type") == "session"
            ]
            left_out["files without a session"] += not headers
            runs = _find_retried(read(told)) if told in paths else []
            yield from (Session(session_id, records, runs) for session_id in headers[:1])


def decode(text: object) -> Any:
    """The JSON value of a text that may hold anything; None where it is none, or becomes too much in memory."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    if not isinstance(text, bytes):
        return None
    try:
        if find_excess(text, RECORD_LIMITS) is not None:
            return None
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class _Budget:
    """What may still be read of a database, in bytes of unpacked text."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes_left = max_bytes


def _take(
    texts: Iterable[Any], left_out: Counter[str], budget: _Budget | None = None
) -> list[Record]:
    """The records of one session; none where it is larger than a session, or what is left of the budget, may be."""
    records: list[Record] = []
    bytes_left = _MAX_SESSION_BYTES
    if budget is not None:
        bytes_left = min(bytes_left, budget.bytes_left)
    for text in texts:
        cost = _ROW_COST_BYTES
        if isinstance(text, str | bytes):
            cost += len(text)
        bytes_left -= cost
        if budget is not None:
            budget.bytes_left -= cost
        if bytes_left < 0:
            left_out["sessions that are too large"] += 1
            return []
        record = decode(text)
        if isinstance(record, dict):
            records.append(record)
        else:
            left_out["lines that cannot be read"] += 1
    return records


def _find_retried(events: Iterable[Record]) -> list[tuple[str, str]]:
    """From when to when the runs went that put their prompt again, after a failed or an empty attempt."""
    times: dict[str, list[str]] = {}
    submitted: Counter[str] = Counter()
    for event in events:
        times.setdefault(str(event.get("runId")), []).append(str(event.get("ts")))
        submitted[str(event.get("runId"))] += event.get("type") == "prompt.submitted"
    return [(min(times[run]), max(times[run])) for run, n in submitted.items() if n > 1]
