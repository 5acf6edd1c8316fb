"""A server that speaks chat completions. Does not know whose server it is."""

from __future__ import annotations

from clawgauge.providers.base import Call, Sink
from clawgauge.providers.chat_wire import ChatReader, chat_body
from clawgauge.providers.http_server import HttpServer


class ChatServer(HttpServer):
    """What `openai_chat`, `ollama_openai` and `embedded` build on: they differ in where the server is, no more."""

    async def attempt(self, call: Call, sink: Sink) -> None:
        reader = ChatReader(sink, call.model)
        await self.post("/chat/completions", chat_body(call, self.extra_body), sink, reader, call.timeout_s)
