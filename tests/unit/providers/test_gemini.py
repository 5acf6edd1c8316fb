"""Google's Gemini API: what is sent, what is read, what goes wrong, and whom the key is sent to."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from typing import Any

import msgspec
import pytest

from clawgauge.config.providers import provider_settings
from clawgauge.config.settings import Configuration, ProviderTable
from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, ProviderSettings, Turn, create_provider
from clawgauge.providers.gemini.contents import ReplayedParts
from clawgauge.providers.gemini.provider import GeminiReader
from clawgauge.providers.gemini.thinking import find_thinking, why_not_level
from clawgauge.records import MadeCall, Message, ProviderProbe, ToolInvocation
from clawgauge.timeline import Timeline
from support import gemini_format
from support.rows import every_row
from support.scripted_server import (
    BadJson200,
    Cut,
    Html200,
    ReceivedRequest,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
)
from unit.providers.observed import attempt

FLASH = "gemini-2.5-flash"
NEWEST = "gemini-3.8-flash"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "readFile",
            "description": "Read it.",
            "parameters": {"type": "object", "additionalProperties": False},
        },
    },
    {"type": "function", "function": {"name": "exec"}},
]
MESSAGES = (
    Message(role="user", content="look"),
    Message(
        role="assistant",
        content="Looking.",
        calls=[MadeCall(name="exec", arguments={"command": "ls"})],
    ),
    Message(role="tool", content="a.txt"),
)


def ask(
    server: ScriptedServer, model: str = FLASH, **call: Any
) -> tuple[Reply, CallFailure | None]:
    return attempt("gemini", server.base_url, model=model, **call)


def run_turns(
    server: ScriptedServer, model: str, n_turns: int, *, stream: bool = True
) -> list[Reply]:
    """A task: every call is answered, and the model goes on."""
    asked = Call(model=model, prompt="go", tools=TOOLS, stream=stream)
    replies = []

    async def run() -> None:
        history: list[Turn] = []
        settings = ProviderSettings("g", "gemini", server.base_url)
        async with create_provider(settings) as provider:
            for _ in range(n_turns):
                timeline = Timeline()
                await provider.attempt(dataclasses.replace(asked, history=tuple(history)), timeline)
                reply = timeline.fold(time.perf_counter_ns())
                replies.append(reply)
                turn = Turn(
                    text=reply.text,
                    calls=tuple(reply.native_calls),
                    answers=("ok",) * len(reply.native_calls),
                    reasoning=reply.reasoning_text,
                    replay=reply.replay,
                )
                history.append(turn)

    asyncio.run(run())
    return replies


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_with_thoughts_parallel_calls_and_cached_tokens(
    server: ScriptedServer, stream: bool
) -> None:
    """Text, thoughts and calls are told apart; thoughts count as output, cached tokens as input."""
    calls = [("exec", '{"command": "df"}'), ("readFile", '{"path": "/é"}')]
    text = Text(
        "Let me look.",
        reasoning="hm well",
        tool_calls=calls,
        usage=(70, 9),
        cached_tokens=50,
        reasoning_tokens=30,
    )
    server.script(text)
    reply, failure = ask(server, tools=TOOLS, stream=stream)
    assert failure is None
    assert reply.text == "Let me look."
    assert reply.reasoning_text == "hm well"
    made = [(call.name, call.arguments, call.valid) for call in reply.native_calls]
    assert made == [("exec", {"command": "df"}, True), ("readfile", {"path": "/é"}, True)]
    assert (reply.input_tokens, reply.cached_tokens) == (70, 50)
    assert (reply.output_tokens, reply.reasoning_tokens) == (39, 30)
    assert (reply.finish_reason, reply.model_reported) == ("tool_calls", FLASH)
    assert (reply.ttft_ns is not None) is stream
    expected = "streamGenerateContent" if stream else "generateContent"
    (request,) = server.calls
    assert request.path == f"/v1beta/models/{FLASH}:{expected}"
    assert request.query == ("alt=sse" if stream else "")


def test_what_is_sent(server: ScriptedServer) -> None:
    """System text, conversation, tools, tool choice, sampling and form have the API's own shape, the key a header."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    attempt(
        "gemini",
        f"{server.base_url}/v1beta",
        settings={"api_key": "k" * 20, "api_key_env": "GEMINI_API_KEY"},
        model=f"models/{FLASH}",
        prompt="go on",
        system="Be brief.",
        messages=MESSAGES,
        tools=TOOLS,
        tool_choice="required",
        response_format=form,
        max_tokens=9,
        temperature=0.5,
        seed=3,
        thinking_level="low",
    )
    (request,) = server.calls
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-goog-api-key"] == "k" * 20
    assert "authorization" not in headers
    assert "k" * 20 not in request.target
    call = {"name": "exec", "args": {"command": "ls"}}
    result = {"name": "exec", "response": {"output": "a.txt"}}
    assert request.path == f"/v1beta/models/{FLASH}:streamGenerateContent"
    assert request.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "look"}]},
            {"role": "model", "parts": [{"text": "Looking."}, {"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": result}]},
            {"role": "user", "parts": [{"text": "go on"}]},
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "readFile",
                        "description": "Read it.",
                        "parametersJsonSchema": TOOLS[0]["function"]["parameters"],
                    },
                    {"name": "exec"},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 9 + 2_048,
            "seed": 3,
            "thinkingConfig": {"thinkingBudget": 2_048, "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": schema,
        },
    }


