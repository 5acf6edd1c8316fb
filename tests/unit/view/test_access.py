"""`clawgauge view`: who may see its pages, and what becomes of a request that is not as it should be."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from clawgauge.journal.folder import RunFolder
from clawgauge.view.access import TOKEN_LIFETIME_S, Access, Redemption
from clawgauge.view.server import Server
from support.rows import every_row
from support.view import View, started_view, viewing
from support.waiting import PATIENCE_S, wait_until
from support.written_runs import config, prompt, record, write_run

PROMPTS = [prompt("P0")]
FAKE_BROWSER = """
import json, os, pathlib, re, sys, urllib.parse, urllib.request
page = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path))
seen = {
    "argv": sys.argv[1:],
    "text": page.read_text(),
    "file_mode": page.stat().st_mode,
    "folder_mode": page.parent.stat().st_mode,
    "page": str(page),
}
address = re.search('url=([^"]+)"', seen["text"]).group(1)
opened = urllib.request.urlopen(address)
seen["opened"] = opened.url
out = pathlib.Path(os.environ["SEEN_IN"])
out.with_suffix(".part").write_text(json.dumps(seen))
out.with_suffix(".part").rename(out)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("access")
    write_run(folder / "runs" / "before", [record("P0")], config=config(PROMPTS))
    return folder


@pytest.fixture(scope="module")
def view(runs: Path) -> Iterator[View]:
    with viewing(runs) as view:
        yield view


def send(view: View, request: bytes, *, is_all: bool = False) -> bytes:
    """Bytes as they are, to the end of the reply. With `is_all` the server sees that no more comes."""
    place = (view.place.hostname or "", view.place.port or 0)
    reply = b""
    with socket.create_connection(place, PATIENCE_S) as client:
        client.sendall(request)
        if is_all:
            client.shutdown(socket.SHUT_WR)
        while piece := client.recv(65_536):
            reply += piece
    return reply


def test_an_address_opens_the_view_once_and_the_next_one_is_printed(runs: Path) -> None:
    """Whoever reads the address later, from a history or over a shoulder, is shown one sentence."""
    with viewing(runs) as view:
        token = urlsplit(view.address).query
        opened = view.ask_server(f"/?{token}")
        assert opened.status == 303
        assert re.fullmatch(r"/s/[\w-]{32}/", opened.headers["Location"])
        assert "Set-Cookie" not in opened.headers
        assert opened.headers["Referrer-Policy"] == "no-referrer"
        assert opened.headers["Cache-Control"] == "no-store"
        again = view.ask_server(f"/?{token}")
        assert again.status == 403
        assert "has been used already" in again.body and "before" not in again.body
        following = view.next_address()
        assert view.ask_server(f"/?{urlsplit(following).query}").status == 303
        assert urlsplit(following).hostname == "127.0.0.1"


def test_pages_can_be_loaded_again_and_kept_as_bookmarks_while_the_view_runs(view: View) -> None:
    for _ in range(2):
        reply = view.ask("/")
        assert reply.status == 200 and "before" in reply.body
        assert "Set-Cookie" not in reply.headers
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cache-Control"] == "no-store"


def test_two_views_do_not_log_each_other_out(runs: Path, view: View) -> None:
    with viewing(runs) as other:
        assert other.ask("/").status == view.ask("/").status == 200
        assert other.ask_server(f"{view.base}/").status == 403


def test_an_address_that_was_only_looked_at_in_advance_is_not_used_up(runs: Path) -> None:
    with viewing(runs) as view:
        token = urlsplit(view.address).query
        assert view.ask_server(f"/?{token}", "HEAD").status == 403
        assert view.ask_server(f"/?{token}", Sec_Purpose="prefetch;prerender").status == 403
        assert view.ask_server(f"/?{token}").status == 303


def test_a_token_opens_for_ten_minutes() -> None:
    now_s = 0.0
    access = Access(clock=lambda: now_s)
    used = []
    early = access.issue(lambda: used.append("early"))
    late = access.issue(lambda: used.append("late"))
    now_s = TOKEN_LIFETIME_S - 1
    assert access.redeem(early) is Redemption.ACCEPTED
    now_s = TOKEN_LIFETIME_S
    assert access.redeem(late) is Redemption.EXPIRED
    assert access.redeem(early) is Redemption.USED
    assert access.redeem("guess") is Redemption.UNKNOWN
    assert used == ["early"]


