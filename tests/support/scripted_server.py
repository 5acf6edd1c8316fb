"""An LLM server that says what a test scripts, on a loopback port, in its own thread with its own event loop.

    with ScriptedServer() as server:
        server.script(Status(429, headers={"Retry-After": "1"}), Text("Paris."))
        ...  # point a client at server.v1_url
        assert len(server.calls) == 2

Speaks `/v1/chat/completions`, `/v1/responses`, `/v1/messages` (streamed or whole), `/v1/models`, Gemini's
`/v1beta/models/MODEL:streamGenerateContent` and its list, and Ollama's `/api/tags`, `/api/ps`, `/api/version`,
`/api/generate`. HTTP is written by hand on raw sockets, so that a reply can misbehave at any byte. The llama.cpp
dialect and the Anthropic messages follow recordings of real programs; the OpenAI, Ollama and Gemini fakes follow their
documentation and not recordings.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Literal, Self

from support import (
    chat_format,
    gemini_format,
    messages_format,
    ollama_format,
    responses_format,
)
from support.faulty_replies import (
    BadJson200,
    Cut,
    Drip,
    Endless,
    EndlessLine,
    GzipBomb,
    Hang,
    HeaderFlood,
    Html200,
    RawBytes,
    Reset,
    chunked_garbage,
)
from support.http_exchange import Exchange, ReceivedRequest, read_request
from support.ollama_format import InstalledModel, OllamaState, model_not_found
from support.replies import Held, Redirect, Reply, SseBytes, Status, StreamError, Text

__all__ = [
    "BadJson200",
    "Cut",
    "Drip",
    "Endless",
    "EndlessLine",
    "GzipBomb",
    "Hang",
    "HeaderFlood",
    "Held",
    "Html200",
    "InstalledModel",
    "RawBytes",
    "ReceivedRequest",
    "Redirect",
    "Reply",
    "Reset",
    "ScriptedServer",
    "SseBytes",
    "Status",
    "StreamError",
    "Text",
    "chunked_garbage",
    "model_not_found",
]

Dialect = Literal["openai", "llama_cpp", "ollama"]
ReplyMaker = Callable[[ReceivedRequest], Reply]
ANSWER_PATHS: dict[str, ModuleType] = {
    "/v1/chat/completions": chat_format,
    "/v1/responses": responses_format,
    "/v1/messages": messages_format,
    "/api/chat": ollama_format,
    ":streamGenerateContent": gemini_format,
    ":generateContent": gemini_format,
}
HEAD_LIMIT_BYTES = 1 << 20


class ScriptedServer:
    """Answers come from the script, then from `reply_with`; without either, a fixed text.

    `models` are installed (names or `InstalledModel`), `loaded` are in memory; both show on `/v1/models` and `/api/*`.
    `ollama=False` has no `/api/*`. A reply that raises is a defect of the test and is raised again on leaving.
    """

    def __init__(
        self,
        *,
        dialect: Dialect = "openai",
        models: Iterable[str | InstalledModel] = ("scripted-model",),
        loaded: Iterable[str] = (),
        ollama: bool = True,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.dialect = dialect
        installed = [InstalledModel(model) if isinstance(model, str) else model for model in models]
        self.state = OllamaState(installed, list(loaded))
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self.closed_connections = 0
        self.port = 0
        self._ollama = ollama
        self._ssl_context = ssl_context
        self._script: deque[Reply] = deque()
        self._fallback: Reply | ReplyMaker = Text()
        self._routes: dict[str, Reply] = {}
        self._errors: list[Exception] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted-server", daemon=True)

    @property
    def base_url(self) -> str:
        """The root, as `ANTHROPIC_BASE_URL` and `OLLAMA_HOST` want it."""
        return f"{'https' if self._ssl_context else 'http'}://127.0.0.1:{self.port}"

    @property
    def v1_url(self) -> str:
        """With `/v1`, as OpenAI-style clients want it."""
        return f"{self.base_url}/v1"

    @property
    def calls(self) -> list[ReceivedRequest]:
        """The requests that asked a model for an answer, in order of arrival."""
        return [request for request in self.requests if _answer_format(request.path)]

    def script(self, *replies: Reply) -> None:
        """Queue replies; each answers one call."""
        self._script.extend(replies)

    def script_anew(self, *replies: Reply) -> None:
        """The same in place of what is left of the script."""
        self._script.clear()
        self.script(*replies)

    def reply_with(self, reply: Reply | ReplyMaker) -> None:
        """Answer every call that the script does not cover: with one reply, or with what a function makes of it."""
        self._fallback = reply

    def route(self, path: str, reply: Reply) -> None:
        """Answer one path always this way, the model lists included."""
        self._routes[path] = reply

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._errors:
            self._thread.join()
            raise self._errors[0]
        return self

    def __exit__(self, exc_type: object, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._errors and exc_type is None:
            raise RuntimeError("the scripted server failed while answering") from self._errors[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._errors.append(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(
            self._converse,
            "127.0.0.1",
            0,
            ssl=self._ssl_context,
            limit=HEAD_LIMIT_BYTES,
            backlog=1024,
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        await self._end_conversations(server)
        server.close()
        await server.wait_closed()

    async def _end_conversations(self, server: asyncio.Server) -> None:
        """Close every connection, in an order that leaves no socket to the garbage collector.

        A connection passes from the listener to its conversation over several turns of the loop. It is lost with its
        socket open if the listener is closed (Python 3.11) or its task is cancelled before those turns are over.
        """
        for listener in server.sockets:
            self._loop.remove_reader(listener.fileno())
        await _let_the_loop_turn()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await _let_the_loop_turn()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as long as both sides want it."""
        self.connections += 1
        connection = self.connections
        try:
            while request := await read_request(reader, writer, connection):
                exchange = self._accept(request, reader, writer)
                await self._answer(exchange)
                if not exchange.keep_alive:
                    break
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client left in the middle; `client_left` has told, and there is nobody to answer
        except asyncio.CancelledError:
            pass  # only leaving the block cancels; Python 3.11 logs a cancelled conversation as an error
        finally:
            # A cancelled or failed conversation may have unsent bytes; they must not hold the socket open.
            writer.transport.abort()
            self.closed_connections += 1

    def _accept(
        self, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Exchange:
        self.requests.append(request)
        wire = _answer_format(request.path) or chat_format
        return Exchange(request, reader, writer, wire, self.dialect)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._choose_reply(exchange.request).play(exchange)
        except (ConnectionError, ssl.SSLError):
            exchange.request.client_left = True
            raise
        except Exception as error:  # whatever a test's own reply raises must fail that test, not vanish in a thread
            exchange.keep_alive = False
            self._errors.append(error)

    def _choose_reply(self, request: ReceivedRequest) -> Reply:
        path = request.path
        if path in self._routes:
            return self._routes[path]
        if _answer_format(path):
            self.state.note_use(request.model)
            if self._script:
                return self._script.popleft()
            return self._fallback(request) if callable(self._fallback) else self._fallback
        if path.endswith("/v1/models"):
            return Status(
                200,
                {
                    "object": "list",
                    "data": [_model_row(model.name) for model in self.state.installed],
                },
            )
        if path.endswith("/v1beta/models"):
            return Status(200, gemini_format.model_list(self.state.installed))
        if path.endswith("/v1/messages/count_tokens"):
            return Status(200, {"input_tokens": 12})
        if path == "/health":
            return Status(200, {"status": "ok"})
        native = self.state.answer(path, request.json) if self._ollama else None
        return native or Status(404, message="File Not Found")


async def _let_the_loop_turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _model_row(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": chat_format.CREATED, "owned_by": "library"}


def _answer_format(path: str) -> ModuleType | None:
    """The protocol of a path. A prefix before `/v1` is fine: some clients are given one."""
    return next((wire for suffix, wire in ANSWER_PATHS.items() if path.endswith(suffix)), None)
