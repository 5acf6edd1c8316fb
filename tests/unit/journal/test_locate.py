"""Finding the run a user means."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from clawgauge.errors import RunFolderError
from clawgauge.journal import list_runs, locate_run
from clawgauge.journal.folder import RunFolder
from support import written_runs
from support.rows import every_row
from support.written_runs import record, unanswered

from .samples import make_config


def make_run(runs_dir: Path, run_id: str, created_at_ms: int) -> Path:
    with RunFolder.create(runs_dir, run_id) as folder:
        folder.write("config.json", make_config(run_id=run_id, created_at_ms=created_at_ms))
    return folder.path


def test_the_latest_run_is_the_last_one_started(tmp_path: Path) -> None:
    """`latest` goes by the recorded start, not by names or by what was touched last; other folders do not count."""
    newer = make_run(tmp_path, "a", 2000)
    older = make_run(tmp_path, "b", 1000)
    (tmp_path / "zzz").mkdir()
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "config.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.utime(older / "config.json")
    assert locate_run("latest", tmp_path) == newer
    assert list_runs(tmp_path) == [newer, older]


def test_runs_without_a_recorded_start_go_by_their_files(tmp_path: Path) -> None:
    """Folders of the first harness, and those with a spoilt config, are placed by when their files were written."""
    ours = make_run(tmp_path, "ours", 1_700_000_000_000)
    for name, content, at_s in (
        ("old", '{"models": []}', 1_600_000_000),
        ("spoilt", "{", 1_800_000_000),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(content)
        os.utime(tmp_path / name / "config.json", (at_s, at_s))
    assert [path.name for path in list_runs(tmp_path)] == ["spoilt", "ours", "old"]
    assert ours in list_runs(tmp_path)


def test_runs_are_found_by_id_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run id means the run under the runs folder even where a folder of that name lies nearby."""
    run = make_run(tmp_path / "runs", "one", 1)
    elsewhere = make_run(tmp_path / "elsewhere", "one", 1)
    make_run(tmp_path, "one", 1)
    make_run(tmp_path, "two", 1)
    monkeypatch.chdir(tmp_path)
    assert locate_run("one", Path("runs")).resolve() == run
    assert locate_run("two", Path("runs")) == Path("two")
    assert locate_run("elsewhere/one", Path("runs")).resolve() == elsewhere
    assert locate_run(str(elsewhere), Path("runs")) == elsewhere


@every_row("ref", ["", "..", ".", "nope", "../nope", "/", "a\x00b", "x" * 5000])
def test_what_is_no_run_is_refused_with_the_places_looked_at(tmp_path: Path, ref: str) -> None:
    """A reference to nothing says what was looked for and what there is."""
    make_run(tmp_path / "runs", "20260213_120000", 1)
    with pytest.raises(RunFolderError, match=r"looked for .*20260213_120000\.$"):
        locate_run(ref, tmp_path / "runs")


def test_near_ids_are_suggested(tmp_path: Path) -> None:
    """A mistyped id brings the ids it may have meant, and not the others."""
    for number, run_id in enumerate(["20260213_120000", "20260213_120500", "nightly"]):
        make_run(tmp_path, run_id, number)
    with pytest.raises(RunFolderError, match=r"Did you mean nightly\?$"):
        locate_run("nihgtly", tmp_path)
    with pytest.raises(RunFolderError, match=r" 20260213_120500, 20260213_120000\?$"):
        locate_run("20260213", tmp_path)
    for typed in ("lates", "Latest", "lastest"):
        with pytest.raises(RunFolderError, match=r"Did you mean latest\?$"):
            locate_run(typed, tmp_path)


def test_no_run_at_all_says_how_to_make_one(tmp_path: Path) -> None:
    """`latest` in an empty or missing place tells what to do."""
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RunFolderError, match="clawgauge run"):
            locate_run("latest", place)
    with pytest.raises(RunFolderError, match="holds no run"):
        locate_run("x", tmp_path)


def test_the_latest_run_is_the_newest_that_was_answered(tmp_path):
    """A run of a wrong name or a dead server does not stand before the one with figures; where no other is, it does."""
    prompts = [written_runs.prompt("P0")]
    for number, (name, line) in enumerate({"good": record("P0"), "dead": unanswered("P0")}.items()):
        plan = written_runs.config(prompts, created_at_ms=written_runs.T0 + number)
        written_runs.write_run(tmp_path / name, [line], config=plan)
    assert locate_run("latest", tmp_path).name == "good"
    assert locate_run("latest", tmp_path, answered=False).name == "dead"
    shutil.rmtree(tmp_path / "good")
    assert locate_run("latest", tmp_path).name == "dead"
