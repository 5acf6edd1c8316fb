"""What is this machine, and what goes through a proxy: one rule, as curl reads the variables."""

from __future__ import annotations

import pytest

from clawgauge.errors import ConfigError
from clawgauge.proxies import find_proxy, is_loopback
from support.rows import every_row

PROXY = "http://proxy.example:3128"


@every_row(
    "host",
    [
        "localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost.", "127.0.0.1", "127.0.0.2",
        "127.255.255.254", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0.0.0.0", "0",
        "::", "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:2", "::ffff:0.0.0.0", "::1%lo",
        "１２７.0.0.1", "ｌocalhost", "127。0。0。1", "127.0.0.1.",
    ],
)  # fmt: skip
def test_loopback_in_every_form_goes_past_the_proxy(host: str) -> None:
    """Whatever the system takes for this machine is this machine."""
    assert is_loopback(host)
    assert find_proxy("http", host, 80, {"http_proxy": PROXY, "ALL_PROXY": PROXY}) is None


@every_row(
    "host",
    [
        "localhost.evil.example", "notlocalhost", "127.0.0.1.nip.io", "128.0.0.1", "126.255.255.255", "10.0.0.1", "1",
        "::2", "::ffff:10.0.0.1", "fe80::1", "0.0.0.1", "127.0.0.1x", "0x", "", "127", "local", "example.com",
    ],
)  # fmt: skip
def test_another_machine_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)
    assert find_proxy("http", host, 80, {"http_proxy": PROXY}) == PROXY


@every_row(
    ("listed", "host", "port", "exempt"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "EXAMPLE.com.", 443, True),
        ("Example.COM.", "www.example.com", 443, True),
        (".example.com", "www.example.com", 443, True),
        (".example.com", "example.com", 443, True),
        ("example.com", "notexample.com", 443, False),
        ("www.example.com", "example.com", 443, False),
        ("*", "anything.example", 443, True),
        (" * ", "anything.example", 443, True),
        ("*.example.com", "www.example.com", 443, False),
        ("a.example,*", "b.example", 443, False),
        ("a.example, b.example", "b.example", 443, True),
        ("a.example b.example", "b.example", 443, True),
        (",, ,", "b.example", 443, False),
        (".", "b.example", 443, False),
        ("box:8000", "box", 8000, True),
        ("box:8000", "box", 8001, False),
        ("box:8000", "gpu.box", 8000, True),
        ("box:x", "box", 443, False),
        ("10.0.0.1", "10.0.0.1", 80, True),
        ("10.0.0.1:80", "10.0.0.1", 80, True),
        ("10.0.0.1:81", "10.0.0.1", 80, False),
        ("0.0.1", "10.0.0.1", 80, False),
        (".0.0.1", "10.0.0.1", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False),
        ("10.1.2.3/8", "10.9.9.9", 80, True),
        ("10.0.0.0/8", "10.example.com", 80, False),
        ("10.0.0.0/99", "10.0.0.1", 80, False),
        ("fe80::1", "fe80::1", 80, True),
        ("[fe80::1]", "fe80:0::1", 80, True),
        ("[fe80::1]:80", "fe80::1", 80, True),
        ("[fe80::1]:81", "fe80::1", 80, False),
        ("fe80::/10", "fe80::dead", 80, True),
        ("fe80::/10", "10.0.0.1", 80, False),
        ("10.0.0.1", "167772161", 80, True),
    ],
)
def test_no_proxy_as_curl_reads_it(listed: str, host: str, port: int, exempt: bool) -> None:
    """Domains with what is in them, addresses, networks, a port where one is given, or everything."""
    for name in ("no_proxy", "NO_PROXY"):
        assert (
            find_proxy("http", host, port, {"http_proxy": PROXY, name: listed}) is None
        ) == exempt


def test_a_port_that_is_not_written_is_the_schemes_own() -> None:
    assert find_proxy("https", "box", None, {"https_proxy": PROXY, "no_proxy": "box:443"}) is None
    assert find_proxy("https", "box", None, {"https_proxy": PROXY, "no_proxy": "box:80"}) == PROXY


@every_row(
    ("scheme", "environ", "proxy"),
    [
        ("http", {}, None),
        ("https", {"http_proxy": PROXY}, None),
        ("https", {"https_proxy": PROXY, "HTTPS_PROXY": "http://upper:1"}, PROXY),
        ("https", {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
        ("https", {"ALL_PROXY": PROXY}, PROXY),
        ("https", {"all_proxy": PROXY, "https_proxy": "http://own:1"}, "http://own:1"),
        ("http", {"HTTP_PROXY": PROXY}, PROXY),
        ("http", {"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None),
        ("http", {"http_proxy": PROXY, "REQUEST_METHOD": "GET"}, PROXY),
        ("http", {"http_proxy": "proxy.example:3128"}, PROXY),
        ("http", {"http_proxy": PROXY, "no_proxy": "other", "NO_PROXY": "far.example"}, PROXY),
    ],
)
def test_which_variable_names_the_proxy(
    scheme: str, environ: dict[str, str], proxy: str | None
) -> None:
    """The scheme's own before ALL_PROXY, lower case before upper; a request's header is never one."""
    assert find_proxy(scheme, "far.example", None, environ) == proxy


@every_row(
    "proxy", ["socks5://me:secret@p:1", "socks5h://p:1", "http://[::1", "http://p:99999999", "://"]
)
def test_a_proxy_that_cannot_be_used_is_a_sentence(proxy: str) -> None:
    """It names the variable, and not what is in it; this machine and exempt hosts are reached all the same."""
    with pytest.raises(ConfigError, match="ALL_PROXY") as refused:
        find_proxy("https", "far.example", 443, {"ALL_PROXY": proxy})
    assert "secret" not in str(refused.value)
    assert find_proxy("https", "127.0.0.2", 443, {"ALL_PROXY": proxy}) is None
    assert (
        find_proxy("https", "far.example", 443, {"ALL_PROXY": proxy, "NO_PROXY": "far.example"})
        is None
    )
