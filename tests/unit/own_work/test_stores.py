"""OpenClaw's stores are read to the last session, left as they were, and cannot hurt when they are hostile."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from clawgauge.errors import ConfigError
from clawgauge.own_work import database, stores
from clawgauge.own_work.left_out import LeftOut
from clawgauge.own_work.stores import read_sessions
from support.openclaw_store import (
    DATA,
    answer,
    as_records,
    copy_store,
    database_of,
    hashes,
    link_endlessly,
    read_turns,
    user,
    write_database,
    write_lines,
)
from support.rows import every_row

TALK = as_records([user("Hello."), answer("Hello, Ana.")])


def test_every_session_of_both_releases_is_read() -> None:
    """Those of a reset archive and those packed with zstd, too."""
    found = {}
    for release in ("2026.7.1", "2026.9.6"):
        left_out: Counter[str] = Counter()
        sessions = list(read_sessions(DATA / release, [], left_out, []))
        found[release] = (len(sessions), sum(len(one.records) for one in sessions), +left_out)
    assert found == {"2026.7.1": (4, 76, Counter()), "2026.9.6": (8, 252, Counter())}


def test_a_session_that_was_moved_into_the_database_counts_once(tmp_path: Path) -> None:
    state = copy_store("2026.9.6", tmp_path)
    archive = state / "agents/main/session-sqlite-import-archive"
    archive.mkdir()
    shutil.copy(
        DATA / "main_decoded.jsonl",
        archive / "agent_main_main.95fad8c4.jsonl.imported-1794757386507",
    )
    write_lines(state, TALK, "own.jsonl.reset.2026-11-15T16-14-21.566Z")
    assert len(list(read_sessions(state, [], Counter(), []))) == 9


def test_a_session_that_the_database_only_names_is_read_from_its_file(tmp_path: Path) -> None:
    state = write_lines(write_database(tmp_path, []), as_records([user("Hi"), answer("Ho")]))
    (session,) = read_sessions(state, [], Counter(), [])
    assert len(session.records) == 3


def test_a_store_in_use_is_read_with_what_is_not_folded_in_yet_and_not_a_byte_changes(
    tmp_path: Path,
) -> None:
    state = write_database(tmp_path, [])
    with sqlite3.connect(database_of(state)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        for n, record in enumerate(TALK):
            writer.execute(
                "INSERT INTO transcript_events VALUES ('s1', ?, ?, NULL)", (n, json.dumps(record))
            )
        writer.commit()
        before = hashes(state)
        assert any(name.endswith("-wal") for name in before)
        turns, _ = read_turns(state)
        assert [turn.question for turn in turns] == ["Hello."]
        assert hashes(state) == before
        writer.execute("INSERT INTO transcript_events VALUES ('s1', 9, '{}', NULL)")
    writer.close()


def test_a_history_without_the_package_it_needs_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"pip install 'clawgauge\[openclaw\]'"):
        read_turns(DATA / "2026.9.6")


def _bomb() -> bytes:
    """A frame of a few kilobytes that unpacks to 20 MiB, and says that it has a petabyte."""
    frame = bytearray(zstandard.ZstdCompressor(write_content_size=False).compress(bytes(20 << 20)))
    frame[4] = frame[4] & 0x1F | 0xC0
    at = 5 if frame[4] & 0x20 else 6
    return bytes(frame[:at]) + struct.pack("<Q", 1 << 50) + bytes(frame[at:])


ROWS = [(json.dumps(record), None) for record in TALK]
PACK = zstandard.ZstdCompressor().compress
UNREAD = LeftOut.LINES_UNREADABLE
CYCLE = [{**record, "parentId": "r1"} if record.get("id") == "r0" else record for record in TALK]


@every_row(
    "rows, n_turns, reason",
    [
        pytest.param([(None, PACK(text.encode())) for text, _ in ROWS], 1, None, id="packed"),
        pytest.param([*ROWS, (None, PACK(bytes(20 << 20)))], 1, UNREAD, id="a bomb"),
        pytest.param([*ROWS, (None, _bomb())], 1, UNREAD, id="a bomb that lies"),
        pytest.param([*ROWS, (None, b"\x00\x01"), (None, 7)], 1, UNREAD, id="no frame"),
        pytest.param(
            [*ROWS, (7, None), (b"\xff", None), ("[1]", None)], 1, UNREAD, id="wrong types"
        ),
        pytest.param([*ROWS, ("{", None), ("[" * 100_000, None)], 1, UNREAD, id="no JSON"),
        pytest.param(
            [*ROWS, ("x" * (17 << 20), None)],
            0,
            LeftOut.SESSIONS_WITH_LARGE_ROW,
            id="a huge row",
        ),
        pytest.param(
            [(json.dumps(one), None) for one in CYCLE], 0, LeftOut.INCOMPLETE_HISTORY, id="a cycle"
        ),
        pytest.param([ROWS[0], ROWS[2]], 0, LeftOut.INCOMPLETE_HISTORY, id="no parent"),
    ],
)
def test_a_hostile_store_costs_its_own_records_alone(
    tmp_path: Path, rows: list[tuple[Any, Any]], n_turns: int, reason: str | None
) -> None:
    turns, left_out = read_turns(write_database(tmp_path, rows))
    assert len(turns) == n_turns
    assert set(left_out) == ({reason} if reason else set())


def test_a_text_that_is_no_utf8_costs_its_own_row(tmp_path: Path) -> None:
    state = write_database(tmp_path, ROWS)
    with sqlite3.connect(database_of(state)) as connection:
        connection.execute(
            "INSERT INTO transcript_events VALUES ('s1', 99, CAST(x'7b22ff' AS TEXT), NULL)"
        )
    connection.close()
    turns, left_out = read_turns(state)
    assert len(turns) == 1
    assert left_out == {UNREAD: 1}


def test_records_of_any_shape_are_no_fault(tmp_path: Path) -> None:
    odd: list[Any] = [
        None,
        7,
        "x",
        [],
        {},
        {"role": 7},
        {"role": "assistant", "content": 7},
        {"role": "user", "content": [7, {}]},
    ]
    odd += [
        {
            "role": "assistant",
            "content": [{"type": "toolCall", "id": [], "name": {}, "arguments": "x"}],
        }
    ]
    odd += [
        {"role": "toolResult", "toolCallId": {}, "content": None, "details": [], "isError": "x"}
    ]
    records: list[Any] = as_records([user("Hello."), answer("Hi.")])
    records += [
        {"type": "message", "id": f"x{n}", "parentId": "r1", "timestamp": 7, "message": one}
        for n, one in enumerate(odd)
    ]
    records += [
        {"type": "leaf", "id": "l", "targetId": {}},
        {"type": "compaction", "firstKeptEntryId": []},
        {"type": []},
    ]
    for end in range(3, len(records) + 1):
        read_turns(write_lines(tmp_path, records[:end]))


def test_links_are_not_followed_and_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    write_lines(secret, TALK)
    state = tmp_path / "state"
    write_lines(state, as_records([user("Mine."), answer("Yes.")], "s2"), "s2.jsonl")
    sessions = state / "agents/main/sessions"
    (sessions / "linked.jsonl").symlink_to(secret / "agents/main/sessions/s1.jsonl")
    (state / "agents/other").symlink_to(secret / "agents/main")
    os.mkfifo(sessions / "pipe.jsonl")
    turns, left_out = read_turns(state)
    assert [turn.question for turn in turns] == ["Mine."]
    assert left_out[LeftOut.LINKS] == 2
    assert left_out[LeftOut.FILES_UNREADABLE] == 1


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
COLUMNS = "'s1' AS session_id, i AS seq, '{}' AS event_json, NULL AS event_zstd, i AS created_at"


def _change(database: Path, *statements: str) -> None:
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def _endless_view(database: Path) -> None:
    view = f"CREATE VIEW transcript_events AS {ENDLESS} SELECT {COLUMNS} FROM n"
    _change(database, "DROP TABLE transcript_events", view)


def _view_that_says_it_is_a_table(database: Path) -> None:
    _endless_view(database)
    lie = "UPDATE sqlite_master SET type = 'table' WHERE name = 'transcript_events'"
    _change(database, "PRAGMA writable_schema = ON", lie)


def _index_of_an_endless_view(table: str, columns: str) -> Callable[[Path], None]:
    def change(database: Path) -> None:
        view = f"CREATE VIEW endless AS {ENDLESS} SELECT i AS rowid, {COLUMNS} FROM n"
        virtual = f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, content='endless', content_rowid='rowid')"
        _change(database, f"DROP TABLE IF EXISTS {table}", view, virtual)

    return change


def _computed_column(database: Path) -> None:
    """One call of a function that takes longer than anyone lives, and can be interrupted by nobody."""
    slow = "printf('%.*c', 40000, 'a') LIKE '" + "%a" * 40 + "%b'"
    columns = f"session_id, seq, event_json AS ({slow}), event_zstd"
    create = f"CREATE TABLE transcript_events ({columns})"
    row = "INSERT INTO transcript_events (session_id, seq) VALUES ('s1', 1)"
    _change(database, "DROP TABLE transcript_events", create, row)


def _many_tables(database: Path) -> None:
    """A schema that is longer than any statement."""
    checks = " AND ".join(["x > 1"] * 30_000)
    _change(database, "PRAGMA writable_schema = ON")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql = f"CREATE TABLE large (x CHECK ({checks}))"
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'large', 'large', 2, ?)", (sql,)
        )
    connection.close()


def _folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def _virtual_table_with_a_page(database: Path) -> None:
    """An ordinary table by its entry in the schema, and none by the statement there."""
    _index_of_an_endless_view("transcript_events", "session_id, seq, event_json, event_zstd")(
        database
    )
    lie = "UPDATE sqlite_master SET rootpage = 2 WHERE name = 'transcript_events'"
    _change(database, "PRAGMA writable_schema = ON", lie)


@every_row(
    "schema, spoil, words",
    [
        pytest.param(24, None, "has schema 24", id="newer"),
        pytest.param(3, None, "has schema 3", id="older"),
        pytest.param(
            23,
            lambda one: one.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096),
            "cannot be read",
            id="broken",
        ),
        pytest.param(23, _endless_view, "is not the plain table", id="a view that never ends"),
        pytest.param(
            23,
            _view_that_says_it_is_a_table,
            "is not the plain table|cannot be read",
            id="a view in a table's clothes",
        ),
        pytest.param(
            23,
            _index_of_an_endless_view(
                "transcript_events", "session_id, seq, event_json, event_zstd"
            ),
            "is not the plain table",
            id="a virtual table over a view that never ends",
        ),
        pytest.param(
            23,
            _index_of_an_endless_view("session_windows", "session_id, created_at"),
            "is not the plain table",
            id="sessions that never end",
        ),
        pytest.param(
            23,
            _virtual_table_with_a_page,
            "is not the plain table",
            id="a schema that lies of its tables",
        ),
        pytest.param(
            23, _computed_column, "is not the plain table", id="a column that is computed"
        ),
        pytest.param(23, _many_tables, "cannot be read", id="a schema too long to read"),
        pytest.param(23, _folder, "cannot be read", id="a folder"),
        pytest.param(23, lambda one: shutil.rmtree(one.parents[2]), "--state-dir", id="nothing"),
    ],
)
def test_what_is_no_store_of_openclaw_is_refused_in_a_sentence(
    tmp_path: Path, schema: int, spoil: Callable[[Path], object] | None, words: str
) -> None:
    write_database(tmp_path, [], schema=schema)
    if spoil is not None:
        spoil(database_of(tmp_path))
    with pytest.raises(ConfigError, match=words) as refused:
        read_turns(tmp_path)
    assert "\n" not in str(refused.value)


class OldConnection(sqlite3.Connection):
    """As SQLite was before 3.37: a pragma that it does not know has no rows."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if "table_list" in sql:
            return super().execute("SELECT 1 LIMIT 0")
        return super().execute(sql, *parameters)


