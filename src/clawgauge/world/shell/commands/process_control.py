"""Commands on processes: ps, top, pgrep, pkill, kill, killall.

Owns: their output, as procps prints it. Refuses: anything interactive.
"""

from __future__ import annotations

from clawgauge.world.processes import Process, signal_name
from clawgauge.world.refusals import Refusal
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.expressions import compile_expression
from clawgauge.world.shell.commands.machine_status import load_of
from clawgauge.world.shell.options import parse_options

_COLUMNS = {
    "pid": "PID", "user": "USER", "%cpu": "%CPU", "pcpu": "%CPU", "%mem": "%MEM", "pmem": "%MEM", "rss": "RSS",
    "comm": "COMMAND", "cmd": "CMD", "args": "COMMAND", "command": "COMMAND", "etime": "ELAPSED", "ppid": "PPID",
    "stat": "STAT", "start": "STARTED", "time": "TIME", "vsz": "VSZ", "tty": "TT",
}  # fmt: skip
_LEFT = frozenset({"user", "comm", "cmd", "args", "command", "stat", "tty"})
_FORMS = {
    "u": "user,pid,%cpu,%mem,vsz,rss,tty,stat,start,time,command",
    "f": "user,pid,ppid,start,tty,time,cmd",
    "": "pid,tty,time,cmd",
}


def ps(call: Call) -> int:
    letters = "".join(arg.lstrip("-") for arg in call.args if "=" not in arg and not arg.startswith("-o"))
    form = _FORMS["u" if "u" in letters else "f" if "f" in letters else ""]
    sorting = ""
    wanted: set[int] | None = None
    waiting = list(reversed(call.args))
    while waiting:
        arg = waiting.pop()
        if arg.startswith("--sort"):
            sorting = arg.partition("=")[2] or (waiting.pop() if waiting else "")
        elif arg in ("-o", "o", "-eo", "-axo", "axo", "-Ao") and waiting:
            form = waiting.pop()
        elif arg in ("-p", "--pid", "p") and waiting:
            wanted = {int(pid) for pid in waiting.pop().split(",") if pid.isdecimal() and len(pid) < 10}
    shown = [process for process in call.machine.processes if wanted is None or process.pid in wanted]
    if sorting:
        column = sorting.split(",")[0]
        shown.sort(key=lambda process: _rank(call, process, column.lstrip("+-")), reverse=column.startswith("-"))
    _print_table(call, shown, [name.strip().partition("=")[0] for name in form.split(",")])
    return 0 if shown else 1


