"""Disks that are full or refuse to write."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawgauge.errors import DiskFailure
from clawgauge.journal import CellKey, iter_results
from clawgauge.journal.disk import Directory, disk_failure, folder_failure
from clawgauge.journal.folder import RunFolder
from clawgauge.run_data import Run

from .samples import append_now, ends_whole, make_config, make_event, make_result

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(folder: RunFolder) -> int:
    """Record until the disk refuses; returns how many rows were taken."""
    recorded = 0
    with pytest.raises(DiskFailure, match=r"results\.jsonl.*--resume"):
        while True:
            append_now(folder, make_result(repeat=recorded, raw_output="x" * 5000))
            recorded += 1
    return recorded


def test_a_full_disk_keeps_the_earlier_rows(small_disk: Path) -> None:
    """When the disk fills, every row recorded before is whole, nothing is torn, and the error has exit code 4."""
    folder = RunFolder.create(small_disk, "r")
    recorded = fill(folder)
    assert recorded > 10
    with pytest.raises(DiskFailure) as later:
        append_now(folder, make_result())
    assert later.value.exit_code == 4
    folder.event(make_event(detail={"padding": "x" * 300_000}))
    assert folder.n_events_lost == 1
    folder.close()
    reader = iter_results(folder.path)
    assert [result.repeat for result in reader] == list(range(recorded))
    assert (ends_whole(folder.path), reader.n_unreadable_lines, Run.open(folder.path).events) == (
        True,
        0,
        [],
    )


def test_a_burst_into_a_full_disk_tells_each_row_the_truth(small_disk: Path) -> None:
    """Of rows that reach a filling disk together, those told they are recorded are exactly those on disk."""

    async def record() -> list[int]:
        with RunFolder.create(small_disk, "r") as folder:
            rows = (folder.append(make_result(repeat=n, raw_output="x" * 5000)) for n in range(200))
            outcomes = await asyncio.gather(*rows, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, DiskFailure) for outcome in outcomes)
        return [n for n, outcome in enumerate(outcomes) if outcome is None]

    recorded = asyncio.run(record())
    assert 0 < len(recorded) < 200
    assert [result.repeat for result in iter_results(small_disk / "r")] == recorded


def test_a_full_disk_while_superseding_loses_no_line(small_disk: Path) -> None:
    """Cells that cannot be moved for want of room stay where they were."""
    with RunFolder.create(small_disk, "r") as folder:
        for n in range(30):
            append_now(folder, make_result(repeat=n, raw_output="x" * 5000))
        before = (folder.path / "results.jsonl").read_bytes()
        with pytest.raises(DiskFailure):
            folder.supersede(
                {CellKey("ollama_openai", "llama3.2:3b", None, "core", "P0", n) for n in range(29)}
            )
        assert (folder.path / "results.jsonl").read_bytes() == before
        assert [path.name for path in folder.path.iterdir() if path.name.endswith(".tmp")] == []
    RunFolder.open_existing(folder.path).close()
    assert len(list(iter_results(folder.path))) == 30


@needs_dev_full
def test_a_device_that_is_always_full_refuses_the_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full in the place of results.jsonl ends the run at once, and events are let go without a word."""
    with RunFolder.create(tmp_path, "r") as folder:
        monkeypatch.setattr(
            Directory, "open", lambda _directory, _name, flags: os.open("/dev/full", flags)
        )
        with pytest.raises(DiskFailure, match="No space left"):
            append_now(folder, make_result())
        folder.event(make_event())
        assert folder.n_events_lost == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps open files")
def test_a_results_file_that_cannot_be_opened_is_a_disk_failure(tmp_path: Path) -> None:
    """results.jsonl turned into a folder ends the run with the machine's exit code, not a crash."""
    with RunFolder.create(tmp_path, "r") as folder:
        folder.write("config.json", make_config())
        (folder.path / "results.jsonl").unlink()
        (folder.path / "results.jsonl").mkdir()
        with pytest.raises(DiskFailure, match=r"results\.jsonl"):
            append_now(folder, make_result())


def test_a_place_that_may_not_be_written_is_not_said_to_be_full(tmp_path: Path) -> None:
    """Room is asked for where there is none; a read-only place wants leave to write."""
    for number, way in (
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "leave to write"),
        (errno.EACCES, "leave to write"),
    ):
        assert way in str(disk_failure(tmp_path, OSError(number, os.strerror(number))))


def test_a_run_that_may_not_be_written_is_not_sent_to_another_runs_folder(tmp_path: Path) -> None:
    """A new run can go elsewhere; one that is there needs leave, or a copy."""
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))
    assert "choose another --runs-dir" in str(folder_failure(tmp_path, error))
    (tmp_path / "config.json").touch()
    assert (
        "a copy of the run" in (said := str(folder_failure(tmp_path, error)))
        and "--runs-dir" not in said
    )
