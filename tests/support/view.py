"""A running `clawgauge view`, asked as a browser that has opened its address."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from support.command import clean_environment
from support.waiting import PATIENCE_S


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


class View:
    """The first address is used at once; `address` is the one printed after that, and `base` the path of all pages."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        first = self.next_address()
        self.place = urlsplit(first)
        self.base = self.ask_server(f"/?{self.place.query}").headers["Location"].rstrip("/")
        self.address = self.next_address()

    @property
    def origin(self) -> str:
        return f"http://{self.place.netloc}"

    def next_address(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    @contextmanager
    def connect(
        self, path: str, method: str = "GET", **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """A reply that can be read bit by bit; `path` begins with that of the pages."""
        with closing(
            http.client.HTTPConnection(self.place.netloc, timeout=PATIENCE_S)
        ) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            with connection.getresponse() as reply:
                yield reply

    def ask_server(self, path: str, method: str = "GET", **headers: str) -> Reply:
        with self.connect(path, method, **headers) as reply:
            return Reply(reply.status, dict(reply.getheaders()), reply.read().decode())

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        """The page at `path`, as a link from the list of runs leads there."""
        return self.ask_server(f"{self.base}{path}", method, **headers)


@contextmanager
def viewing(cwd: Path) -> Iterator[View]:
    with started_view(cwd) as process:
        yield View(process)


@contextmanager
def started_view(cwd: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "clawgauge", "view", *(words or ("--no-open",))]
    with started(cwd, command, **environment) as process:
        yield process


@contextmanager
def started(
    cwd: Path, command: Sequence[str], **environment: str
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
