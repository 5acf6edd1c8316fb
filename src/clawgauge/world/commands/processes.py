"""Commands on processes: ps, top, pgrep, pidof, pkill, kill, killall, lsof, fuser."""

from __future__ import annotations

import re
from typing import Any

import re2

from clawgauge.world.commands.call import COMMANDS, Call, NotSimulated, UsageFault, command, parse_options, table
from clawgauge.world.commands.status import summary_line
from clawgauge.world.refusals import Refusal
from clawgauge.world.services import Process, signal_name

_COLUMNS = {
    "pid": "PID", "user": "USER", "uid": "UID", "%cpu": "%CPU", "pcpu": "%CPU", "%mem": "%MEM", "pmem": "%MEM",
    "rss": "RSS",
    "comm": "COMMAND", "ucmd": "CMD", "cmd": "CMD", "args": "COMMAND", "command": "COMMAND", "etime": "ELAPSED",
    "etimes": "ELAPSED", "ppid": "PPID", "stat": "STAT", "state": "S", "s": "S", "start": "STARTED", "stime": "STIME",
    "lstart": "STARTED", "time": "TIME", "cputime": "TIME", "vsz": "VSZ", "tty": "TT", "tt": "TT", "ni": "NI",
    "pri": "PRI",
    "nlwp": "NLWP", "euser": "EUSER", "pgid": "PGID", "sid": "SID", "c": "C",
}  # fmt: skip
_LEFT = frozenset({"user", "euser", "comm", "cmd", "args", "command", "stat", "state", "s", "tty", "tt", "uid", "ucmd"})
_FORMS = {
    "u": "user,pid,%cpu,%mem,vsz,rss,tty,stat,start,time,command",
    "f": "uid,pid,ppid,c,stime,tty,time,cmd",
    "l": "s,uid,pid,ppid,c,pri,ni,rss,tty,time,cmd",
    "": "pid,tty,time,cmd",
}
_PS_LETTERS = frozenset("aAexufwjlTHdFLr")
_NAMES = {"sort": "sort", "pid": "p", "user": "u", "no-headers": "h", "no-heading": "h", "ppid": "ppid", "format": "o"}


@command("ps", raw=True)
def ps(call: Call) -> int:
    form, wanted = _read_ps(call)
    processes = list(call.machine.processes)
    for key, text in wanted:
        members = re.split(r"[,\s]+", text)
        if key == "p":
            processes = [process for process in processes if str(process.pid) in members]
        elif key == "ppid":
            processes = [process for process in processes if ("0" if process.pid == 1 else "1") in members]
        elif key == "C":
            processes = [process for process in processes if process.name in members]
        elif key == "u":
            processes = [process for process in processes if process.user in members]
        elif key == "sort":
            for column in reversed(members):
                processes.sort(key=lambda one: _rank(one, column.lstrip("+-")), reverse=column.startswith("-"))
    if not any(key in ("p", "C", "u", "ppid", "all") for key, _ in wanted):
        # Without a selection ps shows what runs on this terminal, which is the shell itself.
        now_s = call.machine.clock.now_s
        processes = [
            Process(call.machine.shell_pid, name, name, call.machine.user, 0, 2, now_s) for name in ("bash", "ps")
        ]
    columns = [part.strip().partition("=") for part in form.split(",")]
    headed = not any(key == "h" for key, _ in wanted)
    _print_table(call, processes, columns, headed=headed)
    return 0 if processes else 1


def _read_ps(call: Call) -> tuple[str, list[tuple[str, str]]]:
    """The columns, and what to select and sort by, in either of ps's two spellings."""
    form, wanted = "", []
    letters = ""
    waiting = list(reversed(call.args))
    while waiting:
        arg = waiting.pop()
        if arg.startswith("--"):
            name, has_value, value = arg[2:].partition("=")
            if name not in _NAMES:
                raise NotSimulated(f"option '{arg[:40]}' is not supported here")
            key = _NAMES[name]
            if key != "h" and not has_value:
                value = waiting.pop() if waiting else ""
            form = value if key == "o" else form
            wanted.append((key, value))
            continue
        if arg.isdecimal():
            wanted.append(("p", arg))
            continue
        word = arg.removeprefix("-")
        for index, letter in enumerate(word):
            if (
                letter in "opCUut"
                and (letter != "u" or arg.startswith("-"))
                and not (letter == "u" and word == "u" and not waiting)
            ):
                value = word[index + 1 :] or (waiting.pop() if waiting else "")
                if letter == "o":
                    form = f"{form},{value}" if form else value
                else:
                    wanted.append(("u" if letter == "U" else letter, value))
                break
            if letter not in _PS_LETTERS:
                raise NotSimulated(f"option '{letter}' is not supported here")
            letters += letter
    if any(letter in "aAexdT" for letter in letters):
        wanted.append(("all", ""))
    kind = "u" if "u" in letters else "f" if "f" in letters or "F" in letters else "l" if "l" in letters else ""
    if kind == "f" and "a" in letters and not any(arg.startswith("-") for arg in call.args):
        kind = "u" if "u" in letters else ""
    return form or _FORMS[kind], wanted


