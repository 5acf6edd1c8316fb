"""What the HTTP providers make of answers and faults, over real sockets, in all their protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.scripted_server import (
    BadJson200,
    Cut,
    Endless,
    EndlessLine,
    GzipBomb,
    Hang,
    HeaderFlood,
    Html200,
    Redirect,
    Reset,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
    model_not_found,
)
from support.waiting import NO_SUCH_HOST, growing_deadlines
from unit.providers.observed import attempt

PROTOCOLS = ["openai_chat", "openai_responses"]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


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
def test_an_answer_that_was_not_streamed_has_no_first_token(kind: str, server: ScriptedServer) -> None:
    """Without streaming the answer is whole and the first-token time is null, not the end of the call."""
    server.script(Text("whole", usage=(3, 1)))
    done, failure = attempt(kind, server.v1_url, stream=False)
    assert failure is None and done.text == "whole"
    assert (done.ttft_ns, done.ttfa_ns, done.output_tps) == (None, None, None)
    assert done.e2e_ns > 0 and (done.input_tokens, done.output_tokens) == (3, 1)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_reasoning_is_kept_apart_and_counts_as_first_token(kind: str, server: ScriptedServer) -> None:
    """A reasoning channel starts the first-token clock, not the first-answer clock, and is not the answer."""
    server.script(Text("42", reasoning="let me think", apart=True))
    done, failure = attempt(kind, server.v1_url)
    assert failure is None
    assert (done.text, done.reasoning_text) == ("42", "let me think")
    assert done.ttft_ns is not None and done.ttfa_ns is not None
    assert done.ttft_ns < done.ttfa_ns


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_native_tool_calls_are_put_together(kind: str, stream: bool, server: ScriptedServer) -> None:
    """Fragments of parallel calls become whole calls with parsed arguments, in order; no text is needed."""
    server.script(Text("", tool_calls=[("get_weather", '{"ci', 'ty": "Paris"}'), ("get_time", '{"tz": "CET"}')]))
    done, failure = attempt(kind, server.v1_url, stream=stream)
    assert failure is None
    assert [(call.name, call.arguments, call.valid) for call in done.native_calls] == [
        ("get_weather", {"city": "Paris"}, True),
        ("get_time", {"tz": "CET"}, True),
    ]
    assert done.finish_reason == "tool_calls"
    assert (done.ttft_ns is not None) == stream


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
        (Status(401), "auth_error", "http_401", False),
        (Status(403), "auth_error", "http_403", False),
        (Status(429), "rate_limited", "http_429", True),
        (
            Status(429, json={"error": {"code": "insufficient_quota", "message": "pay"}}),
            "rate_limited",
            "http_429",
            False,
        ),
        (Status(400), "error", "http_400", False),
        (Status(500), "error", "http_500", True),
        (Status(529), "error", "http_529", True),
        (model_not_found("scripted-model"), "skipped_unavailable", "model_not_found", False),
        (Status(404, body=b"no such page"), "error", "http_404", False),
        (
            Status(400, json={"error": {"type": "exceed_context_size_error", "message": "too long"}}),
            "error",
            "context_length_exceeded",
            False,
        ),
        (Html200(), "error", "invalid_response", False),
        (BadJson200(), "error", "invalid_response", False),
        (Reset(), "error", "connection_reset", True),
        (Redirect("http://127.0.0.1:1/v1"), "error", "redirect_refused", False),
        (HeaderFlood(), "error", "invalid_response", False),
        (StreamError(500), "error", "stream_error", False),
        (StreamError(429), "rate_limited", "stream_error", True),
        (Endless(), "error", "response_too_large", False),
        (EndlessLine(), "error", "response_too_large", False),
        (GzipBomb(), "error", "response_too_large", False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | bool) else str(value),
)
def test_what_goes_wrong_gets_its_name(
    kind: str, reply: object, status: str, failure_type: str, retryable: bool, server: ScriptedServer
) -> None:
    """Each fault ends as its own status and failure type, and says whether trying again could help."""
    server.script(reply)  # type: ignore[arg-type]
    _, failure = attempt(kind, server.v1_url)
    assert failure is not None
    assert (failure.status, failure.failure_type, failure.retryable) == (status, failure_type, retryable)
    assert len(server.calls) == 1


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("reply", [Cut(2), StreamError(500, after_text="one two three")], ids=["cut", "error event"])
def test_a_stream_that_breaks_off_keeps_what_came(kind: str, reply: object, server: ScriptedServer) -> None:
    """Partial text and its first-token time survive a stream that is cut or ends in an error."""
    server.script(reply)  # type: ignore[arg-type]
    done, failure = attempt(kind, server.v1_url)
    assert failure is not None and failure.failure_type in ("stream_interrupted", "stream_error")
    assert done.text and done.ttft_ns is not None


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("where", ["before_headers", "after_headers", "mid_stream"])
def test_a_server_that_falls_silent_meets_the_deadline(kind: str, where: str, server: ScriptedServer) -> None:
    """Wherever a server stops talking, the call ends at the deadline and its clock says about that long."""
    for timeout_s in growing_deadlines(0.3):
        server.script_anew(Hang(where))  # type: ignore[arg-type]
        done, failure = attempt(kind, server.v1_url, timeout_s=timeout_s)
        assert failure is not None and failure.failure_type == "timeout"
        if done.started and done.e2e_ns > 0.5e9 * timeout_s:
            break  # the request was sent long before the deadline
    assert done.started and done.e2e_ns > 0.5e9 * timeout_s


def test_nothing_listens() -> None:
    """A closed port is told apart from a server that fails."""
    _, failure = attempt("openai_chat", "http://127.0.0.1:9/v1")
    assert failure is not None
    assert (failure.status, failure.failure_type) == ("skipped_unavailable", "connection_refused")


def test_a_name_that_does_not_resolve() -> None:
    """A misspelt host is a DNS error, not a refused connection."""
    _, failure = attempt("openai_chat", f"http://{NO_SUCH_HOST}/v1")
    assert failure is not None
    assert (failure.status, failure.failure_type) == ("skipped_unavailable", "dns_error")


def test_a_missing_key_sends_nothing(server: ScriptedServer) -> None:
    """A provider whose key variable is not set fails before a single byte goes out."""
    _, failure = attempt("openai_responses", server.v1_url, settings={"api_key_env": "OPENAI_API_KEY"})
    assert failure is not None and failure.failure_type == "api_key_missing"
    assert server.requests == []


def test_keys_go_to_the_server_and_only_there(server: ScriptedServer) -> None:
    """The key travels as a bearer token; a redirect elsewhere is refused, not followed with it."""
    with ScriptedServer() as elsewhere:
        server.script(Redirect(f"{elsewhere.v1_url}/chat/completions"))
        key = {"api_key": "sk-canary-123456", "api_key_env": "K"}
        _, failure = attempt("openai_chat", server.v1_url, settings=key)
        assert server.calls[0].headers["authorization"] == "Bearer sk-canary-123456"
        assert failure is not None and failure.failure_type == "redirect_refused"
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "data", [b'data: {"choices": null}', b"data: 7", b"data: []", b'data: {"choices": [{}]}', b"data: {"]
)
def test_odd_events_are_ignored(data: bytes, server: ScriptedServer) -> None:
    """An event that is not an object, or has no delta, costs nothing: the text around it stands."""
    good = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    server.script(SseBytes(data + b"\n\n" + good + data + b"\n\n" + end))
    done, failure = attempt("openai_chat", server.v1_url)
    assert failure is None and done.text == "ok"


@pytest.mark.parametrize("usage", [{"prompt_tokens": -1, "completion_tokens": "3"}, {"prompt_tokens": True}, {}, None])
def test_absurd_usage_is_as_if_not_said(usage: object, server: ScriptedServer) -> None:
    """Token counts that are negative, strings or booleans become null; the answer stands."""
    server.script(Text("ok", usage=usage))  # type: ignore[arg-type]
    done, failure = attempt("openai_chat", server.v1_url)
    assert failure is None and done.text == "ok"
    assert (done.input_tokens, done.output_tokens) == (None, None)


def test_surrogate_halves_in_two_deltas_reach_the_timeline(server: ScriptedServer) -> None:
    """A character split over two events as escaped halves is not lost on the way."""
    chunk = 'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
    server.script(SseBytes((chunk % "\\ud83d" + chunk % "\\ude00").encode() + b"data: [DONE]\n\n"))
    done, failure = attempt("openai_chat", server.v1_url)
    assert failure is None and done.text == "\ud83d\ude00"


def test_connections_are_reused(server: ScriptedServer) -> None:
    """Two calls of one client to a server that keeps connections open use one connection; the second has no connect."""
    import asyncio
    import time

    from clawgauge.providers.base import Call, ProviderSettings
    from clawgauge.providers.registry import create_provider
    from clawgauge.timeline import Timeline

    async def two() -> list[int | None]:
        connects = []
        async with create_provider(
            ProviderSettings(name="openai_chat", type="openai_chat", base_url=server.v1_url)
        ) as provider:
            for _ in range(2):
                timeline = Timeline()
                await provider.attempt(Call(model="m", prompt="p"), timeline)
                connects.append(timeline.fold(time.perf_counter_ns()).connect_ns)
        return connects

    first, second = asyncio.run(two())
    assert first is not None and second is None
    assert server.connections == 1


def test_calls_that_all_have_index_zero_are_told_apart_by_their_ids(server: ScriptedServer) -> None:
    """Ollama numbers every parallel call 0: two calls stay two."""
    chunk = (
        'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_%s","function":'
        '{"name":"%s","arguments":"{\\"p\\": %d}"}}]},"finish_reason":null}]}\n\n'
    )
    stream = chunk % ("a", "ls", 1) + chunk % ("b", "df", 2)
    end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    server.script(SseBytes((stream + end).encode()))
    done, failure = attempt("ollama_openai", server.v1_url)
    assert failure is None
    assert [(c.name, c.arguments, c.valid) for c in done.native_calls] == [
        ("ls", {"p": 1}, True),
        ("df", {"p": 2}, True),
    ]


@pytest.mark.parametrize(
    "message",
    [
        "Tool calling with this model is not available on your plan",
        "the model received an unknown parameter 'seed'",
        "The model is overloaded, capacity unavailable",
    ],
)
def test_a_400_that_only_speaks_of_models_does_not_end_the_target(message: str, server: ScriptedServer) -> None:
    """A model is missing when the reply says so of the very model that was asked."""
    server.script(Status(400, message=message), Status(400, message="model 'scripted-model' not found"))
    assert attempt("openai_chat", server.v1_url)[1].failure_type == "http_400"  # type: ignore[union-attr]
    assert attempt("openai_chat", server.v1_url)[1].failure_type == "model_not_found"  # type: ignore[union-attr]


def test_a_responses_stream_without_deltas_has_no_first_token(server: ScriptedServer) -> None:
    """What comes whole in the last event is an answer, but its arrival is no first-token time."""
    item = '{"type":"message","id":"m","content":[{"type":"output_text","text":"whole"}]}'
    final = f'data: {{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}\n\n'
    server.script(SseBytes(final.encode()))
    done, failure = attempt("openai_responses", server.v1_url)
    assert failure is None and done.text == "whole" and done.ttft_ns is None


def test_arguments_that_come_with_the_finished_item(server: ScriptedServer) -> None:
    """A Responses call whose arguments were never streamed still has them."""
    added = '{"type":"response.output_item.added","item":{"type":"function_call","id":"f","name":"go","arguments":""}}'
    item = '{"type":"function_call","id":"f","name":"go","arguments":"{\\"a\\": 1}"}'
    events = [
        added,
        f'{{"type":"response.output_item.done","item":{item}}}',
        f'{{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}',
    ]
    server.script(SseBytes("".join(f"data: {event}\n\n" for event in events).encode()))
    done, failure = attempt("openai_responses", server.v1_url)
    assert failure is None and [(c.name, c.arguments) for c in done.native_calls] == [("go", {"a": 1})]


def test_user_info_and_query_of_an_address_are_sent_as_they_should_be(server: ScriptedServer) -> None:
    """A login in the address becomes a Basic header unless there is a key; a query goes with every request."""
    address = server.v1_url.replace("http://", "http://me:p%40ss@") + "?tenant=7"
    done, failure = attempt("openai_chat", address)
    assert failure is None and done.text
    call = server.calls[0]
    assert call.headers["authorization"] == "Basic bWU6cEBzcw==" and call.query == "tenant=7"
    attempt("openai_chat", address, settings={"api_key": "sk-the-key", "api_key_env": "K"})
    assert server.calls[1].headers["authorization"] == "Bearer sk-the-key"
