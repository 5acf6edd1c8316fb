"""Recording results while calls are in flight."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from clawgauge.errors import DiskFailure
from clawgauge.journal import appender, iter_results
from clawgauge.journal.appender import Appender
from clawgauge.journal.disk import Directory
from clawgauge.journal.folder import RunFolder
from support.waiting import wait_until

from .samples import make_result, run_child


class Stuck(Directory):
    """A folder on a disk that hangs: what is written there goes into a pipe."""

    def open(self, name: str, flags: int, *, cap_bytes: int | None = None) -> int:
        return os.open(self.path / name, os.O_WRONLY)


Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end on one kind of event loop."""
    chosen: Run = request.param
    return chosen


def repeats(path: Path) -> list[int]:
    return [result.repeat for result in iter_results(path)]


def test_results_recorded_together_keep_their_order(tmp_path: Path, run: Run) -> None:
    """Hundreds of calls that end at once are recorded in the order they ended, one line each."""

    async def record() -> None:
        with RunFolder.create(tmp_path, "r") as folder:
            await asyncio.gather(*(folder.append(make_result(repeat=n)) for n in range(500)))
            assert repeats(folder.path) == list(range(500))

    run(record())


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts writes by /proc/self/io")
def test_results_recorded_together_share_a_write(tmp_path: Path, run: Run) -> None:
    """A burst of results costs far fewer trips to the disk than there are results."""

    def writes() -> int:
        return int(Path("/proc/self/io").read_text().split("syscw:")[1].split()[0])

    async def record() -> None:
        with RunFolder.create(tmp_path, "r") as folder:
            before = writes()
            await asyncio.gather(*(folder.append(make_result(repeat=n)) for n in range(500)))
            assert writes() - before < 250

    run(record())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_a_stuck_disk_does_not_stop_the_event_loop(tmp_path: Path, run: Run) -> None:
    """While a write hangs, timers and other calls go on; the row's own task alone waits."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    far_end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)

    async def record() -> None:
        appender = Appender(Stuck(tmp_path), "pipe")
        writing = asyncio.create_task(appender.append(b"x" * 1_000_000 + b"\n"))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not writing.done()
        taken = 0
        while taken < 1_000_001:
            with suppress(BlockingIOError):
                taken += len(os.read(far_end, 1 << 20))
            await asyncio.sleep(0)
        with pytest.raises(DiskFailure):
            await writing  # a pipe cannot be synced, and that counts as not recorded
        appender.close()

    try:
        run(record())
    finally:
        os.close(far_end)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_an_interrupted_close_hangs_nobody_later(tmp_path: Path) -> None:
    """After Ctrl-C while close waits for a stuck disk, the next row is answered and the next close ends."""
    printed = run_child(
        """
import os, signal, threading, time
from contextlib import suppress
from pathlib import Path
from clawgauge.errors import DiskFailure
from clawgauge.journal import appender
from clawgauge.journal.appender import Appender
from clawgauge.journal.disk import Directory
from samples import append_now

class Stuck(Directory):
    def open(self, name, flags):
        return os.open(self.path / name, os.O_WRONLY)

pipe = Path(sys.argv[1]) / "pipe"
os.mkfifo(pipe)
far_end = os.open(pipe, os.O_RDWR)
appender = Appender(Stuck(pipe.parent), "pipe")

def record(line):
    with suppress(DiskFailure):
        append_now(appender, line)

def drain():
    while os.read(far_end, 1 << 20):
        pass

stuck = threading.Thread(target=record, args=(b"x" * 1_000_000 + b"\\n",))
stuck.start()
os.read(far_end, 1)
main_thread = threading.get_ident()

def is_joining():
    frame = sys._current_frames()[main_thread]
    while frame is not None and frame.f_code is not threading.Thread.join.__code__:
        frame = frame.f_back
    return frame is not None

interrupted = threading.Event()

def interrupt_once(number, frame):
    # On a busy machine another signal is sent before this one is seen to have had its effect.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt_once)

def interrupt_close():
    # A signal that comes in the instant before the lock is waited for interrupts nothing: another one does.
    while not interrupted.wait(1.0 if is_joining() else 0.01):
        if is_joining():
            os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt_close).start()
try:
    appender.close()
except KeyboardInterrupt:
    interrupted.set()
    print("interrupted")
threading.Thread(target=drain, daemon=True).start()
record(b"next\\n")
stuck.join()
appender.close()
print("closed")
""",
        tmp_path,
    )
    assert printed == "interrupted\nclosed\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_a_writer_that_an_interrupt_left_behind_and_the_next_one_share_nothing(
    tmp_path: Path,
) -> None:
    """While one still writes, the next row waits without holding up its loop, and comes after it."""
    printed = run_child(
        """
import asyncio, os, threading, time
from pathlib import Path
from clawgauge.journal import appender as module
from clawgauge.journal.disk import Directory

