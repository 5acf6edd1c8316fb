"""`clawgauge view`: what its pages show, who may see them, and a run followed from its first row to its last."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from clawgauge.journal.folder import RunFolder
from support.command import clawgauge, clean_environment
from support.rows import every_row
from support.waiting import PATIENCE_S
from support.written_runs import MODEL, config, prompt, record, write_run

PROMPTS = [prompt(f"P{n}", category="json") for n in range(10)]
HOSTILE = "<script>alert(1)</script>"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


class View:
    """A running `clawgauge view`, asked as a browser that has opened its address."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()
        self.place = urlsplit(self.address)
        self.token = self.place.query.removeprefix("token=")
        self.process = process
        self.cookie = f"clawgauge_view={self.token}"

    @contextmanager
    def connect(self, path: str, method: str = "GET", **headers: str) -> Iterator[http.client.HTTPResponse]:
        with closing(http.client.HTTPConnection(self.place.netloc, timeout=PATIENCE_S)) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            with connection.getresponse() as reply:
                yield reply

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        with self.connect(path, method, **{"Cookie": self.cookie, **headers}) as reply:
            return Reply(reply.status, dict(reply.getheaders()), reply.read().decode())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("view")
    records = [record(f"P{n}", n != 3) for n in range(10)]
    write_run(tmp_path / "runs" / "before", records, config=config(PROMPTS))
    records = [
        record(f"P{n}", n != 5, raw_output=HOSTILE, violation="not_exact" if n == 5 else None) for n in range(10)
    ]
    write_run(tmp_path / "runs" / "after", records, config=config(PROMPTS))
    return tmp_path


