"""What servers really send: JSON as it comes, and what went wrong on the wire as a `CallFailure`.

Where a strict decoder has refused, one bad byte must not cost an answer. So lone surrogates are
read, and stray bytes (as lone surrogates, which the record shows as U+FFFD), raw control characters
in strings, and absurdly long numbers.
"""

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
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, Status
from clawgauge.records import TOOLS_REFUSED

MAX_VALUES = 250_000
ERROR_TEXT_CHARS = 2000
CONNECT_TIMEOUT_S = 10.0
# Python turns no more than 4,300 digits into an integer, and nothing we read has more than a few.
_MAX_DIGITS = 100
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?")

_CONTEXT_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "prompt_too_long",
        "string_above_max_length",
    }
)
_CONTEXT_MESSAGE = re.compile(
    r"maximum context length|exceeds? the (?:available |maximum )?context|prompt is too long"
    r"|input token count.{0,40}?exceeds the maximum number of tokens",  # Google's
    re.IGNORECASE,
)
_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "unknown_model"})
_MODEL_MESSAGE = re.compile(
    r"\A(?:HTTP 404: )?model: \S+\Z"  # all that Anthropic says
    r"|\A(?:HTTP 404: )?models/\S+ is not found\b"  # Google's
    r"|\bmodel\b.{0,200}?"
    r"\b(?:not found|does not exist|not exist|unknown|not available|unavailable"
    r"|no longer available)\b",
    re.IGNORECASE | re.DOTALL,
)
# What servers say to a request with tools where the model, or the server as it was started, takes
# none. A fault in one tool's schema is none of these.
_NO_TOOLS_MESSAGE = re.compile(
    r"(?:does not|doesn't|not) support(?:ed)? (?:tools?|tool use|tool calling|function calling)\b"
    r"|\btools?'? (?:is|are) not (?:supported|enabled)\b"
    r"|\b(?:tool use|tool calling|function calling) is not (?:supported|enabled)\b"
    r"|no endpoints found that support tool use"
    r"|unsupported (?:parameter|value)s?:? '?\[?'?tools\b"
    r"|does not support parameters: \['tools'"
    r"|tools? (?:choice|param) requires --(?:enable-auto-tool-choice|jinja)",
    re.IGNORECASE,
)
_NO_TOOLS_STATUSES = frozenset({400, 404, 422, 500, 501})
_RATE_LIMIT_CODES = frozenset(
    {"429", "rate_limit_exceeded", "rate_limit_error", "resource_exhausted"}
)
# How Google's servers say in an error of status 400 that they do not know the key.
_KEY_REFUSED = "api_key_invalid"
_DAILY_QUOTA = "perday"
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s")
_MAX_DETAILS = 20

S = TypeVar("S", bound=msgspec.Struct)


def decode_lenient(data: bytes) -> dict[str, Any] | None:
    """The JSON object that `data` holds; None for anything else."""
    try:
        if len(data) > MAX_VALUES:
            refuse_crowded(data)
        try:
            text = data.decode(json.detect_encoding(data), "surrogatepass")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "surrogateescape")
        value = json.loads(text, strict=False, parse_int=_parse_int)
    except (ValueError, RecursionError, CallFailure):
        return None
    return value if isinstance(value, dict) else None


def _parse_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def refuse_crowded(data: bytes) -> None:
    """Raise `CallFailure` where decoding would swell.

    16 MiB of `{},` become more than a gigabyte of objects.
    """
    # A value stands behind a comma, or is the first in a list or an object: no other can begin.
    n_values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if n_values > MAX_VALUES:
        message = f"the reply holds more than {MAX_VALUES} JSON values"
        raise CallFailure("error", "response_too_large", message)


def fit(kind: type[S], fields: Mapping[str, Any]) -> S:
    """A struct of what fits in `fields`: a member of another type is as if it were left out."""
    fitted_fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        fitted = _fit_value(field.type, fields.get(field.encode_name))
        if fitted is not None:
            fitted_fields[field.name] = fitted
    return kind(**fitted_fields)


def _fit_value(annotation: Any, value: Any) -> Any:
    """`value` where it is of that type, else None.

    msgspec itself stumbles over half a character in a wrong place.
    """
    kind = get_origin(annotation) or annotation
    arguments = get_args(annotation)
    if kind in (Union, UnionType):
        for option in arguments:
            fitted = _fit_value(option, value)
            if fitted is not None:
                return fitted
        return None
    if kind is Any:
        return value
    if kind is list and isinstance(value, list):
        items = []
        for item in value:
            fitted = _fit_value(arguments[0], item)
            if fitted is not None:
                items.append(fitted)
        return items
    if issubclass(kind, msgspec.Struct):
        return fit(kind, value) if isinstance(value, dict) else None
    if isinstance(value, bool):
        # To Python it is an integer, and no struct that is fitted has one.
        return None
    return value if isinstance(value, kind) else None


