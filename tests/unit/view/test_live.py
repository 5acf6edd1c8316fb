"""`clawgauge view`: runs that are going on, runs that were killed, and the end of the view itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clawgauge.journal.folder import RunFolder
from clawgauge.view import live
from clawgauge.view.live import MAX_LISTENERS, MAX_ROWS, Feeds
from clawgauge.workers import Workers
from support.command import chat_config, clean_environment, trust_configuration, write_suite
from support.scripted_server import Held, ScriptedServer, Text
from support.view import View, started, viewing
from support.waiting import PATIENCE_S, wait_until
from support.written_runs import MODEL, config, prompt, record, write_run

PROMPTS = [prompt(f"P{n}", category="json") for n in range(10)]
# Well before a server that waits for its clients gives them up, which takes a minute.
ENDS_WITHIN_S = 45.0


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(
        tmp_path / "runs" / "before", [record(f"P{n}") for n in range(10)], config=config(PROMPTS)
    )
    return tmp_path


@contextmanager
def going_run(runs: Path, name: str = "going") -> Iterator[Path]:
    """A run that this process holds, as a live one does."""
    path = write_run(runs / "runs" / name, [], config=config(PROMPTS))
    with RunFolder.open_existing(path):
        yield path


def add_row(path: Path, row: dict[str, Any]) -> None:
    with (path / "results.jsonl").open("a") as file:
        line = json.dumps({**row, "run_id": path.name}) + "\n"
        file.write(line[:40])
        file.flush()
        file.write(line[40:])


def read_news(stream: http.client.HTTPResponse) -> Any:
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream ended"
    return json.loads(line.removeprefix(b"data: "))


def test_a_run_is_followed_from_its_first_row_to_its_last(runs: Path) -> None:
    """Each is there as soon as it is written."""
    with viewing(runs) as view, ExitStack() as stack:
        path = stack.enter_context(going_run(runs))
        assert view.ask("/runs/going").headers["Location"] == f"{view.base}/runs/going/live"
        stream = stack.enter_context(view.connect(f"{view.base}/runs/going/rows"))
        first = read_news(stream)
        assert first["running"] and first["rows"] == [] and list(first["planned"].values()) == [10]
        for n in range(10):
            add_row(path, record(f"P{n}", n != 4))
            (row,) = read_news(stream)["rows"]
            assert (row["prompt"], row["outcome"]) == (f"core/P{n}", "fail" if n == 4 else "pass")


def test_the_end_of_a_run_is_said_and_ends_the_stream(runs: Path) -> None:
    """It is the release of the lock: nothing else happens here."""
    with viewing(runs) as view:
        with going_run(runs) as path:
            add_row(path, record("P0"))
            connection = http.client.HTTPConnection(view.place.netloc, timeout=PATIENCE_S)
            connection.request("GET", f"{view.base}/runs/going/rows")
            stream = connection.getresponse()
            assert read_news(stream)["running"]
            assert "running: watch it" in view.ask("/").body
        last = read_news(stream)
        assert not last["running"] and last["state"] == "ended"
        assert last["counts"] == {f"ollama_openai:{MODEL}": {"pass": 1}}
        assert stream.read() == b"\n"
        connection.close()
        assert "running: watch it" not in view.ask("/").body
        assert view.ask("/runs/going").status == 200


def test_a_lock_file_that_nobody_holds_is_no_run_that_goes_on(runs: Path) -> None:
    """A killed process leaves the file behind, and no event of its end."""
    path = write_run(runs / "runs" / "killed", [record("P0")], config=config(PROMPTS))
    (path / ".lock").write_text('{"pid": 1, "hostname": "here", "started_at_ms": 1}\n')
    started = {
        "record_type": "event",
        "at_ms": 1,
        "event": "stretch_started",
        "target": None,
        "detail": {},
    }
    (path / "events.jsonl").write_text(json.dumps(started) + "\n")
    with viewing(runs) as view:
        page = view.ask("/").body
        assert "running: watch it" not in page
        assert "interrupted: go on with <code>clawgauge run --resume killed</code>" in page
        assert view.ask("/runs/killed").status == 200
        with view.connect(f"{view.base}/runs/killed/rows") as stream:
            assert read_news(stream)["state"] == "interrupted"
            assert stream.read() == b"\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_opens_as_its_report_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    prompts = [
        {
            "id": f"P{n}",
            "name": f"n{n}",
            "prompt": "say yes",
            "validator": {"type": "exact", "value": "yes"},
        }
        for n in range(2)
    ]
    write_suite(tmp_path / "small.json", *prompts)
    with ScriptedServer() as server, viewing(tmp_path) as view:
        chat_config(tmp_path, fake=server.v1_url)
        trust_configuration(tmp_path)
        server.script(Text("yes"))
        server.script(Held(Text("yes"), (tmp_path / "never").exists))
        words = [
            "run",
            "-t",
            "fake:scripted-model",
            "-s",
            "small.json",
            "--run-id",
            "stopped",
            "--quiet",
        ]
        words += ["--concurrency", "1"]
        command = [sys.executable, "-m", "clawgauge", *words]
        run = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: len(server.calls) == 2)
            assert "running: watch it" in view.ask("/").body
            run.send_signal(number)
            run.wait(PATIENCE_S)
        finally:
            run.kill()
            run.wait()
        page = view.ask("/").body
        assert "running: watch it" not in page
        assert "clawgauge run --resume stopped" in page
        report = view.ask("/runs/stopped")
        assert report.status == 200 and "All runs" in report.body


def test_a_run_that_was_written_anew_is_shown_anew(runs: Path) -> None:
    """As by a retry of what failed: what was moved aside is no longer among the rows."""
    with viewing(runs) as view, going_run(runs) as path:
        add_row(path, record("P0", False))
        add_row(path, record("P1"))
        with view.connect(f"{view.base}/runs/going/rows") as stream:
            assert len(read_news(stream)["rows"]) == 2
            kept = (path / "results.jsonl").read_bytes().splitlines(keepends=True)[1]
            longer = kept + b" " * 10_000 + b"\n"
            (path / "new").write_bytes(longer)
            (path / "new").replace(path / "results.jsonl")
            news = read_news(stream)
            assert news["from_start"] and [row["prompt"] for row in news["rows"]] == ["core/P1"]
            assert news["counts"] == {f"ollama_openai:{MODEL}": {"pass": 1}}


def test_many_pages_of_one_run_have_one_reader(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = []

    class CountedFollower(live.Follower):
        def __init__(self, path: Path) -> None:
            readers.append(path)
            super().__init__(path)

    monkeypatch.setattr(live, "Follower", CountedFollower)

    async def main(path: Path) -> None:
        feeds = Feeds(Workers("test", 1))
        with ExitStack() as stack:
            listeners = [stack.enter_context(feeds.listen(path)) for _ in range(50)]
            firsts = [await listener.next() for listener in listeners]
            assert len(set(firsts)) == 1
            add_row(path, record("P0"))
            seconds = [await listener.next() for listener in listeners]
            assert len(set(seconds)) == 1 and b"core/P0" in (seconds[0] or b"")
        assert readers == [path]
        # The last one has left: whoever comes now begins anew.
        with feeds.listen(path) as listener:
            assert b"core/P0" in (await listener.next() or b"")
        assert readers == [path, path]

    with going_run(runs) as path:
        asyncio.run(main(path))


def test_a_page_that_falls_behind_is_shown_the_state_as_it_is_then(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept for it beyond a few messages."""
    monkeypatch.setattr(live, "_POLL_S", 0.01)

    async def main(path: Path) -> None:
        feeds = Feeds(Workers("test", 1))
        with feeds.listen(path) as slow, feeds.listen(path) as quick:
            await slow.next()
            await quick.next()
            for n in range(40):
                add_row(path, record(f"P{n}"))
                await quick.next()
            news = json.loads((await slow.next() or b"").removeprefix(b"data: "))
            assert news["from_start"] and len(news["rows"]) == 40 <= MAX_ROWS

    with going_run(runs) as path:
        asyncio.run(main(path))