def _print_table(
    call: Call, processes: list[Process], columns: list[tuple[str, str, str]], *, headed: bool = True
) -> None:
    for column, _, _ in columns:
        if column not in _COLUMNS:
            raise UsageFault(f'error: unknown user-defined format specifier "{column[:40]}"')
    titles = [title if sign else _COLUMNS[column] for column, sign, title in columns]
    rows = [titles] if headed and any(titles) else []
    rows += [[_cell(call, process, column) for column, _, _ in columns] for process in processes]
    if rows:
        call.print(table(rows, [index for index, (column, _, _) in enumerate(columns) if column in _LEFT]))


def _cell(call: Call, process: Process, column: str) -> str:
    age_s = call.machine.clock.now_s - process.started_s
    busy_s = int(age_s * process.cpu / 100)
    moment = call.machine.clock.moment(process.started_s)
    match column:
        case "%mem" | "pmem":
            return f"{process.memory_mb * 100 / call.machine.ram_mb:.1f}"
        case "%cpu" | "pcpu":
            return f"{process.cpu:.1f}"
        case "rss" | "vsz":
            return str(int(process.memory_mb * 1024 * (1 if column == "rss" else 3)))
        case "comm" | "ucmd":
            return process.name[:15]
        case "cmd" | "args" | "command":
            return process.command
        case "etime":
            days = f"{age_s // 86_400}-" if age_s >= 86_400 else ""
            return f"{days}{age_s // 3_600 % 24:02}:{age_s // 60 % 60:02}:{age_s % 60:02}"
        case "etimes":
            return str(age_s)
        case "time" | "cputime":
            return f"{busy_s // 3_600:02}:{busy_s // 60 % 60:02}:{busy_s % 60:02}"
        case "start" | "stime":
            return f"{moment:%H:%M}" if age_s < 86_400 else f"{moment:%b%d}"
        case "lstart":
            return f"{moment:%a %b} {moment.day:>2} {moment:%H:%M:%S %Y}"
    fixed = {
        "pid": str(process.pid), "user": process.user, "euser": process.user, "uid": process.user, "tty": "?",
        "tt": "?",
        "ppid": "0" if process.pid == 1 else "1", "ni": "0", "pri": "20", "nlwp": "1", "pgid": str(process.pid),
        "sid": str(process.pid), "c": str(int(process.cpu)),
    }  # fmt: skip
    return fixed.get(column, process.state or ("R" if process.cpu > 50 else "S"))


def _rank(process: Process, column: str) -> Any:
    if column in ("%cpu", "pcpu", "cpu", "time", "c"):
        return process.cpu
    if column in ("%mem", "pmem", "rss", "vsz", "mem", "size"):
        return process.memory_mb
    if column in ("start", "start_time", "etime", "etimes", "lstart"):
        return process.started_s if column.startswith("start") else -process.started_s
    if column in ("comm", "cmd", "args", "user"):
        return process.user if column == "user" else process.name
    if column != "pid":
        raise UsageFault(f'error: unknown sort specifier "{column[:40]}"')
    return process.pid


