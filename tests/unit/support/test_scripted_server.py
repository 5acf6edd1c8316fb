"""The scripted server does what its script says, seen from a client that is not ours."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plain_client import ask, events, open_raw
from support.scripted_server import (
    Endless,
    GzipBomb,
    Hang,
    InstalledModel,
    ScriptedServer,
    Status,
)
from support.waiting import PATIENCE_S, wait_until

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.mark.parametrize("stream", [True, False])
def test_gzip_bomb_is_small_on_the_wire_and_proper_inside(
    server: ScriptedServer, stream: bool
) -> None:
    """The bomb is a valid answer, at least a hundred times larger than what was sent."""
    server.script(GzipBomb(size_bytes=4 << 20))
    _, raw = ask(server, stream=stream)
    unpacked = zlib.decompress(raw, wbits=31)
    assert len(unpacked) > 4 << 20
    assert len(unpacked) > 100 * len(raw)
    assert (events(unpacked)[-1] == "[DONE]") if stream else json.loads(unpacked)["choices"]


def test_ollama_lists_loads_and_unloads() -> None:
    """The native paths show installed and loaded models, a call loads one, and keep_alive 0 unloads it."""
    model = InstalledModel("llama3.2:3b", quantization_level="Q8_0")
    with ScriptedServer(models=[model], loaded=["old:7b"]) as server:

        def get(path: str) -> Any:
            with urllib.request.urlopen(server.base_url + path, timeout=PATIENCE_S) as reply:
                return json.load(reply)

        assert get("/api/version")["version"]
        assert get("/api/tags")["models"][0]["details"]["quantization_level"] == "Q8_0"
        ask(server, model="llama3.2:3b")
        assert [row["name"] for row in get("/api/ps")["models"]] == ["old:7b", "llama3.2:3b"]
        _, raw = ask(server, "/api/generate", model="old:7b", keep_alive=0)
        assert json.loads(raw)["done_reason"] == "unload"
        assert [row["name"] for row in get("/api/ps")["models"]] == ["llama3.2:3b"]
        assert get("/v1/models")["data"][0]["id"] == "llama3.2:3b"
        assert ask(server, "/api/generate", model="nope")[0] == 404


def test_without_ollama_its_paths_are_not_there() -> None:
    """A server that is not Ollama answers 404 to Ollama's paths; any path can be routed to another reply."""
    with ScriptedServer(ollama=False) as server:
        server.route("/v1/models", Status(500))
        for path, code in (("/api/tags", 404), ("/v1/models", 500)):
            with pytest.raises(urllib.error.HTTPError, match=str(code)) as caught:
                urllib.request.urlopen(server.base_url + path, timeout=PATIENCE_S)
            caught.value.close()


def test_leaving_stops_everything() -> None:
    """After the block no thread and no socket of the server is left, even with clients connecting at that moment."""
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(5):
            with ScriptedServer() as server:
                server.script(Hang(), Endless())
                clients = [open_raw(server), open_raw(server)]
                wait_until(lambda server=server: len(server.requests) == 2)
                clients += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
            for client in clients:
                client.close()
        gc.collect()
    assert not [str(leak.message) for leak in leaks]
    assert not [thread for thread in threading.enumerate() if thread.name == "scripted-server"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_reply_that_raises_fails_the_test() -> None:
    """A mistake in a test's own reply function is not swallowed."""

    def broken(request: Any) -> Any:
        raise LookupError("no such reply")

    with pytest.raises(RuntimeError, match="while answering"), ScriptedServer() as server:
        server.reply_with(broken)
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)
