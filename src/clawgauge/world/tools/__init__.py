"""The tools of the simulated world, under OpenClaw's names.

Owns: which function answers which name. Refuses: describing the tools to a model; see `definitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.tools.file_tools import edit_file, read_file, write_file
from clawgauge.world.tools.job_tool import cron
from clawgauge.world.tools.memory_tool import memory
from clawgauge.world.tools.message_tool import ask_user, message
from clawgauge.world.tools.process_tool import process
from clawgauge.world.tools.shell_tool import run_command
from clawgauge.world.tools.web_tool import web_fetch

Tool = Callable[[Machine, Arguments], ToolAnswer]

TOOLS: Mapping[str, Tool] = {
    "exec": run_command,
    "read": read_file,
    "write": write_file,
    "edit": edit_file,
    "web_fetch": web_fetch,
    "message": message,
    "ask_user": ask_user,
    "cron": cron,
    "memory": memory,
    "process": process,
}
