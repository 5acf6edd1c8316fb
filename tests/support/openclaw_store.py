"""OpenClaw's stores for tests: copies of real ones, and small ones written record by record."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from clawgauge.own_work.stores import read_sessions
from clawgauge.own_work.turns import HistoryTurn, find_turns

DATA = Path(__file__).parents[1] / "data" / "openclaw"
Record = dict[str, Any]


def copy_store(release: str, place: Path) -> Path:
    """A state folder with the history of a release."""
    return Path(shutil.copytree(DATA / release, place / release))


def read_turns(state: Path, since: str = "") -> tuple[list[HistoryTurn], Counter[str]]:
    left_out: Counter[str] = Counter()
    turns = list(find_turns(read_sessions(state, [], left_out, []), since, left_out))
    return turns, +left_out


def hashes(folder: Path) -> dict[str, str]:
    """Every file of a folder, by what is in it and when it was last changed."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(p): f"{hashlib.sha256(p.read_bytes()).hexdigest()} {p.stat().st_mtime_ns}"
        for p in files
    }


def user(text: str, **fields: Any) -> Record:
    return {"role": "user", "content": text, "timestamp": 1794757382537, **fields}


def answer(text: str = "", *calls: tuple[str, Mapping[str, Any]], **fields: Any) -> Record:
    """An assistant's message; its calls have the ids `call0`, `call1`, …"""
    blocks: list[Record] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "toolCall", "id": f"call{n}", "name": name, "arguments": given}
        for n, (name, given) in enumerate(calls)
    ]
    made = {"provider": "lab", "model": "big", "stopReason": "toolUse" if calls else "stop"}
    return {"role": "assistant", "content": blocks, **made, **fields}


def result(text: str, number: int = 0, **fields: Any) -> Record:
    content = [{"type": "text", "text": text}]
    return {
        "role": "toolResult",
        "toolCallId": f"call{number}",
        "toolName": "x",
        "content": content,
        **fields,
    }


def as_records(messages: Iterable[Record], session: str = "s1") -> list[Record]:
    """Messages, or whole records of another type, each behind the one before it."""
    records: list[Record] = [
        {
            "type": "session",
            "id": session,
            "timestamp": "2026-11-15T10:00:00Z",
            "cwd": "/home/ana/w",
        }
    ]
    for n, message in enumerate(messages):
        whole = message if "type" in message else {"type": "message", "message": message}
        parent = None if n == 0 else f"r{n - 1}"
        records.append(
            {
                "id": f"r{n}",
                "parentId": parent,
                "timestamp": f"2026-11-15T10:{n // 60:02}:{n % 60:02}Z",
                **whole,
            }
        )
    return records


def write_lines(place: Path, records: Sequence[Record], name: str = "s1.jsonl") -> Path:
    """A state folder with one session as JSON Lines."""
    folder = place / "agents" / "main" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return place


def database_of(place: Path) -> Path:
    return place / "agents" / "main" / "agent" / "openclaw-agent.sqlite"


def write_database(place: Path, rows: Iterable[tuple[Any, Any]], *, schema: int = 23) -> Path:
    """A state folder with one session in SQLite: a text or a packed frame a row."""
    database_of(place).parent.mkdir(parents=True)
    with sqlite3.connect(database_of(place)) as connection:
        connection.executescript(
            f"""PRAGMA user_version = {schema};
            CREATE TABLE session_windows (session_id, session_key, created_at);
            CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd);
            CREATE TABLE trajectory_runtime_events (session_id, seq, event_json);
            INSERT INTO session_windows VALUES ('s1', 'agent:main:main', 1);"""
        )
        told = [("s1", n, text, packed) for n, (text, packed) in enumerate(rows)]
        connection.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", told)
    connection.close()
    return place


_PAGE_BYTES = 4096
_LEVELS = 8


def _interior_page(child: int) -> bytes:
    """A page of a table's tree that has one and the same page below it some hundred times."""
    cell = struct.pack(">I", child) + b"\x01"
    n_cells = (_PAGE_BYTES - 12) // (len(cell) + 2)
    start = _PAGE_BYTES - len(cell)
    header = struct.pack(">BHHHBI", 5, 0, n_cells, start, 0, child)
    pointers = struct.pack(">H", start) * n_cells
    return (header + pointers).ljust(start, b"\0") + cell


def link_endlessly(database: Path, table: str = "transcript_events") -> None:
    """Make of a few pages a table whose rows, all of them one row of nobody's session, never end."""
    with sqlite3.connect(database) as connection:
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} (session_id, seq) VALUES ('nobody', 1)")
        connection.execute("CREATE TABLE spare (filler)")
        connection.execute("INSERT INTO spare VALUES (zeroblob(?))", (2 * _LEVELS * _PAGE_BYTES,))
        connection.commit()
        [(page_bytes,)] = connection.execute("PRAGMA page_size")
        [(n_pages,)] = connection.execute("PRAGMA page_count")
        [(root,)] = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        )
    connection.close()
    assert page_bytes == _PAGE_BYTES
    pages = database.read_bytes()
    chain = [root, *range(n_pages - _LEVELS + 1, n_pages + 1)]
    changed = {chain[-1]: pages[(root - 1) * _PAGE_BYTES : root * _PAGE_BYTES]}
    for page, below in pairwise(chain):
        changed[page] = _interior_page(below)
    with database.open("r+b") as file:
        for page, content in changed.items():
            file.seek((page - 1) * _PAGE_BYTES)
            file.write(content)