@contextmanager
def viewing(cwd: Path) -> Iterator[View]:
    words = [sys.executable, "-m", "clawgauge", "view", "--no-open"]
    process = subprocess.Popen(words, cwd=cwd, env=clean_environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield View(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def view(runs: Path) -> Iterator[View]:
    with viewing(runs) as view:
        yield view


def test_the_address_alone_opens_it(view: View) -> None:
    """The token leaves the address at once: it stays in a cookie that no script and no other site gets."""
    opened = view.ask(f"/?{view.place.query}", Cookie="")
    cookie = opened.headers["Set-Cookie"]
    assert (opened.status, opened.headers["Location"]) == (303, "/")
    assert view.token in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert view.place.hostname == "127.0.0.1"


@every_row(
    ("path", "headers", "status"),
    [
        ("/", {"Cookie": ""}, 403),
        ("/", {"Cookie": "clawgauge_view=guess"}, 403),
        ("/?token=guess", {"Cookie": ""}, 403),
        ("/", {"Host": "rebound.example:80"}, 403),
        ("/", {"Origin": "http://elsewhere.example"}, 403),
        ("/", {"Origin": "null"}, 403),
        ("/runs/before/rows", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("/runs/..", {}, 404),
        ("/runs/..%2f..%2fetc%2fpasswd", {}, 404),
        ("/runs/nobody", {}, 404),
        ("/static/..%2fserver.py", {}, 404),
        ("/compare?a=before&b=../after", {}, 404),
    ],
)
def test_whoever_should_not_see_it_does_not(view: View, path: str, headers: dict[str, str], status: int) -> None:
    reply = view.ask(path, **headers)
    assert reply.status == status
    assert "before" not in reply.body and "root:" not in reply.body


@every_row("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(view: View, method: str) -> None:
    assert view.ask("/runs/before", method).status == 405


def test_every_run_is_listed_with_its_answer(view: View) -> None:
    """And before them what all of them say, each model by the newest run that can tell."""
    page = view.ask("/").body
    for words in ("before", "after", "main agent", "structured data", "cannot tell yet"):
        assert words in page
    assert "each model by its newest run that can tell" in page.partition("<form")[0]


def test_pages_may_load_nothing_from_elsewhere(view: View) -> None:
    for path in ("/", "/history", "/compare?a=before&b=after", "/runs/before/live"):
        reply = view.ask(path)
        assert reply.status == 200
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
        assert "http://" not in reply.body and "https://" not in reply.body


def test_a_run_opens_as_its_report(view: View) -> None:
    reply = view.ask("/runs/before")
    assert reply.status == 200 and "Content-Security-Policy" in reply.body and "before" in reply.body


def test_a_large_run_says_that_its_report_is_being_made_and_then_opens(tmp_path: Path) -> None:
    """Nobody looks at an empty window meanwhile: the page that comes first asks again by itself."""
    records = [record(f"P{n}", True, raw_output=f"{n} " * 15_000) for n in range(150)]
    prompts = [prompt(f"P{n}", category="json") for n in range(150)]
    write_run(tmp_path / "runs" / "large", records, config=config(prompts))
    with viewing(tmp_path) as view:
        while "Refresh" in (reply := view.ask("/runs/large")).headers:
            assert reply.status == 200 and "is being made" in reply.body
        assert "core/P149" in reply.body or "P149" in reply.body
        assert view.ask("/runs/large").body == reply.body


def test_two_runs_stand_beside_each_other_with_their_differences_marked(view: View) -> None:
    page = view.ask("/compare?a=before&b=after").body
    assert "core/P3" in page and "core/P5" in page and "<mark>" in page
    assert "<script>alert" not in page and "alert" in page


def test_what_cannot_be_compared_is_said(runs: Path, view: View) -> None:
    other = [{**one, "prompt": "something else"} for one in PROMPTS]
    write_run(runs / "runs" / "other", [record(f"P{n}") for n in range(10)], config=config(other))
    write_run(runs / "runs" / "alien", [record("Q0")], config=config([prompt("Q0")]))
    assert "cannot be compared" in view.ask("/compare?a=before&b=other").body
    assert "no prompt in common" in view.ask("/compare?a=before&b=alien").body
    assert "two different runs" in view.ask("/compare?a=before&b=before").body


def test_history_has_a_picture(view: View) -> None:
    page = view.ask("/history").body
    assert "<svg" in page and MODEL in page


def test_a_run_is_followed_from_its_first_row_to_its_last(runs: Path, view: View) -> None:
    """Rows are there as soon as they are written; the end of the run is said, and ends the stream."""
    folder = write_run(runs / "runs" / "going", [], config=config(PROMPTS))
    (folder / ".lock").write_text("{}")
    started = {"record_type": "event", "at_ms": 1, "event": "stretch_started", "target": None, "detail": {}}
    (folder / "events.jsonl").write_text(json.dumps(started) + "\n")
    assert view.ask("/runs/going").headers["Location"] == "/runs/going/live"
    with view.connect("/runs/going/rows", Cookie=view.cookie) as stream:
        _write_and_watch(folder, started, stream)


def _write_and_watch(folder: Path, started: dict[str, Any], stream: http.client.HTTPResponse) -> None:
    def news() -> Any:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line, "the stream ended"
        return json.loads(line.removeprefix(b"data: "))

    first = news()
    assert first["running"] and first["rows"] == [] and list(first["planned"].values()) == [10]
    for n in range(10):
        with (folder / "results.jsonl").open("a") as file:
            line = json.dumps({**record(f"P{n}", n != 4), "run_id": "going"}) + "\n"
            file.write(line[:40])
            file.flush()
            file.write(line[40:])
        (row,) = news()["rows"]
        assert (row["prompt"], row["outcome"]) == (f"core/P{n}", "fail" if n == 4 else "pass")
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps({**started, "event": "stretch_ended"}) + "\n")
    last = news()
    assert not last["running"] and last["counts"] == {f"ollama_openai:{MODEL}": {"pass": 9, "fail": 1}}
    assert stream.read() == b"\n"


def test_a_real_writer_is_seen_to_write(runs: Path, view: View) -> None:
    with RunFolder.create(runs / "runs", "held"):
        assert view.ask("/runs/held").status in (303, 404)
    assert "running" not in view.ask("/").body


def test_a_port_that_is_taken_or_none_is_one_sentence(runs: Path, view: View) -> None:
    taken = clawgauge(runs, "view", "--no-open", "--port", str(view.place.port))
    assert taken.code == 2 and "choose another --port" in taken.stderr and taken.stderr.count("\n") == 1
    assert clawgauge(runs, "view", "--port", "99999").code == 2


def test_a_folder_without_runs_says_how_to_make_one_and_it_ends_when_told_to(tmp_path: Path) -> None:
    with viewing(tmp_path) as view:
        assert "make one with clawgauge run" in view.ask("/").body
        view.process.send_signal(signal.SIGINT)
        assert view.process.wait(PATIENCE_S) == 130


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a name is text")
def test_what_is_no_http_is_told_to_whoever_sent_it_and_to_nobody_else(runs: Path) -> None:
    """Over-long headers, bodies of no such length, other protocols: a traceback each, on the terminal of the user."""
    words = [sys.executable, "-m", "clawgauge", "view", "--no-open"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=runs, env=clean_environment(), stdout=pipe, stderr=pipe, text=True) as process:
        view = View(process)
        ours = f"Host: {view.place.netloc}\r\nCookie: {view.cookie}\r\n"
        for sent in (
            f"GET / HTTP/1.1\r\n{ours}X: {'x' * 20_000}\r\n\r\n",
            f"GET / HTTP/1.1\r\n{ours}no header\r\n\r\n",
            f"GET / HTTP/1.1\r\n{ours}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            f"GET / HTTP/1.1\r\n{ours}Content-Length: x\r\n\r\n",
            f"GET / HTTP/1.1\r\n{ours}Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
            f"GET {'/' * 20_000} HTTP/1.1\r\n{ours}\r\n",
            f"GET / HTTP/1.1\r\n{ours}\r\nGARBAGE\r\n\r\n",
            f"GET / HTTP/9.9\r\n{ours}\r\n",
            "\x16\x03\x01\x02\r\n\r\n",
        ):
            with socket.create_connection((view.place.hostname or "", view.place.port or 0), PATIENCE_S) as client:
                client.sendall(sent.encode("latin-1"))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    pass
        assert view.ask("/").status == 200
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S)[1] == ""


def test_a_folder_whose_name_is_no_text_hides_no_other(runs: Path, view: View) -> None:
    odd = write_run(runs / "runs" / os.fsdecode(b"odd\xff\xfe"), [record("P0")], config=config([prompt("P0")]))
    try:
        page = view.ask("/")
        assert page.status == 200 and "before" in page.body and "odd" in page.body
    finally:
        shutil.rmtree(odd)
