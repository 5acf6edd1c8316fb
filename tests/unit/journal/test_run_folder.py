"""Making and opening run folders."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from clawgauge.errors import RunFolderError
from clawgauge.journal import iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.run_data import Run
from support.rows import every_row

from .samples import append_now, make_config, make_event, make_result

NOON = datetime(2026, 2, 13, 12, 0, 0)


def test_the_default_id_is_local_time(tmp_path: Path) -> None:
    """Runs of the same second get _2, _3 and so on, and none takes another's folder."""
    ids = []
    for _ in range(3):
        with RunFolder.create(tmp_path / "runs", None, now=NOON) as folder:
            ids.append(folder.run_id)
            assert folder.path == tmp_path / "runs" / folder.run_id
    assert ids == ["20260213_120000", "20260213_120000_2", "20260213_120000_3"]


def test_a_fresh_folder_can_be_read_at_once(tmp_path: Path) -> None:
    """A run that has not answered anything yet has an empty results.jsonl and, once closed, no lock file."""
    with RunFolder.create(tmp_path, "r") as folder:
        assert list(iter_results(folder.path)) == []
    assert [path.name for path in folder.path.iterdir()] == ["results.jsonl"]


def test_an_id_in_use_points_to_resume(tmp_path: Path) -> None:
    """Asking for a run id that exists tells about --resume and leaves the run alone."""
    with RunFolder.create(tmp_path, "mine") as folder:
        folder.write("config.json", make_config())
    with pytest.raises(RunFolderError, match="--resume mine"):
        RunFolder.create(tmp_path, "mine")
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"] and folder.has("config.json")


@every_row("run_id", ["20260213_120000", "nightly-3.2", "übung", "a b"])
def test_ordinary_ids_are_taken(tmp_path: Path, run_id: str) -> None:
    """Names a person would choose work."""
    with RunFolder.create(tmp_path, run_id) as folder:
        assert folder.run_id == run_id


def test_only_a_run_folder_is_opened(tmp_path: Path) -> None:
    """Pointing --resume at some other folder leaves nothing in it."""
    with pytest.raises(RunFolderError, match="no run folder"):
        RunFolder.open_existing(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_documents_are_replaced_whole(tmp_path: Path) -> None:
    """A second write replaces the first, and no temporary file stays."""
    with RunFolder.create(tmp_path, "r") as folder:
        for version in ("0.1.0", "0.2.0"):
            folder.write("config.json", make_config(clawgauge_version=version))
        folder.write("summary.md", "a\r\nb\ud800")
    config = Run.open(folder.path).config
    assert config is not None
    assert config.clawgauge_version == "0.2.0"
    assert (folder.path / "summary.md").read_bytes() == "a\r\nb\ufffd".encode()
    assert (folder.path / "config.json").read_text().startswith('{\n  "schema_version": 1,\n')
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "config.json",
        "results.jsonl",
        "summary.md",
    ]


def test_events_keep_their_order_and_survive_a_tear(tmp_path: Path) -> None:
    """Events are read back in order; one cut short by a crash is dropped, and the next starts its own line."""
    with RunFolder.create(tmp_path, "r") as folder:
        for n in range(3):
            folder.event(make_event(at_ms=n, detail={"text": "a\u2028\ud800"}))
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "retr')
    with RunFolder.open_existing(folder.path) as folder:
        folder.event(make_event(at_ms=3))
        assert folder.warnings == []
    assert [event.at_ms for event in Run.open(folder.path).events] == [0, 1, 2, 3]
    assert all(json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines())


def test_a_closed_folder_takes_nothing_more(tmp_path: Path) -> None:
    """Writing after close is an error that says what to do, and closing twice is none."""
    folder = RunFolder.create(tmp_path, "r")
    folder.close()
    folder.close()
    for write in (
        lambda: append_now(folder, make_result()),
        lambda: folder.event(make_event()),
        lambda: folder.write("summary.md", ""),
        lambda: folder.supersede(set()),
    ):
        with pytest.raises(RunFolderError, match="open"):
            write()
    assert [path.name for path in folder.path.iterdir()] == ["results.jsonl"]
