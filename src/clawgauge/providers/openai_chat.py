"""Any OpenAI-compatible chat server: vLLM, LM Studio, llama.cpp, OpenRouter and the rest."""

from __future__ import annotations

from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.chat_server import ChatServer

DEFAULT_BASE_URL = "http://localhost:8080/v1"


def create(settings: ProviderSettings) -> Provider:
    """A server the user configured; `local = true` in its table says that it runs on the user's own machine."""
    return ChatServer(
        settings, base_url=settings.base_url or DEFAULT_BASE_URL, local=bool(settings.extra.get("local", False))
    )