def _print_table(call: Call, processes: list[Process], columns: list[str]) -> None:
    for column in columns:
        if column not in _COLUMNS:
            raise UsageFault(f'error: unknown user-defined format specifier "{column[:40]}"', 1)
    rows = [[_COLUMNS[column] for column in columns]]
    rows += [[_cell(call, process, column) for column in columns] for process in processes]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    for row in rows:
        cells = [
            f"{cell:<{width}}" if column in _LEFT else f"{cell:>{width}}"
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        call.print(" ".join(cells).rstrip() + "\n")


def _cell(call: Call, process: Process, column: str) -> str:
    age_s = call.machine.clock.now_s - process.started_s
    match column:
        case "%mem" | "pmem":
            return f"{process.memory_mb * 100 / call.machine.ram_mb:.1f}"
        case "%cpu" | "pcpu":
            return f"{process.cpu:.1f}"
        case "rss" | "vsz":
            return str(int(process.memory_mb * 1024 * (1 if column == "rss" else 3)))
        case "comm":
            return process.name[:15]
        case "cmd" | "args" | "command":
            return process.command
        case "etime":
            return f"{age_s // 86_400}-{age_s // 3_600 % 24:02}:{age_s // 60 % 60:02}:{age_s % 60:02}"
        case "time":
            busy_s = int(age_s * process.cpu / 100)
            return f"{busy_s // 3_600:02}:{busy_s // 60 % 60:02}:{busy_s % 60:02}"
        case "start":
            moment = call.machine.clock.moment(process.started_s)
            return f"{moment:%H:%M}" if age_s < 86_400 else f"{moment:%b%d}"
    fixed = {"pid": str(process.pid), "user": process.user, "ppid": "0" if process.pid == 1 else "1", "tty": "?"}
    return fixed.get(column, "R" if process.cpu > 50 else "S")


def _rank(call: Call, process: Process, column: str) -> float:
    if column in ("%cpu", "pcpu", "cpu", "time"):
        return process.cpu
    return process.memory_mb if column in ("%mem", "pmem", "rss", "vsz", "mem") else process.pid


def top(call: Call) -> int:
    if not any("b" in arg for arg in call.args if arg.startswith("-")):
        raise UsageFault("failed tty get; use 'top -b -n 1'", 1)
    loads = ", ".join(f"{load:.2f}" for load in load_of(call))
    call.print(f"top - {call.machine.clock.moment():%H:%M:%S} up 12 days,  1 user,  load average: {loads}\n\n")
    shown = sorted(call.machine.processes, key=lambda process: -process.cpu)
    _print_table(call, shown, ["pid", "user", "rss", "stat", "%cpu", "%mem", "time", "comm"])
    return 0


def _matching(call: Call, pattern: str, *, full: bool, exact: bool = False) -> list[Process]:
    expression = compile_expression(pattern, extended=True)

    def fits(process: Process) -> bool:
        text = process.command if full else process.name
        return (expression.fullmatch(text) if exact else expression.search(text)) is not None

    return [process for process in call.machine.processes if fits(process)]


def pgrep(call: Call) -> int:
    options = parse_options(call.args, "flaxo", "u")
    if not options.operands:
        raise UsageFault("no matching criteria specified")
    found = _matching(call, options.operands[0], full=options.has("f"), exact=options.has("x"))
    for process in found:
        shown = f" {process.command}" if options.has("a") else f" {process.name}" if options.has("l") else ""
        call.print(f"{process.pid}{shown}\n")
    return 0 if found else 1


def _split_signal(args: list[str]) -> tuple[str, list[str]]:
    """The signal and the other arguments of kill, pkill and killall."""
    rest = []
    signal: str | None = "TERM"
    waiting = list(reversed(args))
    while waiting:
        arg = waiting.pop()
        if arg in ("-s", "-n", "--signal") and waiting:
            signal = signal_name(waiting.pop())
        elif arg.startswith("-") and signal_name(arg[1:]):
            signal = signal_name(arg[1:])
        elif arg != "--":
            rest.append(arg)
    if signal is None:
        raise UsageFault("invalid signal specification", 1)
    return signal, rest


def kill(call: Call) -> int:
    if call.args[:1] == ["-l"]:
        call.print("HUP INT QUIT KILL TERM\n")
        return 0
    signal, targets = _split_signal(call.args)
    if not targets:
        raise UsageFault("usage: kill [-s sigspec | -sigspec] pid ...", 2)
    code = 0
    for target in targets:
        if not target.isdecimal() or len(target) > 9:
            code = call.complain(f"{target[:40]}: arguments must be process IDs")
            continue
        try:
            call.machine.processes.signal(int(target), signal)
        except Refusal as refusal:
            code = call.complain(f"({target}) - {refusal}")
    return code


def pkill(call: Call) -> int:
    signal, rest = _split_signal(call.args)
    options = parse_options(rest, "fxe", "u")
    if not options.operands:
        raise UsageFault("no matching criteria specified")
    found = _matching(call, options.operands[0], full=options.has("f"), exact=options.has("x"))
    return _signal_all(call, found, signal)


def killall(call: Call) -> int:
    signal, names = _split_signal(call.args)
    code = 0
    for name in (name for name in names if not name.startswith("-")):
        found = call.machine.processes.named(name)
        code = _signal_all(call, found, signal) if found else call.complain(f"{name}: no process found")
    return code


def _signal_all(call: Call, processes: list[Process], signal: str) -> int:
    done = False
    for process in processes:
        try:
            call.machine.processes.signal(process.pid, signal)
            done = True
        except Refusal as refusal:
            call.complain(f"killing pid {process.pid} failed: {refusal}")
    return 0 if done else 1