def test_whoever_opens_an_expired_address_finds_a_new_one_in_the_terminal(tmp_path: Path) -> None:
    now_s = 0.0
    printed: list[str] = []

    async def ask(address: str) -> str:
        place = urlsplit(address)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(
            f"GET /?{place.query} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n".encode()
        )
        reply = (await reader.read()).decode()
        writer.close()
        return reply

    async def main() -> None:
        nonlocal now_s
        server = Server(tmp_path, printed.append, Access(clock=lambda: now_s))
        await server.start(0)
        try:
            server.print_address()
            now_s = TOKEN_LIFETIME_S
            reply = await ask(printed[0])
            assert reply.startswith("HTTP/1.1 403") and "has expired" in reply
            assert len(printed) == 2
            await ask(printed[0])
            assert len(printed) == 2, "the new address still works: no other is needed"
            assert (await ask(printed[1])).startswith("HTTP/1.1 303")
        finally:
            await server.close()

    asyncio.run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_the_browser_is_opened_without_a_secret_on_its_command_line(
    runs: Path, tmp_path: Path
) -> None:
    """It is given a file that only this user can read, and that is gone once it was opened."""
    script = tmp_path / "browser.py"
    script.write_text(FAKE_BROWSER)
    seen_in = tmp_path / "seen.json"
    environment = {"BROWSER": f"{sys.executable} {script} %s", "SEEN_IN": str(seen_in)}
    with started_view(runs, "--port", "0", **environment) as process:
        wait_until(seen_in.exists)
        seen = json.loads(seen_in.read_text())
        (argument,) = seen["argv"]
        assert argument.startswith("file://") and "token" not in argument and "/s/" not in argument
        assert stat.S_IMODE(seen["file_mode"]) == 0o600
        assert stat.S_IMODE(seen["folder_mode"]) == 0o700
        assert "/s/" in seen["opened"]
        wait_until(lambda: not Path(seen["page"]).parent.exists())
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        assert urlsplit(printed).query not in seen["text"], (
            "the printed address is still there for another browser"
        )
        view = View.__new__(View)
        view.process, view.place = process, urlsplit(printed)
        assert view.ask_server(f"/?{view.place.query}").status == 303


def test_the_file_for_the_browser_is_gone_when_the_view_ends(runs: Path, tmp_path: Path) -> None:
    """Even where no browser ever opened it."""
    environment = {"BROWSER": "true %s", "TMPDIR": str(tmp_path)}
    with started_view(runs, "--port", "0", **environment) as process:
        wait_until(lambda: list(tmp_path.glob("clawgauge-view-*/open.html")))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    assert list(tmp_path.iterdir()) == []


@every_row(
    ("path", "headers", "status"),
    [
        ("", {}, 403),
        ("/", {}, 403),
        ("/runs/before", {}, 403),
        ("/static/view.css", {}, 403),
        ("/", {"Cookie": "clawgauge_view=guess"}, 403),
        ("/?token=guess", {}, 403),
        ("/s/guess/", {}, 403),
        ("/s", {}, 403),
        ("/s/", {}, 403),
        ("{base}/", {"Host": "rebound.example:80"}, 403),
        ("{base}/", {"Origin": "http://elsewhere.example"}, 403),
        ("{base}/", {"Origin": "null"}, 403),
        ("{base}/runs/before/rows", {"Sec_Fetch_Site": "cross-site"}, 403),
        (
            "{base}/",
            {
                "Sec_Fetch_Site": "cross-site",
                "Sec_Fetch_Mode": "navigate",
                "Sec_Fetch_Dest": "iframe",
            },
            403,
        ),
        ("{base}/runs/..", {}, 404),
        ("{base}/runs/..%2f..%2fetc%2fpasswd", {}, 404),
        ("{base}/runs/before%00", {}, 404),
        ("{base}/runs/nobody", {}, 404),
        ("{base}/static/..%2fserver.py", {}, 404),
        ("{base}/compare?a=before&b=../after", {}, 404),
    ],
)
def test_whoever_should_not_see_it_does_not(
    view: View, path: str, headers: dict[str, str], status: int
) -> None:
    reply = view.ask_server(path.format(base=view.base), **headers)
    assert reply.status == status
    assert "runs/before" not in reply.body and "root:" not in reply.body
    assert view.base not in reply.body


def test_a_page_of_another_site_may_lead_here_as_the_file_for_the_browser_does(view: View) -> None:
    came = {
        "Sec_Fetch_Site": "cross-site",
        "Sec_Fetch_Mode": "navigate",
        "Sec_Fetch_Dest": "document",
    }
    assert view.ask("/", **came).status == 200


