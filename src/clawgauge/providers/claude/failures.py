"""What went wrong in a Claude Code call. Pure: what the stream showed and the exit code in, a `CallFailure` out."""

from __future__ import annotations

import contextlib
import re
import signal
import time
import tomllib
from pathlib import Path

from clawgauge.errors import CallFailure, Status
from clawgauge.providers.claude.stream import ClaudeStream, ResultLine, number

ERROR_CHARS = 2000

_KNOWN = tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))
_LOGIN_KINDS, _LIMIT_ERRORS = frozenset(_KNOWN["login_kinds"]), frozenset(_KNOWN["limit_errors"])
_API_ERRORS: dict[str | None, str] = {"tls_untrusted_ca": "tls_error", "stream_idle_timeout": "timeout"}
_FULL_CONTEXT_REASONS = frozenset({"prompt_too_long", "blocking_limit"})
_OPENINGS, _SYSTEM_CODES = _KNOWN["openings"], _KNOWN["codes"]
_OPENING_STATUS = re.compile(r"API Error: ([45]\d\d)\b")
_SYSTEM_CODE = re.compile(r"\(([A-Za-z_]{4,60})\)")


def explain_failure(stream: ClaudeStream, *, model: str, exit_code: int | None, stderr_tail: str) -> CallFailure | None:
    """None for a call that ended well, an empty answer and a refusal included. `exit_code` None: it was not awaited."""
    if stream.cut is not None:
        return None
    if stream.tools_refused is not None:
        return _cli_error("Claude Code did not take the tools on offer", stream.tools_refused)
    result, error = stream.result, stream.error
    # What the CLI said of the error, in its result or in the message it wrote in the model's place.
    words = (result.result or "; ".join(result.errors)) if result else ""
    if not words and error is not None:
        words = " ".join(block.text for block in error.message.content if block.text)
    words = (words or stream.plain_text)[:ERROR_CHARS]
    if result is None:
        # The CLI died or was never the CLI; what it printed may still be one of its own fixed phrases.
        found = _classify(stream, words, model) if words else None
        return found or _cli_error(f"claude {_ending(exit_code)} and gave no result", stderr_tail.strip() or words)
    told = (result.api_error, error.error if error else None)
    if result.turns_spent or (not result.is_error and exit_code in (0, None)):
        return None
    if not result.is_error:
        return _cli_error(f"claude reported success but {_ending(exit_code)}", stderr_tail)
    if result.stop_reason == "refusal" or "max_output_tokens" in told:
        return None
    return _classify(stream, words, model) or _cli_error(words or f"claude {_ending(exit_code)}", "")


def _classify(stream: ClaudeStream, words: str, model: str) -> CallFailure | None:
    """By the fields that say more than an HTTP status does, by the status, by a system's code, else by the words."""
    result, limit = stream.result or ResultLine(), stream.limit
    # The CLI's own name for the error it wrote in the model's place.
    kind = stream.error.error if stream.error else None
    status, retryable, wait_s = result.api_error_status, False, None
    if status is None and (opening := _OPENING_STATUS.match(words)):
        status = int(opening[1])
    named: tuple[Status, str]
    code = next((code for code in _SYSTEM_CODE.findall(words) if code in _SYSTEM_CODES), None)
    if result.api_error in _LIMIT_ERRORS or (limit is not None and (status == 429 or kind == "rate_limit")):
        named = ("rate_limited", "usage_limit")
        reset_s = number(limit.get("resetsAt")) if limit else None
        wait_s = max(0.0, reset_s - time.time()) if reset_s is not None else None
    elif result.terminal_reason in _FULL_CONTEXT_REASONS:
        named = ("error", "context_length_exceeded")
    elif kind == "model_not_found" or (status == 404 and model in words):
        named = ("skipped_unavailable", "model_not_found")
    elif status is not None:
        # A status after the reply had begun is that of an error event inside a stream which itself came with a 200.
        inside = stream.reply_open and (status == 429 or status >= 500)
        availability: Status = "error"
        if status == 429:
            availability = "rate_limited"
        elif status in (401, 403):
            availability = "auth_error"
        named = (availability, "stream_error" if inside else f"http_{status}")
        # An answer that had begun is paid for and kept; only a rate limit is worth asking again.
        retryable = status == 429 or (status >= 500 and not inside)
    elif kind in _LOGIN_KINDS:
        named = ("auth_error", "cli_auth")
    elif kind == "rate_limit":
        named, retryable = ("rate_limited", "http_429"), True
    elif result.api_error in _API_ERRORS:
        named = ("error", _API_ERRORS[result.api_error])
    elif code is not None:
        named = _SYSTEM_CODES[code]
        if stream.reply_open and named[1] != "tls_error":
            named = ("error", "stream_interrupted")
        retryable = named[1] == "connection_reset"
    elif found := next((opening for opening in _OPENINGS if words.startswith(opening)), None):
        named = _OPENINGS[found]
    else:
        return None
    return CallFailure(*named, words, retryable=retryable, retry_after_s=wait_s, http_status=status)


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "did not exit"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"was killed by signal {-exit_code}"


def _cli_error(message: str, detail: str) -> CallFailure:
    detail = detail.strip()[-ERROR_CHARS:]
    return CallFailure("error", "cli_error", f"{message}: {detail}" if detail else message)
