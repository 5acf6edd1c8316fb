"""The Model Context Protocol over standard input and output, by the official package."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import BinaryIO

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from clawgauge.agent_server.own_runs import RunLauncher
from clawgauge.agent_server.tools import AgentTool, Toolbox
from clawgauge.errors import ClawgaugeError
from clawgauge.version import __version__

_MAX_LINE_BYTES = 4 << 20
_INSTRUCTIONS = (
    "clawgauge benchmarks LLMs for agents and keeps every call. Ask answer_by_job which model is "
    "fit for a job; it rests on recorded evidence. What is not decided is not known: say so, and "
    "name the run that would tell."
)


async def serve(toolbox: Toolbox, launcher: RunLauncher) -> None:
    """Answer one client until it leaves, however it leaves."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    server = _make_server(toolbox)
    wire = _Wire()
    try:
        async with stdio_server(wire, wire) as (read_stream, write_stream):  # type: ignore[arg-type]
            options = server.create_initialization_options()
            await server.run(read_stream, write_stream, options)
    except* OSError:
        # The client does not read any more.
        pass
    finally:
        await launcher.close()


def _make_server(toolbox: Toolbox) -> Server:
    async def list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_describe_tool(tool) for tool in toolbox.tools])

    async def call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
        if not toolbox.has(params.name):
            names = ", ".join(tool.name for tool in toolbox.tools)
            raise MCPError(INVALID_PARAMS, f"there is no such tool; there are {names}")
        try:
            text = await toolbox.call(params.name, params.arguments or {})
        except ClawgaugeError as error:
            return _failure(toolbox.mask(str(error)))
        except OSError as error:
            return _failure(f"this machine would not go on ({error.strerror})")
        except Exception as error:
            # For whoever reads the client's log, with no key in it.
            sys.excepthook(type(error), error, error.__traceback__)
            return _failure(
                f"clawgauge itself failed at this ({type(error).__name__}): please report it"
            )
        return CallToolResult(content=[TextContent(type="text", text=text)])

    return Server(
        "clawgauge",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _failure(sentence: str) -> CallToolResult:
    content = TextContent(type="text", text=" ".join(sentence.split()))
    return CallToolResult(content=[content], is_error=True)


def _describe_tool(tool: AgentTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=False,
            open_world_hint=not tool.read_only or tool.name == "plan_run",
        ),
    )


class _Wire:
    """The client's end, as the package reads and writes it: lines in, lines out.

    Standard output is taken for the protocol alone: whatever else is printed goes to standard
    error. Lines are read in a thread that nobody waits for, so that the program can end while the
    client says nothing.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._output: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
        self._input: BinaryIO = os.fdopen(os.dup(0), "rb")
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        threading.Thread(target=self._read, name="client", daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while True:
                line = self._input.readline(_MAX_LINE_BYTES)
                if not line or (len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n")):
                    break
                self._hand_over(line.decode("utf-8", "replace"))
        self._hand_over(None)

    def _hand_over(self, line: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the program ends
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            line = await self._lines.get()
            if line is None:
                return
            yield line

    async def write(self, text: str) -> None:
        # A client that does not read must not hold up the end of the program.
        await asyncio.to_thread(self._write_all, text.encode("utf-8", "replace"))

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            n_written = self._output.write(view)
            view = view[n_written or 0 :]

    async def flush(self) -> None:
        """Nothing is kept back."""
