"""The tools that act on the simulated machine, but for `exec`, which the shell runs."""

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from clawgauge.world.effects import Refusal, ToolAnswer
from clawgauge.world.machine import Machine
from clawgauge.world.paths import resolve
from clawgauge.world.processes import Process, signal_name
from clawgauge.world.schedule import Job

_DEFAULT_LINES = 2_000


class Arguments(NamedTuple):
    """The arguments of one call; every fault is a refusal that tells the model what to send."""

    tool: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self._refuse(key, value, "must be a string")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if type(value) is not int or value < 1:
            raise self._refuse(key, value, "must be a whole number, 1 or more")
        return value

    def action(self, *actions: str) -> str:
        value = self.values.get("action")
        if not isinstance(value, str) or value not in actions:
            raise self._refuse("action", value, f"must be one of {', '.join(actions)}")
        return value

    def _refuse(self, key: str, value: Any, wanted: str) -> Refusal:
        problem = "is missing" if value is None else wanted
        return Refusal(f"{self.tool}: the argument '{key}' {problem}")


def path_argument(machine: Machine, arguments: Arguments) -> str:
    """The absolute path that a call names, from the home directory."""
    path = arguments.text("path")
    if not path.strip():
        raise Refusal("the argument 'path' is empty")
    if path.split("/")[0] == "~":
        path = machine.home + path[1:]
    return resolve(path, machine.home)


def read_file(machine: Machine, arguments: Arguments) -> str:
    path = path_argument(machine, arguments)
    first = arguments.whole("offset", 1)
    limit = arguments.whole("limit", _DEFAULT_LINES)
    lines = machine.files.read(path).splitlines(keepends=True)
    shown = lines[first - 1 : first - 1 + limit]
    if lines and not shown:
        raise Refusal(f"{path} has {len(lines)} lines; offset {first} is past its end")
    text = "".join(shown)
    next_line = first + len(shown)
    n_left = len(lines) - next_line + 1
    if n_left > 0:
        text += f"\n[{n_left} more lines; continue with offset {next_line}]"
    return text or "(the file is empty)"


def write_file(machine: Machine, arguments: Arguments) -> str:
    path = path_argument(machine, arguments)
    content = arguments.text("content")
    directory = posixpath.dirname(path)
    if not machine.files.exists(directory):
        machine.files.make_directory(directory, parents=True)
    machine.files.write(path, content)
    return f"Wrote {len(content.encode('utf-8', 'replace'))} bytes to {path}"


def edit_file(machine: Machine, arguments: Arguments) -> str:
    path = path_argument(machine, arguments)
    old_text = arguments.text("oldText")
    new_text = arguments.text("newText")
    if not old_text:
        raise Refusal("the argument 'oldText' is empty; give the text to replace")
    text = machine.files.read(path)
    count = text.count(old_text)
    if count != 1:
        problem = "does not occur" if count == 0 else f"occurs {count} times"
        raise Refusal(
            f"{path}: the old text {problem}; it must occur exactly once, white space included"
        )
    machine.files.write(path, text.replace(old_text, new_text))
    return f"Replaced 1 occurrence in {path}"


def web_fetch(machine: Machine, arguments: Arguments) -> ToolAnswer:
    page = machine.web.fetch(arguments.text("url"))
    head = f"HTTP {page.status} {page.reason}\ncontent-type: {page.content_type}"
    if page.retry_after_s:
        head += f"\nretry-after: {page.retry_after_s}"
    return ToolAnswer(f"{head}\n\n{page.body}", is_error=page.status >= 400)


def message(machine: Machine, arguments: Arguments) -> str:
    if arguments.action("send", "read") == "send":
        name, _ = machine.mailbox.send(arguments.text("to"), arguments.text("text"))
        return f"Sent to {name}."
    lines = []
    for received in machine.mailbox.incoming(arguments.text("from", "")):
        moment = machine.clock.moment(received.at_s)
        lines.append(f"[{moment:%Y-%m-%d %H:%M}] {received.person}: {received.text}")
    return "\n".join(lines) or "No messages."


def ask_user(machine: Machine, arguments: Arguments) -> str:
    return f"The user answered: {machine.mailbox.ask(arguments.text('question'))}"


def cron(machine: Machine, arguments: Arguments) -> str:
    action = arguments.action("list", "add", "remove")
    if action == "list":
        return "\n".join(map(_job_line, machine.schedule.jobs)) or "No scheduled jobs."
    if action == "add":
        job = machine.schedule.add(
            arguments.text("schedule"), arguments.text("command"), arguments.text("name", "")
        )
        return f"Added {_job_line(job)}"
    return f"Removed {_job_line(machine.schedule.remove(arguments.text('id')))}"


def _job_line(job: Job) -> str:
    line = f"{job.id}  {job.schedule}  {job.command}"
    return f"{line}  # {job.name}" if job.name else line


def memory(machine: Machine, arguments: Arguments) -> str:
    action = arguments.action("store", "search", "list", "delete")
    if action == "store":
        return f"Stored as {machine.notes.store(arguments.text('text'))}"
    if action == "delete":
        return f"Deleted {machine.notes.delete(arguments.text('id'))}"
    if action == "search":
        notes = machine.notes.search(arguments.text("query"))
        return _note_lines(notes) or "No note matches."
    return _note_lines(machine.notes.notes) or "No notes."


def _note_lines(notes: Mapping[str, str]) -> str:
    return "\n".join(f"{note_id}: {text}" for note_id, text in notes.items())


def process(machine: Machine, arguments: Arguments) -> str:
    action = arguments.action("list", "info", "kill")
    if action == "list":
        return "\n".join(map(_process_line, machine.processes))
    pid = arguments.whole("pid")
    running = machine.processes.get(pid)
    if running is None:
        raise Refusal(f"pid {str(pid)[:20]}: No such process")
    if action == "kill":
        return _kill(machine, running, arguments.text("signal", "TERM"))
    started = machine.clock.moment(running.started_s)
    return f"{_process_line(running)}\nname: {running.name}\nstarted: {started:%Y-%m-%d %H:%M:%S}"


def _process_line(process: Process) -> str:
    return (
        f"{process.pid:>6}  {process.user:<10} {process.cpu:>5.1f}% CPU  "
        f"{process.memory_mb:>8.1f} MB  {process.command}"
    )


def _kill(machine: Machine, process: Process, written_signal: str) -> str:
    signal = signal_name(written_signal)
    if signal is None:
        raise Refusal("the argument 'signal' must be one of TERM, KILL, HUP, INT")
    try:
        machine.processes.signal(process.pid, signal)
    except Refusal as refusal:
        raise Refusal(f"pid {process.pid}: {refusal}") from None
    outcome = "it still runs" if machine.processes.get(process.pid) else "it has ended"
    return f"Sent {signal} to {process.pid} ({process.name}); {outcome}."


Tool: TypeAlias = Callable[[Machine, Arguments], str | ToolAnswer]
# All but `exec`, which needs the shell, too.
TOOLS: Mapping[str, Tool] = {
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