@command("top", flags="bc", valued="nopud", idle="wHSdin")
def top(call: Call) -> int:
    options = call.options
    if not options.has("b"):
        raise UsageFault("failed tty get; use 'top -b -n 1'")
    machine, memory = call.machine, call.machine.memory()
    busy = min(100.0, sum(process.cpu for process in machine.processes) / machine.n_cpus)
    shown = sorted(
        machine.processes, key=lambda process: -_rank(process, options.value("o", "%cpu").lstrip("+-").lower())
    )
    if options.has("p"):
        shown = [process for process in shown if str(process.pid) in options.value("p").split(",")]
    if options.has("u"):
        shown = [process for process in shown if process.user == options.value("u")]
    mib = 1024**2
    call.print(f"top -{summary_line(call)}\n")
    call.print(f"Tasks: {len(list(machine.processes))} total,   {sum(p.cpu > 50 for p in machine.processes)} running\n")
    call.print(f"%Cpu(s): {busy:.1f} us,  0.8 sy,  0.0 ni, {max(0.0, 99.2 - busy):.1f} id,  0.0 wa\n")
    call.print(
        f"MiB Mem : {memory.total / mib:>8.1f} total, {memory.free / mib:>8.1f} free, {memory.used / mib:>8.1f} used, "
        f"{memory.cache / mib:>8.1f} buff/cache\nMiB Swap: {memory.swap_total / mib:>8.1f} total, "
        f"{(memory.swap_total - memory.swap_used) / mib:>8.1f} free, {memory.swap_used / mib:>8.1f} used. "
        f"{memory.available / mib:>8.1f} avail Mem\n\n"
    )
    last = "command" if options.has("c") else "comm"
    _print_table(
        call,
        shown,
        [(name, "", "") for name in ("pid", "user", "pri", "ni", "vsz", "rss", "s", "%cpu", "%mem", "time", last)],
    )
    return 0


def _matching(call: Call) -> list[Process]:
    """What pgrep and pkill select by their options and their pattern."""
    options = call.options
    users = (
        options.value("u").split(",")
        if options.has("u")
        else options.value("U").split(",")
        if options.has("U")
        else None
    )
    if not options.operands and users is None:
        raise UsageFault("no matching criteria specified", 2)
    pattern = options.operands[0] if options.operands else ""
    settings = re2.Options()
    settings.log_errors = False
    settings.case_sensitive = not options.has("i")
    try:
        expression = re2.compile(pattern, settings)
    except re2.error:
        raise UsageFault(f"invalid pattern '{pattern[:60]}'", 2) from None
    full, exact, negated = options.has("f"), options.has("x"), options.has("v")

    def fits(process: Process) -> bool:
        text = process.command if full else process.name
        found = (expression.fullmatch(text) if exact else expression.search(text)) is not None
        return found != negated and (users is None or process.user in users)

    found = sorted(filter(fits, call.machine.processes), key=lambda process: process.started_s)
    found = found[:1] if options.has("o") else found[-1:] if options.has("n") else found
    return sorted(found, key=lambda process: process.pid)


@command(
    "pgrep", flags="flaxoncvi", valued="uUd",
    long="full:f list-name:l list-full:a exact:x oldest:o newest:n count:c inverse:v ignore-case:i "
    "euid:u= uid:U= delimiter:d=",
)  # fmt: skip
def pgrep(call: Call) -> int:
    options = call.options
    found = _matching(call)
    if options.has("c"):
        call.print(f"{len(found)}\n")
        return 0 if found else 1
    lines = []
    for process in found:
        shown = f" {process.command}" if options.has("a") else f" {process.name}" if options.has("l") else ""
        lines.append(f"{process.pid}{shown}")
    call.print(options.value("d", "\n").join(lines) + "\n" if lines else "")
    return 0 if found else 1


@command("pidof", flags="s", idle="qx")
def pidof(call: Call) -> int:
    found = [p for name in call.require_operands() for p in call.machine.processes.named(name.rpartition("/")[2])]
    found = found[:1] if call.options.has("s") else found
    call.print(" ".join(str(process.pid) for process in found) + "\n" if found else "")
    return 0 if found else 1


def _split_signal(args: list[str]) -> tuple[str, list[str]]:
    """The signal and the other arguments of kill, pkill and killall."""
    rest = []
    signal: str | None = "TERM"
    waiting = list(reversed(args))
    while waiting:
        arg = waiting.pop()
        if arg in ("-s", "--signal") and waiting:
            signal = signal_name(waiting.pop())
        elif arg.startswith("--signal="):
            signal = signal_name(arg.partition("=")[2])
        elif arg.startswith("-") and signal_name(arg[1:]):
            signal = signal_name(arg[1:])
        elif arg != "--":
            rest.append(arg)
    if signal is None:
        raise UsageFault("invalid signal specification")
    return signal, rest


