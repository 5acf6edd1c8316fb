"""Rows 1 to 11: empty answers, refused keys, rate limits, failing servers, models and servers that are not there."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from faults.asking import PROTOCOLS, WaitingClock, ask, ask_once, verdict
from support.command import chat_config, clawgauge
from support.scripted_server import RawBytes, ScriptedServer, Status, Text, model_not_found
from support.waiting import NO_SUCH_HOST, PATIENCE_S, growing_deadlines

BACKOFF_S = [1, 2, 4, 8, 16, 32, 60, 60]
SMALL = ("run", "-s", "small.json", "-t", "fake:scripted-model")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("text", ["", " \n\t ", None], ids=["empty", "blank", "null"])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_01_empty_content(
    kind: str, text: str | None, stream: bool, server: ScriptedServer, tmp_path: Path
) -> None:
    """No visible text is ok / false / empty_response, asked once, with its token counts kept and no verdict."""
    server.script(Text(text, usage=(7, 3)))
    record = ask_once(tmp_path, server.v1_url, kind=kind, stream=stream)
    assert verdict(record) == ("ok", False, "empty_response")
    assert (record["input_tokens"], record["output_tokens"]) == (7, 3)
    assert record["objective_pass"] is None and record["raw_output"] == (text or "")
    assert len(server.calls) == 1


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_02_refused_key_is_not_retried(
    kind: str, code: int, server: ScriptedServer, tmp_path: Path
) -> None:
    """401 and 403 are auth_error / http_<code> from one request, whatever Retry-After comes with them."""
    server.reply_with(Status(code, headers={"Retry-After": "0"}))
    record = ask_once(tmp_path, server.v1_url, kind=kind)
    assert verdict(record) == ("auth_error", False, f"http_{code}")
    assert [a["http_status"] for a in record["attempts"]] == [code]
    assert len(server.calls) == 1


def test_row_02_a_401_ends_the_target_and_a_403_the_cell(
    place: Path, server: ScriptedServer
) -> None:
    """After a 401 no cell of the target is asked again; a 403 may concern one prompt, so each is asked once."""
    server.reply_with(Status(401))
    assert [len(r["attempts"]) for r in clawgauge(place, *SMALL).records()] == [1, 0, 0, 0]
    server.reply_with(Status(403))
    assert [len(r["attempts"]) for r in clawgauge(place, *SMALL).records()] == [1, 1, 1, 1]
    assert len(server.calls) == 5


def test_row_03_key_missing(place: Path, server: ScriptedServer) -> None:
    """A key variable that is not set is a slip: exit 2, no request, no folder. Beside a target that can be asked it is
    auth_error / api_key_missing in every row, and not one request goes out with it.
    """
    keyless = ("run", "-s", "small.json", "-t", "openai_responses:gpt-5")
    for more in ((), ("--dry-run",)):
        alone = clawgauge(place, *keyless, *more)
        assert (alone.code, alone.stdout) == (
            2,
            "",
        ) and "gpt-5: OPENAI_API_KEY is not set" in alone.stderr
    assert server.requests == [] and not (place / "runs").exists()
    done = clawgauge(place, *keyless, "-t", "fake:scripted-model")
    records = [record for record in done.records() if record["model"] == "gpt-5"]
    assert {verdict(record) for record in records} == {
        ("auth_error", False, "api_key_missing")
    } and len(records) == 4
    assert {record["e2e_ms"] for record in records} == {0} and done.code == 0
    assert {request.model for request in server.calls} == {"scripted-model"}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_04_rate_limited_to_the_end(kind: str, server: ScriptedServer, tmp_path: Path) -> None:
    """429 for ever is rate_limited / http_429 after 1 + max_retries requests, each of them in `attempts`."""
    server.reply_with(Status(429))
    record = ask_once(tmp_path, server.v1_url, kind=kind, max_retries=3)
    assert verdict(record) == ("rate_limited", False, "http_429")
    assert [a["failure_type"] for a in record["attempts"]] == ["http_429"] * 4
    assert [a["waited_ms"] > 0 for a in record["attempts"]] == [True, True, True, False]
    assert len(server.calls) == 4


def test_row_04_a_spent_quota_is_not_retried(server: ScriptedServer, tmp_path: Path) -> None:
    """A 429 that says insufficient_quota is rate_limited at once: waiting does not bring money."""
    server.reply_with(
        Status(429, json={"error": {"code": "insufficient_quota", "message": "no credit"}})
    )
    record = ask_once(tmp_path, server.v1_url)
    assert verdict(record) == ("rate_limited", False, "http_429") and len(server.calls) == 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Content-Length: 5000", b'{"error": "cut'),
        (b"Content-Encoding: gzip\r\nContent-Length: 9", b"not gzip!"),
        (b"Content-Encoding: br\r\nContent-Length: 9", b"brotli..."),
        (b"Content-Length: 12", b'{"error": \xff\xfe'),
        (b"Transfer-Encoding: chunked", b"ZZZ\r\nno chunk\r\n"),
        (b"Content-Length: 100006", b'{"a":' + b"[" * 100_000 + b"}"),
    ],
    ids=["cut", "bad gzip", "brotli", "not UTF-8", "bad chunk", "deep"],
)
@pytest.mark.parametrize(
    ("code", "status"), [(429, "rate_limited"), (401, "auth_error"), (503, "error")]
)
def test_row_04_a_status_counts_whatever_its_body_is(
    code: int, status: str, headers: bytes, body: bytes, server: ScriptedServer, tmp_path: Path
) -> None:
    """A status line is evidence enough: a body that breaks off or cannot be read does not change its name."""
    server.reply_with(RawBytes(b"HTTP/1.1 %d Scripted\r\n%b\r\n\r\n%b" % (code, headers, body)))
    record = ask_once(tmp_path, server.v1_url, max_retries=0)
    assert verdict(record) == (status, False, f"http_{code}")


STALLED = b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 99\r\n\r\n"


@pytest.mark.parametrize(
    "timeout_s", [PATIENCE_S, 0.4], ids=["long before the deadline", "at the deadline"]
)
@pytest.mark.parametrize("words", [b"", b"slow down"], ids=["no words", "some words"])
def test_row_04_a_status_counts_though_its_body_never_ends(
    words: bytes, timeout_s: float, server: ScriptedServer, tmp_path: Path
) -> None:
    """A 429 whose words stall is rate_limited with what came of them, and its Retry-After is kept to; no timeout."""
    for deadline_s in growing_deadlines(timeout_s):
        server.script_anew(RawBytes(STALLED + words, then="hang"), Text("yes"))
        clock = WaitingClock()
        record = ask_once(tmp_path, server.v1_url, timeout_s=deadline_s, max_retries=1, clock=clock)
        if "timeout" not in [attempt["failure_type"] for attempt in record["attempts"]]:
            break  # both replies came before the deadline
    assert verdict(record) == ("ok", True, None) and clock.waits_s == [7.0]
    refused = record["attempts"][0]
    assert (refused["failure_type"], refused["http_status"]) == ("http_429", 429)
    assert words.decode() in refused["error"]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_05_rate_limited_then_answered(
    kind: str, server: ScriptedServer, tmp_path: Path
) -> None:
    """429, 429, 200 is ok with the last attempt's e2e; the waits stand in `attempts` and in `total_ms`."""
    limit = Status(429, headers={"Retry-After": "50"})
    server.script(limit, limit, Text("yes", usage=(5, 1)))
    clock = WaitingClock()
    record = ask_once(tmp_path, server.v1_url, kind=kind, clock=clock)
    assert verdict(record) == ("ok", True, None) and record["raw_output"] == "yes"
    assert [a["failure_type"] for a in record["attempts"]] == ["http_429", "http_429", None]
    assert [a["waited_ms"] for a in record["attempts"]] == [50_000, 50_000, 0]
    assert record["e2e_ms"] == record["attempts"][-1]["e2e_ms"] < 50_000
    assert record["total_ms"] >= 100_000 + record["e2e_ms"]


