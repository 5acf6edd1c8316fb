"""Which addresses are this machine itself, and which proxy stands before others, by the variables as curl reads them.
HTTP_PROXY in upper case counts too, but not where REQUEST_METHOD is set: there it may be a header of a request."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Mapping
from urllib.parse import urlsplit

from clawgauge.errors import ConfigError

_OLD_IPV4 = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_PORTS = {"http": 80, "https": 443}
_LISTED = re.compile(r"(?:\[(?P<bracketed>[^\]]*)\]|(?P<plain>[^:]*))(?::(?P<port>[0-9]+))?")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, in any form that a resolver or the system takes for it."""
    name = _plain(host)
    if (address := _address(name)) is not None:
        return address.is_loopback or address.is_unspecified
    return name == "localhost" or name.endswith(".localhost")


def find_proxy(scheme: str, host: str, port: int | None, environ: Mapping[str, str]) -> str | None:
    """The proxy for an address; none for this machine itself. Raises `ConfigError` for a proxy of another kind."""
    if is_loopback(host):
        return None
    _, listed = _read(environ, "no_proxy")
    plain, known_port = _plain(host), port or _PORTS.get(scheme)
    exempt = (_covers(entry, plain, _address(plain), known_port) for entry in re.split(r"[\s,]+", listed) if entry)
    if listed == "*" or any(exempt):
        return None
    name, proxy = _read(environ, f"{scheme}_proxy")
    if not proxy:
        name, proxy = _read(environ, "all_proxy")
    if not proxy:
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"the proxy in {name} is not an address: give one like http://proxy:3128, or unset {name}")
    if parts.scheme not in _PORTS:
        kind = f"of the kind {parts.scheme}://, and only http:// and https:// proxies can be used"
        how = f"name such a one, unset {name}, or list the server in NO_PROXY"
        raise ConfigError(f"the proxy in {name} is {kind}: {how}")
    return url


def _read(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    names = [name] if name == "http_proxy" and "REQUEST_METHOD" in environ else [name, name.upper()]
    return next(((known, value) for known in names if (value := environ.get(known, "").strip())), (name, ""))


def _covers(entry: str, name: str, address: Address | None, port: int | None) -> bool:
    """Whether an entry of `no_proxy` means this host: a domain means what is in it too, an address only itself."""
    if "/" in entry or (entry.count(":") > 1 and not entry.startswith("[")):
        try:
            network = ipaddress.ip_network(entry.replace("[", "").replace("]", ""), strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    parts = _LISTED.fullmatch(entry)
    if parts is None or (parts["port"] and int(parts["port"]) != port):
        return False
    wanted = _plain(parts["bracketed"] or parts["plain"] or "").lstrip(".")
    if address is not None:
        return _address(wanted) == address
    return bool(wanted) and (name == wanted or name.endswith(f".{wanted}"))


def _plain(host: str) -> str:
    """A host as it is compared: as IDNA would read it, without brackets, zone and the root's dot."""
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").lower()
    return name.strip("[]").partition("%")[0].rstrip(".")


def _address(name: str) -> Address | None:
    """The address that a name is, also in the short, decimal, octal and hexadecimal forms of old."""
    try:
        if _OLD_IPV4.fullmatch(name):
            return ipaddress.IPv4Address(socket.inet_aton(name))
        address = ipaddress.ip_address(name)
    except (ValueError, OSError):
        return None
    return getattr(address, "ipv4_mapped", None) or address