def test_a_plain_call_says_nothing_that_was_not_asked_for(server: ScriptedServer) -> None:
    """No level, no tools, no system text: the contents alone."""
    ask(server)
    assert server.calls[0].json == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {},
    }


def test_one_tool_can_be_asked_for(server: ScriptedServer) -> None:
    choice = {"type": "function", "function": {"name": "exec"}}
    ask(server, tools=TOOLS, tool_choice=choice)
    config = {"mode": "ANY", "allowedFunctionNames": ["exec"]}
    assert server.calls[0].json["toolConfig"] == {"functionCallingConfig": config}


def test_any_json_can_be_asked_for(server: ScriptedServer) -> None:
    ask(server, response_format={"type": "json_object"})
    config = server.calls[0].json["generationConfig"]
    assert config == {"responseMimeType": "application/json"}


def test_what_extra_body_says_of_the_configuration_is_put_over_ours(
    server: ScriptedServer,
) -> None:
    """Its fields win, ours stay beside them, and the level is still sent."""
    extra_body = {
        "generationConfig": {"topP": 0.9, "maxOutputTokens": 77},
        "safetySettings": [],
    }
    attempt(
        "gemini",
        server.base_url,
        settings={"extra": {"extra_body": extra_body}},
        model=FLASH,
        thinking_level="medium",
        max_tokens=9,
        seed=3,
    )
    sent = server.calls[0].json
    assert sent["safetySettings"] == []
    assert sent["generationConfig"] == {
        "topP": 0.9,
        "maxOutputTokens": 77,
        "seed": 3,
        "thinkingConfig": {"thinkingBudget": 8_192, "includeThoughts": True},
    }


def test_a_model_is_one_part_of_the_path_whatever_its_name(server: ScriptedServer) -> None:
    """Nothing in a name leads to another path, and half a character fails nothing here."""
    for model, part in (("a/b?c#d", "a%2Fb%3Fc%23d"), ("m\ud83d", "m%3F")):
        server.route(f"/v1beta/models/{part}:streamGenerateContent", Text("fine"))
        ask(server, model)
        assert server.requests[-1].target.startswith(f"/v1beta/models/{part}:stream")


def test_an_address_with_a_query_of_its_own_keeps_both(server: ScriptedServer) -> None:
    attempt("gemini", f"{server.base_url}/v1beta?team=a", model=FLASH)
    assert server.calls[0].query == "alt=sse&team=a"


def test_the_first_token_is_the_first_part_that_holds_something(server: ScriptedServer) -> None:
    """Pieces without text come before it, and are no token; nothing else is made of them."""
    empty = gemini_format.event({"candidates": [{"content": {"parts": [{"text": ""}]}}]})
    bare = gemini_format.event({"candidates": [{"content": {"role": "model"}}]})
    server.script(Text("fine"))
    ask(server)
    frames = gemini_format.frames(Text("fine", usage=(7, 3)), server.calls[0], "openai")
    timeline = Timeline()
    reader = GeminiReader(timeline, FLASH)
    timeline.start(0)
    stream = [(5, empty), (6, bare)]
    stream += [(7 + n, frame.data) for n, frame in enumerate(frames)]
    for at_ns, data in stream:
        reader.event(at_ns, b"", data.removeprefix(b"data: ").strip())
    reader.close()
    reply = timeline.fold(99)
    assert reply.text == "fine"
    assert reply.ttft_ns == 7


