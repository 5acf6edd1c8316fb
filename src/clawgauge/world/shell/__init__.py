"""A small `sh` on the simulated machine: no command of it runs on the host.

Owns: one command line in, its output and exit code out. Refuses: what it cannot do, by name and without guessing.
"""

from __future__ import annotations

from dataclasses import dataclass

from clawgauge.world.machine import Machine
from clawgauge.world.shell.commands import COMMANDS
from clawgauge.world.shell.interpreter import Shell, Streams
from clawgauge.world.shell.scope import Scope
from clawgauge.world.shell.streams import Input, Output


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a terminal would show, and the exit code."""

    text: str
    code: int


def run_line(machine: Machine, line: str, workdir: str) -> CommandOutput:
    """Run a command line in a fresh shell."""
    variables = {
        "HOME": machine.home,
        "USER": machine.user,
        "LOGNAME": machine.user,
        "HOSTNAME": machine.host,
        "SHELL": "/bin/sh",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    machine.fuel.spend(len(line))
    screen = Output(machine.fuel)
    shell = Shell(machine, Scope(workdir, machine.home, variables), COMMANDS)
    code = shell.run_text(line, Streams(Input(), screen, screen))
    return CommandOutput(screen.text, code)
