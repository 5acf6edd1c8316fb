"""A server as every HTTP provider reaches it: warm connections, proxies; a key, a list of models, a probe."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass
from weakref import WeakSet

import aiohappyeyeballs
import msgspec
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure, ConfigError, Status
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.http.connection import ReadingDesk, Wire
from clawgauge.providers.http.errors import CONNECT_TIMEOUT_S, decode_lenient, transport_failure
from clawgauge.providers.http.reply import HttpReply, Reader
from clawgauge.proxies import find_proxy, is_loopback
from clawgauge.records import ModelInfo, ProviderProbe, as_count
from clawgauge.registry import OPENAI
from clawgauge.secrets import public_address, public_settings
from clawgauge.words import plural

MAX_MODELS, MAX_LABEL_CHARS = 10_000, 256
# A server that can be asked, but has no list of its models.
_LISTS_NOTHING = (404, 405, 501)

# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
_NEXT_TRY_S, _RESOLVED_S, _CLOSE_S = 0.25, 10.0, 1.0
# A name may have two addresses, tried side by side.
_DESCRIPTORS = 2
_BEFORE_DEADLINE_S, _ASKING_S, _TELLING_S = 0.1, 5.0, 30.0
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})


class HttpClient:
    """A client for one base address, through a proxy where one is set. Whoever makes it calls `aclose`."""

    def __init__(self, base_url: str, *, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base_url)
        self._where = parts.netloc.rpartition("@")[2]
        self.base_url = urlunsplit(parts._replace(netloc=self._where, query="", fragment="")).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        if parts.username and "Authorization" not in self._headers:
            self._headers["Authorization"] = _basic(unquote(parts.username), unquote(parts.password or ""))
        try:
            # Read by whom the connection is made by: two readers might see two hosts in one address.
            self._address = URL(self.base_url)
        except ValueError:  # the first call says so
            self._address = URL()
        self._tls = _trust() if parts.scheme == "https" else None
        proxies = getproxies()
        self._proxy = _find_proxy(self._address, proxies) if proxies else None
        try:
            hop = self._first_hop = URL(self._proxy) if self._proxy else self._address
        except ValueError as fault:
            raise ConfigError(str(fault)) from fault
        known = self._proxy is not None and hop.user is not None
        self._proxy_headers = {"Proxy-Authorization": _basic(hop.user or "", hop.password or "")} if known else {}
        self._first_tls = _trust() if hop.scheme == "https" else None
        self._heads: dict[tuple[str, str], bytes] = {}
        self._desk, self._resolving = ReadingDesk(), asyncio.Lock()
        self._reuse, self._connected_before = True, False
        # With the timer that closes each, those given back last at the end: the server must not be the one who closes.
        self._idle: dict[Wire, asyncio.TimerHandle] = {}
        # Whatever is not closed is known to the loop.
        self._open: WeakSet[Wire] = WeakSet()
        self._addresses: Sequence[AddrInfoType] = []
        self._resolved_until_s = 0.0

    async def aclose(self) -> None:
        """Close every connection and wait until the loop has."""
        for timer in self._idle.values():
            timer.cancel()
        wires, self._reuse = list(self._open), False
        for wire in wires:
            wire.abort()
        if wires:
            await asyncio.wait([wire.closed for wire in wires], timeout=_CLOSE_S)

    async def ask(self, url: str, body: bytes | None = None) -> bytes:
        """Ask the server about itself, or with a `body` tell it something, over a connection that no call shares."""
        reply = _Whole()
        try:
            async with asyncio.timeout(_ASKING_S if body is None else _TELLING_S):
                await self.exchange(url, body, reply, alone=True)
        except CallFailure as failure:
            if (status := failure.http_status) is None:
                raise
            kind: Status = "auth_error" if status in (401, 403) else "error"
            place = url.removeprefix(self.base_url).removeprefix(self.base_url.removesuffix("/v1"))
            words = f"the server answered {status} to {place}"
            raise CallFailure(kind, f"http_{status}", words, http_status=status) from failure
        except TimeoutError as fault:
            late = f"{self._where} did not answer in time"
            raise CallFailure("skipped_unavailable", "connect_timeout", late) from fault
        return reply.data

    def _head(self, method: str, url: str) -> bytes:
        """A request up to the number of its `Content-Length`. Raises `CallFailure` for what cannot be one."""
        try:
            address = URL(url)
        except ValueError as fault:
            raise CallFailure("error", "exception", str(fault)) from fault
        if address.scheme not in ("http", "https") or not address.raw_host:
            raise CallFailure("error", "invalid_response", f"{url} is not an address of an HTTP server")
        headers = {"Host": address.host_port_subcomponent or "", "Accept": "*/*", **self._headers}
        headers["Content-Type"] = "application/json"
        place = address.raw_path_qs
        if self._proxy is not None and address.scheme == "http":
            place, headers = str(address), headers | self._proxy_headers
        lines = [f"{method} {place} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise CallFailure("error", "exception", "a header may not hold a line break or a NUL")
        return "\r\n".join([*lines, "Content-Length: "]).encode()

    async def exchange(
        self, url: str, payload: bytes | None, reader: Reader, *, timeout_s: float = math.inf, alone: bool = False
    ) -> None:
        """Send one request, a POST where it has a payload, and feed its reply to `reader`, and the clock to its sink.
        The caller stops waiting after `timeout_s`; a refusal whose words are late is told shortly before. With `alone`
        it goes over a connection of its own."""
        words_until_s = asyncio.get_running_loop().time() + timeout_s - _BEFORE_DEADLINE_S
        method, payload = ("GET", b"") if payload is None else ("POST", payload)
        head = self._heads.get((method, url))
        if head is None:
            head = self._heads[method, url] = self._head(method, url + self._query)
        request = b"%b%d\r\n\r\n%b" % (head, len(payload), payload)
        # Over the first connection that takes the request: a pooled one may have been closed by the server.
        while True:
            wire, connect_ns = await self._take(alone)
            try:
                done = wire.ask(request, reader, words_until_s)
                break
            except OSError as fault:
                wire.abort()
                failure = transport_failure(fault, self._where, connecting=False)
                if connect_ns is not None or failure.failure_type == "client_limit":
                    raise failure from fault
        reader.sink.connected(connect_ns)
        try:
            await done
        except OSError as fault:
            if wire.was_dropped and connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                self._stop_reusing()
            raise transport_failure(fault, self._where, connecting=False) from fault
        finally:
            if wire.server in _CLOSING_SERVERS:
                self._stop_reusing()
            if alone or not (self._reuse and wire.is_reusable):
                wire.abort()
            else:
                self._idle[wire] = asyncio.get_running_loop().call_later(KEEPALIVE_S, self._expire, wire)

    async def _take(self, alone: bool) -> tuple[Wire, int | None]:
        """The connection used last and None, or a new one and how long connecting took."""
        if self._tls is not None and self._idle:
            # Under TLS only the loop can notice that the server has closed a connection meanwhile.
            await asyncio.sleep(0)
        now_s = asyncio.get_running_loop().time()
        while self._idle and not alone:
            wire, timer = self._idle.popitem()
            timer.cancel()
            # A program that stood still may be here before the timer is.
            if timer.when() > now_s and wire.unasked() is None:
                return wire, None
            wire.abort()
        where = f"{'the proxy ' if self._proxy else ''}{self._first_hop.raw_host}:{self._first_hop.port}"
        for _ in range(2):
            began_ns = time.perf_counter_ns()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    wire = await self._open_wire()
            except (OSError, UnicodeError, MemoryError) as fault:
                failure = transport_failure(fault, where, connecting=True)
                # Waiting for what this machine is short of helps where calls of ours hold it.
                failure.retryable = failure.retryable and self._connected_before
                raise failure from fault
            self._connected_before = True
            if not wire.unasked():
                return wire, time.perf_counter_ns() - began_ns
            wire.abort()
        words = f"{where} sends before it is asked, so that nothing it sends is an answer"
        raise CallFailure("error", "invalid_response", words)

    async def _open_wire(self) -> Wire:
        loop, host, tls = asyncio.get_running_loop(), self._first_hop.raw_host or "", self._first_tls
        async with self._resolving:
            # Hundreds of calls that begin together ask once.
            if (now_s := time.monotonic()) >= self._resolved_until_s:
                self._addresses = await loop.getaddrinfo(host, self._first_hop.port, type=socket.SOCK_STREAM)
                self._resolved_until_s = now_s + _RESOLVED_S
        require_descriptors(_DESCRIPTORS)
        plain = await aiohappyeyeballs.start_connection(self._addresses, happy_eyeballs_delay=_NEXT_TRY_S, loop=loop)
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        make_wire = partial(Wire, loop, self._desk, None if self._tls or tls else plain)
        how: Any = {"sock": plain, "ssl": tls, "server_hostname": host.rstrip(".") if tls else None}
        if self._proxy is None or self._tls is None:
            _, wire = await loop.create_connection(make_wire, **how)
        else:
            make_opening = partial(_Opening, loop, self._address, self._proxy_headers)
            transport, opening = await loop.create_connection(make_opening, **how)
            try:
                await opening.opened
            except BaseException:
                transport.abort()
                raise
            name, wire = (self._address.raw_host or "").rstrip("."), make_wire()
            tunnel = await loop.start_tls(transport, wire, self._tls, server_hostname=name)
            if tunnel is None:
                raise ConnectionResetError("the proxy closed the connection")
            wire.connection_made(tunnel)
        if self._tls or tls:
            # What came with the end of the handshake is noticed in the loop's next turn, or, by asyncio, the one after.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self._open.add(wire)
        return wire

    def _stop_reusing(self) -> None:
        """From now on every call gets a connection of its own. Calls under way keep theirs."""
        self._reuse = False
        while self._idle:
            wire, timer = self._idle.popitem()
            timer.cancel()
            wire.abort()

    def _expire(self, wire: Wire) -> None:
        del self._idle[wire]
        wire.abort()


class _Opening(asyncio.Protocol):
    """Asks a proxy for the way to a server, and hears its answer up to the end of the head."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: URL, headers: Mapping[str, str]) -> None:
        host = server.raw_host or ""
        place = f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *(f"{k}: {v}" for k, v in headers.items())]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self.opened: asyncio.Future[None] = loop.create_future()
        self._reply = HttpReply(_Whole())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.opened.done():
            return
        is_http = True
        try:
            self._reply.feed(time.perf_counter_ns(), data)
        except CallFailure:  # in the words of an answer, which this is not
            is_http = False
        code, words = self._reply.status, "the proxy answered CONNECT"
        if code >= 300:
            how: Any = {"http_status": code, "retryable": code >= 500}
            self.opened.set_exception(CallFailure("error", f"http_{code}", f"{words} {code}", **how))
        elif not is_http or self._reply.n_payload:
            why = "bytes from a server that was not asked yet" if is_http else "something that is not HTTP"
            self.opened.set_exception(CallFailure("error", "invalid_response", f"{words} with {why}"))
        elif code >= 200:
            self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionResetError("the proxy closed the connection"))