def test_a_stream_may_be_cut_anywhere(server: ScriptedServer) -> None:
    """However the network divides it, and whatever line ends it has, the answer is the same."""
    text = Text("Zwölf Bäume, 木.", reasoning="so so", tool_calls=[("exec", '{"a": "ü"}')])
    server.script(text)
    expected, _ = ask(server, tools=TOOLS)
    frames = gemini_format.frames(text, server.calls[0], "openai")
    stream = b"".join(frame.data for frame in frames)
    chance = random.Random(24)
    for _ in range(20):
        n_cuts = chance.randrange(1, 40)
        cuts = [chance.randrange(len(stream)) for _ in range(n_cuts)]
        server.script(SseBytes(stream, splits=cuts))
        reply, failure = ask(server, tools=TOOLS)
        assert failure is None, cuts
        assert reply.text == expected.text == "Zwölf Bäume, 木."
        assert reply.reasoning_text == "so so"
        assert reply.native_calls == expected.native_calls
        assert reply.replay == expected.replay
    server.script(SseBytes(stream.replace(b"\r\n", b"\n"), every=7))
    reply, _ = ask(server, tools=TOOLS)
    assert reply.text == expected.text


def test_tokens_a_second_only_where_every_token_was_streamed(server: ScriptedServer) -> None:
    """What is shown of thoughts is a summary of them: nobody saw when their tokens were made."""
    text = Text("one two three four five six", apart=True, usage=(5, 60))
    server.script(
        text,
        dataclasses.replace(text, reasoning="a summary", reasoning_tokens=40),
        dataclasses.replace(text, reasoning_tokens=40),
    )
    plain, _ = ask(server)
    summed_up, _ = ask(server)
    unseen, _ = ask(server)
    assert plain.output_tps is not None
    assert (plain.reasoning_tokens, plain.cached_tokens) == (0, 0)
    assert summed_up.output_tps is None
    assert unseen.output_tps is None
    assert summed_up.output_tokens == unseen.output_tokens == 100


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_signatures_go_back_over_a_task(server: ScriptedServer, stream: bool) -> None:
    """Each turn's own signature and ids come back in their places, or the API refuses to go on."""
    calls = [("exec", '{"n": 1}'), ("readFile", "{}")]
    script = [
        Text("Looking.", reasoning="first a look", tool_calls=calls),
        Text(None, tool_calls=[("exec", '{"n": 2}')]),
        Text("Done.", reasoning="that is all"),
        Text("Bye."),
    ]

    def answer(request: ReceivedRequest) -> Status | Text:
        return gemini_format.unsigned_call(request) or script[len(server.calls) - 1]

    server.reply_with(answer)
    replies = run_turns(server, NEWEST, 4, stream=stream)
    assert [reply.text for reply in replies] == ["Looking.", "", "Done.", "Bye."]
    first, second, third, _ = server.calls
    contents = server.calls[3].json["contents"]
    assert [content["role"] for content in contents] == [
        "user", "model", "user", "model", "user", "model",
    ]  # fmt: skip
    assert contents[1]["parts"] == [
        {"text": "Looking."},
        {
            "functionCall": {"name": "exec", "args": {"n": 1}, "id": "call-1-0"},
            "thoughtSignature": gemini_format.signature(first),
        },
        {"functionCall": {"name": "readFile", "args": {}, "id": "call-1-1"}},
    ]
    results = [part["functionResponse"] for part in contents[2]["parts"]]
    assert [(result["name"], result["id"]) for result in results] == [
        ("exec", "call-1-0"),
        ("readFile", "call-1-1"),
    ]
    assert contents[3]["parts"][0]["thoughtSignature"] == gemini_format.signature(second)
    assert contents[5]["parts"][-1]["thoughtSignature"] == gemini_format.signature(third)


def test_calls_that_no_gemini_model_made_are_marked_as_such(server: ScriptedServer) -> None:
    """From version 3 on the API refuses calls without a signature, unless they are said to be others'."""
    server.reply_with(lambda request: gemini_format.unsigned_call(request) or Text("fine"))
    turn = Turn("", (ToolInvocation(name="exec", arguments={}, channel="native"),), ("ok",))
    reply, failure = ask(server, NEWEST, tools=TOOLS, messages=MESSAGES, history=(turn,))
    assert failure is None
    assert reply.text == "fine"
    ask(server, FLASH, tools=TOOLS, messages=MESSAGES)
    assert "thoughtSignature" not in server.calls[1].body.decode()


