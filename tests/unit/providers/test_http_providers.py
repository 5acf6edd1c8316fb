"""What the HTTP providers make of answers and faults, over real sockets, in all their protocols."""

from __future__ import annotations

import json

import pytest

from clawgauge.providers.http.errors import classify_error_reply
from support.scripted_server import (
    Reset,
    ScriptedServer,
    SseBytes,
    Status,
    Text,
)
from unit.providers.observed import attempt

PROTOCOLS = ["openai_chat", "openai_responses"]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_streamed_answer_is_whole_and_timed(kind: str, server: ScriptedServer) -> None:
    """Text, tokens, finish and model arrive; first token lies between the scripted delay and the end."""
    server.script(Text("Paris is the capital.", first_delay_s=0.05, apart=True, usage=(11, 4)))
    done, failure = attempt(kind, server.v1_url)
    assert failure is None
    assert (done.text, done.input_tokens, done.output_tokens) == ("Paris is the capital.", 11, 4)
    assert (done.finish_reason, done.model_reported) == ("stop", "scripted-model")
    assert done.ttft_ns is not None and 0.05e9 <= done.ttft_ns <= done.e2e_ns
    assert done.ttfa_ns == done.ttft_ns
    assert done.output_tps is not None and done.output_tps > 0
    assert done.connect_ns is not None and done.connect_ns > 0


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_an_answer_that_was_not_streamed_has_no_first_token(
    kind: str, server: ScriptedServer
) -> None:
    """Without streaming the answer is whole and the first-token time is null, not the end of the call."""
    server.script(Text("whole", usage=(3, 1)))
    done, failure = attempt(kind, server.v1_url, stream=False)
    assert failure is None and done.text == "whole"
    assert (done.ttft_ns, done.ttfa_ns, done.output_tps) == (None, None, None)
    assert done.e2e_ns > 0 and (done.input_tokens, done.output_tokens) == (3, 1)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_reasoning_is_kept_apart_and_counts_as_first_token(
    kind: str, server: ScriptedServer
) -> None:
    """A reasoning channel starts the first-token clock, not the first-answer clock, and is not the answer."""
    server.script(Text("42", reasoning="let me think", apart=True))
    done, failure = attempt(kind, server.v1_url)
    assert failure is None
    assert (done.text, done.reasoning_text) == ("42", "let me think")
    assert done.ttft_ns is not None and done.ttfa_ns is not None
    assert done.ttft_ns < done.ttfa_ns


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_cut_by_the_token_limit_says_so(kind: str, server: ScriptedServer) -> None:
    """A reply that hit the limit carries finish_reason length."""
    server.script(Text("and so on and", finish="length"))
    done, failure = attempt(kind, server.v1_url, max_tokens=4)
    assert failure is None and done.finish_reason == "length"


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize(
    ("reply", "status", "failure_type", "retryable"),
    [
        (Status(400), "error", "http_400", False),
        (Status(404, body=b"no such page"), "error", "http_404", False),
        (
            Status(
                400, json={"error": {"type": "exceed_context_size_error", "message": "too long"}}
            ),
            "error",
            "context_length_exceeded",
            False,
        ),
        (Reset(), "error", "connection_reset", True),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | bool) else str(value),
)
def test_what_goes_wrong_gets_its_name(
    kind: str,
    reply: object,
    status: str,
    failure_type: str,
    retryable: bool,
    server: ScriptedServer,
) -> None:
    """Each fault ends as its own status and failure type, and says whether trying again could help."""
    server.script(reply)  # type: ignore[arg-type]
    _, failure = attempt(kind, server.v1_url)
    assert failure is not None
    assert (failure.status, failure.failure_type, failure.retryable) == (
        status,
        failure_type,
        retryable,
    )
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "message",
    [
        "Tool calling with this model is not available on your plan",
        "the model received an unknown parameter 'seed'",
        "The model is overloaded, capacity unavailable",
    ],
)
def test_a_400_that_only_speaks_of_models_does_not_end_the_target(
    message: str, server: ScriptedServer
) -> None:
    """A model is missing when the reply says so of the very model that was asked."""
    server.script(
        Status(400, message=message), Status(400, message="model 'scripted-model' not found")
    )
    assert attempt("openai_chat", server.v1_url)[1].failure_type == "http_400"  # type: ignore[union-attr]
    assert attempt("openai_chat", server.v1_url)[1].failure_type == "model_not_found"  # type: ignore[union-attr]


def test_a_responses_stream_without_deltas_has_no_first_token(server: ScriptedServer) -> None:
    """What comes whole in the last event is an answer, but its arrival is no first-token time."""
    item = '{"type":"message","id":"m","content":[{"type":"output_text","text":"whole"}]}'
    final = f'data: {{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}\n\n'
    server.script(SseBytes(final.encode()))
    done, failure = attempt("openai_responses", server.v1_url)
    assert failure is None and done.text == "whole" and done.ttft_ns is None


def test_user_info_and_query_of_an_address_are_sent_as_they_should_be(
    server: ScriptedServer,
) -> None:
    """A login in the address becomes a Basic header unless there is a key; a query goes with every request."""
    address = server.v1_url.replace("http://", "http://me:p%40ss@") + "?tenant=7"
    done, failure = attempt("openai_chat", address)
    assert failure is None and done.text
    call = server.calls[0]
    assert call.headers["authorization"] == "Basic bWU6cEBzcw==" and call.query == "tenant=7"
    attempt("openai_chat", address, settings={"api_key": "sk-the-key", "api_key_env": "K"})
    assert server.calls[1].headers["authorization"] == "Bearer sk-the-key"


def test_llama_cpp_tells_where_the_time_went(server: ScriptedServer) -> None:
    """Its timings are kept; those that are none are as if not said."""
    for timings, told in (
        (b'{"prompt_ms": 12.5, "predicted_ms": 40}', {"prefill": 12_500_000, "decode": 40_000_000}),
        (b'{"prompt_ms": -1, "predicted_ms": "soon"}', None),
    ):
        first = b'data: {"choices": [{"delta": {"content": "yes"}}]}\n\n'
        last = (
            b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": %s}\n\n'
            % timings
        )
        server.script(SseBytes(first + last))
        done, failure = attempt("openai_chat", server.v1_url)
        assert failure is None and done.server_ns == told


@pytest.mark.parametrize(
    ("status", "message", "failure_type"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", "tools_refused"),
        (404, "No endpoints found that support tool use. To learn more", "tools_refused"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and ...', "tools_refused"),
        (500, "tools param requires --jinja flag", "tools_refused"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it", "tools_refused"),
        (400, "tools is not supported in this model. For a list", "tools_refused"),
        (400, "Unsupported parameter: 'tools' is not supported with this model.", "tools_refused"),
        (400, "Invalid schema for function 'look': 'minItems' is not supported", "http_400"),
        (400, "tool_choice 'required' is not supported", "http_400"),
        (400, "tools[3].function.name: too long", "http_400"),
        (429, "does not support tools", "http_429"),
        (503, "the tool server is not available", "http_503"),
    ],
)
def test_a_refusal_of_all_tools_is_told_from_a_fault_in_one(
    status: int, message: str, failure_type: str
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    failure = classify_error_reply(status, {}, body, "some-model")
    assert failure.failure_type == failure_type
    assert failure.retryable == (failure_type in ("http_429", "http_503"))