@pytest.mark.parametrize("n_pages", [1, 50])
def test_ctrl_c_ends_live_pages_in_order_and_the_view_with_them(runs: Path, n_pages: int) -> None:
    with viewing(runs) as view, going_run(runs), ExitStack() as stack:
        streams = [
            stack.enter_context(view.connect(f"{view.base}/runs/going/rows"))
            for _ in range(n_pages)
        ]
        for stream in streams:
            assert read_news(stream)["running"]
        view.process.send_signal(signal.SIGINT)
        # Ended, not broken off: a stream that is cut lacks its last chunk, and reading it fails.
        assert [stream.read() for stream in streams] == [b"\n"] * n_pages
        assert view.process.wait(ENDS_WITHIN_S) == 130


def connect_without_reading(view: View, path: str) -> socket.socket:
    """A client with a small buffer that has asked for a page and read its first byte."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((view.place.hostname, view.place.port))
    client.sendall(f"GET {view.base}{path} HTTP/1.1\r\nHost: {view.place.netloc}\r\n\r\n".encode())
    assert client.recv(1) == b"H"
    return client


@pytest.mark.slow
def test_ctrl_c_ends_the_view_whoever_has_not_read_what_was_sent(tmp_path: Path) -> None:
    """A large report of which a part was read, and a live page that reads nothing at all."""
    prompts = [prompt(f"P{n}", category="json") for n in range(150)]
    records = [
        record(f"P{n}", True, raw_output=f"{n} " * 15_000, violation="x" * 10_000)
        for n in range(150)
    ]
    write_run(tmp_path / "runs" / "large", records, config=config(prompts))
    with viewing(tmp_path) as view, going_run(tmp_path) as path:
        while "Refresh" in view.ask("/runs/large").headers:
            pass
        with (
            closing(connect_without_reading(view, "/runs/large")),
            closing(connect_without_reading(view, "/runs/going/rows")),
            view.connect(f"{view.base}/runs/going/rows") as stream,
        ):
            read_news(stream)
            for n in range(20):
                for _ in range(MAX_ROWS):
                    add_row(path, record(f"P{n}", False, violation=f"{'x' * 150}"))
                read_news(stream)
            view.process.send_signal(signal.SIGINT)
            assert view.process.wait(ENDS_WITHIN_S) == 130
        assert view.process.stderr is not None
        assert "Traceback" not in view.process.stderr.read()


def test_ctrl_c_does_not_wait_for_a_page_that_is_being_made(runs: Path) -> None:
    """However long that takes: here for ever."""
    code = """