def test_a_call_without_a_result_does_not_go_back() -> None:
    """Each call needs its result: with one result there is one call, under the signature it had."""
    timeline = Timeline()
    reader = GeminiReader(timeline, NEWEST)
    parts = [
        {"functionCall": {"name": "exec", "args": {"n": n}}, "thoughtSignature": f"s{n}"}
        for n in range(3)
    ]
    piece = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    reader.event(0, b"", msgspec.json.encode(piece))
    reply = timeline.fold(0)
    turn = Turn("", tuple(reply.native_calls), ("ok",), replay=reply.replay)
    with ScriptedServer() as server:
        ask(server, NEWEST, tools=TOOLS, history=(turn,))
        said = server.calls[0].json["contents"][1]["parts"]
    assert said == parts[:1]


@pytest.mark.parametrize(("text", "is_kept"), [("t", True), ("t" * 1_000, False)])
def test_what_goes_back_has_an_end(text: str, is_kept: bool) -> None:
    """A reply of a thousand signed parts is kept; one that would fill the memory is not."""
    timeline = Timeline()
    reader = GeminiReader(timeline, NEWEST)
    part = {"text": text, "thoughtSignature": "s"}
    for _ in range(1_000):
        reader.event(0, b"", msgspec.json.encode({"candidates": [{"content": {"parts": [part]}}]}))
    for _ in range(10):
        reader.event(0, b"", b'{"candidates": [{"finishReason": "STOP"}]}')
    replay = timeline.fold(0).replay
    if is_kept:
        assert isinstance(replay, ReplayedParts)
        assert len(replay.parts) == 1_000
    else:
        assert replay is None


@every_row(
    ("finish", "reason", "warning"),
    [
        ("STOP", "stop", None),
        ("MAX_TOKENS", "length", None),
        ("SAFETY", "content_filter", "ended_early: the API ended the answer: SAFETY: too bad"),
        ("RECITATION", "content_filter", "RECITATION"),
        ("PROHIBITED_CONTENT", "content_filter", "PROHIBITED_CONTENT"),
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call", "MALFORMED_FUNCTION_CALL: too bad"),
        ("MISSING_THOUGHT_SIGNATURE", "missing_thought_signature", "MISSING"),
        ("OTHER", "other", "OTHER"),
    ],
)
def test_why_it_stopped(finish: str, reason: str, warning: str | None) -> None:
    """The usual reasons have their usual names, and what the API cut short says so."""
    with ScriptedServer() as server:
        server.script(Text(None, finish=finish, refusal="too bad"))
        reply, failure = ask(server)
    assert failure is None
    assert reply.finish_reason == reason
    assert len(reply.warnings) == (0 if warning is None else 1)
    assert warning is None or warning in reply.warnings[0]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_blocked_prompt_is_a_refusal(server: ScriptedServer, stream: bool) -> None:
    """The API lets no model see some prompts: that is an answer, with the reason and without text."""
    blocked = gemini_format.blocked_prompt("PROHIBITED_CONTENT")
    if stream:
        server.script(SseBytes(gemini_format.event(blocked)))
    else:
        server.script(Status(200, blocked))
    reply, failure = ask(server, stream=stream)
    assert failure is None
    assert reply.refusal == "the API blocked the prompt: PROHIBITED_CONTENT"
    assert (reply.finish_reason, reply.text) == ("content_filter", "")
    assert (reply.input_tokens, reply.output_tokens) == (12, 0)


PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
FAULTS: list[tuple[str, Any, tuple[str, str, bool], float | None]] = [
    ("wrong key", gemini_format.key_refused(), ("auth_error", "api_key_invalid", False), None),
    ("bad request", Status(400), ("error", "http_400", False), None),
    ("no login", Status(401), ("auth_error", "http_401", False), None),
    ("forbidden", Status(403), ("auth_error", "http_403", False), None),
    ("no model", gemini_format.model_not_found(FLASH), ("skipped_unavailable", "model_not_found", False), None),
    ("no path", Status(404, message="Not Found"), ("error", "http_404", False), None),
    ("too long", Status(400, message=TOO_LONG), ("error", "context_length_exceeded", False), None),
    ("a minute's quota", gemini_format.quota_spent(PER_MINUTE), ("rate_limited", "http_429", True), 26.0),
    ("parts of a second", gemini_format.quota_spent(PER_MINUTE, "0.5s"), ("rate_limited", "http_429", True), 0.5),
    ("no time said", gemini_format.quota_spent(PER_MINUTE, None), ("rate_limited", "http_429", True), None),
    ("odd time", gemini_format.quota_spent(PER_MINUTE, "-3s"), ("rate_limited", "http_429", True), None),
    ("a day's quota", gemini_format.quota_spent(PER_DAY), ("rate_limited", "http_429", False), 26.0),
    ("broken", Status(500), ("error", "http_500", True), None),
    ("overloaded", Status(503), ("error", "http_503", True), None),
    ("a page", Html200(), ("error", "invalid_response", False), None),
    ("not JSON", BadJson200(), ("error", "invalid_response", False), None),
    ("broken inside", StreamError(503, after_text="one two"), ("error", "stream_error", False), None),
    ("a limit inside", StreamError(429), ("rate_limited", "stream_error", True), None),
    ("cut off", Cut(clean=True), ("error", "stream_interrupted", False), None),
    ("reset", Cut(), ("error", "stream_interrupted", False), None),
    ("no reason to stop", Text("half", finish=None), ("error", "stream_interrupted", False), None),
]  # fmt: skip


