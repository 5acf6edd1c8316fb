"""The web, as far as the simulated machine reaches it."""

import http
import re
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from clawgauge.world.effects import Ledger, Refusal
from clawgauge.world.spec import Seconds, SpecObject, Word, at_key, read

_MAX_URL_CHARS = 2_048
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/?#\s:@]+)(?P<port>:\d{1,5})?(?P<rest>[^#\s]*)(?:#\S*)?",
    re.I,
)
_ASKED_TO_WAIT = (429, 503)
_WAIT_S = 2


class Page(SpecObject):
    status: Annotated[int, Meta(ge=100, le=599)] = 200
    body: str = ""
    content_type: Word = msgspec.field(name="type", default="text/html")
    retry_after_s: Seconds = 0

    @property
    def reason(self) -> str:
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:
            return "Unknown"


class Address(NamedTuple):
    """An address in a plain form: lower-case host, no fragment, never an empty path."""

    host: str
    url: str


def read_url(url: str) -> Address:
    """Raises `Refusal` for what is no address."""
    parts = _URL.fullmatch(url.strip()) if len(url) <= _MAX_URL_CHARS else None
    if parts is None:
        raise Refusal("Invalid URL: it must start with http:// or https:// and hold no spaces")
    host = parts["host"].lower()
    rest = parts["rest"]
    if not rest.startswith("/"):
        rest = f"/{rest}"
    return Address(host, f"{parts['scheme'].lower()}://{host}{parts['port'] or ''}{rest}")


class Web:
    """Pages by address, and the faults that come before them."""

    def __init__(self, ledger: Ledger, spec: dict[str, Any]) -> None:
        self._ledger = ledger
        self._faults: dict[str, list[Page]] = {}
        self._pages: dict[str, Page] = {}
        for url, value in spec.items():
            key = f'web."{url}"'
            written = {"body": value} if isinstance(value, str) else value
            page = read(Page, written, key)
            with at_key(key):
                self._pages[read_url(url).url] = page

    def add_fault(self, url: str, key: str, status: int, times: int) -> None:
        """The address answers so many times with this status before it gives its page."""
        retry_after_s = _WAIT_S if status in _ASKED_TO_WAIT else 0
        page = Page(status=status, content_type="text/plain", retry_after_s=retry_after_s)
        with at_key(key):
            self._faults.setdefault(read_url(url).url, []).extend([page] * times)

    def fetch(self, url: str) -> Page:
        """Raises `Refusal` for a host that has no page at all."""
        address = read_url(url)
        self._ledger.note("fetched", address.url)
        if self._faults.get(address.url):
            return self._faults[address.url].pop(0)
        if address.url in self._pages:
            return self._pages[address.url]
        if any(read_url(page_url).host == address.host for page_url in self._pages):
            return Page(status=404, body="<html><body><h1>404 Not Found</h1></body></html>\n")
        raise Refusal(f"Could not resolve host: {address.host}")
