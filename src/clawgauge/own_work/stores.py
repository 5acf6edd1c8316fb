"""OpenClaw's sessions as they lie on disk: JSON Lines up to 2026.7, SQLite from 2026.8 on.

Not a byte of a store changes: not even a lock is taken on a database. A store may be anyone's: sizes are bounded, links
below the state folder are not followed, and every value is looked at before it is used."""

from __future__ import annotations

import importlib
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.errors import ConfigError, RunFolderError
from clawgauge.journal.disk import open_file, read_lines, stat_file

# 19 (2026.8.1) and 23 (2026.9.6) were looked at; those between them hold the same columns.
_SCHEMAS = range(19, 24)
_TABLES = {"session_windows", "transcript_events", "trajectory_runtime_events"}
_MAX_ROW_BYTES, _MAX_SESSION_BYTES, _MAX_STORE_BYTES = 16 << 20, 256 << 20, 16 << 30
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


def read_sessions(state: Path, agents: Collection[str], left_out: Counter[str], logins: list[Any]) -> Iterator[Session]:
    """Every session of these agents, or of all, once, the rewound after what became of them; `logins` are added to."""
    folders = [one for one in _entries(state / "agents", left_out) if one.is_dir()]
    if not (folders := [one for one in folders if not agents or one.name in agents]):
        wanted = " or ".join(agents) or "agents"
        raise ConfigError(f"{state} holds no {wanted}: name OpenClaw's state folder with --state-dir")
    seen: set[str] = set()
    for folder in folders:
        for session in chain(_from_database(folder / "agent", left_out, logins), _from_files(folder, left_out)):
            if session.records and session.id not in seen:
                seen.add(session.id)
                yield session


def _entries(folder: Path, left_out: Counter[str]) -> list[Path]:
    try:
        found = sorted(folder.iterdir()) if not folder.is_symlink() else [folder]
    except OSError as fault:
        left_out["folders that cannot be read"] += not isinstance(fault, FileNotFoundError | NotADirectoryError)
        return []
    left_out["links, which are not followed"] += sum(one.is_symlink() for one in found)
    return [one for one in found if not one.is_symlink()]


def _from_database(folder: Path, left_out: Counter[str], logins: list[Any]) -> Iterator[Session]:
    if (path := folder / _DATABASE[0]) not in _entries(folder, left_out):
        return
    with tempfile.TemporaryDirectory(prefix="clawgauge-") as private:
        try:
            _copy(folder, Path(private))
            with closing(sqlite3.connect(Path(private) / path.name)) as connection:
                # A row that is no text costs itself, and no error quotes it.
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
                with suppress(sqlite3.OperationalError):  # not every release has them there
                    logins += [
                        decode(text) for (text,) in connection.execute("SELECT store_json FROM auth_profile_store")
                    ]
                yield from _read_tables(connection, path, left_out)
        except (sqlite3.Error, OSError, RunFolderError) as fault:
            why = getattr(fault, "strerror", None) or fault
            raise ConfigError(f"{path} cannot be read ({why}): look at it with `openclaw doctor`") from fault


def _copy(folder: Path, private: Path) -> None:
    """Copy the database and its write-ahead log, both from a moment when nobody wrote to either."""

    def states() -> list[tuple[str, int, int]]:
        found = [(name, stat_file(folder, name)) for name in _DATABASE]
        return [(name, one.st_size, one.st_mtime_ns) for name, one in found if one is not None]

    for _ in range(5):
        before = states()
        if sum(size for _, size, _ in before) > _MAX_STORE_BYTES:
            raise ConfigError(f"{folder / _DATABASE[0]} is larger than {_MAX_STORE_BYTES >> 30} GiB: it is not read")
        (private / _DATABASE[1]).unlink(missing_ok=True)
        for name, *_ in before:
            with open_file(folder, name) as source, (private / name).open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
        if states() == before:
            return
    raise ConfigError(f"{folder / _DATABASE[0]} changes faster than it is copied: try again when OpenClaw is at rest")


def _read_tables(connection: sqlite3.Connection, path: Path, left_out: Counter[str]) -> Iterator[Session]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    # Tables, for a view could be anything and take any time.
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version not in _SCHEMAS or not tables >= _TABLES:
        known = f"OpenClaw's schemas {_SCHEMAS[0]} to {_SCHEMAS[-1]} are known"
        raise ConfigError(f"{path} has schema {version}, and {known}: a newer clawgauge may read it")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(transcript_events)")]
    packed = "event_zstd" if "event_zstd" in columns else "NULL"
    events = f"SELECT event_json, {packed} FROM transcript_events WHERE session_id = ? ORDER BY seq"  # noqa: S608
    runs = "SELECT event_json FROM trajectory_runtime_events WHERE session_id = ? ORDER BY seq"
    windows = connection.execute("SELECT session_id FROM session_windows ORDER BY created_at DESC, rowid DESC")
    for (session_id,) in windows.fetchall():
        try:
            rows = connection.execute(events, (session_id,))
            records = _take((_unpack(frame) if text is None else text for text, frame in rows), left_out)
            told = _take((text for (text,) in connection.execute(runs, (session_id,))), left_out)
        except sqlite3.DataError:
            left_out["sessions with a row that is too large"] += 1
        else:
            yield Session(str(session_id), records, _find_retried(told))


def _unpack(frame: object) -> bytes | None:
    try:
        zstandard = importlib.import_module("zstandard")
    except ModuleNotFoundError:
        words = "this history is packed with zstd, which needs a package more: pip install 'clawgauge[openclaw]'"
        raise ConfigError(words) from None
    try:
        # Never by the size that the frame claims to have.
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(frame)
        text: bytes = reader.read(_MAX_ROW_BYTES + 1)
    except (zstandard.ZstdError, TypeError, ValueError):
        return None
    return text if len(text) <= _MAX_ROW_BYTES else None


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
            headers = [str(record.get("id")) for record in records if record.get("type") == "session"]
            left_out["files without a session"] += not headers
            runs = _find_retried(read(told)) if told in paths else []
            yield from (Session(session_id, records, runs) for session_id in headers[:1])


def decode(text: object) -> Any:
    try:
        return msgspec.json.decode(text) if isinstance(text, str | bytes) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _take(texts: Iterable[Any], left_out: Counter[str]) -> list[Record]:
    records: list[Record] = []
    room = _MAX_SESSION_BYTES
    for text in texts:
        record = decode(text)
        room -= len(text) if isinstance(text, str | bytes) else 0
        if room < 0:
            left_out["sessions that are too large"] += 1
            return []
        records += [record] if isinstance(record, dict) else []
        left_out["lines that cannot be read"] += not isinstance(record, dict)
    return records


def _find_retried(events: Iterable[Record]) -> list[tuple[str, str]]:
    """From when to when the runs went that put their prompt again, after a failed or an empty attempt."""
    times: dict[str, list[str]] = {}
    submitted: Counter[str] = Counter()
    for event in events:
        times.setdefault(str(event.get("runId")), []).append(str(event.get("ts")))
        submitted[str(event.get("runId"))] += event.get("type") == "prompt.submitted"
    return [(min(times[run]), max(times[run])) for run, n in submitted.items() if n > 1]
