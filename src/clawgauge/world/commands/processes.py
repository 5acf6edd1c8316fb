"""Commands on processes: ps, top, pgrep, pidof, and kill, pkill and killall, which end them."""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import re2

from clawgauge.world.commands.call import COMMANDS, TABLE, Call, Options, command
from clawgauge.world.commands.layout import table
from clawgauge.world.commands.status import summary_line
from clawgauge.world.effects import Refusal
from clawgauge.world.processes import Process, signal_name

_FORMS: dict[str, str] = TABLE["ps"]["forms"]
_TITLES: dict[str, str] = TABLE["ps"]["titles"]
_ALIASES: dict[str, str] = TABLE["ps"]["aliases"]
_LEFT = frozenset({"user", "comm", "cmd", "command", "stat", "s", "tty", "uid"})
# What each option selects processes by.
_SELECTIONS = {"p": "pid", "ppid": "ppid", "C": "comm", "u": "user", "U": "user"}
_SHELL_PID = 31_006
_SHELL_MB = 2
_BUSY_CPU = 50
_DAY_S = 86_400
_MAX_COMM_CHARS = 15
_TOP_COLUMNS = ["pid", "user", "pri", "ni", "vsz", "rss", "s", "%cpu", "%mem", "time"]
_TOP_SYSTEM_CPU = 0.8
_MAX_PID_DIGITS = 9


@command("ps", raw=True)
def ps(call: Call) -> int:
    options = COMMANDS["ps"].parse(_with_dashes(call.args))
    processes = _selected(call, options)
    for column in reversed(options.members("sort")):
        processes = _sorted(call, processes, column.lstrip("+"))
    if not options.has(*_SELECTIONS, *"aAexdT"):
        processes = _of_this_terminal(call)
    columns = ",".join(options.all("o")) or _FORMS[_form_of(call, options)]
    _print_table(
        call,
        processes,
        [column.strip() for column in columns.split(",")],
        is_headed=not options.has("no-headers"),
    )
    return 0 if processes else 1


def _with_dashes(args: list[str]) -> list[str]:
    """The arguments of ps as getopt reads them.

    Letters without a dash are BSD's spelling, in which only `o` and `p` take a value.
    """
    dashed: list[str] = []
    for index, arg in enumerate(args):
        follows_option = index > 0 and args[index - 1] != "u"
        is_value = follows_option and re.fullmatch(r"-?\w*[opCUut]|--\w+", dashed[-1])
        if arg == "-u" and index == len(args) - 1:
            dashed.append("-w")
        elif arg.startswith("-") or is_value:
            dashed.append(arg)
        elif arg.isdecimal():
            dashed += ["-p", arg]
        else:
            # A plain `u` is the form for people, and not the user of `-u`.
            dashed.append(f"-{arg.replace('u', 'Z')}")
    return dashed


def _selected(call: Call, options: Options) -> list[Process]:
    processes = list(call.machine.processes)
    for option, column in _SELECTIONS.items():
        if not options.has(option):
            continue
        members = re.split(r"[,\s]+", ",".join(options.all(option)))
        processes = [
            process for process in processes if _cell(call, process, column).text in members
        ]
    return processes


def _of_this_terminal(call: Call) -> list[Process]:
    """What ps shows if nothing is selected, which is the shell itself."""
    processes = []
    for name in ("bash", "ps"):
        process = Process(
            name=name,
            command=name,
            user=call.machine.user,
            pid=_SHELL_PID,
            cpu=0,
            memory_mb=_SHELL_MB,
            started_s=call.machine.clock.now_s,
        )
        processes.append(process)
    return processes


def _form_of(call: Call, options: Options) -> str:
    """The form that says which columns there are."""
    if options.has("Z"):
        return "u"
    if options.has("f", "F"):
        # BSD's `f` draws a tree, which is left out.
        plain_words = "".join(arg for arg in call.args if not arg.startswith("-"))
        return "plain" if "f" in plain_words else "f"
    return "l" if options.has("l") else "plain"


def _print_table(
    call: Call, processes: list[Process], columns: list[str], *, is_headed: bool = True
) -> None:
    """Columns by name; after `=` stands a title of one's own."""
    names = []
    titles = []
    for written in columns:
        name, sign, title = written.partition("=")
        name = _ALIASES.get(name, name)
        names.append(name)
        titles.append(title if sign else _TITLES.get(name, name.upper()))
    rows = [titles] if is_headed and any(titles) else []
    for process in processes:
        rows.append([_cell(call, process, name).text for name in names])
    left = [index for index, name in enumerate(names) if name in _LEFT]
    call.print(table(rows, left))


def _sorted(call: Call, processes: list[Process], column: str) -> list[Process]:
    """Processes by a column, with a minus sign before it from the greatest."""
    name = column.lstrip("-").lower()
    name = _ALIASES.get(name, name)

    def key(process: Process) -> Any:
        cell = _cell(call, process, name)
        return cell.text if cell.sort_key is None else cell.sort_key

    return sorted(processes, key=key, reverse=column.startswith("-"))


