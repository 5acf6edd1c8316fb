"""The official MCP client, talking to a real `clawgauge mcp` over pipes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

from mcp import Client, StdioServerParameters, stdio_client

from support.command import clean_environment
from support.waiting import PATIENCE_S

T = TypeVar("T")


class McpSession:
    """One client of one server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def tool_names(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool that must have one."""
        text, is_error = await self.call(tool, **arguments)
        assert not is_error, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """The sentence of a tool that must refuse."""
        text, is_error = await self.call(tool, **arguments)
        assert is_error, text
        assert "Traceback" not in text and "\n" not in text
        return text

    async def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        return content.text, bool(result.is_error)


def with_mcp(
    place: Path,
    *options: str,
    talk: Callable[[McpSession], Awaitable[T]],
    env: dict[str, str] | None = None,
) -> T:
    """What `talk` returns after a talk with a server of its own."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "clawgauge", "mcp", *options],
        env=clean_environment(**(env or {})),
        cwd=place,
    )

    async def work(errors: TextIO) -> T:
        async with asyncio.timeout(PATIENCE_S):
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                return await talk(McpSession(client))

    with Path(os.devnull).open("w") as nowhere:
        return asyncio.run(work(nowhere))
