"""The web of the world: what each address answers.

web."https://status.example.org/" = "All systems normal."
web."https://api.example.org/rates" = { status = 200, body = '{"eur": 1.07}', type = "application/json" }
"""

from __future__ import annotations

import http
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world.effects import EffectLog
from clawgauge.world.refusals import Refusal
from clawgauge.world.spec import Noun, Seconds, Word, read

MAX_URL_CHARS = 2_048
_URL = re.compile(r"(https?)://([^/?#\s:@]+)(:\d{1,5})?([^#\s]*)(?:#\S*)?", re.I)


class Page(Noun):
    """What one address answers."""

    status: Annotated[int, Meta(ge=100, le=599)] = 200
    body: str = ""
    content_type: Word = msgspec.field(name="type", default="text/html")
    retry_after_s: Seconds = 0

    @property
    def reason(self) -> str:
        known = {status.value: status.phrase for status in http.HTTPStatus}
        return known.get(self.status, "Unknown")


def read_url(url: str) -> tuple[str, str]:
    """The host, and the address in a plain form: lower-case host, no fragment, a slash where the path is empty."""
    found = _URL.fullmatch(url.strip()) if len(url) <= MAX_URL_CHARS else None
    if found is None:
        raise Refusal("Invalid URL: it must start with http:// or https:// and hold no spaces")
    host, rest = found[2].lower(), found[4]
    return host, f"{found[1].lower()}://{host}{found[3] or ''}{rest if rest.startswith('/') else f'/{rest}'}"


class Web:
    """Pages by address, and the pages that stand in for them a number of times first."""

    def __init__(self, effects: EffectLog, spec: dict[str, Any]) -> None:
        self._effects = effects
        self._pages: dict[str, Page] = {}
        self._before: dict[str, list[Page]] = {}
        for url, value in spec.items():
            key = f'web."{url}"'
            page = read(Page, {"body": value} if isinstance(value, str) else value, key)
            self._pages[_declared(url, key)] = page

    def add_fault(self, url: str, key: str, status: int, times: int) -> None:
        """For the next `times` requests of a page, an error answers instead."""
        page = Page(status=status, content_type="text/plain", retry_after_s=2 if status in (429, 503) else 0)
        self._before.setdefault(_declared(url, key), []).extend([page] * times)

    def fetch(self, url: str) -> Page:
        """What the address answers; a host nobody has heard of is refused."""
        host, address = read_url(url)
        self._effects.note("fetched", address)
        if self._before.get(address):
            return self._before[address].pop(0)
        if address in self._pages:
            return self._pages[address]
        if any(read_url(page)[0] == host for page in self._pages):
            return Page(status=404, body="<html><body><h1>404 Not Found</h1></body></html>\n")
        raise Refusal(f"Could not resolve host: {host}")


def _declared(url: str, key: str) -> str:
    try:
        return read_url(url)[1]
    except Refusal as refused:
        raise SuiteError(f"key '{key}': {refused}") from None
