"""OpenClaw's sessions as they lie on disk: JSON Lines up to 2026.7, SQLite from 2026.8 on.

Not a byte of a store changes: not even a lock is taken on a database. A store may be anyone's:
sizes are bounded, links below the state folder are not followed, and every value is looked at
before it is used. What SQLite may do with a database is in `clawgauge.own_work.database`.
"""

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
from clawgauge.own_work.left_out import LeftOut

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
# What is read of one agent's database, once it is unpacked. Rows cost something even where they are
# empty: the pages of a small file can be linked so that its rows never end.
_MAX_UNPACKED_BYTES = 4 << 30
_ROW_COST_BYTES = 512
_MAX_SESSIONS = 100_000
_MAX_LOGINS = 1_000
_MAX_COPY_ATTEMPTS = 5
_COPY_BLOCK_BYTES = 1 << 20
_MAX_ZSTD_WINDOW_BYTES = 1 << 27
_TRANSCRIPT = re.compile(r"(?P<stem>.+?)(?<!\.trajectory)\.jsonl(?:\.reset\..+|\.imported-[0-9]+)?")
_DATABASE = "openclaw-agent.sqlite"
_WRITE_AHEAD_LOG = "openclaw-agent.sqlite-wal"
_TRY_DOCTOR = "look at it with `openclaw doctor`"
Record = dict[str, Any]


class Session(NamedTuple):
    """One session window: its records in their order."""

    id: str
    records: list[Record]
    retried: list[tuple[str, str]]
    """From when to when runs went on that had to ask the model again."""