def test_row_06_retry_after_in_seconds(server: ScriptedServer, tmp_path: Path) -> None:
    """`Retry-After: 2` is waited for exactly: one wait of 2 s before the second request, then the answer."""
    server.script(Status(429, headers={"Retry-After": "2"}), Text("yes"))
    clock = WaitingClock()
    record = ask_once(tmp_path, server.v1_url, clock=clock)
    assert clock.waits_s == [2.0] and record["success"]
    assert record["attempts"][0]["retry_after_s"] == 2.0 and record["total_ms"] >= 2000


@pytest.mark.parametrize(
    ("ahead_s", "least_s", "most_s"), [(55, 1.0, 55.0), (-55, 0.0, 0.0)], ids=["ahead", "past"]
)
def test_row_07_retry_after_as_a_date(
    ahead_s: int, least_s: float, most_s: float, server: ScriptedServer, tmp_path: Path
) -> None:
    """A date is waited for until it comes, and not at all when it has passed."""
    server.script(
        Status(429, headers={"Retry-After": formatdate(time.time() + ahead_s, usegmt=True)}),
        Text("yes"),
    )
    clock = WaitingClock()
    record = ask_once(tmp_path, server.v1_url, clock=clock)
    (wait_s,) = clock.waits_s
    assert least_s <= wait_s <= most_s and record["success"]


