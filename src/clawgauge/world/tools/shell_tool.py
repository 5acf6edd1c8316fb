"""The tool `exec`: a command line, run by the simulated shell."""

from __future__ import annotations

from clawgauge.world import paths
from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.refusals import Refusal
from clawgauge.world.shell import run_line


def run_command(machine: Machine, arguments: Arguments) -> ToolAnswer:
    command = arguments.text("command")
    workdir = paths.resolve(arguments.text("workdir", machine.home), machine.home)
    if not machine.files.is_directory(workdir):
        raise Refusal(f"workdir {workdir[:300]}: No such directory")
    output = run_line(machine, command, workdir)
    text = output.text.rstrip("\n")
    if output.code == 0:
        return ToolAnswer(text or "(no output)")
    status = f"(exit code {output.code})"
    return ToolAnswer(f"{text}\n{status}" if text else status, is_error=True)