@every_row(("name", "reply", "expected", "retry_after_s"), FAULTS)
def test_what_goes_wrong_is_called_by_its_name(
    name: str, reply: Any, expected: tuple[str, str, bool], retry_after_s: float | None
) -> None:
    with ScriptedServer() as server:
        server.script(reply)
        _, failure = ask(server)
    assert failure is not None
    assert (failure.status, failure.failure_type, failure.retryable) == expected
    assert failure.retry_after_s == retry_after_s


def test_odd_details_of_an_error_tell_nothing(server: ScriptedServer) -> None:
    """Nothing that a server puts there is more than a refusal."""
    odd: list[Any] = [
        7,
        {"reason": 7, "retryDelay": {}, "violations": "x"},
        {"violations": [7, {"quotaId": 7}]},
    ]
    for details in (odd, {}, "x"):
        server.script(Status(429, {"error": {"message": "m", "details": details}}))
        _, failure = ask(server)
        assert failure is not None
        assert (failure.failure_type, failure.retryable) == ("http_429", True)
        assert failure.retry_after_s is None


def test_half_characters_and_odd_fields_are_read_as_far_as_they_can_be(
    server: ScriptedServer,
) -> None:
    """A lone surrogate costs no answer, and no thought becomes text."""
    stream = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a\\ud83d"},'
        b'{"text":7}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":"x",'
        b'"candidatesTokenCount":-1}}\r\n\r\n'
    )
    server.script(SseBytes(stream))
    reply, failure = ask(server)
    assert failure is None
    assert reply.reasoning_text == "hm"
    assert reply.text.startswith("a")
    assert len(reply.warnings) == 1
    assert "input_tokens, output_tokens" in reply.warnings[0]


LEVELS: list[tuple[str, str | None, dict[str, Any] | None, int]] = [
    ("gemini-2.5-pro", "low", {"thinkingBudget": 2_048, "includeThoughts": True}, 2_048),
    ("gemini-2.5-pro", "high", {"thinkingBudget": 32_768, "includeThoughts": True}, 32_768),
    ("gemini-2.5-pro", None, None, 8_192),
    ("gemini-2.5-flash", "off", {"thinkingBudget": 0}, 0),
    ("gemini-2.5-flash", "high", {"thinkingBudget": 24_576, "includeThoughts": True}, 24_576),
    ("gemini-2.5-flash-lite", "off", {"thinkingBudget": 0}, 0),
    ("gemini-2.5-flash-lite-preview-09-2025", "medium", {"thinkingBudget": 8_192, "includeThoughts": True}, 8_192),
    ("gemini-3-pro-preview", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}, 32_768),
    ("gemini-3-flash-preview", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}, 32_768),
    ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}, 32_768),
    ("gemini-4-argon", "low", {"thinkingLevel": "LOW", "includeThoughts": True}, 32_768),
    ("gemini-flash-latest", "low", {"thinkingLevel": "LOW", "includeThoughts": True}, 32_768),
    ("gemini-3.8-flash", None, None, 32_768),
    ("gemini-2.0-flash", None, None, 0),
    ("gemma-4-26b-a4b-it", None, None, 0),
]  # fmt: skip


@every_row(("model", "level", "config", "room"), LEVELS)
def test_a_level_is_a_budget_for_version_2_5_and_a_level_from_3_on(
    model: str, level: str | None, config: dict[str, Any] | None, room: int
) -> None:
    assert find_thinking(model, level) == (config, room)


