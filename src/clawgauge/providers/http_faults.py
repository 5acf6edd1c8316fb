"""What the network, the TLS layer or the parser said went wrong, as a status of ours.

Refuses: replies, even bad ones (`http_errors` reads those).
"""

from __future__ import annotations

import socket
import ssl

import aiohttp

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure

CONNECT_TIMEOUT_S = 10.0
_SKIPPED = "skipped_unavailable"


def connect_failure(fault: Exception, where: str) -> CallFailure:
    """No connection to `where`: this machine's limits, the name, the way there, the time it took, the certificate."""
    if isinstance(fault, UnicodeError):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if (own := client_limit(fault, networking=True)) is not None:
        return own
    if isinstance(fault, socket.gaierror):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, TimeoutError) and fault.errno is None:
        return CallFailure(_SKIPPED, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    return CallFailure(_SKIPPED, "connection_refused", f"nothing answers at {where}: {_reason(fault)}")


def exchange_failure(fault: Exception, where: str) -> CallFailure:
    """A connection that ended under a request."""
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if (own := client_limit(fault, networking=True)) is not None:
        return own
    if isinstance(fault, aiohttp.ClientConnectionError | OSError):
        words = f"{where} closed the connection: {_reason(fault)}"
        return CallFailure("error", "connection_reset", words, retryable=True)
    return CallFailure("error", "invalid_response", f"{type(fault).__name__}: {fault}")


def _reason(fault: Exception) -> str:
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
