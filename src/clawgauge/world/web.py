"""The web as far as this world has one: pages by address.

Owns: which address answers what. Refuses: links, scripts, and every address that is not in the specification.

    web."https://status.example.org/" = "All systems normal."
    web."https://api.example.org/rates" = { status = 200, body = '{"eur": 1.07}', type = "application/json" }
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.refusals import Refusal

MAX_URL_CHARS = 2_048
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#\s:@]+)(?P<port>:\d{1,5})?(?P<rest>[^#\s]*)(?:#\S*)?", re.I)
_KEYS = ("status", "body", "type", "retry_after_s")
_REASONS = {
    200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    410: "Gone", 429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    """What one address answers."""

    status: int
    body: str
    content_type: str = "text/html"
    retry_after_s: int | None = None

    @property
    def reason(self) -> str:
        return _REASONS.get(self.status, "Unknown")


@dataclass(frozen=True, slots=True)
class Address:
    """An address taken apart; two spellings of one address are equal."""

    host: str
    text: str


def read_address(url: str) -> Address:
    """The address in a plain form: lower-case host, no fragment, a slash where the path is empty."""
    found = _ADDRESS.fullmatch(url.strip()) if len(url) <= MAX_URL_CHARS else None
    if found is None:
        raise Refusal("Invalid URL: it must start with http:// or https:// and hold no spaces")
    host = found["host"].lower()
    rest = found["rest"] or "/"
    rest = rest if rest.startswith("/") else f"/{rest}"
    return Address(host, f"{found['scheme'].lower()}://{host}{found['port'] or ''}{rest}")


class Web:
    """Pages by address, and the pages that stand in for them a number of times first."""

    def __init__(self, effects: EffectLog) -> None:
        self._effects = effects
        self._pages: dict[Address, Page] = {}
        self._before: dict[Address, list[Page]] = {}

    def add(self, url: str, page: Page) -> None:
        self._pages[read_address(url)] = page

    def put_before(self, url: str, page: Page, times: int) -> None:
        """For the next `times` requests, `page` answers instead."""
        self._before.setdefault(read_address(url), []).extend([page] * times)

    def hosts(self) -> list[str]:
        return list(dict.fromkeys(address.host for address in self._pages))

    def fetch(self, url: str) -> Page:
        """What the address answers; a host nobody has heard of is refused."""
        address = read_address(url)
        self._effects.note("fetched", address.text)
        waiting = self._before.get(address)
        if waiting:
            return waiting.pop(0)
        if address in self._pages:
            return self._pages[address]
        if address.host in {known.host for known in self._pages}:
            return Page(404, "<html><body><h1>404 Not Found</h1></body></html>\n")
        raise Refusal(f"Could not resolve host: {address.host}")


def fill_web(web: Web, spec: Fields) -> None:
    """The pages of a specification."""
    for url, key, value in spec.entries("web"):
        page = read_page(Fields({"body": value} if isinstance(value, str) else value, key, _KEYS))
        try:
            web.add(url, page)
        except Refusal as refusal:
            raise SuiteError(f"key '{key}': {refusal}") from None


def read_page(fields: Fields) -> Page:
    status = fields.whole("status", 200, least=100, most=599)
    retry_after_s = fields.whole("retry_after_s", 0, most=86_400)
    return Page(status, fields.text("body", ""), fields.word("type", "text/html"), retry_after_s or None)