class _Cell(NamedTuple):
    """What a column says of a process, and what it is sorted by if that is something else."""

    text: str
    sort_key: float | None = None


def _cell(call: Call, process: Process, column: str) -> _Cell:
    make = _COLUMNS.get(column)
    if make is None:
        raise Refusal(f'error: unknown format specifier "{column[:40]}"')
    return make(call, process)


def _age_s(call: Call, process: Process) -> int:
    return call.machine.clock.now_s - process.started_s


def _clock_time(seconds: int) -> str:
    return f"{seconds // 60 % 60:02}:{seconds % 60:02}"


def _elapsed(call: Call, process: Process) -> _Cell:
    age_s = _age_s(call, process)
    days = f"{age_s // _DAY_S}-" if age_s >= _DAY_S else ""
    return _Cell(f"{days}{age_s // 3_600 % 24:02}:{_clock_time(age_s)}", age_s)


def _processor_time(call: Call, process: Process) -> _Cell:
    busy_s = int(_age_s(call, process) * process.cpu / 100)
    return _Cell(f"{busy_s // 3_600:02}:{_clock_time(busy_s)}", busy_s)


def _start(call: Call, process: Process) -> _Cell:
    started = call.machine.clock.moment(process.started_s)
    is_of_today = _age_s(call, process) < _DAY_S
    return _Cell(f"{started:%H:%M}" if is_of_today else f"{started:%b%d}", process.started_s)


def _long_start(call: Call, process: Process) -> _Cell:
    started = call.machine.clock.moment(process.started_s)
    return _Cell(f"{started:%a %b} {started.day:>2} {started:%H:%M:%S %Y}", process.started_s)


def _memory_share(call: Call, process: Process) -> _Cell:
    share = process.memory_mb * 100 / call.machine.spec.ram_mb
    return _Cell(f"{share:.1f}", process.memory_mb)


def _kib(n_times: int) -> Callable[[Call, Process], _Cell]:
    """So many times the memory of a process, in KiB."""

    def make(_: Call, process: Process) -> _Cell:
        return _Cell(str(int(process.memory_mb * 1024 * n_times)), process.memory_mb)

    return make


def _state(_: Call, process: Process) -> _Cell:
    return _Cell(process.state or ("R" if process.cpu > _BUSY_CPU else "S"))


def _elapsed_seconds(call: Call, process: Process) -> _Cell:
    age_s = _age_s(call, process)
    return _Cell(str(age_s), age_s)


_COLUMNS: dict[str, Callable[[Call, Process], _Cell]] = {
    "%cpu": lambda _, process: _Cell(f"{process.cpu:.1f}", process.cpu),
    "%mem": _memory_share,
    "c": lambda _, process: _Cell(str(int(process.cpu)), process.cpu),
    "cmd": lambda _, process: _Cell(process.command),
    "comm": lambda _, process: _Cell(process.name[:_MAX_COMM_CHARS]),
    "command": lambda _, process: _Cell(process.command),
    "etime": _elapsed,
    "etimes": _elapsed_seconds,
    "lstart": _long_start,
    "ni": lambda _, process: _Cell("0"),
    "pid": lambda _, process: _Cell(str(process.pid), process.pid),
    "ppid": lambda _, process: _Cell("0" if process.pid == 1 else "1"),
    "pri": lambda _, process: _Cell("20"),
    "rss": _kib(1),
    "s": _state,
    "start": _start,
    "stat": _state,
    "stime": _start,
    "time": _processor_time,
    "tty": lambda _, process: _Cell("?"),
    "uid": lambda _, process: _Cell(process.user),
    "user": lambda _, process: _Cell(process.user),
    "vsz": _kib(3),
}


@command("top")
def top(call: Call) -> int:
    options = call.options
    if not options.has("b"):
        raise Refusal("failed tty get; use 'top -b -n 1'")
    machine = call.machine
    processes = list(machine.processes)
    busy = min(100.0, sum(process.cpu for process in processes) / machine.spec.cpus)
    sizes = {name: f"{size / 1024**2:>8.1f}" for name, size in machine.memory()._asdict().items()}
    head = TABLE["top"]["head"].format(
        summary=summary_line(machine),
        n=len(processes),
        n_busy=sum(process.cpu > _BUSY_CPU for process in processes),
        busy=busy,
        idle=max(0.0, 100.0 - _TOP_SYSTEM_CPU - busy),
        **sizes,
    )
    call.print(head)
    column = options.value("o", "%cpu").lstrip("+-")
    last = "command" if options.has("c") else "comm"
    _print_table(call, _sorted(call, processes, f"-{column}"), [*_TOP_COLUMNS, last])
    return 0


