"""The smaller things a specification may declare: the web, hosts of the network, graphics cards, git repositories.

web."https://status.example.org/" = "All systems normal."
web."https://api.example.org/rates" = { status = 200, body = '{"eur": 1.07}', type = "application/json" }
hosts."db.example.net" = "10.0.0.5"
hosts."backup.example.net" = { address = "10.0.0.9", reachable = false }
gpus = [{ name = "NVIDIA L4", memory_mb = 23034, used_mb = 18111, utilization = 97 }]
repos."/srv/app" = { branch = "main", commits = ["fix the port"], modified = ["app.py"], remote = "git@a.example:b" }
"""

from __future__ import annotations

import hashlib
import http
import re
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.effects import EffectLog, Incidentals
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.refusals import Refusal

MAX_URL_CHARS = 2_048
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#\s:@]+)(?P<port>:\d{1,5})?(?P<rest>[^#\s]*)(?:#\S*)?", re.I)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MAX_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Page:
    """What one address answers."""

    status: int
    body: str
    content_type: str = "text/html"
    retry_after_s: int | None = None

    @property
    def reason(self) -> str:
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:
            return "Unknown"


@dataclass(frozen=True, slots=True)
class Address:
    """An address taken apart; two spellings of one address are equal."""

    host: str
    text: str


def read_address(url: str) -> Address:
    """The address in a plain form: lower-case host, no fragment, a slash where the path is empty."""
    found = _URL.fullmatch(url.strip()) if len(url) <= MAX_URL_CHARS else None
    if found is None:
        raise Refusal("Invalid URL: it must start with http:// or https:// and hold no spaces")
    host, rest = found["host"].lower(), found["rest"]
    rest = rest if rest.startswith("/") else f"/{rest}"
    return Address(host, f"{found['scheme'].lower()}://{host}{found['port'] or ''}{rest}")


class Web:
    """Pages by address, and the pages that stand in for them a number of times first."""

    def __init__(self, effects: EffectLog, spec: Fields) -> None:
        self._effects = effects
        self._pages: dict[Address, Page] = {}
        self._before: dict[Address, list[Page]] = {}
        for url, key, value in spec.entries("web"):
            given = {"body": value} if isinstance(value, str) else value
            fields = Fields(given, key, ("status", "body", "type", "retry_after_s"))
            status = fields.whole("status", 200, least=100, most=599)
            retry_after_s = fields.whole("retry_after_s", 0, most=86_400) or None
            page = Page(status, fields.text("body", ""), fields.word("type", "text/html"), retry_after_s)
            self._pages[_declared(url, key)] = page

    def add_fault(self, fields: Fields, times: int) -> None:
        """For the next `times` requests of a page, an error answers instead."""
        status = fields.whole("status", 503, least=400, most=599)
        page = Page(status, "", "text/plain", retry_after_s=2 if status in (429, 503) else None)
        address = _declared(fields.word("url"), fields.at("url"))
        self._before.setdefault(address, []).extend([page] * times)

    def hosts(self) -> list[str]:
        return list(dict.fromkeys(address.host for address in self._pages))

    def fetch(self, url: str) -> Page:
        """What the address answers; a host nobody has heard of is refused."""
        address = read_address(url)
        self._effects.note("fetched", address.text)
        if self._before.get(address):
            return self._before[address].pop(0)
        if address in self._pages:
            return self._pages[address]
        if address.host in self.hosts():
            return Page(404, "<html><body><h1>404 Not Found</h1></body></html>\n")
        raise Refusal(f"Could not resolve host: {address.host}")


def _declared(url: str, key: str) -> Address:
    try:
        return read_address(url)
    except Refusal as refused:
        raise SuiteError(f"key '{key}': {refused}") from None


@dataclass(frozen=True, slots=True)
class Host:
    """One host that has a name."""

    address: str
    reachable: bool = True
    latency_ms: float = 0.4


