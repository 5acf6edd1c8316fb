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
from pathlib import Path
from typing import Any

import pytest
import zstandard

from clawgauge.errors import ConfigError
from clawgauge.own_work.stores import read_sessions
from support.openclaw_store import (
    DATA,
    answer,
    as_records,
    copy_store,
    database_of,
    hashes,
    read_moments,
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
    shutil.copy(DATA / "main_decoded.jsonl", archive / "agent_main_main.95fad8c4.jsonl.imported-1794757386507")
    write_lines(state, TALK, "own.jsonl.reset.2026-11-15T16-14-21.566Z")
    assert len(list(read_sessions(state, [], Counter(), []))) == 9


def test_a_session_that_the_database_only_names_is_read_from_its_file(tmp_path: Path) -> None:
    state = write_lines(write_database(tmp_path, []), as_records([user("Hi"), answer("Ho")]))
    (session,) = read_sessions(state, [], Counter(), [])
    assert len(session.records) == 3


def test_a_store_in_use_is_read_with_what_is_not_folded_in_yet_and_not_a_byte_changes(tmp_path: Path) -> None:
    state = write_database(tmp_path, [])
    with sqlite3.connect(database_of(state)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        for n, record in enumerate(TALK):
            writer.execute("INSERT INTO transcript_events VALUES ('s1', ?, ?, NULL)", (n, json.dumps(record)))
        writer.commit()
        before = hashes(state)
        assert any(name.endswith("-wal") for name in before)
        moments, _ = read_moments(state)
        assert [moment.asked for moment in moments] == ["Hello."]
        assert hashes(state) == before
        writer.execute("INSERT INTO transcript_events VALUES ('s1', 9, '{}', NULL)")
    writer.close()


def test_a_history_without_the_package_it_needs_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match=r"pip install 'clawgauge\[openclaw\]'"):
        read_moments(DATA / "2026.9.6")


def _bomb() -> bytes:
    """A frame of a few kilobytes that unpacks to 20 MiB, and says that it has a petabyte."""
    frame = bytearray(zstandard.ZstdCompressor(write_content_size=False).compress(bytes(20 << 20)))
    frame[4] = frame[4] & 0x1F | 0xC0
    at = 5 if frame[4] & 0x20 else 6
    return bytes(frame[:at]) + struct.pack("<Q", 1 << 50) + bytes(frame[at:])


ROWS = [(json.dumps(record), None) for record in TALK]
PACK = zstandard.ZstdCompressor().compress
UNREAD = "lines that cannot be read"
CYCLE = [{**record, "parentId": "r1"} if record.get("id") == "r0" else record for record in TALK]


@every_row(
    "rows, n_moments, reason",
    [
        pytest.param([(None, PACK(text.encode())) for text, _ in ROWS], 1, None, id="packed"),
        pytest.param([*ROWS, (None, PACK(bytes(20 << 20)))], 1, UNREAD, id="a bomb"),
        pytest.param([*ROWS, (None, _bomb())], 1, UNREAD, id="a bomb that lies"),
        pytest.param([*ROWS, (None, b"\x00\x01"), (None, 7)], 1, UNREAD, id="no frame"),
        pytest.param([*ROWS, (7, None), (b"\xff", None), ("[1]", None)], 1, UNREAD, id="wrong types"),
        pytest.param([*ROWS, ("{", None), ("[" * 100_000, None)], 1, UNREAD, id="no JSON"),
        pytest.param([*ROWS, ("x" * (17 << 20), None)], 0, "sessions with a row that is too large", id="a huge row"),
        pytest.param([(json.dumps(one), None) for one in CYCLE], 0, "incomplete histories", id="a cycle"),
        pytest.param([ROWS[0], ROWS[2]], 0, "incomplete histories", id="no parent"),
    ],
)
def test_a_hostile_store_costs_its_own_records_alone(
    tmp_path: Path, rows: list[tuple[Any, Any]], n_moments: int, reason: str | None
) -> None:
    moments, left_out = read_moments(write_database(tmp_path, rows))
    assert len(moments) == n_moments
    assert set(left_out) == ({reason} if reason else set())


def test_a_text_that_is_no_utf8_costs_its_own_row(tmp_path: Path) -> None:
    state = write_database(tmp_path, ROWS)
    with sqlite3.connect(database_of(state)) as connection:
        connection.execute("INSERT INTO transcript_events VALUES ('s1', 99, CAST(x'7b22ff' AS TEXT), NULL)")
    connection.close()
    moments, left_out = read_moments(state)
    assert len(moments) == 1
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
    odd += [{"role": "assistant", "content": [{"type": "toolCall", "id": [], "name": {}, "arguments": "x"}]}]
    odd += [{"role": "toolResult", "toolCallId": {}, "content": None, "details": [], "isError": "x"}]
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
        read_moments(write_lines(tmp_path, records[:end]))


def test_links_are_not_followed_and_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    write_lines(secret, TALK)
    state = tmp_path / "state"
    write_lines(state, as_records([user("Mine."), answer("Yes.")], "s2"), "s2.jsonl")
    sessions = state / "agents/main/sessions"
    (sessions / "linked.jsonl").symlink_to(secret / "agents/main/sessions/s1.jsonl")
    (state / "agents/other").symlink_to(secret / "agents/main")
    os.mkfifo(sessions / "pipe.jsonl")
    moments, left_out = read_moments(state)
    assert [moment.asked for moment in moments] == ["Mine."]
    assert left_out["links, which are not followed"] == 2
    assert left_out["files that cannot be read"] == 1


def _endless_view(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE transcript_events")
        connection.execute(
            "CREATE VIEW transcript_events AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT 's1' AS session_id, i AS seq, '{}' AS event_json, NULL AS event_zstd FROM n"
        )
    connection.close()


def _folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


@every_row(
    "schema, spoil, words",
    [
        pytest.param(24, None, "has schema 24", id="newer"),
        pytest.param(3, None, "has schema 3", id="older"),
        pytest.param(
            23, lambda one: one.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096), "cannot be read", id="broken"
        ),
        pytest.param(23, _endless_view, "has schema 23", id="a view that never ends"),
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
        read_moments(tmp_path)
    assert "\n" not in str(refused.value)