folder = Path(sys.argv[1])
(folder / "results.jsonl").write_bytes(b"")
may_write = threading.Event()
began = threading.Event()
write_all = module.write_all

def write_later(fd, data):
    began.set()
    may_write.wait()
    write_all(fd, data)

module.write_all = write_later
appender = module.Appender(Directory(folder), "results.jsonl")

class Interrupted(threading.Thread):
    def join(self, timeout=None):
        raise KeyboardInterrupt

async def main():
    first = asyncio.ensure_future(appender.append(b"1\\n"))
    await asyncio.to_thread(began.wait)
    left_behind = appender._writer
    left_behind._thread.__class__ = Interrupted
    try:
        appender.close()
    except KeyboardInterrupt:
        left_behind._thread.__class__ = threading.Thread
    second = asyncio.ensure_future(appender.append(b"2\\n"))
    for _ in range(20):
        await asyncio.sleep(0.001)
    print(first.done(), second.done(), appender._writer is left_behind)
    may_write.set()
    await asyncio.gather(first, second)

asyncio.run(main())
appender.close()
print((folder / "results.jsonl").read_bytes())
""",
        tmp_path,
    )
    assert printed == "False False False\nb'1\\n2\\n'\n"


def test_a_writer_that_stops_unforeseen_hangs_nobody(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither whoever waits for a row then, nor whoever hands one over later."""

    def fail(*_arguments: object) -> None:
        raise LookupError

    def names_of_threads() -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    async def record() -> None:
        with RunFolder.create(tmp_path, "r") as folder:
            monkeypatch.setattr(appender, "sync_data", fail)
            monkeypatch.setattr(threading, "excepthook", lambda _fault: None)
            for n in range(2):
                with pytest.raises(DiskFailure, match="stopped unforeseen"):
                    await folder.append(make_result(repeat=n))
                wait_until(lambda: "journal results.jsonl" not in names_of_threads())
            assert folder.count_lost_calls() == 2

    run(record())


def test_an_abandoned_call_still_gets_its_row(tmp_path: Path, run: Run) -> None:
    """Results whose tasks are cancelled while waiting are recorded, and nothing hangs or complains."""

    async def record() -> None:
        with RunFolder.create(tmp_path, "r") as folder:
            tasks = [asyncio.create_task(folder.append(make_result(repeat=n))) for n in range(50)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(
                outcome is None or isinstance(outcome, asyncio.CancelledError)
                for outcome in outcomes
            )
            await folder.append(make_result(repeat=50))

    run(record())
    assert repeats(tmp_path / "r") == list(range(51))


def test_an_event_loop_that_ends_early_hangs_nobody(tmp_path: Path) -> None:
    """A loop closed with rows still on their way loses none of them."""
    folder = RunFolder.create(tmp_path, "r")
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(folder.append(make_result(repeat=n))) for n in range(20)]
    loop.call_soon(loop.stop)
    loop.run_forever()
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
    folder.close()
    assert repeats(folder.path) == list(range(20))


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    """A process that simply ends with rows on their way writes them and exits."""
    run_child(
        """
import asyncio
from pathlib import Path
from clawgauge.journal.folder import RunFolder
from samples import append_now, make_result

async def main():
    folder = RunFolder.create(Path(sys.argv[1]), "r")
    tasks = [asyncio.ensure_future(folder.append(make_result(repeat=n))) for n in range(100)]
    await asyncio.sleep(0)

asyncio.run(main())
""",
        tmp_path,
    )
    assert repeats(tmp_path / "r") == list(range(100))
    assert not (tmp_path / "r" / ".lock").exists()


class Full(Directory):
    """A folder on a disk without room."""

    def open(self, name: str, flags: int, *, cap_bytes: int | None = None) -> int:
        return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_calls_that_did_not_get_to_the_disk_are_counted(tmp_path: Path, run: Run) -> None:
    """Also those that nobody waits for any more; what was never asked is no call."""

    async def record() -> None:
        appender = Appender(Full(tmp_path), "results.jsonl")
        waiting = [asyncio.ensure_future(appender.append(b"{}\n", is_call=n > 0)) for n in range(4)]
        await asyncio.sleep(0)
        waiting[3].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(DiskFailure):
            await appender.append(b"{}\n")
        appender.flush()
        assert appender.n_calls_lost == 4
        appender.close()

    run(record())


def test_what_is_on_disk_is_not_counted_as_lost(tmp_path: Path, run: Run) -> None:
    """A line that was handed over is written although whoever waited for it was cancelled."""

    async def record() -> None:
        with RunFolder.create(tmp_path, "r") as folder:
            writing = asyncio.ensure_future(folder.append(make_result(repeat=0)))
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            assert folder.count_lost_calls() == 0
            assert repeats(folder.path) == [0]

    run(record())
