"""What the network, the TLS layer or aiohttp said went wrong, as a status of ours.

Refuses: replies, even bad ones (`http_errors` reads those).
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import aiohttp

from clawgauge.errors import CallFailure

CONNECT_TIMEOUT_S = 10.0
_SKIPPED = "skipped_unavailable"


def connect_failure(fault: OSError | UnicodeError, host: str, port: int | None) -> CallFailure:
    """No connection: the name, the way there, the time it took, or the certificate."""
    where = host if port is None else f"{host}:{port}"
    if isinstance(fault, socket.gaierror | UnicodeError):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if isinstance(fault, TimeoutError) and fault.errno is None:
        return CallFailure(_SKIPPED, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    return CallFailure(_SKIPPED, "connection_refused", f"nothing answers at {where}: {_reason(fault)}")


def map_transport_fault(fault: Exception, url: str, *, started: bool) -> CallFailure:
    """What aiohttp, the socket or the TLS layer said."""
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or ''}".rstrip(":")
    if isinstance(fault, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, aiohttp.ConnectionTimeoutError):
        return CallFailure(_SKIPPED, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    if isinstance(fault, aiohttp.ClientConnectorError | ConnectionRefusedError):
        return CallFailure(_SKIPPED, "connection_refused", f"nothing answers at {where}: {_reason(fault)}")
    if isinstance(fault, aiohttp.ClientResponseError | aiohttp.InvalidURL):
        return CallFailure("error", "invalid_response", f"{where} does not speak HTTP as expected: {fault}")
    if isinstance(fault, TimeoutError):
        return CallFailure(_SKIPPED, "connect_timeout", f"{where} did not answer in time")
    if isinstance(fault, aiohttp.ClientConnectionError | OSError):
        return CallFailure(
            "error", "connection_reset", f"{where} closed the connection: {_reason(fault)}", retryable=True
        )
    kind = "invalid_response" if started else "exception"
    return CallFailure("error", kind, f"{type(fault).__name__}: {fault}")


def _reason(fault: Exception) -> str:
    error = getattr(fault, "os_error", fault)
    return getattr(error, "strerror", None) or str(fault) or type(fault).__name__
