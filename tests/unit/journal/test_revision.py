"""Cells refilled and runs judged again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import msgspec
import pytest

from clawgauge.errors import RunFolderError
from clawgauge.journal import CellKey, cell_key, encode_line, index_cells, iter_results
from clawgauge.journal.folder import RunFolder

from .samples import append_now, make_config, make_result, start_child

OK = make_result()
LIMITED = make_result(
    prompt_id="P1", availability_status="rate_limited", success=False, failure_type="http_429"
)
BROKEN = make_result(
    prompt_id="P2", availability_status="error", success=False, failure_type="timeout"
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of three cells, the second rate limited, the third timed out."""
    folder = RunFolder.create(tmp_path, "r")
    folder.write("config.json", make_config())
    for result in (OK, LIMITED, BROKEN):
        append_now(folder, result)
    return folder


def test_a_refilled_cell_has_one_line(folder: RunFolder) -> None:
    """The old line moves to superseded.jsonl, the new one takes its place, and every cell counts once."""
    with folder:
        assert folder.supersede({cell_key(LIMITED)}) == 1
        append_now(folder, make_result(prompt_id="P1"))
    assert (folder.path / "superseded.jsonl").read_bytes() == encode_line(LIMITED)
    assert [result.prompt_id for result in iter_results(folder.path)] == ["P0", "P2", "P1"]
    assert {key.prompt_id: status for key, status in index_cells(folder.path).items()} == {
        "P0": "ok",
        "P1": "ok",
        "P2": "error",
    }


def test_other_lines_stay_byte_for_byte(folder: RunFolder) -> None:
    """What is not superseded is not rewritten: spacing, unknown fields and unreadable lines stay as they are."""
    results = folder.path / "results.jsonl"
    loose = encode_line(OK).replace(b'":', b'" : ').replace(b"{", b'{"x" : 1.50,', 1)
    kept = loose + b"rubbish\n" + b'{"provider": "half a record"}\n' + b"\n"
    results.write_bytes(kept + encode_line(LIMITED))
    with folder:
        assert folder.supersede({cell_key(LIMITED)}) == 1
    assert results.read_bytes() == kept


def test_superseding_nothing_touches_nothing(folder: RunFolder) -> None:
    """Cells that are not there leave the run as it is."""
    results = folder.path / "results.jsonl"
    before = results.stat()
    with folder:
        assert folder.supersede({CellKey("a", "b", None, "c", "d", 0)}) == 0
        assert folder.supersede(set()) == 0
    assert results.stat().st_ino == before.st_ino
    assert not (folder.path / "superseded.jsonl").exists()


def test_a_crash_between_the_steps_is_harmless(folder: RunFolder) -> None:
    """With the line copied but not yet removed, the cell still counts once and is moved at the next try."""
    (folder.path / "superseded.jsonl").write_bytes(encode_line(LIMITED) + b'{"torn')
    folder.close()
    assert [cell_key(result) for result in iter_results(folder.path)].count(cell_key(LIMITED)) == 1
    with RunFolder.open_existing(folder.path) as folder:
        assert folder.supersede({cell_key(LIMITED), cell_key(BROKEN)}) == 2
    assert (folder.path / "superseded.jsonl").read_bytes() == (
        encode_line(LIMITED) + encode_line(LIMITED) + encode_line(BROKEN)
    )
    assert [result.prompt_id for result in iter_results(folder.path)] == ["P0"]


def test_killed_while_superseding_every_line_is_somewhere(tmp_path: Path) -> None:
    """Killed at any moment of moving cells, no row is lost and none stands twice among the results."""
    RunFolder.create(tmp_path, "r").close()
    path = tmp_path / "r"
    for attempt in range(4):
        lines = [encode_line(make_result(repeat=n, raw_output="x" * 2000)) for n in range(400)]
        (path / "results.jsonl").write_bytes(b"".join(lines))
        (path / "superseded.jsonl").unlink(missing_ok=True)
        child = start_child(
            """
from pathlib import Path
from clawgauge.journal import cell_key
from clawgauge.journal.folder import RunFolder
from samples import append_now, make_result
folder = RunFolder.open_existing(Path(sys.argv[1]))
print("ready", flush=True)
for start in range(0, 400, 20):
    folder.supersede({cell_key(make_result(repeat=n)) for n in range(start, start + 20)})
""",
            path,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(attempt * 0.01)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        RunFolder.open_existing(path).close()
        here = [result.repeat for result in iter_results(path)]
        superseded = path / "superseded.jsonl"
        # A line that was being copied may be torn: its cell still stands among the results.
        copied, _, _ = (
            superseded.read_bytes().rpartition(b"\n") if superseded.exists() else (b"", b"", b"")
        )
        moved_lines = copied.splitlines()
        moved = {msgspec.json.decode(line)["repeat"] for line in moved_lines}
        assert len(here) == len(set(here))
        assert set(here) | moved == set(range(400))


def test_a_run_is_judged_again_from_its_own_records(folder: RunFolder) -> None:
    """Every record can be replaced from a stream of the same run, and the run can be appended to afterwards."""
    with folder:
        assert (
            folder.rewrite_results(
                lambda r: msgspec.structs.replace(r, judged_by="anew") if r.success else r
            )
            == 3
        )
        append_now(folder, make_result(prompt_id="P3"))
    assert [(result.prompt_id, result.judged_by) for result in iter_results(folder.path)] == [
        ("P0", "anew"),
        ("P1", None),
        ("P2", None),
        ("P3", None),
    ]


def test_judging_again_keeps_what_cannot_be_read(folder: RunFolder) -> None:
    """Unreadable lines are carried over, so that a reader goes on saying they are there."""
    results = folder.path / "results.jsonl"
    surrogate = encode_line(make_result(raw_output="X")).replace(b'"X"', b'"\\ud800"')
    results.write_bytes(encode_line(OK) + b"rubbish\n" + surrogate + b"\n")
    with folder:
        assert folder.rewrite_results(lambda result: result) == 2
    reader = iter_results(folder.path)
    assert [result.raw_output for result in reader] == ["HEARTBEAT_OK", "\ufffd"]
    assert reader.n_unreadable_lines == 1
    assert b"\nrubbish\n" in results.read_bytes()


def test_a_failure_while_judging_changes_nothing(folder: RunFolder) -> None:
    """When the new verdicts cannot be had, the old records stand and no temporary file stays."""
    before = (folder.path / "results.jsonl").read_bytes()

    def failing(result):
        raise KeyboardInterrupt

    with folder:
        with pytest.raises(KeyboardInterrupt):
            folder.rewrite_results(failing)
        assert (folder.path / "results.jsonl").read_bytes() == before
        append_now(folder, make_result(prompt_id="P3"))
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json", "results.jsonl"]
    assert len(list(iter_results(folder.path))) == 4


def test_records_of_the_first_harness_are_never_rewritten(tmp_path: Path) -> None:
    """A folder of the first harness is only read."""
    (tmp_path / "config.json").write_text('{"models": ["m"]}')
    old = b'{"record_type": "result", "provider": "p", "model": "m", "prompt_id": "P0"}\n'
    (tmp_path / "results.jsonl").write_bytes(old)
    with (
        RunFolder.open_existing(tmp_path) as folder,
        pytest.raises(RunFolderError, match="first harness"),
    ):
        folder.rewrite_results(lambda result: result)
    assert (tmp_path / "results.jsonl").read_bytes() == old