import pathlib, sys, threading
from clawgauge.cli import main
from clawgauge.view.pages import Pages
def make_for_ever(self):
    pathlib.Path("begun").touch()
    threading.Event().wait()
Pages.runs = make_for_ever
sys.exit(main(["view", "--no-open"]))
"""
    with started(runs, [sys.executable, "-c", code]) as process:
        view = View(process)
        with socket.create_connection(
            (view.place.hostname or "", view.place.port or 0), PATIENCE_S
        ) as client:
            client.sendall(
                f"GET {view.base}/ HTTP/1.1\r\nHost: {view.place.netloc}\r\n\r\n".encode()
            )
            wait_until((runs / "begun").exists)
            process.send_signal(signal.SIGINT)
            assert process.wait(ENDS_WITHIN_S) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_two_hundred_live_pages_leave_the_others_room(runs: Path) -> None:
    """Those beyond the limit are told so in a sentence; who watches is shown every row; all other pages are shown."""
    with viewing(runs) as view, going_run(runs) as path, ExitStack() as stack:
        leaving = stack.enter_context(ExitStack())
        rows = f"{view.base}/runs/going/rows"
        replies = [leaving.enter_context(view.connect(rows))]
        replies += [stack.enter_context(view.connect(rows)) for _ in range(199)]
        streams = [reply for reply in replies if reply.status == 200]
        refused = [reply for reply in replies if reply.status == 503]
        assert len(streams) == MAX_LISTENERS and len(refused) == 200 - MAX_LISTENERS
        assert b"close some of them" in refused[0].read()
        for stream in streams:
            read_news(stream)
        for n in range(10):
            add_row(path, record(f"P{n}"))
            for page in ("/", "/history", "/runs/before", "/runs/going/live", "/static/view.css"):
                assert view.ask(page).status == 200
        for stream in streams:
            seen = 0
            while seen < 10:
                news = read_news(stream)
                seen = sum(sum(counts.values()) for counts in news["counts"].values())
        # A page that is closed makes room for another one.
        leaving.close()

        def has_room() -> bool:
            with view.connect(rows) as reply:
                return reply.status == 200

        wait_until(has_room)
