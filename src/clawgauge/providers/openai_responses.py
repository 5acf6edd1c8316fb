"""OpenAI's Responses API, or any server that speaks it."""

from __future__ import annotations

from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.providers.http_server import HttpServer
from clawgauge.providers.responses_wire import ResponsesReader, responses_body

DEFAULT_BASE_URL = "https://api.openai.com/v1"


class ResponsesServer(HttpServer):
    """The Responses API. Sends a temperature only if asked (reasoning models refuse one), and never a seed."""

    takes = frozenset({"temperature"})

    async def attempt(self, call: Call, sink: Sink) -> None:
        await self.post(
            "/responses",
            responses_body(call, self.extra_body),
            sink,
            ResponsesReader(sink, call.model, call.max_tokens),
            call.timeout_s,
        )


def create(settings: ProviderSettings) -> Provider:
    """OpenAI, or the server at `OPENAI_BASE_URL`."""
    return ResponsesServer(
        settings, base_url=settings.base_url or DEFAULT_BASE_URL, local=bool(settings.extra.get("local", False))
    )
