"""The tool `cron`: the scheduled jobs as a list. `crontab` in the shell sees the same ones."""

from __future__ import annotations

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.schedule import Job


def _line(job: Job) -> str:
    name = f"  # {job.name}" if job.name else ""
    return f"{job.id}  {job.schedule}  {job.command}{name}"


def cron(machine: Machine, arguments: Arguments) -> ToolAnswer:
    match arguments.action("list", "add", "remove"):
        case "list":
            return ToolAnswer("\n".join(map(_line, machine.schedule.jobs)) or "No scheduled jobs.")
        case "add":
            job = machine.schedule.add(
                arguments.text("schedule"), arguments.text("command"), arguments.text("name", "")
            )
            return ToolAnswer(f"Added {_line(job)}")
        case _:
            return ToolAnswer(f"Removed {_line(machine.schedule.remove(arguments.text('id')))}")
