"""What went wrong in a Claude Code call. Pure: the stream's outcome and the exit code in, a `CallFailure` out."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass

from clawgauge.errors import CallFailure
from clawgauge.providers.claude.stream import StreamOutcome, number

ERROR_CHARS = 2000

_LOGIN_KINDS = frozenset(
    {"authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required"}
    | {"cloud_credential_error"}
)
_LIMIT_ERRORS = frozenset({"usage_limit_reached", "model_requires_usage_credits", "long_context_credits_required"})
_FULL_CONTEXT_REASONS = frozenset({"prompt_too_long", "blocking_limit"})

_OPENINGS: tuple[tuple[str, str, str], ...] = (
    ("Not logged in", "auth_error", "cli_auth"),
    ("Invalid API key", "auth_error", "cli_auth"),
    ("Prompt is too long", "error", "context_length_exceeded"),
    ("Claude AI usage limit reached|", "rate_limited", "usage_limit"),
    ("Session limit reached", "rate_limited", "usage_limit"),
    ("API Error: Connection error.", "skipped_unavailable", "connection_refused"),
    ("Request timed out", "error", "timeout"),
    ("API Error: Stream ended without receiving any events", "error", "invalid_response"),
)
_OPENING_STATUS = re.compile(r"API Error: ([45]\d\d)\b")
_SYSTEM_CODE = re.compile(r"\(([A-Za-z_]{4,60})\)")

_UNREACHABLE = {
    "ECONNREFUSED": "connection_refused",
    "ConnectionRefused": "connection_refused",
    "ENETUNREACH": "connection_refused",
    "ENETDOWN": "connection_refused",
    "EHOSTUNREACH": "connection_refused",
    "EHOSTDOWN": "connection_refused",
    "ERR_PROXY_TUNNEL": "connection_refused",
    "ENOTFOUND": "dns_error",
    "EAI_AGAIN": "dns_error",
    "FailedToOpenSocket": "dns_error",
    "ETIMEDOUT": "connect_timeout",
}
_RESETS = frozenset(
    {"ECONNRESET", "ECONNABORTED", "EPIPE", "ConnectionClosed", "ERR_SOCKET_CLOSED", "UND_ERR_SOCKET"}
    | {"StreamTruncated", "StreamSuspended", "StreamNoResponse"}
)
_TLS_CODES = frozenset(
    {"UNABLE_TO_VERIFY_LEAF_SIGNATURE", "UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"}
    | {"DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN", "CERT_HAS_EXPIRED", "ERR_TLS_CERT_ALTNAME_INVALID"}
    | {"ERR_TLS_HANDSHAKE_TIMEOUT", "ERR_SSL_WRONG_VERSION_NUMBER"}
)


@dataclass(frozen=True, slots=True)
class _Report:
    """An error as the CLI reported it, from its result and from the message it wrote in the model's place."""

    words: str
    status: int | None
    kind: str | None
    api_error: str | None
    terminal_reason: str | None
    reply_begun: bool
    limit_reset_s: float | None
    limit_rejected: bool


def explain_failure(
    outcome: StreamOutcome, *, model: str, exit_code: int | None, stderr_tail: str
) -> CallFailure | None:
    """None for a call that ended well, an empty answer and a refusal included. `exit_code` None: it was not awaited."""
    if outcome.cut is not None:
        return None
    if outcome.tools_refused is not None:
        return _cli_error("Claude Code did not take the tools on offer", outcome.tools_refused)
    result = outcome.result
    if result is None:
        return _without_result(outcome, model, exit_code, stderr_tail)
    if result.turns_spent:
        return None
    report = _report(outcome)
    if not result.is_error:
        if exit_code in (0, None):
            return None
        return _cli_error(f"claude reported success but {_ending(exit_code)}", stderr_tail)
    if result.stop_reason == "refusal" or "max_output_tokens" in (report.api_error, report.kind):
        return None
    return _classify(report, model) or _cli_error(report.words or f"claude {_ending(exit_code)}", "")


