"""What an HTTP error reply means. Pure: status, headers and body in, a `CallFailure` out.

The status code decides; the body only refines it by its structured fields (`code`, `type`) and, for a missing model, by
naming a model. Free text is quoted to the user, never searched for moods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.providers.retry_after import parse_retry_after

ERROR_TEXT_CHARS = 2000
_CONTEXT_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "prompt_too_long", "string_above_max_length"}
)
_MODEL_CODES = frozenset({"model_not_found", "model_not_available", "unknown_model"})
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,200}?\b(?:not found|does not exist|not exist|unknown|not available|unavailable)\b", re.I | re.S
)
_TOO_LONG = re.compile(r"maximum context length|exceeds? the (?:available |maximum )?context|prompt is too long", re.I)


def classify_error_reply(status: int, headers: Mapping[str, str], body: bytes, *, now_s: float) -> CallFailure:
    """The failure an HTTP status of 400 or more becomes."""
    error = error_object(body)
    message = error_message(error, body)
    codes = {str(error.get(k)).lower() for k in ("code", "type") if error.get(k) is not None}
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
    if codes & _MODEL_CODES or (status in (400, 404) and _NO_MODEL.search(message)):
        return CallFailure("skipped_unavailable", "model_not_found", text, http_status=status)
    return CallFailure(
        "error",
        f"http_{status}",
        text,
        retryable=status >= 500,
        retry_after_s=parse_retry_after(headers, now_s) if status >= 500 else None,
        http_status=status,
    )


def error_object(body: bytes) -> dict[str, Any]:
    """The `error` member of a reply, or the reply itself, or an empty object."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    inner = reply.get("error", reply) if isinstance(reply, dict) else reply
    if isinstance(inner, str):
        return {"message": inner}
    return inner if isinstance(inner, dict) else {}


def error_message(error: Mapping[str, Any], body: bytes) -> str:
    """What went wrong in the server's own words, bounded."""
    message = error.get("message") or error.get("detail")
    if not isinstance(message, str):
        message = body.decode("utf-8", "replace")
    return " ".join(message.split())[:ERROR_TEXT_CHARS]


def stream_failure(error: Any, what: str = "the stream carried an error") -> CallFailure:
    """An error event inside a stream that had begun with status 200."""
    fields = error if isinstance(error, dict) else {"message": str(error)}
    message = fields.get("message")
    text = f"{what}: {message if isinstance(message, str) else json.dumps(fields)[:ERROR_TEXT_CHARS]}"[
        :ERROR_TEXT_CHARS
    ]
    codes = {str(fields.get(k)).lower() for k in ("code", "type", "status")}
    if codes & {"429", "rate_limit_exceeded", "rate_limit_error"}:
        return CallFailure("rate_limited", "stream_error", text, retryable=True)
    return CallFailure("error", "stream_error", text)
