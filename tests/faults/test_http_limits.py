"""Rows 14, 15, 59 and 60: replies without end, bombs, garbage, wrong certificates and redirects."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.asking import PROTOCOLS, ask_each, verdict
from faults.peak_memory import MIB, clawgauge_measured
from support.command import clawgauge, write_suite
from support.http_exchange import Exchange
from support.scripted_server import (
    Endless,
    EndlessLine,
    GzipBomb,
    HeaderFlood,
    RawBytes,
    Redirect,
    Reply,
    ScriptedServer,
    Status,
    Text,
    chunked_garbage,
)
from support.slow_rest import slow_rest
from support.waiting import FOREVER_S, wait_until
from support.wire_frames import opening

# An idle run takes 45 MiB; the reply cap is 16 MiB.
CEILING_MIB = 128
KEY = "sk-canary-7f3a9c51"
UNTRUSTED = Path(__file__).parents[1] / "data" / "tls" / "untrusted.pem"
TARGETS = ("-t", "chat:scripted-model", "-t", "responses:scripted-model")


def write_config(folder: Path, base_url: str, n_prompts: int = 1) -> None:
    """Both protocols at one address with a key, and a suite of that many prompts."""
    tables = (
        f'[providers.{name}]\ntype = "{kind}"\nbase_url = "{base_url}"\napi_key_env = "CANARY_KEY"\n'
        for name, kind in (("chat", "openai_chat"), ("responses", "openai_responses"))
    )
    (folder / "clawgauge.toml").write_text("\n".join(tables))
    write_suite(folder / "small.json", *({"prompt": f"prompt {n}"} for n in range(n_prompts)))


def flood(
    folder: Path, server: ScriptedServer, replies: list[Reply], *words: str
) -> tuple[list[dict[str, object]], float]:
    """Both protocols meet each reply, in one run; returns the records and the peak memory of the command in MiB."""
    write_config(folder, server.v1_url, len(replies))
    server.reply_with(lambda request: replies[int(request.prompt.split()[-1])])
    command = ("run", "-s", "small.json", *TARGETS, "--timeout", "120", *words)
    done, peak_mib = clawgauge_measured(folder, *command, env={"CANARY_KEY": KEY})
    assert "Traceback" not in done.stderr
    records = done.records()
    assert len(records) == 2 * len(replies)
    return records, peak_mib


@pytest.mark.parametrize("mode", slow_rest(["--stream", "--no-stream"], every=2))
def test_row_14_infinite_answer(mode: str, server: ScriptedServer, tmp_path: Path) -> None:
    """An answer without end stops at the cap: error / response_too_large, under 128 MiB, the connection closed."""
    records, peak_mib = flood(tmp_path, server, [Endless(max_bytes=1 << 30)], mode)
    assert {verdict(record) for record in records} == {("error", False, "response_too_large")}
    assert peak_mib < CEILING_MIB
    wait_until(lambda: all(call.client_left for call in server.calls))
    assert all(call.sent_bytes < 64 * MIB for call in server.calls)
    if mode == "--stream":
        assert all(str(record["raw_output"]).startswith("spam spam") for record in records)
        assert all(
            record["raw_output_truncated"] and record["ttft_ms"] is not None for record in records
        )


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_14_labels_without_end(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """A model, a finish reason or a tool named in megabytes is cut: the record stays short enough to be read again."""
    long = "m" * 5 * MIB
    replies = [
        Text("yes", model=long),
        Text("yes", finish=long),
        Text("", tool_calls=[(long, "{}")]),
        Text("", tool_calls=[("f", json.dumps({"a": long}))]),
    ]
    records = ask_each(tmp_path, server, replies, kind=kind, stream=False)
    assert [verdict(record) for record in records] == [("ok", True, None)] * len(replies)
    assert all(len(json.dumps(record)) < MIB for record in records)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_14_arguments_without_bounds(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """Arguments nested or numbered beyond reading make a malformed call, kept as text; its record is strict JSON."""
    hostile = [
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        '{"a": NaN}',
    ]
    replies = [Text("", tool_calls=[("f", arguments)]) for arguments in hostile]
    records = ask_each(tmp_path, server, replies, kind=kind)
    assert [verdict(record) for record in records] == [("ok", True, None)] * len(replies)
    assert all(
        [call["valid"] for call in record["tool_invocations"]] == [False] for record in records
    )
    assert records[3]["tool_invocations"][0]["arguments"] == '{"a": NaN}'


def test_row_15_endless_line(server: ScriptedServer, tmp_path: Path) -> None:
    """One line of a gigabyte stops at the line cap: error / response_too_large, under 128 MiB, connection closed."""
    records, peak_mib = flood(tmp_path, server, [EndlessLine(max_bytes=1 << 30)])
    assert {verdict(record) for record in records} == {("error", False, "response_too_large")}
    assert peak_mib < CEILING_MIB
    wait_until(lambda: all(call.client_left for call in server.calls))
    assert all(call.sent_bytes < 32 * MIB for call in server.calls)


@pytest.mark.slow
def test_row_60_bombs_and_floods(server: ScriptedServer, tmp_path: Path) -> None:
    """A gigabyte as gzip, JSON of millions of values, headers without end: refused by name, under 128 MiB."""
    crowded = b'{"choices": [' + b"{}," * (5 * MIB) + b'{}], "output": []}'
    replies: list[Reply] = [
        GzipBomb(1 << 30), Status(200, body=crowded), HeaderFlood(), HeaderFlood(one_line=True), chunked_garbage()
    ]  # fmt: skip
    records, peak_mib = flood(tmp_path, server, replies)
    too_large, invalid = (
        ("error", False, "response_too_large"),
        ("error", False, "invalid_response"),
    )
    assert [verdict(record) for record in records] == [
        too_large,
        too_large,
        invalid,
        invalid,
        invalid,
    ] * 2
    assert peak_mib < CEILING_MIB


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_60_what_is_not_http(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """Broken framing, lengths that lie and encodings nobody asked for are errors with a name, asked once."""
    ok = b"HTTP/1.1 200 OK\r\n"
    garbage = [
        b"this is no HTTP at all\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 2000000 OK\r\n\r\n",
        ok + b"Content-Length: -1\r\n\r\n{}",
        ok + b"Content-Length: many\r\n\r\n{}",
        ok + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        ok + b"no colon here\r\n\r\n{}",
        CHUNKED + b"FFFFFFFFFFFFFFFFF\r\n",
        CHUNKED + b"-5\r\n\r\n",
        ok + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
        ok + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
        ok + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
        ok + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n" + b"X: y\r\n" * 30_000,
    ]
    records = ask_each(tmp_path, server, [RawBytes(data) for data in garbage], kind=kind)
    assert [verdict(record) for record in records] == [("error", False, "invalid_response")] * len(
        garbage
    )
    assert len(server.calls) == len(garbage)


@dataclass(frozen=True)
class ThenGarbage:
    """An answer, or (`n_tokens`) the beginning of one, and then these bytes in place of a proper chunk."""

    garbage: bytes
    reset: bool = False
    n_tokens: int | None = None

    async def play(self, exchange: Exchange) -> None:
        frames = exchange.wire.frames(Text("all of it"), exchange.request, exchange.dialect)
        await exchange.start_chunks()
        for frame in frames if self.n_tokens is None else opening(frames, self.n_tokens):
            await exchange.send_chunk(frame.data)
        await asyncio.sleep(0.02)
        await exchange.send(self.garbage)
        exchange.keep_alive = False
        if self.reset:
            exchange.reset()


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_60_a_stream_that_turns_into_garbage(
    kind: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """Framing that breaks in the middle is invalid_response at once, not at the deadline, with the text so far."""
    garbage = [
        b"ZZZ\r\nnot a chunk\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
    ]
    replies = [ThenGarbage(data, n_tokens=2) for data in garbage]
    records = ask_each(tmp_path, server, replies, kind=kind, timeout_s=FOREVER_S)
    assert [verdict(record) for record in records] == [("error", False, "invalid_response")] * len(
        garbage
    )
    assert {record["raw_output"] for record in records} == {"all of"}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_60_what_comes_after_the_answer(
    kind: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """An answer that said its end is kept whole, whatever the connection carries after it or becomes."""
    after = [b"ZZZ\r\nnot a chunk\r\n", b"", b"4\r\ncut", b"FFFFFF\r\n" + b"x" * 5 * MIB]
    replies = [ThenGarbage(data, reset) for data in after for reset in (False, True)]
    records = ask_each(tmp_path, server, replies, kind=kind)
    assert {(record["failure_type"], record["raw_output"]) for record in records} == {
        (None, "all of it")
    }


@pytest.fixture
def https_server() -> ScriptedServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(UNTRUSTED)
    return ScriptedServer(ssl_context=context)


@pytest.mark.parametrize("trusted", [False, True], ids=["unknown issuer", "another name"])
def test_row_59_wrong_certificate(
    trusted: bool, https_server: ScriptedServer, tmp_path: Path
) -> None:
    """A certificate of an unknown issuer or for another name is error / tls_error, and the key is not sent."""
    env = {"CANARY_KEY": KEY, **({"SSL_CERT_FILE": str(UNTRUSTED)} if trusted else {})}
    with https_server as server:
        write_config(tmp_path, server.v1_url)
        done = clawgauge(tmp_path, "run", "-s", "small.json", *TARGETS, env=env)
    assert {verdict(record) for record in done.records()} == {("error", False, "tls_error")}
    assert server.requests == [] and KEY not in done.stderr


def test_row_59_redirect_to_another_host(server: ScriptedServer, tmp_path: Path) -> None:
    """Every kind of redirect, of calls and of probes, is refused: the other host hears nothing, the key stays home."""
    codes = (301, 302, 303, 307, 308)
    with ScriptedServer() as elsewhere:
        write_config(tmp_path, server.v1_url, len(codes))
        server.route("/v1/models", Redirect(f"{elsewhere.v1_url}/models"))
        places = {"/v1/chat/completions": "/chat/completions", "/v1/responses": "/responses"}
        server.reply_with(
            lambda request: Redirect(
                elsewhere.v1_url + places[request.path], codes[int(request.prompt.split()[-1])]
            )
        )
        done = clawgauge(tmp_path, "run", "-s", "small.json", *TARGETS, env={"CANARY_KEY": KEY})
        assert elsewhere.requests == []
    records = done.records()
    assert [verdict(record) for record in records] == [("error", False, "redirect_refused")] * 10
    assert [record["attempts"][0]["http_status"] for record in records] == [*codes, *codes]
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
    assert len(server.calls) == 10