def _without_result(outcome: StreamOutcome, model: str, exit_code: int | None, stderr_tail: str) -> CallFailure:
    """The CLI died or was never the CLI; what it printed may still be one of its own fixed phrases."""
    report = _report(outcome)
    found = _classify(report, model) if report.words else None
    said = stderr_tail.strip() or report.words
    return found or _cli_error(f"claude {_ending(exit_code)} and gave no result", said)


def _report(outcome: StreamOutcome) -> _Report:
    result, error, limit = outcome.result, outcome.error, outcome.limit
    words = (result.result or "; ".join(result.errors)) if result else ""
    if not words and error is not None:
        words = " ".join(block.text for block in error.message.content if block.text)
    words = words or outcome.plain_text
    status = result.api_error_status if result else None
    if status is None and (opening := _OPENING_STATUS.match(words)):
        status = int(opening[1])
    return _Report(
        words=words[:ERROR_CHARS],
        status=status,
        kind=error.error if error else None,
        api_error=result.api_error if result else None,
        terminal_reason=result.terminal_reason if result else None,
        reply_begun=outcome.reply_open,
        limit_reset_s=number(limit.resets_at) if limit else None,
        limit_rejected=limit is not None,
    )


def _classify(report: _Report, model: str) -> CallFailure | None:
    return _by_field(report, model) or _by_status(report) or _by_system_code(report) or _by_opening(report)


def _by_field(report: _Report, model: str) -> CallFailure | None:
    """The fields that say more than an HTTP status does."""
    status = report.status
    if report.api_error in _LIMIT_ERRORS or (report.limit_rejected and (status == 429 or report.kind == "rate_limit")):
        reset_s = report.limit_reset_s
        wait_s = max(0.0, reset_s - time.time()) if reset_s is not None else None
        return CallFailure("rate_limited", "usage_limit", report.words, retry_after_s=wait_s, http_status=status)
    if report.terminal_reason in _FULL_CONTEXT_REASONS:
        return CallFailure("error", "context_length_exceeded", report.words, http_status=status)
    if report.kind == "model_not_found" or (status == 404 and model in report.words):
        return CallFailure("skipped_unavailable", "model_not_found", report.words, http_status=status)
    if status is not None:
        return None
    if report.kind in _LOGIN_KINDS:
        return CallFailure("auth_error", "cli_auth", report.words)
    if report.kind == "rate_limit":
        return CallFailure("rate_limited", "http_429", report.words, retryable=True)
    if report.api_error == "tls_untrusted_ca":
        return CallFailure("error", "tls_error", report.words)
    if report.api_error == "stream_idle_timeout":
        return CallFailure("error", "timeout", report.words)
    return None


def _by_status(report: _Report) -> CallFailure | None:
    status = report.status
    if status is None:
        return None
    passing = status == 429 or status >= 500
    availability = "rate_limited" if status == 429 else "auth_error" if status in (401, 403) else "error"
    # A status after the reply had begun is that of an error event inside a stream which itself came with a 200.
    inside = report.reply_begun and passing
    failure_type = "stream_error" if inside else f"http_{status}"
    # An answer that had begun is paid for and kept; only a rate limit is worth asking again.
    retryable = passing and (status == 429 or not inside)
    return CallFailure(availability, failure_type, report.words, retryable=retryable, http_status=status)


def _by_system_code(report: _Report) -> CallFailure | None:
    for code in _SYSTEM_CODE.findall(report.words):
        if code in _RESETS or (code in _UNREACHABLE and report.reply_begun):
            cut_off = report.reply_begun or code.startswith("Stream")
            failure_type = "stream_interrupted" if cut_off else "connection_reset"
            return CallFailure("error", failure_type, report.words, retryable=not cut_off)
        if code in _UNREACHABLE:
            return CallFailure("skipped_unavailable", _UNREACHABLE[code], report.words)
        if code in _TLS_CODES:
            return CallFailure("error", "tls_error", report.words)
    return None


def _by_opening(report: _Report) -> CallFailure | None:
    for opening, availability, failure_type in _OPENINGS:
        if report.words.startswith(opening):
            return CallFailure(availability, failure_type, report.words)
    return None


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "did not exit"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}"


def _cli_error(message: str, detail: str) -> CallFailure:
    detail = detail.strip()[-ERROR_CHARS:]
    return CallFailure("error", "cli_error", f"{message}: {detail}" if detail else message)
