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
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.clock import Incidentals
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.refusals import Refusal

MAX_URL_CHARS = 2_048
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#\s:@]+)(?P<port>:\d{1,5})?(?P<rest>[^#\s]*)(?:#\S*)?", re.I)
_PAGE_KEYS = ("status", "body", "type", "retry_after_s")
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
    found = _URL.fullmatch(url.strip()) if len(url) <= MAX_URL_CHARS else None
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
        page = read_page(Fields({"body": value} if isinstance(value, str) else value, key, _PAGE_KEYS))
        try:
            web.add(url, page)
        except Refusal as refusal:
            raise SuiteError(f"key '{key}': {refusal}") from None


def read_page(fields: Fields) -> Page:
    status = fields.whole("status", 200, least=100, most=599)
    retry_after_s = fields.whole("retry_after_s", 0, most=86_400)
    return Page(status, fields.text("body", ""), fields.word("type", "text/html"), retry_after_s or None)


_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MAX_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Host:
    """One host that has a name."""

    address: str
    reachable: bool = True
    latency_ms: float = 0.4


class Hosts:
    """The hosts that can be looked up: those declared, those of the web, and this one."""

    def __init__(self, incidentals: Incidentals) -> None:
        self._incidentals = incidentals
        self._by_name: dict[str, Host] = {"localhost": Host("127.0.0.1", latency_ms=0.03)}

    def add(self, name: str, host: Host | None = None) -> None:
        drawn = f"203.0.113.{self._incidentals.between(2, 250, 'host', name)}"
        self._by_name.setdefault(name.lower(), host or Host(drawn, latency_ms=11.8))

    def find(self, name: str) -> Host | None:
        name = name.lower().rstrip(".")
        if name in self._by_name:
            return self._by_name[name]
        known = {host.address: host for host in self._by_name.values()}
        return known.get(name) or (Host(name, reachable=False) if _ADDRESS.fullmatch(name) else None)


def fill_hosts(hosts: Hosts, spec: Fields) -> None:
    for name, key, value in spec.entries("hosts"):
        fields = Fields(
            {"address": value} if isinstance(value, str) else value, key, ("address", "reachable", "latency_ms")
        )
        address = fields.text("address", "")
        if not _ADDRESS.fullmatch(address):
            raise refusal(fields.at("address"), "an address such as '10.0.0.5'", address)
        reachable = fields.flag("reachable") if "reachable" in fields else True
        hosts.add(name, Host(address, reachable, fields.number("latency_ms", 0.4)))


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
        found.append(
            Gpu(
                name=fields.word("name", "NVIDIA L4"),
                memory_mb=memory_mb,
                used_mb=fields.whole("used_mb", 0, most=memory_mb),
                utilization=fields.whole("utilization", 0, most=100),
                temperature_c=fields.whole("temperature_c", 41, most=200),
                power_w=fields.whole("power_w", 33, most=5_000),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    message: str
    author: str
    at_s: int


@dataclass(slots=True)
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
    staged: list[str] = field(default_factory=list)

    def stage(self, names: list[str]) -> None:
        self.staged += [name for name in names if name not in self.staged]
        self.modified = [name for name in self.modified if name not in names]
        self.untracked = [name for name in self.untracked if name not in names]

    def commit(self, message: str, author: str, at_s: int) -> None:
        if len(self.commits) < _MAX_COMMITS:
            self.commits.insert(0, Commit(_commit_id(message, len(self.commits)), message, author, at_s))
        self.staged = []
        self.ahead += 1


class Repos:
    """The repositories by the folder they lie in."""

    def __init__(self) -> None:
        self._by_path: dict[str, Repo] = {}

    def add(self, repo: Repo) -> None:
        self._by_path[repo.path] = repo

    def around(self, folder: str) -> Repo | None:
        """The repository a folder lies in."""
        for path in (folder, *reversed(paths.ancestors(folder))):
            if path in self._by_path:
                return self._by_path[path]
        return None


def fill_repos(repos: Repos, spec: Fields, start_s: int) -> None:
    keys = ("branch", "branches", "commits", "modified", "untracked", "remote", "ahead", "behind")
    for path, key, value in spec.entries("repos"):
        if not path.startswith("/") or paths.resolve(path) != path:
            raise SuiteError(f"key '{key}' must be named by a plain absolute path")
        fields = Fields(value, key, keys)
        branch = fields.word("branch", "main")
        repos.add(
            Repo(
                path=path,
                branch=branch,
                branches=list(dict.fromkeys([branch, *fields.texts("branches")])),
                commits=_read_commits(fields, start_s),
                modified=list(fields.texts("modified")),
                untracked=list(fields.texts("untracked")),
                remote=fields.text("remote", ""),
                ahead=fields.whole("ahead", 0, most=1_000),
                behind=fields.whole("behind", 0, most=1_000),
            )
        )


def _read_commits(fields: Fields, start_s: int) -> list[Commit]:
    written: Any = fields.raw("commits") or []
    if not isinstance(written, list) or len(written) > _MAX_COMMITS:
        raise refusal(fields.at("commits"), f"a list of at most {_MAX_COMMITS} commits", written)
    commits = []
    for index, item in enumerate(written):
        one = Fields(
            {"message": item} if isinstance(item, str) else item if isinstance(item, Mapping) else {"message": item},
            f"{fields.at('commits')}[{index}]",
            ("message", "author", "age_days"),
        )
        age_s = int(one.number("age_days", index + 1, most=10_000) * 86_400)
        message = one.word("message")
        author = one.word("author", "Dana Reyes <dana@example.org>")
        commits.append(Commit(_commit_id(message, index), message, author, start_s - age_s))
    return commits


def _commit_id(message: str, index: int) -> str:
    return hashlib.sha256(f"{index} {message}".encode("utf-8", "replace")).hexdigest()[:40]
