"""What went wrong in a Claude Code call: from what its stream showed and its exit code."""

from __future__ import annotations

import contextlib
import re
import signal
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from clawgauge.errors import CallFailure, Status
from clawgauge.providers.claude.stream import ClaudeStream, ResultLine, number

ERROR_CHARS = 2000

_TABLES = tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))
_LOGIN_KINDS = frozenset(_TABLES["login_kinds"])
_LIMIT_ERRORS = frozenset(_TABLES["limit_errors"])
_OPENINGS: dict[str, tuple[Status, str]] = _TABLES["openings"]
_SYSTEM_CODES: dict[str, tuple[Status, str]] = _TABLES["codes"]
_API_ERRORS = {"tls_untrusted_ca": "tls_error", "stream_idle_timeout": "timeout"}
_FULL_CONTEXT_REASONS = frozenset({"prompt_too_long", "blocking_limit"})
_OPENING_STATUS = re.compile(r"API Error: ([45]\d\d)\b")
_SYSTEM_CODE = re.compile(r"\(([A-Za-z_]{4,60})\)")


class _Kind(NamedTuple):
    """What kind of failure it is; its message is the CLI's own."""

    availability: Status
    failure_type: str
    retryable: bool = False
    retry_after_s: float | None = None


def explain_failure(
    stream: ClaudeStream, *, model: str, exit_code: int | None, stderr_tail: str
) -> CallFailure | None:
    """Why the call failed; None for one that ended well, an empty answer and a refusal included.

    `exit_code` is None where the end of the program was not awaited.
    """
    if stream.cut_reason is not None:
        return None
    if stream.tools_refused is not None:
        return _cli_error("Claude Code did not take the tools on offer", stream.tools_refused)
    message = _error_message(stream)
    result = stream.result
    if result is None:
        # The CLI died or was never the CLI; what it printed may still be one of its own fixed
        # phrases.
        failure = _classify(stream, message, model) if message else None
        if failure is not None:
            return failure
        detail = stderr_tail.strip() or message
        return _cli_error(f"claude {_describe_exit(exit_code)} and gave no result", detail)
    if result.turns_spent:
        return None
    if not result.is_error:
        if exit_code in (0, None):
            return None
        problem = f"claude reported success but {_describe_exit(exit_code)}"
        return _cli_error(problem, stderr_tail)
    error_kind = stream.error.error if stream.error else None
    is_cut = "max_output_tokens" in (result.api_error, error_kind)
    if is_cut or result.stop_reason == "refusal":
        return None
    failure = _classify(stream, message, model)
    if failure is not None:
        return failure
    return _cli_error(message or f"claude {_describe_exit(exit_code)}", "")


def _error_message(stream: ClaudeStream) -> str:
    """What the CLI said of the error: in its result, or in a message in the model's place."""
    message = ""
    if stream.result is not None:
        message = stream.result.result or "; ".join(stream.result.errors)
    if not message and stream.error is not None:
        texts = [block.text for block in stream.error.message.content if block.text]
        message = " ".join(texts)
    return (message or stream.plain_text)[:ERROR_CHARS]


def _classify(stream: ClaudeStream, message: str, model: str) -> CallFailure | None:
    """The failure that is known by its fields, or by the words of its message; else None."""
    result = stream.result or ResultLine()
    http_status = result.api_error_status
    if http_status is None:
        opening = _OPENING_STATUS.match(message)
        if opening:
            http_status = int(opening[1])
    kind = _find_kind(stream, result, http_status, message, model)
    if kind is None:
        return None
    return CallFailure(
        kind.availability,
        kind.failure_type,
        message,
        retryable=kind.retryable,
        retry_after_s=kind.retry_after_s,
        http_status=http_status,
    )


def _find_kind(
    stream: ClaudeStream, result: ResultLine, http_status: int | None, message: str, model: str
) -> _Kind | None:
    """By the fields that say more than an HTTP status does; by the status; by the words."""
    # The CLI's own name for the error it wrote in the model's place.
    error_kind = stream.error.error if stream.error else None
    is_refused_by_limit = stream.limit is not None and (
        http_status == 429 or error_kind == "rate_limit"
    )
    if is_refused_by_limit or result.api_error in _LIMIT_ERRORS:
        retry_after_s = _seconds_to_reset(stream)
        return _Kind("rate_limited", "usage_limit", retry_after_s=retry_after_s)
    if result.terminal_reason in _FULL_CONTEXT_REASONS:
        return _Kind("error", "context_length_exceeded")
    if error_kind == "model_not_found" or (http_status == 404 and model in message):
        return _Kind("skipped_unavailable", "model_not_found")
    if http_status is not None:
        return _kind_of_status(http_status, stream.reply_open)
    if error_kind in _LOGIN_KINDS:
        return _Kind("auth_error", "cli_auth")
    if error_kind == "rate_limit":
        return _Kind("rate_limited", "http_429", retryable=True)
    if result.api_error in _API_ERRORS:
        return _Kind("error", _API_ERRORS[result.api_error])
    for code in _SYSTEM_CODE.findall(message):
        if code in _SYSTEM_CODES:
            return _kind_of_system_code(code, stream.reply_open)
    for opening, (availability, failure_type) in _OPENINGS.items():
        if message.startswith(opening):
            return _Kind(availability, failure_type)
    return None


def _seconds_to_reset(stream: ClaudeStream) -> float | None:
    """How long until the subscription's usage limit begins anew, where the CLI said it."""
    reset_s = number(stream.limit.get("resetsAt")) if stream.limit else None
    if reset_s is None:
        return None
    return max(0.0, reset_s - time.time())


def _kind_of_status(http_status: int, reply_open: bool) -> _Kind:
    # A status after the reply had begun is that of an error event inside a stream which itself came
    # with a 200.
    is_in_stream = reply_open and (http_status == 429 or http_status >= 500)
    availability: Status = "error"
    if http_status == 429:
        availability = "rate_limited"
    elif http_status in (401, 403):
        availability = "auth_error"
    failure_type = "stream_error" if is_in_stream else f"http_{http_status}"
    # An answer that had begun is paid for and kept; only a rate limit is worth asking again.
    retryable = http_status == 429 or (http_status >= 500 and not is_in_stream)
    return _Kind(availability, failure_type, retryable)


def _kind_of_system_code(code: str, reply_open: bool) -> _Kind:
    availability, failure_type = _SYSTEM_CODES[code]
    if reply_open and failure_type != "tls_error":
        availability = "error"
        failure_type = "stream_interrupted"
    return _Kind(availability, failure_type, retryable=failure_type == "connection_reset")


def _describe_exit(exit_code: int | None) -> str:
    if exit_code is None:
        return "did not exit"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"was killed by signal {-exit_code}"


def _cli_error(message: str, detail: str) -> CallFailure:
    detail = detail.strip()[-ERROR_CHARS:]
    if detail:
        message = f"{message}: {detail}"
    return CallFailure("error", "cli_error", message)
