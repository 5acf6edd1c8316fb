"""A stranger's SQLite database, of which nothing but ordinary tables is read.

A schema is code: a view, a virtual table or a generated column can take any time and any memory,
under the name of a table that one knows. So an authorizer allows no more than the reads below, a
table is looked at before it is read, SQLite's own limits are narrow, and whatever takes too long
without a row ends. Ctrl-C ends it at once.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from clawgauge.words import plural

MAX_ROW_BYTES = 16 << 20
MAX_WAIT_S = 30.0
"""How long SQLite may work without a row.

A store of the largest size that is read is sorted in less.
"""
MAX_TOTAL_S = 120.0
"""How long SQLite may work for one database altogether.

A table without an index is gone through once for every session: a store can make that as often as
it likes.
"""
_MAX_MEMORY_BYTES = 512 << 20
_OPS_BETWEEN_LOOKS = 10_000
_NAME = re.compile(r"[a-z][a-z_]*")
_ORDER = re.compile(r"[a-z_]+( DESC)?(, [a-z_]+( DESC)?)*")
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_ROW_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 10,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETTINGS = (
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "mmap_size = 0",
    "query_only = ON",
    "temp_store = MEMORY",
    f"hard_heap_limit = {_MAX_MEMORY_BYTES}",
)
_ORDINARY = 0  # of a column, in `table_xinfo`: neither hidden nor computed
_PRAGMAS = {"user_version", "table_xinfo"}
_SCHEMA = "sqlite_master"


class DatabaseTooSlow(Exception):
    """SQLite worked for longer than it may, without giving a row or altogether."""


class Database:
    """A copy of somebody's database, opened to read a few columns of ordinary tables."""

    def __init__(self, path: Path) -> None:
        self._deadline_s = 0.0
        self._worked_s = 0.0
        self._is_late = False
        # The tables and columns that were found to be ordinary: what may be read.
        self._columns: dict[str, set[str]] = {_SCHEMA: {"sql"}}
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        self._connection.text_factory = _decode_text
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._connection.set_progress_handler(self._look_at_clock, _OPS_BETWEEN_LOOKS)
        for setting in _SETTINGS:
            self._fetch_all(f"PRAGMA {setting}")
        self._connection.set_authorizer(self._authorize)

    def close(self) -> None:
        self._connection.close()

    def user_version(self) -> int:
        [(version,)] = self._fetch_all("PRAGMA user_version")
        return int(version)

    def plain_columns(self, table: str) -> set[str]:
        """The columns of an ordinary table that hold what was written; none of any other table."""
        _require(_NAME, table)
        if not self._is_ordinary(table):
            return set()
        columns: set[str] = set()
        # Each row has number, name, type, "not null", default, key, and whether it is hidden.
        for row in self._fetch_all(f"PRAGMA table_xinfo({table})"):
            if row[6] == _ORDINARY:
                columns.add(row[1])
        self._columns[table] = columns
        return columns

    def _is_ordinary(self, table: str) -> bool:
        """Whether the schema creates it as a table.

        Views and virtual tables are created by other statements, and nothing is created twice under
        one name. Of the schema's own columns only the statements count, as for SQLite; `PRAGMA
        table_list`, which would tell, came with 3.37.
        """
        created = re.compile(rf"CREATE TABLE ([\"'`\[]?){table}(?![\w$])", re.IGNORECASE)
        for (statement,) in self.select(_SCHEMA, ["sql"]):
            if isinstance(statement, str) and created.match(statement):
                return True
        return False

    def select(
        self, table: str, columns: Sequence[str], *, session_id: Any = None, order: str = "rowid"
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, of one session where one is given. Raises `DatabaseTooSlow`."""
        for name in (table, *columns):
            _require(_NAME, name)
        _require(_ORDER, order)
        query = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608  # names of our own
        parameters: tuple[Any, ...] = ()
        if session_id is not None:
            query += " WHERE session_id = ?"
            parameters = (session_id,)
        query += f" ORDER BY {order}"
        cursor = self._run(lambda: self._connection.execute(query, parameters))
        while True:
            row = self._run(cursor.fetchone)
            if row is None:
                return
            yield row

    def _fetch_all(self, query: str) -> list[Any]:
        rows: list[Any] = self._run(lambda: self._connection.execute(query).fetchall())
        return rows

    def _run(self, step: Callable[[], Any]) -> Any:
        """What SQLite answers, within the time it has for one step and for all of them."""
        left_s = MAX_TOTAL_S - self._worked_s
        if left_s <= 0:
            raise _took_too_long()
        self._is_late = False
        began_s = time.monotonic()
        self._deadline_s = began_s + min(MAX_WAIT_S, left_s)
        try:
            return step()
        except sqlite3.OperationalError as fault:
            if fault.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            if not self._is_late:
                # sqlite3 drops what is raised in the handler: it was the interruption, and nothing
                # else is raised there.
                raise KeyboardInterrupt from None
            if left_s < MAX_WAIT_S:
                raise _took_too_long() from None
            raise DatabaseTooSlow(
                f"it gave no row in {plural(round(MAX_WAIT_S), 'second')}"
            ) from None
        finally:
            self._worked_s += time.monotonic() - began_s

    def _look_at_clock(self) -> int:
        """Called by SQLite while it works: this is also where Python notices Ctrl-C."""
        self._is_late = time.monotonic() > self._deadline_s
        return int(self._is_late)

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        _schema: str | None,
        inner: str | None,
    ) -> int:
        """Allow the reads of our own statements alone.

        `inner` names the view or trigger that anything else comes from.
        """
        is_allowed = False
        if inner is None:
            if action == sqlite3.SQLITE_SELECT:
                is_allowed = True
            elif action == sqlite3.SQLITE_READ:
                is_allowed = second in self._readable(first)
            elif action == sqlite3.SQLITE_PRAGMA:
                is_allowed = first in _PRAGMAS
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    def _readable(self, table: str | None) -> Collection[str]:
        columns = self._columns.get(table or "")
        if columns is None:
            return ()
        return {*columns, "ROWID"}


def _took_too_long() -> DatabaseTooSlow:
    return DatabaseTooSlow(f"it took more than {plural(round(MAX_TOTAL_S), 'second')} to read")


def _decode_text(raw: bytes) -> str:
    """A row that is no text costs itself, and no error quotes it."""
    return raw.decode("utf-8", "replace")


def _require(pattern: re.Pattern[str], text: str) -> None:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"not a name that is read: {text!r}")