@every_row("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(view: View, method: str) -> None:
    assert view.ask("/runs/before", method).status == 405


@every_row(
    "name",
    [
        "a#b",
        "a?b",
        "a%2fb",
        "a b",
        "ünï",
        "a&b=c",
        "a;b",
        "a:b",
        "100%",
        "a\r\nX-Injected: yes",
        "a+b",
    ],
)
def test_a_run_of_any_name_can_be_opened_and_watched(runs: Path, view: View, name: str) -> None:
    path = write_run(runs / "runs" / name, [record("P0")], config=config(PROMPTS))
    link = f"/runs/{quote(name, safe='')}"
    assert f'href="runs/{quote(name, safe="")}"' in view.ask("/").body
    assert view.ask(link).status == 200
    with RunFolder.open_existing(path):
        redirect = view.ask(link)
        assert redirect.status == 303 and "X-Injected" not in redirect.headers
        assert redirect.headers["Location"] == f"{view.base}{link}/live"
        live = view.ask_server(redirect.headers["Location"])
        assert (
            live.status == 200
            and f'data-source="../../runs/{quote(name, safe="")}/rows"' in live.body
        )
    assert view.ask(f"{link}/rows").status == 200
    assert view.ask(f"/compare?a={quote(name)}&b=before").status == 200


def test_bytes_that_are_no_text_are_refused_and_no_traceback_is_printed(runs: Path) -> None:
    with started_view(runs) as process:
        view = View(process)
        host = f"Host: {view.place.netloc}\r\nConnection: close\r\n".encode()
        base = view.base.encode()
        for request in (
            b"GET " + base + b"/ HTTP/1.1\r\n" + host + b"X-Some: \xff\r\n\r\n",
            b"GET " + base + b"/ HTTP/1.1\r\n" + host + b"Origin: http://\xff\r\n\r\n",
            b"GET " + base + b"/ HTTP/1.1\r\n" + host + b"Accept: \xc3\x28\r\n\r\n",
            b"GET " + base + b"/ HTTP/1.1\r\nConnection: close\r\nHost: \xff\r\n\r\n",
            b"GET " + base + b"/runs/\xff HTTP/1.1\r\n" + host + b"\r\n",
            b"GET " + base + b"/runs/%ff HTTP/1.1\r\n" + host + b"\r\n",
            b"GET " + base + b"/runs/%ed%a0%80/live HTTP/1.1\r\n" + host + b"\r\n",
            b"GET " + base + b"/compare?a=%ff&b=before HTTP/1.1\r\n" + host + b"\r\n",
            b"GET " + base + b"/compare?a=\xff&b=before HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /?token=%ff HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /?token=\xff HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /s/\xff/ HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /s/%ff/ HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /?" + b"&".join([b"a=1"] * 1000) + b" HTTP/1.1\r\n" + host + b"\r\n",
            b"GET http://127.0.0.1/s/ HTTP/1.1\r\n" + host + b"\r\n",
            b"GET http://[ HTTP/1.1\r\n" + host + b"\r\n",
            b"GET \xff HTTP/1.1\r\n" + host + b"\r\n",
        ):
            reply = send(view, request)
            assert reply.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), (request, reply[:200])
        assert view.ask("/").status == 200
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=PATIENCE_S)[1]


def test_a_cookie_of_another_program_that_is_no_text_does_not_keep_anybody_out(runs: Path) -> None:
    """A browser sends the cookies of 127.0.0.1 to every port of it."""
    with started_view(runs) as process:
        view = View(process)
        host = f"Host: {view.place.netloc}\r\nConnection: close\r\n".encode()
        request = (
            b"GET " + view.base.encode() + b"/ HTTP/1.1\r\n" + host + b"Cookie: a=\xff\xfe\r\n\r\n"
        )
        assert send(view, request).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=PATIENCE_S)[1]


def test_what_is_no_http_is_told_to_whoever_sent_it_and_to_nobody_else(runs: Path) -> None:
    """Over-long headers, bodies of no such length, other protocols: not a line of it on the terminal of the user."""
    with started_view(runs) as process:
        view = View(process)
        ours = f"Host: {view.place.netloc}\r\n"
        for sent in (
            f"GET {view.base}/ HTTP/1.1\r\n{ours}X: {'x' * 20_000}\r\n\r\n",
            f"GET {view.base}/ HTTP/1.1\r\n{ours}no header\r\n\r\n",
            f"GET {view.base}/ HTTP/1.1\r\n{ours}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            f"GET {view.base}/ HTTP/1.1\r\n{ours}Content-Length: x\r\n\r\n",
            f"GET {view.base}/ HTTP/1.1\r\n{ours}Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
            f"GET {'/' * 20_000} HTTP/1.1\r\n{ours}\r\n",
            f"GET {view.base}/ HTTP/1.1\r\n{ours}\r\nGARBAGE\r\n\r\n",
            f"GET {view.base}/ HTTP/9.9\r\n{ours}\r\n",
            "\x16\x03\x01\x02\r\n\r\n",
        ):
            send(view, sent.encode("latin-1"), is_all=True)
        assert view.ask("/").status == 200
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=PATIENCE_S)[1].splitlines()
        assert len(told) == 2 and all("once, within 10 minutes" in line for line in told), told