@pytest.mark.parametrize(
    ("headers", "least_s", "most_s"),
    [
        ({"Retry-After": "-5"}, 0.5, 1.0),
        ({"Retry-After": "abc"}, 0.5, 1.0),
        ({"Retry-After": "nan"}, 0.5, 1.0),
        ({"Retry-After": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25, 0.25),
        ({"Retry-After": "60"}, 60.0, 60.0),
    ],
    ids=str,
)
def test_row_08_retry_after_in_other_forms(
    headers: dict[str, str], least_s: float, most_s: float, server: ScriptedServer, tmp_path: Path
) -> None:
    """Nonsense leaves the wait to our own backoff (half a second to one, the first time); fractions are honoured."""
    server.script(Status(503, headers=headers), Text("yes"))
    clock = WaitingClock()
    record = ask_once(tmp_path, server.v1_url, clock=clock, retry_base_s=1.0)
    (wait_s,) = clock.waits_s
    assert least_s <= wait_s <= most_s and record["success"]


@pytest.mark.parametrize(
    "headers", [{"Retry-After": "99999999"}, {"retry-after-ms": "60001"}], ids=str
)
def test_row_08_a_wait_above_the_limit_ends_the_attempts(
    headers: dict[str, str], server: ScriptedServer, tmp_path: Path
) -> None:
    """A wait above --max-wait is not waited: rate_limited / http_429 at once, with what the server asked for."""
    server.reply_with(Status(429, headers=headers))
    clock = WaitingClock()
    record = ask_once(tmp_path, server.v1_url, clock=clock)
    assert verdict(record) == ("rate_limited", False, "http_429")
    assert clock.waits_s == [] and len(server.calls) == 1
    assert record["attempts"][0]["retry_after_s"] > 60


@pytest.mark.parametrize("code", [500, 502, 503, 529])
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_row_09_failing_server(
    kind: str, code: int, server: ScriptedServer, tmp_path: Path
) -> None:
    """A server that only fails is error / http_<code> after 1 + max_retries requests, with growing, bounded waits."""
    server.reply_with(Status(code))
    clock = WaitingClock()
    record = ask_once(
        tmp_path, server.v1_url, kind=kind, clock=clock, retry_base_s=1.0, max_retries=8
    )
    assert verdict(record) == ("error", False, f"http_{code}")
    assert len(server.calls) == 9 == len(record["attempts"])
    assert all(
        ceiling / 2 <= wait <= ceiling
        for wait, ceiling in zip(clock.waits_s, BACKOFF_S, strict=True)
    )


NO_SUCH_CODE = {"error": {"code": "model_not_found", "message": "no such model"}}
NO_SUCH_WORDS = {
    "error": {"message": "The model `scripted-model` does not exist", "type": "invalid"}
}


@pytest.mark.parametrize(
    ("reply", "runs_dir"),
    [
        (model_not_found("scripted-model"), "new/deep"),
        (Status(404, json=NO_SUCH_CODE), "kept/new/deep"),
        (Status(400, json=NO_SUCH_WORDS), "kept"),
    ],
    ids=["ollama", "code", "words"],
)
def test_row_10_model_not_found(
    reply: Status, runs_dir: str, place: Path, server: ScriptedServer
) -> None:
    """A model that is not there is asked for once; all its rows are skipped_unavailable; the next target is asked.
    Alone it leaves nothing behind: of the folders, those stay that were there before."""
    server.reply_with(lambda request: reply if request.model == "scripted-model" else Text("yes"))
    done = clawgauge(place, *SMALL, "-t", "fake:other-model")
    records = done.records()
    assert {verdict(r) for r in records[:4]} == {("skipped_unavailable", False, "model_not_found")}
    assert [len(r["attempts"]) for r in records] == [1, 0, 0, 0, 1, 1, 1, 1]
    assert all(r["success"] for r in records[4:])
    assert [call.model for call in server.calls].count("scripted-model") == 1 and done.code == 0
    server.reply_with(reply)
    (place / "kept").mkdir()
    alone = clawgauge(place, *SMALL, "--runs-dir", runs_dir)
    assert (
        (alone.code, alone.stdout) == (2, "")
        and not list(place.glob("**/new"))
        and (place / "kept").is_dir()
    )
    assert "nothing was recorded" in alone.stderr and "did you mean other-model?" in alone.stderr


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nothing listens on and nobody else can take: it is bound and never listened on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_row_11_unreachable_servers(place: Path, server: ScriptedServer, closed_port: int) -> None:
    """Refused connections and unknown names are skipped_unavailable, tried once; the run goes on to the next target."""
    chat_config(
        place,
        closed=f"http://127.0.0.1:{closed_port}/v1",
        unnamed=f"http://{NO_SUCH_HOST}/v1",
        fake=server.v1_url,
    )
    done = clawgauge(
        place,
        "run",
        "-s",
        "small.json",
        "-t",
        "closed:m",
        "-t",
        "unnamed:m",
        "-t",
        "fake:scripted-model",
    )
    records = done.records()
    assert [r["failure_type"] for r in records] == ["connection_refused"] * 4 + [
        "dns_error"
    ] * 4 + [None] * 4
    assert {r["availability_status"] for r in records[:8]} == {"skipped_unavailable"}
    assert [len(r["attempts"]) for r in records] == [1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1]
    assert done.code == 0 and "Traceback" not in done.stderr


def test_row_11_a_server_that_dies_between_two_answers(tmp_path: Path) -> None:
    """A server that answered and is then gone gets its retries once; after them the remaining cells are not asked."""
    body = b'{"choices": [{"message": {"content": "yes"}}]}'
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answering = threading.Thread(target=_answer_once, args=(listener, body))
        answering.start()
        records = ask(
            tmp_path, f"http://127.0.0.1:{port}/v1", n_prompts=3, max_retries=2, stream=False
        )
        answering.join()
    assert [verdict(record)[::2] for record in records] == [
        ("ok", None),
        ("skipped_unavailable", "connection_refused"),
        ("skipped_unavailable", "connection_refused"),
    ]
    assert [len(record["attempts"]) for record in records] == [1, 3, 0]


def _answer_once(listener: socket.socket, body: bytes) -> None:
    connection, _ = listener.accept()
    listener.close()
    with connection:
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
