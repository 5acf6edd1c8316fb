"""Which addresses are this machine itself, and which proxy stands before others.

The variables are read as curl reads them. HTTP_PROXY in upper case counts too, but not where
REQUEST_METHOD is set: there it may be a header of a request.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from clawgauge.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_OLD_IPV4 = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_NO_PROXY_ENTRY = re.compile(
    r"(?:\[(?P<bracketed>[^\]]*)\]|(?P<plain>[^:]*))(?::(?P<port>[0-9]+))?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Variable(NamedTuple):
    """A variable by the name under which it is set, and its value; empty where it is not set."""

    name: str
    value: str


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, in any form that a resolver or the system takes for it."""
    name = _normalize(host)
    address = _parse_address(name)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return name == "localhost" or name.endswith(".localhost")


def find_proxy(scheme: str, host: str, port: int | None, environ: Mapping[str, str]) -> str | None:
    """The proxy for an address; none for this machine itself.

    Raises `ConfigError` where the variable holds no address of an HTTP proxy.
    """
    if is_loopback(host):
        return None
    entries = _read(environ, "no_proxy").value
    if entries == "*":
        return None
    port = port or _DEFAULT_PORTS.get(scheme)
    name = _normalize(host)
    address = _parse_address(name)
    for entry in re.split(r"[\s,]+", entries):
        if entry and _covers(entry, name, address, port):
            return None
    variable = _read(environ, f"{scheme}_proxy")
    if not variable.value:
        variable = _read(environ, "all_proxy")
    if not variable.value:
        return None
    return _check_proxy(variable)


def _check_proxy(variable: _Variable) -> str:
    """The address that the variable holds, with a scheme. Raises `ConfigError`."""
    name = variable.name
    url = variable.value if "://" in variable.value else f"http://{variable.value}"
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            f"the proxy in {name} is not an address: give one like http://proxy:3128, or unset "
            f"{name}"
        )
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(
            f"the proxy in {name} is of the kind {parts.scheme}://, and only http:// and https:// "
            f"proxies can be used: name such a one, unset {name}, or list the server in NO_PROXY"
        )
    return url


def _read(environ: Mapping[str, str], name: str) -> _Variable:
    """The variable of this name, in lower case or in upper."""
    spellings = [name, name.upper()]
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        spellings = [name]
    for spelling in spellings:
        value = environ.get(spelling, "").strip()
        if value:
            return _Variable(spelling, value)
    return _Variable(name, "")


def _covers(entry: str, name: str, address: Address | None, port: int | None) -> bool:
    """Whether an entry of `no_proxy` means this host.

    A domain means what is in it too, an address only itself.
    """
    is_ipv6 = entry.count(":") > 1 and not entry.startswith("[")
    if "/" in entry or is_ipv6:
        try:
            network = ipaddress.ip_network(entry.replace("[", "").replace("]", ""), strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    parts = _NO_PROXY_ENTRY.fullmatch(entry)
    if parts is None or (parts["port"] and int(parts["port"]) != port):
        return False
    domain = _normalize(parts["bracketed"] or parts["plain"] or "").lstrip(".")
    if address is not None:
        return _parse_address(domain) == address
    return bool(domain) and (name == domain or name.endswith(f".{domain}"))


def _normalize(host: str) -> str:
    """A host as it is compared: as IDNA reads it, without brackets, zone and the root's dot."""
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").lower()
    return name.strip("[]").partition("%")[0].rstrip(".")


def _parse_address(name: str) -> Address | None:
    """The address that a name is, in the short, decimal, octal and hexadecimal forms of old too."""
    try:
        if _OLD_IPV4.fullmatch(name):
            return ipaddress.IPv4Address(socket.inet_aton(name))
        address = ipaddress.ip_address(name)
    except (ValueError, OSError):
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