def _matching(call: Call, options: Options) -> list[Process]:
    """The processes that pgrep and pkill mean, by pid."""
    users = options.members("u") or options.members("U")
    if not options.operands and not users:
        raise Refusal("no matching criteria specified", 2)
    pattern = _compile(options.operands[0] if options.operands else "", options)
    match = pattern.fullmatch if options.has("x") else pattern.search
    matches_command = options.has("f")
    matching = []
    for process in call.machine.processes:
        text = process.command if matches_command else process.name
        if match(text) and (not users or process.user in users):
            matching.append(process)
    oldest_first = sorted(matching, key=lambda process: process.started_s)
    if options.has("o"):
        return oldest_first[:1]
    if options.has("n"):
        return oldest_first[-1:]
    return matching


def _compile(pattern: str, options: Options) -> Any:
    settings = re2.Options()
    settings.log_errors = False
    settings.case_sensitive = not options.has("i")
    try:
        return re2.compile(pattern, settings)
    except re2.error:
        raise Refusal(f"invalid pattern '{pattern[:60]}'", 2) from None


@command("pgrep")
def pgrep(call: Call) -> int:
    options = call.options
    processes = _matching(call, options)
    code = 0 if processes else 1
    if options.has("c"):
        return call.print(f"{len(processes)}\n", code)
    lines = []
    for process in processes:
        if options.has("a"):
            lines.append(f"{process.pid} {process.command}")
        elif options.has("l"):
            lines.append(f"{process.pid} {process.name}")
        else:
            lines.append(str(process.pid))
    listed = options.value("d", "\n").join(lines)
    return call.print(f"{listed}\n" if lines else "", code)


@command("pidof")
def pidof(call: Call) -> int:
    pids = []
    for operand in call.require_operands():
        for process in call.machine.processes.named(operand.rpartition("/")[2]):
            pids.append(str(process.pid))
    if call.options.has("s"):
        pids = pids[:1]
    return call.print(f"{' '.join(pids)}\n" if pids else "", 0 if pids else 1)


@command("kill", "pkill", "killall", raw=True)
def kill(call: Call) -> int:
    if call.args[:1] == ["-l"]:
        return call.print(" 1) SIGHUP\t 2) SIGINT\t 3) SIGQUIT\t 9) SIGKILL\t15) SIGTERM\n")
    signal, words = _take_signal(call.args)
    if call.name == "kill":
        return _kill_pids(call, signal, [word for word in words if word != "--"])
    if call.name == "pkill":
        words = [word for word in words if word not in ("-e", "--echo")]
        processes = _matching(call, COMMANDS["pgrep"].parse(words))
        return min(_signal_all(call, signal, processes), default=1)
    return _kill_named(call, signal, COMMANDS["killall"].parse(words))


def _take_signal(args: list[str]) -> tuple[str, list[str]]:
    """The signal that is sent, and the words that do not name it."""
    signal = signal_name("TERM")
    words = []
    waiting = list(reversed(args))  # the next is the last
    while waiting:
        word = waiting.pop()
        if word in ("-s", "--signal") and waiting:
            signal = signal_name(waiting.pop())
        elif word.startswith("--signal="):
            signal = signal_name(word.removeprefix("--signal=").lstrip("-"))
        elif word.startswith("-") and signal_name(word[1:]):
            signal = signal_name(word.lstrip("-"))
        else:
            words.append(word)
    if signal is None:
        raise Refusal("invalid signal specification")
    return signal, words


def _kill_pids(call: Call, signal: str, words: list[str]) -> int:
    if not words:
        raise Refusal(
            "usage: kill [-s sigspec | -sigspec] pid | jobspec ... or kill -l [sigspec]", 2
        )
    for word in words:
        if not word.isdecimal() or len(word) > _MAX_PID_DIGITS:
            return call.say(
                f"bash: line 1: kill: {word[:40]}: arguments must be process or job IDs\n"
            )
    complaint = "bash: line 1: kill: ({}) - {}\n"
    return max([_signal(call, int(word), signal, complaint) for word in words])


def _kill_named(call: Call, signal: str, options: Options) -> int:
    code = 0
    for name in options.operands or [""]:
        codes = _signal_all(call, signal, call.machine.processes.named(name))
        complaint = ""
        if not codes and not options.has("q"):
            complaint = f"killall: {name}: no process found\n"
        code = call.say(complaint, min(codes, default=1))
    return code


def _signal_all(call: Call, signal: str, processes: Iterable[Process]) -> list[int]:
    """Send a signal to each, and give the exit code of each."""
    complaint = f"{call.name}: killing pid {{}} failed: {{}}\n"
    return [_signal(call, process.pid, signal, complaint) for process in processes]


def _signal(call: Call, pid: int, signal: str, complaint: str) -> int:
    """`complaint` is filled with the pid and why it could not be sent."""
    try:
        call.machine.processes.signal(pid, signal)
    except Refusal as refusal:
        return call.say(complaint.format(pid, refusal))
    return 0
