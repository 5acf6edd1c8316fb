"""Rows 12, 13, 16 to 23 and 52: replies that hang, drip, break off, carry errors, or are not quite the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.registry import PROVIDER_TYPES, find_type
from faults.asking import PROTOCOLS, ask, ask_each, ask_once, verdict
from support.scripted_server import (
    BadJson200,
    Cut,
    Drip,
    Hang,
    Html200,
    Reset,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
)
from support.waiting import growing_deadlines

CHAT_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
RESPONSES_END = b'event: response.completed\ndata: {"type":"response.completed","response":{"status":"completed"}}\n\n'


MESSAGES_END = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'
GEMINI_END = b'data: {"candidates":[{"finishReason":"STOP","index":0}]}\r\n\r\n'
ENDINGS = {
    "openai_chat": CHAT_END,
    "openai_responses": RESPONSES_END,
    "anthropic_messages": MESSAGES_END,
    "gemini": GEMINI_END,
    "ollama": b'{"done":true,"done_reason":"stop"}\n',
}
PIECES: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai_chat": lambda text: {"choices": [{"index": 0, "delta": {"content": text}}]},
    "openai_responses": lambda text: {
        "type": "response.output_text.delta",
        "item_id": "m",
        "delta": text,
    },
    "anthropic_messages": lambda text: {
        "type": "content_block_delta",
        "delta": {"type": "text_delta", "text": text},
    },
    "gemini": lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}}]},
    "ollama": lambda text: {"message": {"role": "assistant", "content": text}},
}
# Those that stream server-sent events; Ollama has lines.
OF_EVENTS = [kind for kind in PROTOCOLS if kind != PROTOCOLS[-1]]


def said(kind: str, *texts: str, escaped: bool = True) -> bytes:
    """Pieces of an answer as the protocol's events, without an end; not `escaped`, their UTF-8 is raw."""
    chunks = [PIECES[kind](text) for text in texts]
    names = [f"event: {chunk['type']}\n" if "type" in chunk else "" for chunk in chunks]
    written = [json.dumps(chunk, ensure_ascii=escaped) for chunk in chunks]
    if kind == "ollama":
        return "".join(f"{line}\n" for line in written).encode()
    return "".join(
        f"{name}data: {line}\n\n" for name, line in zip(names, written, strict=True)
    ).encode()