def look_up(value: Any, *keys: str) -> Any:
    """What stands under these keys, one in the other; None where one of them is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_sessions(
    state: Path, agents: Collection[str], left_out: Counter[str], logins: list[Any]
) -> Iterator[Session]:
    """Every session of these agents, or of all, once, the rewound after what became of them.

    What cannot be read is counted in `left_out`, and OpenClaw's logins are added to `logins`.
    """
    folders = []
    for folder in _list_folder(state / "agents", left_out):
        if folder.is_dir() and (not agents or folder.name in agents):
            folders.append(folder)
    if not folders:
        missing = " or ".join(agents) or "agents"
        raise ConfigError(
            f"{state} holds no {missing}: name OpenClaw's state folder with --state-dir"
        )
    read_ids: set[str] = set()
    for folder in folders:
        in_database = _read_database(folder / "agent", left_out, logins)
        for session in chain(in_database, _read_files(folder, left_out)):
            if session.records and session.id not in read_ids:
                read_ids.add(session.id)
                yield session


def _list_folder(folder: Path, left_out: Counter[str]) -> list[Path]:
    """What is in a folder, without its links; nothing where it is a link itself."""
    try:
        paths = [folder] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        left_out[LeftOut.FOLDERS_UNREADABLE] += 1
        return []
    entries = [path for path in paths if not path.is_symlink()]
    left_out[LeftOut.LINKS] += len(paths) - len(entries)
    return entries


def _read_database(folder: Path, left_out: Counter[str], logins: list[Any]) -> Iterator[Session]:
    path = folder / _DATABASE
    if path not in _list_folder(folder, left_out):
        return
    with tempfile.TemporaryDirectory(prefix="clawgauge-") as private:
        try:
            _copy_database(folder, Path(private))
            with closing(Database(Path(private) / path.name)) as database:
                yield from _read_tables(database, path, left_out, logins)
        except DatabaseTooSlow as slow:
            raise ConfigError(f"{path} is not read: {slow}; {_TRY_DOCTOR}") from slow
        except sqlite3.Error as fault:
            advice = _TRY_DOCTOR
            if sqlite3.sqlite_version_info < _STRICT_TABLES_SINCE:
                version = sqlite3.sqlite_version
                advice += f", or use a Python with a newer SQLite than {version}, which may read it"
            raise ConfigError(f"{path} cannot be read ({_describe(fault)}): {advice}") from fault
        except (OSError, RunFolderError, MemoryError) as fault:
            raise ConfigError(
                f"{path} cannot be read ({_describe(fault)}): {_TRY_DOCTOR}"
            ) from fault


def _describe(fault: BaseException) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return str(fault) or "it takes too much memory"


class _FileState(NamedTuple):
    name: str
    n_bytes: int
    changed_ns: int


def _copy_database(folder: Path, private: Path) -> None:
    """Copy a database and its write-ahead log, both as they were while nobody wrote to either."""
    for _ in range(_MAX_COPY_ATTEMPTS):
        before = _file_states(folder)
        if sum(state.n_bytes for state in before) > _MAX_STORE_BYTES:
            raise ConfigError(
                f"{folder / _DATABASE} is larger than {_MAX_STORE_BYTES >> 30} GiB: it is not read"
            )
        (private / _WRITE_AHEAD_LOG).unlink(missing_ok=True)
        for state in before:
            with open_file(folder, state.name) as source, (private / state.name).open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BLOCK_BYTES)
        if _file_states(folder) == before:
            return
    raise ConfigError(
        f"{folder / _DATABASE} changes faster than it is copied: try again when OpenClaw is at rest"
    )


def _file_states(folder: Path) -> list[_FileState]:
    """The size and time of the database and its log, of those that are there."""
    states = []
    for name in (_DATABASE, _WRITE_AHEAD_LOG):
        status = stat_file(folder, name)
        if status is not None:
            states.append(_FileState(name, status.st_size, status.st_mtime_ns))
    return states


def _read_tables(
    database: Database, path: Path, left_out: Counter[str], logins: list[Any]
) -> Iterator[Session]:
    version = database.user_version()
    if version not in _SCHEMAS:
        raise ConfigError(
            f"{path} has schema {version}, and OpenClaw's schemas {_SCHEMAS[0]} to {_SCHEMAS[-1]} "
            "are known: a newer clawgauge may read it"
        )
    columns = {table: database.plain_columns(table) for table in (*_COLUMNS, _LOGINS)}
    for table, needed in _COLUMNS.items():
        if not needed <= columns[table]:
            reason = f"{table} in it is not the plain table that OpenClaw has"
            raise ConfigError(f"{path} is not read, for {reason}: {_TRY_DOCTOR}")
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
            records = _decode_records(_texts_of(rows), left_out, budget)
            rows = database.select(_RUNS, ["event_json"], session_id=session_id, order="seq")
            run_events = _decode_records(_texts_of(rows), left_out, budget)
        except sqlite3.DataError:
            left_out[LeftOut.SESSIONS_WITH_LARGE_ROW] += 1
            continue
        yield Session(str(session_id), records, _find_retried(run_events))


def _texts_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
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
        raise ConfigError(
            "this history is packed with zstd, which needs a package more: "
            "pip install 'clawgauge[openclaw]'"
        ) from None
    try:
        # Never by the size that the frame claims to have.
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW_BYTES)
        text: bytes = decompressor.stream_reader(frame).read(MAX_ROW_BYTES + 1)
    except (zstandard.ZstdError, TypeError, ValueError):
        return None
    return text if len(text) <= MAX_ROW_BYTES else None


def _read_files(folder: Path, left_out: Counter[str]) -> Iterator[Session]:
    """The sessions in files.

    Those as they are, those that a reset put aside, those that were moved into a database since.
    """
    paths = []
    for name in ("sessions", "session-sqlite-import-archive"):
        paths += _list_folder(folder / name, left_out)
    for path in paths:
        match = _TRANSCRIPT.fullmatch(path.name)
        if match is None:
            continue
        records = _read_file(path, left_out)
        session_ids = []
        for record in records:
            if record.get("type") == "session":
                session_ids.append(str(record.get("id")))
        if not session_ids:
            left_out[LeftOut.FILES_WITHOUT_SESSION] += 1
        run_events = []
        trajectory = path.with_name(f"{match['stem']}.trajectory.jsonl")
        if trajectory in paths:
            run_events = _read_file(trajectory, left_out)
        if session_ids:
            yield Session(session_ids[0], records, _find_retried(run_events))


def _read_file(path: Path, left_out: Counter[str]) -> list[Record]:
    try:
        with open_file(path.parent, path.name) as file:
            return _decode_records(read_lines(file), left_out)
    except (OSError, RunFolderError):
        left_out[LeftOut.FILES_UNREADABLE] += 1
        return []


def decode(text: object) -> Any:
    """The JSON value of a text that may hold anything.

    None where it is none, or becomes too much in memory.
    """
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


def _decode_records(
    texts: Iterable[Any], left_out: Counter[str], budget: _Budget | None = None
) -> list[Record]:
    """The records of one session.

    None where it is larger than a session, or what is left of the budget, may be.
    """
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
            left_out[LeftOut.SESSIONS_TOO_LARGE] += 1
            return []
        record = decode(text)
        if isinstance(record, dict):
            records.append(record)
        else:
            left_out[LeftOut.LINES_UNREADABLE] += 1
    return records


def _find_retried(events: Iterable[Record]) -> list[tuple[str, str]]:
    """From when to when the runs went on that sent their prompt again.

    OpenClaw does so after a failed or an empty attempt.
    """
    times_by_run: dict[str, list[str]] = {}
    n_prompts: Counter[str] = Counter()
    for event in events:
        run_id = str(event.get("runId"))
        times_by_run.setdefault(run_id, []).append(str(event.get("ts")))
        if event.get("type") == "prompt.submitted":
            n_prompts[run_id] += 1
    retried = []
    for run_id, times in times_by_run.items():
        if n_prompts[run_id] > 1:
            retried.append((min(times), max(times)))
    return retried
