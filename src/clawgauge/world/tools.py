"""The tools of the simulated world under OpenClaw's names: what each does and prints. `definitions` describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clawgauge.world import paths
from clawgauge.world.arguments import Arguments, ToolAnswer
from clawgauge.world.machine import Machine
from clawgauge.world.mailbox import Note
from clawgauge.world.refusals import FileFault, Refusal
from clawgauge.world.schedule import Job
from clawgauge.world.services import Process, signal_name
from clawgauge.world.shell import Shell

__all__ = ["TOOLS", "Shell", "Tool"]

Tool = Callable[[Machine, Shell, Arguments], ToolAnswer]


def run_command(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    command = arguments.text("command")
    workdir = paths.resolve(arguments.text("workdir", machine.home), machine.home)
    if not machine.files.is_directory(workdir):
        raise Refusal(f"workdir {workdir[:300]}: No such directory")
    output = shell.run(command, workdir)
    text = output.text.rstrip("\n")
    is_error = output.code != 0 or bool(machine.notices)
    if output.code == 0:
        return ToolAnswer(text or "(no output)", is_error)
    status = f"(exit code {output.code})"
    return ToolAnswer(f"{text}\n{status}" if text else status, is_error)


# --- files -----------------------------------------------------------------------------------------------------------


def _path_of(machine: Machine, arguments: Arguments) -> str:
    given = arguments.text("path")
    if not given.strip():
        raise Refusal("the argument 'path' is empty")
    if given == "~" or given.startswith("~/"):
        given = machine.home + given[1:]
    return paths.resolve(given, machine.home)


def _named(path: str, fault: FileFault) -> Refusal:
    return Refusal(f"{path[:300]}: {fault}")


def read_file(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    first = arguments.whole("offset", 1)
    limit = arguments.whole("limit", 2_000)
    try:
        text = machine.files.read(path)
    except FileFault as fault:
        raise _named(path, fault) from None
    lines = text.splitlines(keepends=True)
    shown = lines[first - 1 : first - 1 + limit]
    if lines and not shown:
        raise Refusal(f"{path} has {len(lines)} lines; offset {first} is past its end")
    left = len(lines) - (first - 1) - len(shown)
    tail = f"\n[{left} more lines; continue with offset {first + len(shown)}]" if left > 0 else ""
    return ToolAnswer("".join(shown) + tail or "(the file is empty)")


def write_file(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    content = arguments.text("content")
    try:
        above = paths.parent(path)
        if not machine.files.exists(above):
            machine.files.make_directory(above, parents=True)
        machine.files.write(path, content)
    except FileFault as fault:
        raise _named(path, fault) from None
    return ToolAnswer(f"Wrote {len(content.encode('utf-8', 'replace'))} bytes to {path}")


def edit_file(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    old, new = arguments.text("oldText"), arguments.text("newText")
    if not old:
        raise Refusal("the argument 'oldText' is empty; give the text to replace")
    try:
        text = machine.files.read(path)
        count = text.count(old)
        if count != 1:
            found = "does not occur" if count == 0 else f"occurs {count} times"
            raise Refusal(f"{path}: the old text {found}; it must occur exactly once, white space included")
        machine.files.write(path, text.replace(old, new))
    except FileFault as fault:
        raise _named(path, fault) from None
    return ToolAnswer(f"Replaced 1 occurrence in {path}")


# --- the web, people, jobs, notes ------------------------------------------------------------------------------------


def web_fetch(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    page = machine.web.fetch(arguments.text("url"))
    head = f"HTTP {page.status} {page.reason}\ncontent-type: {page.content_type}"
    if page.retry_after_s is not None:
        head += f"\nretry-after: {page.retry_after_s}"
    return ToolAnswer(f"{head}\n\n{page.body}", is_error=page.status >= 400)


def message(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    if arguments.action("send", "read") == "send":
        sent = machine.mailbox.send(arguments.text("to"), arguments.text("text"))
        return ToolAnswer(f"Sent to {sent.who}.")
    lines = [
        f"[{machine.clock.moment(received.at_s):%Y-%m-%d %H:%M}] {received.who}: {received.text}"
        for received in machine.mailbox.incoming(arguments.text("from", ""))
    ]
    return ToolAnswer("\n".join(lines) or "No messages.")


def ask_user(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    return ToolAnswer(f"The user answered: {machine.mailbox.ask(arguments.text('question')).text}")


def _job_line(job: Job) -> str:
    name = f"  # {job.name}" if job.name else ""
    return f"{job.id}  {job.schedule}  {job.command}{name}"


def cron(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    match arguments.action("list", "add", "remove"):
        case "list":
            return ToolAnswer("\n".join(map(_job_line, machine.schedule.jobs)) or "No scheduled jobs.")
        case "add":
            job = machine.schedule.add(
                arguments.text("schedule"), arguments.text("command"), arguments.text("name", "")
            )
            return ToolAnswer(f"Added {_job_line(job)}")
        case _:
            return ToolAnswer(f"Removed {_job_line(machine.schedule.remove(arguments.text('id')))}")


def _note_line(note: Note) -> str:
    return f"{note.id}: {note.text}"


def memory(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    match arguments.action("store", "search", "list", "delete"):
        case "store":
            return ToolAnswer(f"Stored as {machine.notes.store(arguments.text('text')).id}")
        case "search":
            found = machine.notes.search(arguments.text("query"))
            return ToolAnswer("\n".join(map(_note_line, found)) or "No note matches.")
        case "list":
            return ToolAnswer("\n".join(map(_note_line, machine.notes.notes)) or "No notes.")
        case _:
            return ToolAnswer(f"Deleted {machine.notes.delete(arguments.text('id')).id}")


# --- processes -------------------------------------------------------------------------------------------------------


def _process_line(process: Process) -> str:
    usage = f"{process.cpu:>5.1f}% CPU  {process.memory_mb:>8.1f} MB"
    return f"{process.pid:>6}  {process.user:<10} {usage}  {process.command}"


def process(machine: Machine, shell: Shell, arguments: Arguments) -> ToolAnswer:
    action = arguments.action("list", "info", "kill")
    if action == "list":
        return ToolAnswer("\n".join(map(_process_line, machine.processes)))
    pid = arguments.whole("pid")
    found = machine.processes.get(pid)
    if found is None:
        raise Refusal(f"pid {str(pid)[:20]}: No such process")
    if action == "info":
        started = machine.clock.moment(found.started_s)
        return ToolAnswer(f"{_process_line(found)}\nname: {found.name}\nstarted: {started:%Y-%m-%d %H:%M:%S}")
    signal = signal_name(arguments.text("signal", "TERM"))
    if signal is None:
        raise Refusal("the argument 'signal' must be one of TERM, KILL, HUP, INT")
    try:
        machine.processes.signal(pid, signal)
    except Refusal as refusal:
        raise Refusal(f"pid {pid}: {refusal}") from None
    after = "it still runs" if machine.processes.get(pid) else "it has ended"
    return ToolAnswer(f"Sent {signal} to {pid} ({found.name}); {after}.")


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