def ending(kind: str) -> bytes:
    return ENDINGS[kind]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_12_and_13_silence_and_dripping_meet_the_deadline(
    kind: str, stream: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """Silence before, after or between the bytes, and a drip that never pauses, are error / timeout at the deadline."""
    replies = [
        Hang("before_headers"), Hang("after_headers"), Hang("mid_stream"), Drip(0.2), Drip(0.02, comments=True)
    ]  # fmt: skip
    asked = {"kind": kind, "stream": stream, "concurrency": len(replies)}
    for timeout_s in growing_deadlines(0.6):
        records = ask_each(tmp_path, server, replies, timeout_s=timeout_s, **asked)
        assert {verdict(record) for record in records} == {("error", False, "timeout")}
        assert all(len(record["attempts"]) == 1 for record in records)
        hung, dripped = records[2], records[3]
        came = not stream or (hung["raw_output"] and dripped["raw_output"].startswith("spam spam"))
        if came and all(record["e2e_ms"] >= 900 * timeout_s for record in records):
            break  # what was sent came before the deadline, and was asked for long before
    assert all(record["e2e_ms"] >= 900 * timeout_s for record in records)
    if stream:
        assert hung["raw_output"] == "one" and dripped["raw_output"].startswith("spam spam")
        assert hung["ttft_ms"] is not None and dripped["ttft_ms"] is not None


@pytest.mark.parametrize(
    "reply", [Cut(2), Cut(2, clean=True), Reset(2)], ids=["closed", "ended", "reset"]
)
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_16_a_stream_that_breaks_off(
    kind: str, reply: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    """A stream without its end is error / stream_interrupted, asked once, with the partial text and its ttft kept."""
    server.reply_with(reply)
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("error", False, "stream_interrupted")
    assert record["raw_output"] == "one two" and record["ttft_ms"] is not None
    assert record["objective_pass"] is None and len(server.calls) == 1


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_16_a_whole_reply_that_breaks_off(
    kind: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """Half of a body is error / stream_interrupted with no text; nothing of it is judged."""
    server.reply_with(Cut())
    record = ask_once(tmp_path, server.v1_url, kind=kind, stream=False)
    assert verdict(record) == ("error", False, "stream_interrupted") and record["raw_output"] == ""


def test_row_16_either_word_of_the_end_will_do(server: ScriptedServer, tmp_path: Path) -> None:
    """A chat stream with a finish reason or with [DONE] has ended well; with neither it was interrupted."""
    replies = [
        Text("yes", done=False),
        Text("yes", finish=None),
        Text("yes", finish=None, done=False),
    ]
    records = ask_each(tmp_path, server, replies)
    assert [record["failure_type"] for record in records] == [None, None, "stream_interrupted"]


@pytest.mark.parametrize("after", ["", "one two three"], ids=["before text", "after text"])
@pytest.mark.parametrize(("code", "status", "calls"), [(500, "error", 1), (429, "rate_limited", 2)])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_17_an_error_inside_a_stream(
    kind: str,
    code: int,
    status: str,
    calls: int,
    after: str,
    server: ScriptedServer,
    tmp_path: Path,
) -> None:
    """An error event is stream_error with the text before it kept; only a 429 is rate_limited and asked again."""
    server.reply_with(StreamError(code, after_text=after))
    record = ask_once(tmp_path, server.v1_url, kind=kind, max_retries=1)
    assert verdict(record) == (status, False, "stream_error")
    assert record["raw_output"] == after and (record["ttft_ms"] is not None) == bool(after)
    assert "scripted stream failure" in record["error"]
    assert len(server.calls) == calls


@pytest.mark.parametrize(
    ("code", "status"), [("server_error", "error"), ("rate_limit_exceeded", "rate_limited")]
)
def test_row_17_a_response_that_failed(
    code: str, status: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """`response.failed` is stream_error with its own words; a rate limit in it is rate_limited."""
    response = {
        "status": "failed",
        "error": {"code": code, "message": "the engine died"},
        "output": [],
    }
    event = {"type": "response.failed", "response": response}
    server.reply_with(
        SseBytes(
            said("openai_responses", "so far") + b"data: " + json.dumps(event).encode() + b"\n\n"
        )
    )
    record = ask_once(tmp_path, server.v1_url, kind="openai_responses", max_retries=0)
    assert verdict(record) == (status, False, "stream_error")
    assert "the engine died" in record["error"] and record["raw_output"] == "so far"


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error": {"message": "the engine died"}}\n\n',
        b'data: {"error": "the engine died"}\n\n',
        b'event: error\ndata: {"message": "the engine died"}\n\n',
        b"event: error\ndata: the engine died\n\n",
        b'data: {"error": {"message": "the engine died", "code": '
        + b"[" * 300
        + b"]" * 300
        + b"}}\n\n",
    ],
    ids=["object", "string", "named", "plain words", "deep code"],
)
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_17_an_error_in_other_words(
    kind: str, event: bytes, server: ScriptedServer, tmp_path: Path
) -> None:
    """However a server words its error event, the record is error / stream_error and quotes it."""
    if kind == "ollama":
        event = event.partition(b"data: ")[2]
        event = event if b'{"error"' in event else b'{"error": "the engine died"}\n'
    server.reply_with(SseBytes(said(kind, "so far") + event + ending(kind)))
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("error", False, "stream_error")
    assert "the engine died" in record["error"] and record["raw_output"] == "so far"


@pytest.mark.parametrize("kind", OF_EVENTS)
def test_row_18_and_19_every_way_to_write_the_same_stream(
    kind: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """CR, CRLF, a byte-order mark, comments, ids, no space, data over several lines: the same text as the plain one."""
    plain = said(kind, "Grüße, ", "世界 😀", escaped=False) + ending(kind)
    replies = [
        SseBytes(data)
        for data in (
            plain,
            said(kind, "Grüße, ", "世界 😀") + ending(kind),
            plain.replace(b"\n", b"\r\n"),
            plain.replace(b"\n", b"\r"),
            b"\xef\xbb\xbf" + plain,
            plain.replace(b"data: ", b"data:"),
            plain.replace(b"\n\n", b"\nid: 7\nretry: 10\n\n: comment\n\n:\n\n"),
            plain.replace(b': "', b':\ndata: "'),
            plain.replace(b"data: ", b"unknown: x\nnocolon\ndata: "),
        )
    ]
    records = ask_each(tmp_path, server, replies, kind=kind)
    assert [(r["failure_type"], r["raw_output"]) for r in records] == [
        (None, "Grüße, 世界 😀")
    ] * len(replies)
    assert not any(record["text_repaired"] for record in records)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_20_cut_at_every_byte(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """A stream in UTF-8 and CRLF that arrives in two pieces reads the same wherever it was cut."""
    text = "né 世😀"
    stream = (said(kind, text, escaped=False) + ending(kind)).replace(b"\n", b"\r\n")
    assert text.encode() in stream
    replies = [SseBytes(stream, splits=[cut], gap_s=0.003) for cut in range(1, len(stream))]
    records = ask_each(tmp_path, server, replies, kind=kind, concurrency=16)
    assert {(r["failure_type"], r["raw_output"], r["finish_reason"]) for r in records} == {
        (None, text, "stop")
    }


@pytest.mark.parametrize(
    "data",
    [b"7", b"[]", b"null", b'"text"', b"{}", b"{", b'{"choices": null}', b'{"choices": []}', b'{"choices": [{}]}',
     b'{"choices": [{"delta": null}]}', b'{"choices": [null, 5]}', b'{"choices": [{"delta": {"content": 5}}]}',
     b'{"type": null}', b'{"type": "response.output_text.delta", "delta": null}', b'{"type": "response.unheard_of"}',
     b'{"type": "response.output_item.added", "item": 5}', b'{"type": 5, "delta": "x"}',
     b'{"type": "response.output_item.done", "item": {"id": [[]], "type": []}}'],
    ids=bytes.decode,
)  # fmt: skip
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_21_odd_events_are_ignored(
    kind: str, data: bytes, server: ScriptedServer, tmp_path: Path
) -> None:
    """An event that says nothing usable costs nothing: the text around it is the answer."""
    odd = data + b"\n" if kind == "ollama" else b"data: " + data + b"\n\n"
    server.reply_with(SseBytes(odd + said(kind, "o") + odd + said(kind, "k") + odd + ending(kind)))
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("ok", True, None) and record["raw_output"] == "ok"


@pytest.mark.parametrize("odd_id", [{}, [], 7, None], ids=repr)
def test_row_21_a_final_item_with_an_odd_id(
    odd_id: object, server: ScriptedServer, tmp_path: Path
) -> None:
    """What deltas have told is the answer, whatever the summed-up response calls its items."""
    item = {"type": "message", "id": odd_id, "content": [{"type": "output_text", "text": "ok"}]}
    final = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    server.reply_with(
        SseBytes(said("openai_responses", "ok") + f"data: {json.dumps(final)}\n\n".encode())
    )
    record = ask_once(tmp_path, server.v1_url, kind="openai_responses")
    assert verdict(record) == ("ok", True, None) and record["raw_output"] == "ok"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_22_a_200_that_is_not_the_protocol(
    kind: str, stream: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """A page, broken JSON, another API, or nothing at all under a 200 is error / invalid_response, asked once."""
    page = Html200().body
    replies = [
        Html200(),
        BadJson200(),
        Status(200, body=b""),
        Status(200, json={"hello": "world"}),
        Status(200, json=[1, 2]),
        Status(200, json={"choices": "yes", "output": "yes"}),
        Status(200, body=b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        Status(200, body=page, headers={"Content-Type": "text/event-stream"}),
        SseBytes(b"data: <html>\n\ndata: [DONE]\n\n"),
        SseBytes(b'data: {"choices": [{"delta": {"con\n\ndata: [DONE]\n\n'),
    ]
    records = ask_each(tmp_path, server, replies, kind=kind, stream=stream)
    assert [verdict(record) for record in records] == [("error", False, "invalid_response")] * len(
        replies
    )
    assert len(server.calls) == len(replies)
    assert "It works!" in records[0]["error"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_23_usage_that_cannot_be(
    kind: str, stream: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """Missing, negative, absurd or wrongly typed counts are null; the answer stands."""
    names = ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"]
    names += ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"]
    values = [-1, "12", True, 1.5, None, 10**30, [], {}]
    usages = [None, {}, *(dict.fromkeys(names, value) for value in values)]
    replies = [Text("yes", usage=usage) for usage in usages]
    records = ask_each(tmp_path, server, replies, kind=kind, stream=stream)
    assert [verdict(record) for record in records] == [("ok", True, None)] * len(replies)
    assert {(r["input_tokens"], r["output_tokens"], r["output_tps"]) for r in records} == {
        (None, None, None)
    }


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_23_usage_that_is_no_object(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """`"usage": 5`, in every event, is as if nothing had been said."""
    stream = (said(kind, "yes") + ending(kind)).replace(b'{"', b'{"usage": 5, "')
    server.reply_with(SseBytes(stream))
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("ok", True, None) and record["input_tokens"] is None


@pytest.mark.parametrize(
    ("pieces", "text", "repaired"),
    [
        (["a\ud83d", "\ude00b"], "a😀b", False),
        (["a\ud83d", "b"], "a\ufffdb", True),
        (["\ude00", "\ud83d"], "\ufffd\ufffd", True),
    ],
    ids=["halves", "alone", "wrong order"],
)
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_52_lone_surrogates(
    kind: str, pieces: list[str], text: str, repaired: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """Halves in two deltas are one character; a half that stays alone is U+FFFD with the flag set; the row stands."""
    server.reply_with(SseBytes(said(kind, *pieces) + ending(kind)))
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("ok", True, None)
    assert (record["raw_output"], record["text_repaired"]) == (text, repaired)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_52_lone_surrogates_in_native_calls(
    kind: str, stream: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """A half in a native call's name or arguments costs that character alone: the call and the other values stand."""
    call = ("get_\ud83d", '{"city": "a\ud83d', '\ude00", "note": "\\ud83d!"}')
    server.reply_with(Text("", tool_calls=[call], model="m\ud83d", finish="stop"))
    record = ask_once(tmp_path, server.v1_url, kind=kind, stream=stream)
    assert verdict(record) == ("ok", True, None) and record["text_repaired"]
    (invocation,) = record["tool_invocations"]
    assert (invocation["name"], invocation["valid"]) == ("get_\ufffd", True)
    assert invocation["arguments"] == {"city": "a😀", "note": "\ufffd!"}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_52_bytes_that_are_not_utf8(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """A byte that is no UTF-8 costs that character, with the flag set: the words around it are not dropped."""
    broken = said(kind, "one BAD two").replace(b"BAD", b"\xff")
    whole: dict[str, Any] = {"choices": [{"message": {"content": "one BAD two"}}]}
    if kind == "openai_responses":
        content = [{"type": "output_text", "text": "one BAD two"}]
        whole = {"output": [{"type": "message", "content": content}], "status": "completed"}
    if kind == "anthropic_messages":
        whole = {"content": [{"type": "text", "text": "one BAD two"}]}
    if kind == "gemini":
        whole = {"candidates": [{"content": {"parts": [{"text": "one BAD two"}]}}]}
    if kind == "ollama":
        whole = {"message": {"content": "one BAD two"}, "done": True}
    body = json.dumps(whole).encode().replace(b"BAD", b"\xff")
    replies = [SseBytes(broken + ending(kind)), Status(200, body=body)]
    records = ask_each(tmp_path, server, replies, kind=kind)
    assert [(r["raw_output"], r["text_repaired"]) for r in records] == [
        ("one \ufffd two", True)
    ] * 2


def test_row_52_lone_surrogates_in_an_error(server: ScriptedServer, tmp_path: Path) -> None:
    """An error message with half a character in it is quoted, and the record can be read back."""
    server.reply_with(
        Status(400, body=rb'{"error": {"message": "bad \ud83d thing", "code": "\udc00"}}')
    )
    (record,) = ask(tmp_path, server.v1_url)
    assert verdict(record) == ("error", False, "http_400") and "bad \ufffd thing" in record["error"]


def test_no_wire_format_is_left_out_of_these_tests() -> None:
    """Each module that the registry names is asked here, but for the program and the server of our own."""
    covered = {find_type(kind).factory.partition(":")[0] for kind in PIECES}
    for provider_type in PROVIDER_TYPES.values():
        if provider_type.program is None and not provider_type.is_own_server:
            assert provider_type.factory.partition(":")[0] in covered, provider_type.name
    assert len(PIECES) == len(ENDINGS) == len(PROTOCOLS)
