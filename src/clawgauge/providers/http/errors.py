"""What went wrong on the wire, as a status of ours: transport faults, error replies, `Retry-After`."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.providers.http.lenient_json import decode_lenient

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
CONNECT_TIMEOUT_S = 10.0
_SKIPPED = "skipped_unavailable"
ERROR_TEXT_CHARS = 2000
_CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "prompt_too_long", "string_above_max_length"}
)
_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "unknown_model"})
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,200}?\b(?:not found|does not exist|not exist|unknown|not available|unavailable)\b", re.I | re.S
)
_TOO_LONG = re.compile(r"maximum context length|exceeds? the (?:available |maximum )?context|prompt is too long", re.I)


def parse_retry_after(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds to wait, or None where the server said nothing usable. A date in the past is 0."""
    in_ms = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(in_ms):
        return float(in_ms) / 1000
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if _NUMBER.fullmatch(value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max(0.0, when.timestamp() - now_s)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def connect_failure(fault: Exception, where: str) -> CallFailure:
    """No connection to `where`: this machine's limits, the name, the way there, the time it took, the certificate."""
    if (failure := _own_or_tls(fault, where)) is not None:
        return failure
    if isinstance(fault, UnicodeError | socket.gaierror):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, TimeoutError) and fault.errno is None:
        return CallFailure(_SKIPPED, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    return CallFailure(_SKIPPED, "connection_refused", f"nothing answers at {where}: {_reason(fault)}")


def exchange_failure(fault: OSError, where: str) -> CallFailure:
    """A connection that ended under a request."""
    words = f"{where} closed the connection: {_reason(fault)}"
    return _own_or_tls(fault, where) or CallFailure("error", "connection_reset", words, retryable=True)


def _own_or_tls(fault: Exception, where: str) -> CallFailure | None:
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    return client_limit(fault, networking=True)


def _reason(fault: Exception) -> str:
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__


def classify_error_reply(
    status: int, headers: Mapping[str, str], body: bytes, *, now_s: float, model: str = ""
) -> CallFailure:
    """The failure an HTTP status of 400 or more becomes."""
    reply = decode_lenient(body) or {}
    inner = reply.get("error", reply)
    error = inner if isinstance(inner, dict) else {"message": inner} if isinstance(inner, str) else {}
    said = error.get("message") or error.get("detail")
    words = said if isinstance(said, str) else body.decode("utf-8", "replace")
    message = " ".join(words.split())[:ERROR_TEXT_CHARS]
    codes = _codes(error, "code", "type")
    text = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if status in (401, 403):
        return CallFailure("auth_error", f"http_{status}", text, http_status=status)
    if status == 429:
        return CallFailure(
            "rate_limited",
            "http_429",
            text,
            retryable="insufficient_quota" not in codes,
            retry_after_s=parse_retry_after(headers, now_s),
            http_status=status,
        )
    if codes & _CONTEXT_CODES or (status in (400, 413) and _TOO_LONG.search(message)):
        return CallFailure("error", "context_length_exceeded", text, http_status=status)
    # A 404 about a model; or a 400 that names the very one: other 400s speak of models in many ways.
    about_it = status == 404 or (status == 400 and bool(model) and model in message)
    if codes & _MODEL_CODES or (about_it and _NO_MODEL.search(message)):
        return CallFailure("skipped_unavailable", "model_not_found", text, http_status=status)
    return CallFailure(
        "error",
        f"http_{status}",
        text,
        retryable=status >= 500,
        retry_after_s=parse_retry_after(headers, now_s) if status >= 500 else None,
        http_status=status,
    )


def stream_failure(error: Any, what: str = "the stream carried an error") -> CallFailure:
    """An error event inside a stream that had begun with status 200."""
    fields = error if isinstance(error, dict) else {"message": error}
    message = fields.get("message")
    if not isinstance(message, str):
        try:
            message = json.dumps(fields)
        except RecursionError:
            message = "an error nested too deeply to be quoted"
    text = f"{what}: {message}"[:ERROR_TEXT_CHARS]
    if _codes(fields, "code", "type", "status") & {"429", "rate_limit_exceeded", "rate_limit_error"}:
        return CallFailure("rate_limited", "stream_error", text, retryable=True)
    return CallFailure("error", "stream_error", text)


def _codes(error: Mapping[str, Any], *names: str) -> set[str]:
    """The error's codes, words or numbers; a value of any other type names nothing."""
    return {str(value).lower() for name in names if isinstance(value := error.get(name), str | int)}
