"""Runs that are killed, interrupted or torn, and what is left of them."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawgauge.journal import encode_line, index_cells, iter_results
from clawgauge.journal.folder import RunFolder
from support.rows import every_row

from .samples import append_now, ends_whole, make_result, start_child

KEEP_WRITING = """
import asyncio
from pathlib import Path
from clawgauge.journal.folder import RunFolder
from samples import append_now, make_result

async def main():
    folder = RunFolder.open_existing(Path(sys.argv[1]))
    first = int(sys.argv[2])

    async def record(n):
        await folder.append(make_result(repeat=n, raw_output="é" * 30_000))
        print(n, flush=True)

    for n in range(first, first + 100_000, 8):
        await asyncio.gather(*(record(m) for m in range(n, n + 8)))

asyncio.run(main())
"""


PLANTED_TEAR = b'{"record_type":"result","run_id":"planted'


def kill_writers(path: Path, times: int) -> None:
    """Kill a writing process `times` over; every row it was told of must be there, once, after each repair.

    A kill tears a line only about once in a hundred, so each further process is also given a planted tear to repair.
    """
    acknowledged: set[int] = set()
    for n in range(times):
        child = start_child(KEEP_WRITING, path, n * 1_000_000)
        assert child.stdout is not None
        acknowledged.add(int(child.stdout.readline()))
        time.sleep(random.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        acknowledged |= {int(line) for line in child.stdout if line.endswith("\n")}
        assert child.communicate()[1] == ""
        with RunFolder.open_existing(path):
            pass
        assert (path / "results.jsonl").read_bytes().endswith(b"\n")
        reader = iter_results(path)
        recorded = [result.repeat for result in reader]
        assert acknowledged <= set(recorded)
        assert len(recorded) == len(set(recorded)) == len(index_cells(path))
        assert reader.n_unreadable_lines == 0 and ends_whole(path)
        with (path / "results.jsonl").open("ab") as file:
            file.write(PLANTED_TEAR)
    assert (path / "results.torn").read_bytes().count(PLANTED_TEAR) == times - 1


def test_kill_loses_no_recorded_row(tmp_path: Path) -> None:
    """Killed at any moment, a run keeps every row it said was recorded, and can be written again."""
    RunFolder.create(tmp_path, "r").close()
    kill_writers(tmp_path / "r", 4)


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A folder in memory where there is one: a thousand repairs sync the disk thousands of times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield Path(path)


def test_a_line_torn_anywhere_is_put_aside(quick_disk: Path) -> None:
    """Wherever a line was cut, its bytes go to results.torn, a warning says so, and the next line is whole."""
    first, last = (
        encode_line(make_result(raw_output="é😀")),
        encode_line(make_result(repeat=1, raw_output="é😀")),
    )
    RunFolder.create(quick_disk, "r").close()
    results, torn = quick_disk / "r" / "results.jsonl", quick_disk / "r" / "results.torn"
    text, end = last.index("é".encode()), len(last)
    for cut in sorted({*range(0, end, 5), *range(text, text + 8), *range(end - 4, end + 1)}):
        torn.unlink(missing_ok=True)
        results.write_bytes(first + last[:cut])
        with RunFolder.open_existing(quick_disk / "r") as folder:
            append_now(folder, make_result(repeat=2))
        added = encode_line(make_result(repeat=2))
        if cut >= len(last) - 1:
            assert results.read_bytes() == first + last + added
        else:
            assert results.read_bytes() == first + added
        if 0 < cut < len(last) - 1:
            assert torn.read_bytes() == last[:cut]
            assert f"{cut} bytes are now in results.torn" in folder.warnings[0]
        else:
            assert not torn.exists()
            assert folder.warnings == []


@every_row("tail", [b"\x00" * 200_000, b"12", b"null", b'{"a":1}x', b" "])
def test_tails_that_are_no_record_are_torn(tmp_path: Path, tail: bytes) -> None:
    """Zeros after a power cut, or anything that is no object, never become part of the next line."""
    RunFolder.create(tmp_path, "r").close()
    (tmp_path / "r" / "results.jsonl").write_bytes(tail)
    with RunFolder.open_existing(tmp_path / "r") as folder:
        append_now(folder, make_result())
    assert (tmp_path / "r" / "results.torn").read_bytes() == tail
    assert list(iter_results(folder.path)) == [make_result()]


def test_a_second_tear_is_kept_beside_the_first(tmp_path: Path) -> None:
    """results.torn collects tears, a line each."""
    RunFolder.create(tmp_path, "r").close()
    for tear in (b'{"one', b'{"two'):
        (tmp_path / "r" / "results.jsonl").write_bytes(tear)
        RunFolder.open_existing(tmp_path / "r").close()
    assert (tmp_path / "r" / "results.torn").read_bytes() == b'{"one\n{"two'


def test_a_killed_rewrite_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    """summary.json is whole at every moment, and what a killed write left is cleared on the next opening."""
    RunFolder.create(tmp_path, "r").close()
    path = tmp_path / "r"
    for _ in range(4):
        child = start_child(
            """
from itertools import count
from pathlib import Path
from clawgauge.journal.folder import RunFolder
folder = RunFolder.open_existing(Path(sys.argv[1]))
for n in count():
    folder.write("summary.json", {"n": n, "padding": "x" * 200_000, "again": n})
    if n == 1:
        print("written", flush=True)
""",
            path,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        time.sleep(random.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        summary = json.loads((path / "summary.json").read_bytes())
        assert summary["n"] == summary["again"]
        RunFolder.open_existing(path).close()
        assert sorted(found.name for found in path.iterdir()) == ["results.jsonl", "summary.json"]
