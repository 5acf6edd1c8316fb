"""What servers really send: JSON as it comes, and what went wrong on the wire as a status of ours.

Where a strict decoder has refused, one bad byte must not cost an answer: lone surrogates are read, stray bytes (as lone
surrogates, which the record shows as U+FFFD), raw control characters in strings and absurdly long numbers."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, Status

MAX_VALUES = 250_000
# Python turns no more than 4,300 digits into an integer, and nothing we read has more than a few.
_MAX_DIGITS = 100
S = TypeVar("S", bound=msgspec.Struct)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
CONNECT_TIMEOUT_S = 10.0
_SKIPPED: Status = "skipped_unavailable"
ERROR_TEXT_CHARS = 2000
_CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "prompt_too_long", "string_above_max_length"}
)
_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "unknown_model"})
_NO_MODEL = re.compile(
    r"\A(?:HTTP 404: )?model: \S+\Z|"  # all that Anthropic says
    r"\bmodel\b.{0,200}?\b(?:not found|does not exist|not exist|unknown|not available|unavailable)\b",
    re.I | re.S,
)
_TOO_LONG = re.compile(r"maximum context length|exceeds? the (?:available |maximum )?context|prompt is too long", re.I)


def decode_lenient(data: bytes) -> dict[str, Any] | None:
    """The object `data` holds; None for anything else."""
    try:
        if len(data) > MAX_VALUES:
            refuse_crowded(data)
        try:
            text = data.decode(json.detect_encoding(data), "surrogatepass")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "surrogateescape")
        value = json.loads(text, strict=False, parse_int=lambda word: int(word) if len(word) <= _MAX_DIGITS else None)
    except (ValueError, RecursionError, CallFailure):
        return None
    return value if isinstance(value, dict) else None


def refuse_crowded(data: bytes) -> None:
    """Raise where decoding would swell: 16 MiB of `{},` become more than a gigabyte of objects."""
    # A value stands behind a comma, or is the first in a list or an object: no other can begin.
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise CallFailure("error", "response_too_large", f"the reply holds more than {MAX_VALUES} JSON values")


def fit(kind: type[S], fields: Mapping[str, Any]) -> S:
    """A struct of what fits in `fields`: a member of another type is as if it were left out."""
    fitted = {field.name: _fitted(field.type, fields.get(field.encode_name)) for field in msgspec.structs.fields(kind)}
    return kind(**{name: value for name, value in fitted.items() if value is not None})


def _fitted(annotation: Any, value: Any) -> Any:
    """`value` where it is of that type, else None. msgspec itself stumbles over half a character in a wrong place."""
    kind, inner = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):
        return next((fitted for option in inner if (fitted := _fitted(option, value)) is not None), None)
    if kind is Any:
        return value
    if kind is list and isinstance(value, list):
        return [fitted for one in value if (fitted := _fitted(inner[0], one)) is not None]
    if issubclass(kind, msgspec.Struct):
        return fit(kind, value) if isinstance(value, dict) else None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def parse_retry_after(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds to wait, or None where the server said nothing usable. A date in the past is 0."""
    for name, per_s in (("retry-after-ms", 1000), ("Retry-After", 1)):
        if _NUMBER.fullmatch(value := headers.get(name, "").strip()):
            return float(value) / per_s
    try:
        when = parsedate_to_datetime(value)
        return max(0.0, (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() - now_s)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def transport_failure(fault: Exception, where: str, *, connecting: bool) -> CallFailure:
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if (own := client_limit(fault, networking=True)) is not None:
        return own
    number = getattr(fault, "errno", None)
    reason = os.strerror(number) if isinstance(number, int) and number > 0 else str(fault) or type(fault).__name__
    if not connecting:
        return CallFailure("error", "connection_reset", f"{where} closed the connection: {reason}", retryable=True)
    if isinstance(fault, UnicodeError | socket.gaierror):
        return CallFailure(_SKIPPED, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, TimeoutError) and fault.errno is None:
        return CallFailure(_SKIPPED, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    return CallFailure(_SKIPPED, "connection_refused", f"nothing answers at {where}: {reason}")


def classify_error_reply(status: int, headers: Mapping[str, str], body: bytes, model: str) -> CallFailure:
    reply = decode_lenient(body) or {}
    inner = reply.get("error", reply)
    error = inner if isinstance(inner, dict) else {"message": inner} if isinstance(inner, str) else {}
    said = error.get("message") or error.get("detail")
    message = " ".join((said if isinstance(said, str) else body.decode("utf-8", "replace")).split())[:ERROR_TEXT_CHARS]
    codes = _codes(error, "code", "type")
    # A 404 about a model; or a 400 that names the very one: other 400s speak of models in many ways.
    about_it = status == 404 or (status == 400 and bool(model) and model in message)
    kind: Status = "error"
    failure_type = f"http_{status}"
    retryable = status >= 500
    if status in (401, 403):
        kind = "auth_error"
    elif status == 429:
        kind, retryable = "rate_limited", "insufficient_quota" not in codes
    elif codes & _CONTEXT_CODES or (status in (400, 413) and _TOO_LONG.search(message)):
        failure_type, retryable = "context_length_exceeded", False
    elif codes & _MODEL_CODES or (about_it and _NO_MODEL.search(message)):
        kind, failure_type, retryable = _SKIPPED, "model_not_found", False
    text = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    wait_s = parse_retry_after(headers, time.time()) if retryable or status == 429 else None
    return CallFailure(kind, failure_type, text, retryable=retryable, retry_after_s=wait_s, http_status=status)


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
