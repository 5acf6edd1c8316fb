"""How a Claude Code call that did not end well is named."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from clawgauge.errors import CallFailure
from clawgauge.providers.claude.failures import ERROR_CHARS, explain_failure
from clawgauge.providers.claude.stream import AssistantLine, ClaudeStream, ResultLine
from support.rows import every_row
from unit.providers.claude_calls import SeenCall, kind_of


def explain(
    *,
    kind: str | None = None,
    exit_code: int | None = 1,
    stderr: str = "",
    reply_open: bool = False,
    **result: Any,
) -> CallFailure | None:
    """A result with these fields, after a message of the program's own with this kind of error."""
    error = (
        msgspec.convert({"message": {"model": "<synthetic>"}, "error": kind}, AssistantLine)
        if kind
        else None
    )
    line = msgspec.convert({"is_error": True, **result}, ResultLine) if result else None
    stream = ClaudeStream(SeenCall(), started_ns=0, result=line, error=error, reply_open=reply_open)
    return explain_failure(stream, model="some-model", exit_code=exit_code, stderr_tail=stderr)


@every_row(
    ("status", "expected", "retryable"),
    [
        (400, ("error", "http_400"), False),
        (401, ("auth_error", "http_401"), False),
        (403, ("auth_error", "http_403"), False),
        (404, ("error", "http_404"), False),
        (413, ("error", "http_413"), False),
        (429, ("rate_limited", "http_429"), True),
        (500, ("error", "http_500"), True),
        (503, ("error", "http_503"), True),
        (529, ("error", "http_529"), True),
    ],
)
def test_an_http_status_decides(status: int, expected: tuple[str, str], retryable: bool) -> None:
    """The status is in the failure, and only what may pass is worth another try."""
    failure = explain(api_error_status=status, result="words", kind="unknown")
    assert kind_of(failure) == expected
    assert failure is not None and (failure.retryable, failure.http_status) == (retryable, status)


def test_a_404_that_names_the_model_is_a_missing_model() -> None:
    """Only a reply about the model itself skips the target."""
    assert kind_of(explain(api_error_status=404, result="no some-model here")) == (
        "skipped_unavailable",
        "model_not_found",
    )
    assert kind_of(explain(api_error_status=404, result="gone", kind="model_not_found")) == (
        "skipped_unavailable",
        "model_not_found",
    )
    assert kind_of(explain(api_error_status=404, result="no such page")) == ("error", "http_404")


@pytest.mark.parametrize(
    ("code", "expected", "retryable"),
    [
        ("ECONNREFUSED", ("skipped_unavailable", "connection_refused"), False),
        ("ConnectionRefused", ("skipped_unavailable", "connection_refused"), False),
        ("ENOTFOUND", ("skipped_unavailable", "dns_error"), False),
        ("FailedToOpenSocket", ("skipped_unavailable", "dns_error"), False),
        ("ETIMEDOUT", ("skipped_unavailable", "connect_timeout"), False),
        ("ECONNRESET", ("error", "connection_reset"), True),
        ("StreamTruncated", ("error", "stream_interrupted"), False),
        ("SELF_SIGNED_CERT_IN_CHAIN", ("error", "tls_error"), False),
        ("EWHATEVER", ("error", "cli_error"), False),
    ],
)
def test_a_system_error_code_decides_where_there_is_no_status(
    code: str, expected: tuple[str, str], retryable: bool
) -> None:
    """The system's own code in brackets tells an absent server from one that hung up."""
    failure = explain(
        result=f"API Error: something happened ({code}). Try again.", api_error="connection_failed"
    )
    assert kind_of(failure) == expected
    assert failure is not None and failure.retryable is retryable


def test_a_reset_after_the_reply_began_is_a_cut_stream() -> None:
    """The same code means an interrupted stream once text has come."""
    assert kind_of(explain(result="API Error: lost (ECONNRESET)", reply_open=True)) == (
        "error",
        "stream_interrupted",
    )