def _ignore(*args: Any) -> None:
    return


class _Whole:
    """The reply to a question: nobody times it, and a stream is none."""

    model, data = "", b""
    by_line: ClassVar = False
    sink = cast(Sink, SimpleNamespace(start=_ignore, connected=_ignore, end=_ignore))
    close = staticmethod(_ignore)

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        return True

    def body(self, at_ns: int, data: bytes) -> None:
        self.data = data


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


_contexts: dict[tuple[str | None, str | None], ssl.SSLContext] = {}


def _trust() -> ssl.SSLContext:
    """Whom TLS trusts: the system's certificates, or those that the usual variables name. Takes long the first time."""
    named = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return _contexts.get(named) or _contexts.setdefault(named, ssl.create_default_context())


def _find_proxy(address: URL, known: Mapping[str, str]) -> str | None:
    """That of the usual variables, else of the system's own settings, which are `known` where it has some."""
    host, environ = address.raw_host or "", dict(os.environ)
    if is_loopback(host):
        return None
    if not getproxies_environment() and not proxy_bypass(host):
        environ = {f"{scheme}_proxy": url for scheme, url in known.items()}
    return find_proxy(address.scheme, host, address.port, environ)


def apply_extra_body(
    sampling: Sampling, extra_body: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]
) -> Sampling:
    """The sampling of a request whose body is overridden by `extra_body`, which has the last word.

    `names` has the fields of the body for each sampling value that the protocol has: ours, and
    others that say the same."""
    sent: dict[str, Any] = sampling._asdict()
    for name, body_fields in names.items():
        for body_field in body_fields:
            value = extra_body.get(body_field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                sent[name] = value
    return Sampling(**sent)


class HttpServer(Provider):
    """One server at one address, the user's own where its table says `local = true`. Subclasses add `attempt`.

    `sampling_names` has the fields of the request's body for each sampling value: the one that is
    sent, and others of the protocol that say the same, which `extra_body` may have in its place."""

    default_base_url: str
    sampling_names: Mapping[str, tuple[str, ...]] = {
        "temperature": ("temperature",),
        "max_tokens": ("max_tokens",),
        "seed": ("seed",),
    }
    models_path = "/models"
    own_headers: Mapping[str, str] = {}
    key_header, key_format = "Authorization", "Bearer {}"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.local = self.local or bool(settings.extra.get("local", False))
        # A key that is named but not set ends a call before anything is sent.
        self._lacking = f"{settings.api_key_env} is not set" if settings.api_key_env and not settings.api_key else ""
        self.extra_body: dict[str, Any] = dict(settings.extra.get("extra_body", {}))
        # Identity, so that no decompression stands between the socket and the clock.
        headers = {"Accept-Encoding": "identity", "User-Agent": "clawgauge", **self.own_headers}
        if settings.api_key:
            headers[self.key_header] = self.key_format.format(settings.api_key)
        self.client = HttpClient(settings.base_url or self.default_base_url, headers=headers)
        self.base_url = self.client.base_url

    async def __aexit__(self, *exc_info: object) -> None:
        await self.client.aclose()

    def sampling(self, call: Call) -> Sampling:
        return apply_extra_body(super().sampling(call), self.extra_body, self.sampling_names)

    def check_here(self, model: str) -> None:
        if self._lacking:
            raise CallFailure("auth_error", "api_key_missing", self._lacking)

    async def probe(self) -> ProviderProbe:
        try:
            self.check_here("")
            models = await self.models()
        except CallFailure as failure:
            return self.unreachable(failure)
        address, detail = public_address(self.base_url), plural(len(models), "model")
        if not models:
            detail = "it answers, but lists no models: which it has is not checked"
        elif self.settings.api_key and not OPENAI.is_address(self.base_url):
            detail += "; whether calls take the key is not checked"
        return ProviderProbe(provider=self.name, reachable=True, address=address, detail=detail, models=models)

    def unreachable(self, failure: CallFailure) -> ProviderProbe:
        address, hint = public_address(self.base_url), self.hint(failure)
        return ProviderProbe(provider=self.name, reachable=False, address=address, detail=failure.message, hint=hint)

    async def models(self) -> list[ModelInfo]:
        try:
            data = await self.client.ask(self.base_url + self.models_path)
        except CallFailure as failure:
            if failure.http_status in _LISTS_NOTHING:
                return []
            raise
        found = listed_models(data)
        return [ModelInfo(name=item["id"], context_tokens=as_count(item.get("max_model_len"))) for item in found]

    def describe(self) -> dict[str, Any]:
        known = {"type": self.settings.type, "base_url": public_address(self.base_url)}
        more = {"api_key_env": self.settings.api_key_env, "extra_body": public_settings(self.extra_body)}
        return known | {name: value for name, value in more.items() if value}

    def hint(self, failure: CallFailure) -> str:
        key_env, address = self.settings.api_key_env, public_address(self.base_url)
        if failure.failure_type == "api_key_missing":
            return f"set {key_env}"
        if failure.status == "auth_error":
            return f"check the value of {key_env}" if key_env else "the server wants a key: name one with api_key_env"
        is_up = failure.http_status is not None
        return f"look at the log of the server at {address}" if is_up else f"is the server running at {address}?"

    async def _post(self, path: str, body: dict[str, Any], call: Call, reader: Reader) -> None:
        """Make one call. A member of `body` that is None was not asked for, and is not sent."""
        if self._lacking:
            self.check_here(call.model)
        body = {name: value for name, value in body.items() if value is not None}
        for names in self.sampling_names.values():
            # Servers refuse two fields that say the same.
            if not self.extra_body.keys().isdisjoint(names):
                for name in names:
                    body.pop(name, None)
        body |= self.extra_body
        try:
            payload = msgspec.json.encode(body)
        except UnicodeEncodeError:  # a lone surrogate in a prompt is sent as its escape rather than failing the call
            payload = json.dumps(body).encode("ascii")
        await self.client.exchange(self.base_url + path, payload, reader, timeout_s=call.timeout_s)


def listed_models(data: bytes, list_name: str = "data", key: str = "id") -> list[dict[str, Any]]:
    """The models of a server's list, each name once, as many as anybody may have. A name is the server's own, and
    becomes a target, a file name and a line on the terminal: one that is no text of reasonable length is left out."""
    items = (decode_lenient(data) or {}).get(list_name)
    found: dict[str, dict[str, Any]] = {}
    for item in items if isinstance(items, list) else []:
        name = label(item.get(key)) if isinstance(item, dict) else None
        if name is not None and len(found) < MAX_MODELS:
            found.setdefault(name, item)
    return list(found.values())


def label(value: Any) -> str | None:
    """A short printable word about a model; None for anything else a server may send in its place."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_LABEL_CHARS and value.isprintable() else None