@command("kill", raw=True)
def kill(call: Call) -> int:
    if call.args[:1] == ["-l"]:
        call.print(" 1) SIGHUP\t 2) SIGINT\t 3) SIGQUIT\t 9) SIGKILL\t15) SIGTERM\n")
        return 0
    signal, targets = _split_signal(["-s" if arg == "-n" else arg for arg in call.args])
    if not targets:
        raise UsageFault("usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]", 2)
    code = 0
    for target in targets:
        if not target.isdecimal() or len(target) > 9:
            code = 1
            call.say(f"bash: line 1: kill: {target[:40]}: arguments must be process or job IDs\n")
            continue
        try:
            call.machine.processes.signal(int(target), signal)
        except Refusal as refusal:
            code = 1
            call.say(f"bash: line 1: kill: ({target}) - {refusal}\n")
    return code


@command("pkill", raw=True)
def pkill(call: Call) -> int:
    signal, rest = _split_signal(call.args)
    call.options = parse_options(COMMANDS["pgrep"], [word for word in rest if word not in ("-e", "--echo")])
    found = _matching(call)
    return _signal_all(call, found, signal)


@command("killall", raw=True)
def killall(call: Call) -> int:
    signal, words = _split_signal(call.args)
    quiet = False
    users: list[str] = []
    names = []
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if word in ("-q", "--quiet"):
            quiet = True
        elif word in ("-u", "--user") and waiting:
            users.append(waiting.pop())
        elif word in ("-e", "-w", "-v", "--exact", "--wait", "--verbose"):
            continue
        elif word.startswith("-"):
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
        else:
            names.append(word)
    if not names and not users:
        raise UsageFault("usage: killall [OPTION]... [--] NAME...")
    code = 0
    for name in names or [""]:
        found = [p for p in call.machine.processes if name in ("", p.name) and (not users or p.user in users)]
        if found:
            code = _signal_all(call, found, signal) or code
        else:
            code = 1 if quiet else call.complain(f"{name}: no process found")
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


@command("lsof", raw=True)
def lsof(call: Call) -> int:
    """Who has which file open, and who listens on which port."""
    words = list(call.args)
    terse, ports, pids, users, names, operands = False, None, None, None, None, []
    while words:
        word = words.pop(0)
        if word.startswith("-i"):
            ports = re.findall(
                r"\d+", word.partition(":")[2] or (words.pop(0) if words and words[0].startswith(":") else "")
            )
        elif word.startswith("-s"):
            continue
        elif word in ("-p", "-u", "-c") and words:
            value = words.pop(0)
            pids = value.split(",") if word == "-p" else pids
            users = value.split(",") if word == "-u" else users
            names = value.split(",") if word == "-c" else names
        elif re.fullmatch(r"-[tnPl]+", word):
            terse = terse or "t" in word
        elif word.startswith(("-", "+")) and word != "+D":
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
        elif word != "+D":
            operands.append(call.resolve(word))
    rows = [["COMMAND", "PID", "USER", "FD", "TYPE", "SIZE/OFF", "NAME"]]
    for process in call.machine.processes:
        chosen = (pids is None or str(process.pid) in pids) and (users is None or process.user in users)
        if not chosen or (names is not None and not process.name.startswith(tuple(names))):
            continue
        for path in [] if ports is not None else call.machine.open_files(process):
            if not operands or any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in operands):
                size = call.files.peek(path).size if call.files.exists(path) else 0
                rows.append([process.name[:9], str(process.pid), process.user, "4u", "REG", str(size), path])
        for port in process.ports if not operands else ():
            if not ports or str(port) in ports:
                rows.append(
                    [process.name[:9], str(process.pid), process.user, "5u", "IPv4", "0t0", f"TCP *:{port} (LISTEN)"]
                )
    if len(rows) == 1:
        return 1
    if terse:
        call.print("".join(f"{pid}\n" for pid in dict.fromkeys(row[1] for row in rows[1:])))
    else:
        call.print(table(rows, (0, 2, 6)))
    return 0


@command("fuser", flags="k", valued="n", idle="v")
def fuser(call: Call) -> int:
    if call.options.has("k"):
        raise NotSimulated("option '-k' is not supported here; use kill")
    code = 1
    for operand in call.require_operands():
        path = call.resolve(operand)
        port = (
            operand.partition("/")[0]
            if operand.endswith("/tcp")
            else call.options.operands[0]
            if call.options.has("n")
            else ""
        )
        found = [
            process
            for process in call.machine.processes
            if path in call.machine.open_files(process) or port in map(str, process.ports)
        ]
        if found:
            code = 0
            call.say(f"{operand}:")
            call.print("".join(f" {process.pid}" for process in found) + "\n")
    return code
