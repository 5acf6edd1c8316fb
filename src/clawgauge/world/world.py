"""One simulated world: tools are called on it under OpenClaw's names, and it answers. `tools.toml` describes them."""

import importlib
import posixpath
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from clawgauge.world import TOOL_NAMES
from clawgauge.world.effects import ArgumentsBudget, FileFault, OutOfFuel, Refusal, ToolAnswer
from clawgauge.world.files import resolve
from clawgauge.world.machine import Machine, check_world
from clawgauge.world.services import Job, Process, signal_name

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell

# Far below the calls that a record keeps of one answer, so that whatever was acted on can be replayed.
MAX_CALLS = 200
MAX_ANSWER_BYTES = 16_384
_CALLS_SPENT = ToolAnswer(
    f"Error: {MAX_CALLS} calls were made, the most there may be; nothing was done", is_error=True
)


class Arguments(NamedTuple):
    """The arguments of one call; every fault is a refusal that tells the model what to send."""

    tool: str
    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        return str(
            self._given(key, default, "must be a string", lambda value: isinstance(value, str))
        )

    def whole(self, key: str, default: int | None = None) -> int:
        wanted = "must be a whole number, 1 or more"
        return int(
            self._given(key, default, wanted, lambda value: type(value) is int and value >= 1)
        )

    def action(self, *actions: str) -> str:
        return str(
            self._given(
                "action",
                None,
                f"must be one of {', '.join(actions)}",
                lambda value: value in actions,
            )
        )

    def _given(self, key: str, default: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
        value = self.values.get(key, default)
        if value is None or not fits(value):
            problem = "is missing" if value is None else wanted
            raise Refusal(f"{self.tool}: the argument '{key}' {problem}")
        return value


class World:
    """A small server; not safe to call from two threads. The first 200 calls are acted on and kept in `calls`."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.machine = check_world(spec)
        # Loaded with the first world: checking a suite, and a rehearsal, do without the shell.
        self.shell: Shell = importlib.import_module("clawgauge.world.shell").Shell(self.machine)
        # The name and the arguments of each; None where they were not an object or too large to act on.
        self.calls: list[tuple[str, Mapping[str, Any] | None]] = []
        self._budget, self._n_acted_on = ArgumentsBudget(), 0

    def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Do what a model asked for and say what came of it. Never raises: what cannot be done is said there."""
        if len(self.calls) >= MAX_CALLS:
            return _CALLS_SPENT
        admitted = self._budget.admit(arguments)
        kept = arguments if admitted and isinstance(arguments, Mapping) else None
        try:
            answer = self._answer(name, kept, admitted)
        except Refusal as refusal:
            answer = ToolAnswer(f"Error: {refusal}", is_error=True)
        except OutOfFuel:
            self.machine.clock.advance(30)
            answer = ToolAnswer(
                "Error: stopped after 30 s: too much work for one call", is_error=True
            )
        self.calls.append((name, kept))
        encoded = answer.text.encode("utf-8", "replace")
        if len(encoded) <= MAX_ANSWER_BYTES:
            return ToolAnswer(encoded.decode(), answer.is_error)
        # Of a longer answer the head and the tail are kept, and the cut is said.
        notice = f"\n[… {len(encoded)} bytes in all; the middle is left out …]\n"
        half = (MAX_ANSWER_BYTES - len(notice.encode())) // 2
        head, tail = (
            encoded[:half].decode("utf-8", "ignore"),
            encoded[-half:].decode("utf-8", "ignore"),
        )
        return ToolAnswer(f"{head}{notice}{tail}", answer.is_error)

    def _answer(self, name: str, arguments: Mapping[str, Any] | None, admitted: bool) -> ToolAnswer:
        if name not in TOOL_NAMES:
            raise Refusal(
                f"no tool is called '{name[:100]}'; the tools are {', '.join(TOOL_NAMES)}"
            )
        # Nothing has happened yet when arguments are refused, not even time: a record may have lost them.
        if arguments is None:
            problem = (
                "must be a JSON object" if admitted else "are too large, or hold what JSON cannot"
            )
            raise Refusal(f"{name}: the arguments {problem}")
        machine = self.machine
        self._n_acted_on += 1
        machine.clock.advance(machine.draw(1, 4, "step", self._n_acted_on))
        machine.fuel.start_call()
        if machine.errors.get(name):
            return ToolAnswer(machine.errors[name].pop(0), is_error=True)
        given = Arguments(name, arguments)
        try:
            said = (
                _run_command(machine, self.shell, given)
                if name == "exec"
                else _TOOLS[name](machine, given)
            )
        except FileFault as fault:
            raise Refusal(f"{_path(machine, given)[:300]}: {fault}") from None
        return ToolAnswer(said) if isinstance(said, str) else said


def _run_command(machine: Machine, shell: "Shell", arguments: Arguments) -> ToolAnswer:
    workdir = resolve(arguments.text("workdir", machine.home), machine.home)
    command = arguments.text("command")
    if not machine.files.is_directory(workdir):
        raise Refusal(f"workdir {workdir[:300]}: No such directory")
    output = shell.run(command, workdir)
    code = f"(exit code {output.code})" if output.code != 0 else ""
    text = "\n".join(filter(None, (output.text.rstrip("\n"), code)))
    return ToolAnswer(text or "(no output)", output.code != 0 or bool(machine.notices))


def _path(machine: Machine, arguments: Arguments) -> str:
    if not (given := arguments.text("path")).strip():
        raise Refusal("the argument 'path' is empty")
    return resolve(machine.home + given[1:] if given.split("/")[0] == "~" else given, machine.home)


def read_file(machine: Machine, arguments: Arguments) -> str:
    path = _path(machine, arguments)
    first, limit = arguments.whole("offset", 1), arguments.whole("limit", 2_000)
    lines = machine.files.read(path).splitlines(keepends=True)
    shown = lines[first - 1 : first - 1 + limit]
    if lines and not shown:
        raise Refusal(f"{path} has {len(lines)} lines; offset {first} is past its end")
    left = len(lines) - (first - 1) - len(shown)
    tail = f"\n[{left} more lines; continue with offset {first + len(shown)}]" if left > 0 else ""
    return "".join(shown) + tail or "(the file is empty)"


def write_file(machine: Machine, arguments: Arguments) -> str:
    path = _path(machine, arguments)
    content, above = arguments.text("content"), posixpath.dirname(path)
    if not machine.files.exists(above):
        machine.files.make_directory(above, parents=True)
    machine.files.write(path, content)
    return f"Wrote {len(content.encode('utf-8', 'replace'))} bytes to {path}"


def edit_file(machine: Machine, arguments: Arguments) -> str:
    path = _path(machine, arguments)
    old, new = arguments.text("oldText"), arguments.text("newText")
    if not old:
        raise Refusal("the argument 'oldText' is empty; give the text to replace")
    text = machine.files.read(path)
    if (count := text.count(old)) != 1:
        found = "does not occur" if count == 0 else f"occurs {count} times"
        raise Refusal(
            f"{path}: the old text {found}; it must occur exactly once, white space included"
        )
    machine.files.write(path, text.replace(old, new))
    return f"Replaced 1 occurrence in {path}"


def web_fetch(machine: Machine, arguments: Arguments) -> ToolAnswer:
    page = machine.web.fetch(arguments.text("url"))
    retry = f"\nretry-after: {page.retry_after_s}" if page.retry_after_s else ""
    head = f"HTTP {page.status} {page.reason}\ncontent-type: {page.content_type}{retry}"
    return ToolAnswer(f"{head}\n\n{page.body}", is_error=page.status >= 400)


def message(machine: Machine, arguments: Arguments) -> str:
    if arguments.action("send", "read") == "send":
        return f"Sent to {machine.mailbox.send(arguments.text('to'), arguments.text('text'))[0]}."
    received = machine.mailbox.incoming(arguments.text("from", ""))
    lines = [
        f"[{machine.clock.moment(one.at_s):%Y-%m-%d %H:%M}] {one.who}: {one.text}"
        for one in received
    ]
    return "\n".join(lines) or "No messages."


def cron(machine: Machine, arguments: Arguments) -> str:
    def line(job: Job) -> str:
        return f"{job.id}  {job.schedule}  {job.command}" + (f"  # {job.name}" if job.name else "")

    match arguments.action("list", "add", "remove"):
        case "list":
            return "\n".join(map(line, machine.schedule.jobs)) or "No scheduled jobs."
        case "add":
            given = (
                arguments.text("schedule"),
                arguments.text("command"),
                arguments.text("name", ""),
            )
            return f"Added {line(machine.schedule.add(*given))}"
    return f"Removed {line(machine.schedule.remove(arguments.text('id')))}"


def memory(machine: Machine, arguments: Arguments) -> str:
    notes, nothing = machine.notes.notes, "No notes."
    match arguments.action("store", "search", "list", "delete"):
        case "store":
            return f"Stored as {machine.notes.store(arguments.text('text'))}"
        case "delete":
            return f"Deleted {machine.notes.delete(arguments.text('id'))}"
        case "search":
            notes, nothing = machine.notes.search(arguments.text("query")), "No note matches."
    return "\n".join(f"{note_id}: {text}" for note_id, text in notes.items()) or nothing


def process(machine: Machine, arguments: Arguments) -> str:
    def line(one: Process) -> str:
        return f"{one.pid:>6}  {one.user:<10} {one.cpu:>5.1f}% CPU  {one.memory_mb:>8.1f} MB  {one.command}"

    action = arguments.action("list", "info", "kill")
    if action == "list":
        return "\n".join(map(line, machine.processes))
    pid = arguments.whole("pid")
    if (found := machine.processes.get(pid)) is None:
        raise Refusal(f"pid {str(pid)[:20]}: No such process")
    if action == "info":
        return f"{line(found)}\nname: {found.name}\nstarted: {machine.clock.moment(found.started_s):%Y-%m-%d %H:%M:%S}"
    if (signal := signal_name(arguments.text("signal", "TERM"))) is None:
        raise Refusal("the argument 'signal' must be one of TERM, KILL, HUP, INT")
    try:
        machine.processes.signal(pid, signal)
    except Refusal as refusal:
        raise Refusal(f"pid {pid}: {refusal}") from None
    end = "it still runs" if machine.processes.get(pid) else "it has ended"
    return f"Sent {signal} to {pid} ({found.name}); {end}."


# All but `exec`, which needs the shell too.
_TOOLS: Mapping[str, Callable[[Machine, Arguments], str | ToolAnswer]] = {
    "read": read_file, "write": write_file, "edit": edit_file, "web_fetch": web_fetch, "message": message,
    "ask_user": lambda machine, given: f"The user answered: {machine.mailbox.ask(given.text('question'))}",
    "cron": cron, "memory": memory, "process": process,
}  # fmt: skip