class Hosts:
    """The hosts that can be looked up: those declared, those of the web, and this one."""

    def __init__(self, incidentals: Incidentals, spec: Fields, others: list[str]) -> None:
        self._by_name: dict[str, Host] = {"localhost": Host("127.0.0.1", latency_ms=0.03)}
        for name, key, value in spec.entries("hosts"):
            given = {"address": value} if isinstance(value, str) else value
            fields = Fields(given, key, ("address", "reachable", "latency_ms"))
            address = fields.text("address", "")
            if not _ADDRESS.fullmatch(address):
                raise refusal(fields.at("address"), "an address such as '10.0.0.5'", address)
            reachable = fields.flag("reachable") if "reachable" in fields else True
            self._by_name.setdefault(name.lower(), Host(address, reachable, fields.number("latency_ms", 0.4)))
        for name in others:
            drawn = f"203.0.113.{incidentals.between(2, 250, 'host', name)}"
            self._by_name.setdefault(name.lower(), Host(drawn, latency_ms=11.8))

    def find(self, name: str) -> Host | None:
        name = name.lower().rstrip(".")
        known = {host.address: host for host in self._by_name.values()} | self._by_name
        return known.get(name) or (Host(name, reachable=False) if _ADDRESS.fullmatch(name) else None)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One graphics card, as nvidia-smi shows it."""

    name: str
    memory_mb: int
    used_mb: int
    utilization: int
    temperature_c: int
    power_w: int


def read_gpus(spec: Fields) -> list[Gpu]:
    found = []
    for fields in spec.objects("gpus", ("name", "memory_mb", "used_mb", "utilization", "temperature_c", "power_w")):
        memory_mb = fields.whole("memory_mb", 24_564, most=10_000_000)
        used_mb, utilization = fields.whole("used_mb", 0, most=memory_mb), fields.whole("utilization", 0, most=100)
        warmth, power = fields.whole("temperature_c", 41, most=200), fields.whole("power_w", 33, most=5_000)
        found.append(Gpu(fields.word("name", "NVIDIA L4"), memory_mb, used_mb, utilization, warmth, power))
    return found


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    message: str
    author: str
    at_s: int


@dataclass(frozen=True, slots=True)
class Repo:
    """A git repository: what its commands show. The newest commit comes first."""

    path: str
    branch: str
    branches: list[str]
    commits: list[Commit]
    modified: list[str]
    untracked: list[str]
    remote: str
    ahead: int
    behind: int


def read_repos(spec: Fields, start_s: int) -> dict[str, Repo]:
    """The repositories by the folder they lie in."""
    keys = ("branch", "branches", "commits", "modified", "untracked", "remote", "ahead", "behind")
    repos = {}
    for path, key, value in spec.entries("repos"):
        if not path.startswith("/") or paths.resolve(path) != path:
            raise SuiteError(f"key '{key}' must be named by a plain absolute path")
        fields = Fields(value, key, keys)
        branch = fields.word("branch", "main")
        repos[path] = Repo(
            path=path,
            branch=branch,
            branches=list(dict.fromkeys([branch, *fields.texts("branches")])),
            commits=_read_commits(fields, start_s),
            modified=fields.texts("modified"),
            untracked=fields.texts("untracked"),
            remote=fields.text("remote", ""),
            ahead=fields.whole("ahead", 0, most=1_000),
            behind=fields.whole("behind", 0, most=1_000),
        )
    return repos


def _read_commits(fields: Fields, start_s: int) -> list[Commit]:
    written, commits = fields.raw("commits") or [], []
    if not isinstance(written, list) or len(written) > _MAX_COMMITS:
        raise refusal(fields.at("commits"), f"a list of at most {_MAX_COMMITS} commits", written)
    for index, item in enumerate(written):
        given = {"message": item} if isinstance(item, str) else item
        one = Fields(given, f"{fields.at('commits')}[{index}]", ("message", "author", "age_days"))
        age_s = int(one.number("age_days", index + 1, most=10_000) * 86_400)
        message, author = one.word("message"), one.word("author", "Dana Reyes <dana@example.org>")
        commit_id = hashlib.sha256(f"{index} {message}".encode("utf-8", "replace")).hexdigest()[:40]
        commits.append(Commit(commit_id, message, author, start_s - age_s))
    return commits
