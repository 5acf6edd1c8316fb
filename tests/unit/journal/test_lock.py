"""One writer per run folder."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from clawgauge.errors import RunLocked
from clawgauge.journal.folder import RunFolder
from clawgauge.journal.lock import is_being_written
from support.waiting import wait_until

from .samples import run_child, start_child


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    """A run folder nobody holds."""
    with RunFolder.create(tmp_path, "r") as folder:
        return folder.path


def test_one_process_cannot_open_a_run_twice(run_path: Path) -> None:
    """Even within one process there is one writer, and its own id is named."""
    with (
        RunFolder.open_existing(run_path),
        pytest.raises(RunLocked, match=f"process {os.getpid()} "),
    ):
        RunFolder.open_existing(run_path)
    RunFolder.open_existing(run_path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_forked_child_neither_holds_nor_writes_nor_releases(run_path: Path) -> None:
    """A fork that outlives its killed parent does not keep the run locked, and cannot write to it by mistake."""
    parent = start_child(
        """
import os, signal, time
from pathlib import Path
from clawgauge.errors import RunFolderError
from clawgauge.journal.folder import RunFolder
from samples import append_now, make_event, make_result
folder = RunFolder.open_existing(Path(sys.argv[1]))
append_now(folder, make_result())
ready, told = os.pipe()
child = os.fork()
if child == 0:
    for write in (lambda: append_now(folder, make_result()), lambda: folder.event(make_event())):
        try:
            write()
        except RunFolderError:
            os.write(told, b"refused ")
    folder.close()
    os.write(told, b"\\n")
    time.sleep(3600)
said = b""
while not said.endswith(b"\\n"):
    said += os.read(ready, 100)
print(child, (folder.path / ".lock").exists(), said.decode().split(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        run_path,
    )
    assert parent.stdout is not None
    child, *rest = parent.stdout.readline().split(maxsplit=1)
    parent.wait()
    try:
        assert rest == ["True ['refused', 'refused']\n"]
        RunFolder.open_existing(run_path).close()
    finally:
        os.kill(int(child), signal.SIGKILL)
        parent.communicate()


def test_many_processes_at_once_leave_one_writer(run_path: Path) -> None:
    """However many start at the same moment, never do two hold the run together."""
    code = """
import os
from pathlib import Path
from clawgauge.errors import RunLocked
from clawgauge.journal.folder import RunFolder
path = Path(sys.argv[1])
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        clashes = 0
        for _ in range(200):
            try:
                folder = RunFolder.open_existing(path)
            except RunLocked:
                continue
            flag = path / "busy.txt"
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                flag.unlink()
            except FileExistsError:
                clashes += 1
            folder.close()
        os._exit(min(clashes, 100))
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""
    if sys.platform != "win32":
        assert run_child(code, run_path) == "[0, 0, 0, 0]\n"


@pytest.mark.slow
def test_who_only_asks_whether_a_run_is_written_is_never_taken_for_its_writer(
    run_path: Path,
) -> None:
    """A view asks several times a second, and whoever goes on with the run must not be refused for it."""
    over = threading.Event()
    seen = Counter[bool]()

    def ask() -> None:
        while not over.wait(0.0005):
            seen[is_being_written(run_path)] += 1

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(200):
            with RunFolder.open_existing(run_path):
                assert is_being_written(run_path)
        wait_until(lambda: seen[False] and seen[True])
    finally:
        over.set()
        for asker in askers:
            asker.join()
    assert not is_being_written(run_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_writer_holds_nothing_although_its_lock_file_is_there(run_path: Path) -> None:
    writer = start_child(
        """
import time
from pathlib import Path
from clawgauge.journal.folder import RunFolder
folder = RunFolder.open_existing(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(3600)
""",
        run_path,
    )
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "held\n"
        assert is_being_written(run_path)
    finally:
        writer.kill()
        writer.communicate()
    assert (run_path / ".lock").exists()
    assert not is_being_written(run_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other locks")
def test_where_nothing_can_be_locked_the_process_named_in_the_lock_file_counts(
    run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with RunFolder.open_existing(run_path):
        monkeypatch.setattr("fcntl.flock", refuse)
        assert is_being_written(run_path)
        holder = json.loads((run_path / ".lock").read_text())
        gone = {
            **holder,
            "started_at_ms": 1,
        }  # before this process began: another one had its number
        (run_path / ".lock").write_text(json.dumps(gone))
        assert not is_being_written(run_path)