def parse_retry_after(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds to wait, or None where the server said nothing usable. A date in the past is 0."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    value = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(0.0, when.timestamp() - now_s)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def transport_failure(fault: Exception, where: str, *, connecting: bool) -> CallFailure:
    """The failure of a call whose connection could not be made, or broke.

    `where` is the host and port, as a user knows them.
    """
    if isinstance(fault, ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    own_limit = client_limit(fault, networking=True)
    if own_limit is not None:
        return own_limit
    reason = _reason(fault)
    if not connecting:
        message = f"{where} closed the connection: {reason}"
        return CallFailure("error", "connection_reset", message, retryable=True)
    if isinstance(fault, UnicodeError | socket.gaierror):
        message = f"the name {where} does not resolve"
        return CallFailure("skipped_unavailable", "dns_error", message)
    if isinstance(fault, TimeoutError) and fault.errno is None:
        message = f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s"
        return CallFailure("skipped_unavailable", "connect_timeout", message)
    message = f"nothing answers at {where}: {reason}"
    return CallFailure("skipped_unavailable", "connection_refused", message)


def _reason(fault: Exception) -> str:
    number = getattr(fault, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return str(fault) or type(fault).__name__


def classify_error_reply(
    status: int, headers: Mapping[str, str], body: bytes, model: str
) -> CallFailure:
    """The failure of a call that was answered with an error status."""
    error = _error_object(body)
    message = error.get("message") or error.get("detail")
    if not isinstance(message, str):
        message = body.decode("utf-8", "replace")
    message = " ".join(message.split())[:ERROR_TEXT_CHARS]
    codes = _codes(error, "code", "type")
    # A 404 about a model; or a 400 that names the very one: other 400s speak of models in many
    # ways.
    may_be_about_model = status == 404 or (status == 400 and bool(model) and model in message)
    is_too_long = status in (400, 413) and _CONTEXT_MESSAGE.search(message) is not None

    details = _read_details(error)

    availability: Status = "error"
    failure_type = f"http_{status}"
    retryable = status >= 500
    if status in (401, 403):
        availability = "auth_error"
    elif _KEY_REFUSED in details.reasons:
        availability = "auth_error"
        failure_type = _KEY_REFUSED
    elif status == 429:
        availability = "rate_limited"
        retryable = "insufficient_quota" not in codes and not details.is_daily_quota
    elif codes & _CONTEXT_CODES or is_too_long:
        failure_type = "context_length_exceeded"
        retryable = False
    elif codes & _MODEL_CODES or (may_be_about_model and _MODEL_MESSAGE.search(message)):
        availability = "skipped_unavailable"
        failure_type = "model_not_found"
        retryable = False

    elif status in _NO_TOOLS_STATUSES and _NO_TOOLS_MESSAGE.search(message):
        failure_type = TOOLS_REFUSED
        retryable = False

    retry_after_s = None
    if retryable or status == 429:
        retry_after_s = parse_retry_after(headers, time.time())
        if retry_after_s is None:
            retry_after_s = details.retry_after_s
    return CallFailure(
        availability,
        failure_type,
        f"HTTP {status}: {message}" if message else f"HTTP {status}",
        retryable=retryable,
        retry_after_s=retry_after_s,
        http_status=status,
    )


class _Details(NamedTuple):
    """What Google's servers add to an error, in a list of typed objects."""

    reasons: frozenset[str]
    is_daily_quota: bool
    """Whether a quota of the whole day is spent: no wait within a run brings it back."""
    retry_after_s: float | None


def _read_details(error: Mapping[str, Any]) -> _Details:
    """The details of an error that has some; whatever is not of their form tells nothing."""
    reasons = set()
    is_daily_quota = False
    retry_after_s = None
    details = error.get("details")
    for detail in details[:_MAX_DETAILS] if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        if isinstance(detail.get("reason"), str):
            reasons.add(detail["reason"].lower())
        delay = _DURATION.fullmatch(str(detail.get("retryDelay")))
        if delay is not None:
            retry_after_s = float(delay[1])
        violations = detail.get("violations")
        for violation in violations[:_MAX_DETAILS] if isinstance(violations, list) else ():
            quota = violation.get("quotaId") if isinstance(violation, dict) else None
            if isinstance(quota, str) and _DAILY_QUOTA in quota.lower():
                is_daily_quota = True
    return _Details(frozenset(reasons), is_daily_quota, retry_after_s)


def _error_object(body: bytes) -> dict[str, Any]:
    """What the body of an error reply says of it: its `error`, which may be a text, or itself."""
    reply = decode_lenient(body) or {}
    error = reply.get("error", reply)
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def stream_failure(error: Any, what: str = "the stream carried an error") -> CallFailure:
    """The failure of a call whose reply had begun with status 200, then told of an error."""
    fields = error if isinstance(error, dict) else {"message": error}
    message = fields.get("message")
    if not isinstance(message, str):
        try:
            message = json.dumps(fields)
        except RecursionError:
            message = "an error nested too deeply to be quoted"
    text = f"{what}: {message}"[:ERROR_TEXT_CHARS]
    if _codes(fields, "code", "type", "status") & _RATE_LIMIT_CODES:
        return CallFailure("rate_limited", "stream_error", text, retryable=True)
    return CallFailure("error", "stream_error", text)


def _codes(error: Mapping[str, Any], *names: str) -> set[str]:
    """The error's codes, texts or numbers; a value of any other type names nothing."""
    codes = set()
    for name in names:
        value = error.get(name)
        if isinstance(value, str | int):
            codes.add(str(value).lower())
    return codes