def test_a_store_is_read_with_an_older_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = write_database(tmp_path, ROWS)
    monkeypatch.setattr(
        database.sqlite3, "connect", partial(sqlite3.connect, factory=OldConnection)
    )
    turns, _ = read_turns(state)
    assert len(turns) == 1


def test_a_schema_that_an_older_sqlite_cannot_read_says_which_one_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_database(tmp_path, [])
    _many_tables(database_of(tmp_path))
    monkeypatch.setattr(stores.sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(stores.sqlite3, "sqlite_version", "3.34.1")
    with pytest.raises(ConfigError, match=r"a newer SQLite than 3\.34\.1"):
        read_turns(tmp_path)


def test_logins_that_never_end_are_not_read_and_the_sessions_are(tmp_path: Path) -> None:
    state = write_database(tmp_path, ROWS)
    _index_of_an_endless_view("auth_profile_store", "event_json")(database_of(state))
    logins: list[Any] = []
    [session] = read_sessions(state, [], Counter(), logins)
    assert len(session.records) == len(ROWS) and logins == []


def test_a_database_that_gives_no_row_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages are linked so that a few of them are a table without an end, none of it of the session asked for."""
    state = write_database(tmp_path, ROWS)
    link_endlessly(database_of(state))
    monkeypatch.setattr(database, "MAX_WAIT_S", 1.0)
    with pytest.raises(
        ConfigError,
        match=r"is not read: it gave no row in 1 second; look at it with `openclaw doctor`",
    ):
        read_turns(state)


def test_a_database_that_keeps_sqlite_at_work_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session is a look at the whole table: one that gives its rows in time, and there is no end of them."""
    state = write_database(tmp_path, ROWS)
    monkeypatch.setattr(database, "MAX_TOTAL_S", 0.0)
    with pytest.raises(ConfigError, match=r"is not read: it took more than 0 seconds to read"):
        read_turns(state)


def test_rows_that_never_end_are_refused_and_not_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same few pages, now of the session that is asked for."""
    monkeypatch.setattr(database, "MAX_WAIT_S", 1.0)
    state = write_database(tmp_path, [])
    link_endlessly(database_of(state))
    _change(database_of(state), "UPDATE session_windows SET session_id = 'nobody'")
    with pytest.raises(ConfigError, match=r"it takes too much memory|it gave no row"):
        read_turns(state)


def test_a_session_of_empty_rows_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_MAX_SESSION_BYTES", 1 << 20)
    left_out: Counter[str] = Counter()
    assert (
        list(read_sessions(write_database(tmp_path, [(None, None)] * 10_000), [], left_out, []))
        == []
    )
    assert left_out[LeftOut.SESSIONS_TOO_LARGE] == 1


def test_a_store_that_unpacks_to_more_than_a_history_is_left_out_from_there_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = PACK(json.dumps({"type": "x", "text": "a" * (1 << 20)}).encode())
    state = write_database(tmp_path, [(None, frame)] * 20)
    monkeypatch.setattr(stores, "_MAX_UNPACKED_BYTES", 8 << 20)
    left_out: Counter[str] = Counter()
    assert list(read_sessions(state, [], left_out, [])) == []
    assert left_out[LeftOut.SESSIONS_TOO_LARGE] >= 1


def test_a_line_of_nothing_but_brackets_is_not_decoded(tmp_path: Path) -> None:
    """16 MiB of it would be 400 MiB of lists."""
    bomb = '{"type": "x", "list": [' + "[]," * 4_000_000 + "[]]}"
    turns, left_out = read_turns(
        write_database(tmp_path, [*ROWS, (bomb, None), (None, PACK(bomb.encode()))])
    )
    assert len(turns) == 1
    assert left_out == {UNREAD: 2}