@every_row(
    ("model", "level", "sentence"),
    [
        ("gemini-2.5-pro", "off", "cannot be asked not to think; it takes @low, @medium and @high"),
        ("gemini-2.5-flash", "xhigh", "takes no thinking level xhigh; it takes @off, @low"),
        ("gemini-3-pro-preview", "medium", "it takes @low and @high"),
        ("gemini-3.8-flash", "off", "cannot be asked not to think"),
        ("gemini-4-argon", "xhigh", "takes no thinking level xhigh"),
        ("gemini-2.0-flash", "low", "does not think: leave out @low"),
        ("gemini-1.5-pro", "off", "does not think"),
    ],
)
def test_a_level_that_cannot_be_sent_is_refused_with_a_sentence(
    model: str, level: str, sentence: str
) -> None:
    """Nothing is sent, and nothing else is sent in its place."""
    assert sentence in str(why_not_level(model, level))
    with ScriptedServer() as server:
        _, failure = ask(server, model, thinking_level=level)
        assert server.calls == []
    assert failure is not None
    assert failure.failure_type == "invalid_prompt"
    assert sentence in failure.message


def test_the_list_of_models(server: ScriptedServer) -> None:
    """Names are as targets have them, windows are told, and what is no chat model is not taken for one."""

    async def look(**more: Any) -> ProviderProbe:
        settings = ProviderSettings("gemini", "gemini", server.base_url, **more)
        async with create_provider(settings) as provider:
            return await provider.probe()

    listed = gemini_format.model_list(server.state.installed)
    listed["models"].append({"name": "models/gemini-2.5-flash-image"})
    server.route("/v1beta/models", Status(200, listed))
    probe = asyncio.run(look(api_key="k" * 20, api_key_env="GEMINI_API_KEY"))
    assert probe.reachable
    models = [(model.name, model.kind, model.context_tokens) for model in probe.models]
    assert models == [
        ("scripted-model", "chat", 131_072),
        ("gemini-embedding-001", "embedding", 2_048),
        ("gemini-2.5-flash-image", "other", None),
    ]
    server.route("/v1beta/models", Status(404))
    assert asyncio.run(look()).models == []
    server.route("/v1beta/models", gemini_format.key_refused())
    refused = asyncio.run(look(api_key="k" * 20, api_key_env="GEMINI_API_KEY"))
    assert not refused.reachable
    assert refused.hint == "check the value of GEMINI_API_KEY"
    missing = asyncio.run(look(api_key_env="GEMINI_API_KEY"))
    assert missing.hint == "set GEMINI_API_KEY"


KEYS = [
    (None, {"GEMINI_API_KEY": "sk-canary"}, "sk-canary"),
    (None, {"GOOGLE_API_KEY": "sk-canary"}, "sk-canary"),
    (None, {"GOOGLE_API_KEY": "other", "GEMINI_API_KEY": "sk-canary"}, "sk-canary"),
    (None, {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "sk-canary"}, "sk-canary"),
    (None, {"GEMINI_API_KEY": "sk-canary", "GOOGLE_GEMINI_BASE_URL": "http://box:1"}, "sk-canary"),
    ("https://generativelanguage.googleapis.com/v1beta", {"GEMINI_API_KEY": "sk-canary"}, "sk-canary"),
    ("https://generativelanguage.googleapis.com.evil.example", {"GEMINI_API_KEY": "sk-canary"}, None),
    ("http://generativelanguage.googleapis.com", {"GOOGLE_API_KEY": "sk-canary"}, None),
    ("http://127.0.0.1:8080", {"GEMINI_API_KEY": "sk-canary"}, None),
    (None, {}, None),
]  # fmt: skip


@every_row(("address", "environ", "key"), KEYS)
def test_the_key_goes_to_its_vendor_and_where_the_same_environment_points(
    address: str | None, environ: dict[str, str], key: str | None
) -> None:
    """Google's two variables are one key; the first that is set is the one that is named."""
    tables = {"gemini": ProviderTable(base_url=address)} if address else {}
    configuration = Configuration(providers=tables)
    settings = provider_settings(configuration, environ, lambda line: None)["gemini"]
    assert settings.api_key == key
    assert settings.base_url == (address or environ.get("GOOGLE_GEMINI_BASE_URL"))
    if key is not None:
        assert settings.api_key_env is not None
        assert environ[settings.api_key_env] == key
    elif address is None:
        assert settings.api_key_env == "GEMINI_API_KEY"
