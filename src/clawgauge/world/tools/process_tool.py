"""The tool `process`: the process table as a list. `ps` and `kill` in the shell see the same one."""

from __future__ import annotations

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.processes import Process, signal_name
from clawgauge.world.refusals import Refusal


def _line(process: Process) -> str:
    usage = f"{process.cpu:>5.1f}% CPU  {process.memory_mb:>8.1f} MB"
    return f"{process.pid:>6}  {process.user:<10} {usage}  {process.command}"


def process(machine: Machine, arguments: Arguments) -> ToolAnswer:
    action = arguments.action("list", "info", "kill")
    if action == "list":
        return ToolAnswer("\n".join(map(_line, machine.processes)))
    pid = arguments.whole("pid")
    found = machine.processes.get(pid)
    if found is None:
        raise Refusal(f"pid {str(pid)[:20]}: No such process")
    if action == "info":
        started = machine.clock.moment(found.started_s)
        return ToolAnswer(f"{_line(found)}\nname: {found.name}\nstarted: {started:%Y-%m-%d %H:%M:%S}")
    signal = signal_name(arguments.text("signal", "TERM"))
    if signal is None:
        raise Refusal("the argument 'signal' must be one of TERM, KILL, HUP, INT")
    try:
        machine.processes.signal(pid, signal)
    except Refusal as refusal:
        raise Refusal(f"pid {pid}: {refusal}") from None
    after = "it still runs" if machine.processes.get(pid) else "it has ended"
    return ToolAnswer(f"Sent {signal} to {pid} ({found.name}); {after}.")
