"""Making and opening run folders."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from clawgauge.errors import RunFolderError, RunLocked
from clawgauge.journal import iter_results, read_config, read_events
from clawgauge.journal.folder import RunFolder

from .samples import append_now, make_config, make_event, make_result, run_child

NOON = datetime(2026, 2, 13, 12, 0, 0)

REFUSED = [
    "",
    "../x",
    "..",
    ".",
    "/tmp/x",
    "a/b",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a\x1bb",
    "a\u202eb",
    "a\ud800b",
    ".hidden",
    "-rf",
    "x" * 121,
    "模" * 100,
    "a:b",
    "a*",
    "what?",
    'a"b',
    "<a>",
    "a|b",
    "nul",
    "COM1.txt",
    "a.",
    "a ",
    "latest",
]


@pytest.fixture
def shared_dir() -> Iterator[Path]:
    """A folder that a user without rights can reach but not write."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


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
        folder.write_json("config.json", make_config())
    with pytest.raises(RunFolderError, match="--resume mine"):
        RunFolder.create(tmp_path, "mine")
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"] and folder.has("config.json")


def test_an_id_under_which_nothing_was_written_is_free(tmp_path: Path) -> None:
    """A run killed before its first file can be begun again by the same name, unless somebody is at it."""
    with RunFolder.create(tmp_path, "mine"), pytest.raises(RunLocked):
        RunFolder.create(tmp_path, "mine")
    (tmp_path / "mine" / ".config.json.1-0.tmp").touch()
    with RunFolder.create(tmp_path, "mine") as folder:
        assert [path.name for path in folder.path.iterdir() if path.name != ".lock"] == ["results.jsonl"]


@pytest.mark.parametrize("run_id", REFUSED)
def test_bad_ids_are_refused_before_any_file(tmp_path: Path, run_id: str) -> None:
    """A run id that is not one plain portable name makes nothing, not even the runs folder."""
    with pytest.raises(RunFolderError, match="run id"):
        RunFolder.create(tmp_path / "runs", run_id)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run_id", ["20260213_120000", "nightly-3.2", "übung", "a b"])
def test_ordinary_ids_are_taken(tmp_path: Path, run_id: str) -> None:
    """Names a person would choose work."""
    with RunFolder.create(tmp_path, run_id) as folder:
        assert folder.run_id == run_id


def test_a_place_that_cannot_be_written_is_named(shared_dir: Path) -> None:
    """Without the right to write, creating a run and opening one end with exit code 2 and the folder's name."""
    RunFolder.create(shared_dir, "r").close()
    printed = run_child(
        """
import os, sys
from pathlib import Path
from clawgauge.errors import RunFolderError, RunLocked
from clawgauge.journal.folder import RunFolder
runs = Path(sys.argv[1])
if os.getuid() == 0:
    os.setuid(65534)
else:
    runs.chmod(0o555); (runs / "r").chmod(0o555)
for attempt in (lambda: RunFolder.create(runs, "new"), lambda: RunFolder.open_existing(runs / "r")):
    try:
        attempt()
    except RunFolderError as error:
        print(error.exit_code, error)
if os.getuid() != 65534:
    runs.chmod(0o755); (runs / "r").chmod(0o755)
""",
        shared_dir,
    )
    created, opened = printed.splitlines()
    assert created.startswith(f"2 Cannot write to {shared_dir} (")
    assert opened.startswith(f"2 Cannot write to {shared_dir / 'r'} (")
    assert [path.name for path in shared_dir.iterdir()] == ["r"]


def test_a_runs_dir_that_is_a_file_is_named(tmp_path: Path) -> None:
    """--runs-dir pointing at a file is a wrong request, not a crash."""
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunFolderError, match="runs"):
        RunFolder.create(tmp_path / "runs", "r")


def test_reading_needs_no_right_to_write(shared_dir: Path) -> None:
    """A run folder on a read-only place can be read in full, without leaving a trace."""
    with RunFolder.create(shared_dir, "r") as folder:
        folder.write_json("config.json", make_config())
        append_now(folder, make_result())
        folder.event(make_event())
    with (folder.path / "results.jsonl").open("ab") as file:
        file.write(b'{"torn')
    before = sorted(path.name for path in folder.path.iterdir())
    printed = run_child(
        """
import os, sys
from pathlib import Path
from clawgauge.journal import index_cells, iter_results, locate_run, read_config, read_events, read_inventory
if os.getuid() == 0:
    os.setuid(65534)
path = locate_run("latest", Path(sys.argv[1]))
reader = iter_results(path)
print(len(list(reader)), reader.bad_lines, len(index_cells(path)), len(read_events(path)))
print(read_config(path) is not None, read_inventory(path))
""",
        shared_dir,
    )
    assert printed == "1 0 1 1\nTrue None\n"
    assert sorted(path.name for path in folder.path.iterdir()) == before


def test_only_a_run_folder_is_opened(tmp_path: Path) -> None:
    """Pointing --resume at some other folder leaves nothing in it."""
    with pytest.raises(RunFolderError, match="no run folder"):
        RunFolder.open_existing(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "results.jsonl", "events.jsonl", "a\nb", "x" * 300])
def test_only_plain_files_are_written(tmp_path: Path, name: str) -> None:
    """No file is written outside the folder, nor over one that is kept line by line."""
    with RunFolder.create(tmp_path / "runs", "r") as folder, pytest.raises(RunFolderError, match="file name"):
        folder.write_text(name, "x")
    assert [path.name for path in tmp_path.rglob("*")] == ["runs", "r", "results.jsonl"]


def test_documents_are_replaced_whole(tmp_path: Path) -> None:
    """A second write replaces the first, and no temporary file stays."""
    with RunFolder.create(tmp_path, "r") as folder:
        for version in ("0.1.0", "0.2.0"):
            folder.write_json("config.json", make_config(clawgauge_version=version))
        folder.write_text("summary.md", "a\r\nb\ud800")
    config = read_config(folder.path)
    assert config is not None
    assert config.clawgauge_version == "0.2.0"
    assert (folder.path / "summary.md").read_bytes() == "a\r\nb\ufffd".encode()
    assert (folder.path / "config.json").read_text().startswith('{\n  "schema_version": 1,\n')
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json", "results.jsonl", "summary.md"]


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
    assert [event.at_ms for event in read_events(folder.path)] == [0, 1, 2, 3]
    assert all(json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines())


def test_a_closed_folder_takes_nothing_more(tmp_path: Path) -> None:
    """Writing after close is an error that says what to do, and closing twice is none."""
    folder = RunFolder.create(tmp_path, "r")
    folder.close()
    folder.close()
    for write in (
        lambda: append_now(folder, make_result()),
        lambda: folder.event(make_event()),
        lambda: folder.write_text("summary.md", ""),
        lambda: folder.supersede(set()),
    ):
        with pytest.raises(RunFolderError, match="open"):
            write()
    assert [path.name for path in folder.path.iterdir()] == ["results.jsonl"]