def test_an_error_after_the_reply_began_came_inside_the_stream() -> None:
    """A status after the start of a reply is an error event; the answer that had begun is not asked again."""
    overloaded = explain(api_error_status=529, result="Overloaded", reply_open=True)
    limited = explain(api_error_status=429, result="slow down", reply_open=True)
    assert (
        kind_of(overloaded) == ("error", "stream_error")
        and overloaded is not None
        and not overloaded.retryable
    )
    assert kind_of(limited) == ("rate_limited", "stream_error")


def test_a_usage_limit_is_not_retried_and_says_when_it_ends() -> None:
    """A subscription's limit is told apart from a passing 429, with the wait until its reset."""
    result = ResultLine(is_error=True, result="You've hit your limit", api_error_status=429)
    limit = {"status": "rejected", "resetsAt": int(time.time()) + 7200}
    stream = ClaudeStream(SeenCall(), started_ns=0, result=result, limit=limit)
    failure = explain_failure(stream, model="m", exit_code=1, stderr_tail="")
    assert kind_of(failure) == ("rate_limited", "usage_limit")
    assert failure is not None and not failure.retryable
    assert failure.retry_after_s is not None and 7000 < failure.retry_after_s <= 7200
    assert kind_of(explain(api_error="usage_limit_reached", result="x")) == (
        "rate_limited",
        "usage_limit",
    )
    assert kind_of(explain(result="Claude AI usage limit reached|1755615600")) == (
        "rate_limited",
        "usage_limit",
    )


@every_row(
    ("fields", "expected"),
    [
        ({"kind": "authentication_failed", "result": "anything"}, ("auth_error", "cli_auth")),
        ({"result": "Not logged in · Please run /login"}, ("auth_error", "cli_auth")),
        ({"result": "Please: Not logged in"}, ("error", "cli_error")),
        (
            {"terminal_reason": "prompt_too_long", "api_error_status": 400},
            ("error", "context_length_exceeded"),
        ),
        ({"kind": "rate_limit", "result": "x"}, ("rate_limited", "http_429")),
        ({"api_error": "tls_untrusted_ca", "result": "x"}, ("error", "tls_error")),
        ({"result": 'API Error: 529 {"type":"error"}'}, ("error", "http_529")),
        ({"result": "It said API Error: 529"}, ("error", "cli_error")),
        ({"terminal_reason": "max_turns", "errors": ["Reached maximum number of turns (1)"]}, None),
        ({"subtype": "error_max_turns"}, None),
        ({"terminal_reason": "aborted_streaming", "exit_code": 0}, ("error", "cli_error")),
    ],
)
def test_fields_and_fixed_openings_decide(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    """Older programs without the fields are known by how their message begins, never by a word inside it."""
    assert kind_of(explain(**fields)) == expected


def test_success_with_a_failing_exit_code_is_not_believed() -> None:
    """A result that claims success counts only if the program also ended well, or was not waited for."""
    assert explain(is_error=False, result="ok", exit_code=0) is None
    assert explain(is_error=False, result="ok", exit_code=None) is None
    failure = explain(is_error=False, result="ok", exit_code=3, stderr="heap out of memory")
    assert kind_of(failure) == ("error", "cli_error")
    assert (
        failure is not None
        and "exit code 3" in failure.message
        and "heap out of memory" in failure.message
    )


def test_a_program_that_died_is_named_with_its_last_words() -> None:
    """Without a result the failure tells how the program ended and the end of what it said."""
    killed = explain(exit_code=-9)
    flag = explain(exit_code=1, stderr="x" * 5000 + "error: unknown option '--tools'")
    assert (
        killed is not None
        and kind_of(killed) == ("error", "cli_error")
        and "SIGKILL" in killed.message
    )
    assert flag is not None and flag.message.endswith("unknown option '--tools'")
    assert len(flag.message) < ERROR_CHARS + 100


def test_long_words_are_bounded() -> None:
    """A huge error message does not reach the record whole."""
    failure = explain(result="y" * 100_000)
    assert failure is not None and len(failure.message) <= ERROR_CHARS
