"""Commands on processes: ps, top, pgrep, pidof, pkill, kill, killall, lsof, fuser."""

from __future__ import annotations

import re
from typing import Any

import re2

from clawgauge.world.commands.call import (
    COMMANDS,
    Call,
    NotSimulated,
    Options,
    UsageFault,
    command,
    parse_options,
    read_options,
    table,
)
from clawgauge.world.commands.status import summary_line
from clawgauge.world.refusals import Refusal
from clawgauge.world.services import Process, signal_name

_FORMS = {
    "u": "user,pid,%cpu,%mem,vsz,rss,tty,stat,start,time,command",
    "f": "uid,pid,ppid,c,stime,tty,time,cmd",
    "l": "s,uid,pid,ppid,c,pri,ni,rss,tty,time,cmd",
    "": "pid,tty,time,cmd",
}


# The columns by name, with their titles; what others are called that mean the same.
_TITLES = {
    "pid": "PID", "user": "USER", "uid": "UID", "%cpu": "%CPU", "%mem": "%MEM", "rss": "RSS", "comm": "COMMAND",
    "ucmd": "CMD", "cmd": "CMD", "command": "COMMAND", "etime": "ELAPSED", "etimes": "ELAPSED", "ppid": "PPID",
    "stat": "STAT", "s": "S", "start": "STARTED", "stime": "STIME", "lstart": "STARTED", "time": "TIME", "vsz": "VSZ",
    "tty": "TT", "ni": "NI", "pri": "PRI", "nlwp": "NLWP", "euser": "EUSER", "pgid": "PGID", "sid": "SID", "c": "C",
}  # fmt: skip
_ALIASES = {"pcpu": "%cpu", "pmem": "%mem", "args": "command", "state": "s", "cputime": "time", "tt": "tty"}
_LEFT = frozenset({"user", "euser", "comm", "cmd", "command", "stat", "s", "tty", "uid", "ucmd"})


@command("ps", raw=True)
def ps(call: Call) -> int:
    """In either of its two spellings: letters without a dash are those of BSD, of which only `o`, `p` take a value."""
    args: list[str] = []
    for index, arg in enumerate(call.args):
        is_value = index > 0 and bool(re.fullmatch(r"-?\w*[opCUut]|--\w+", args[-1])) and call.args[index - 1] != "u"
        if arg.startswith("-") or is_value:
            args.append("-w" if arg == "-u" and index == len(call.args) - 1 else arg)
        else:
            # A plain `u` is the form for people, and not the user of `-u`.
            args += ["-p", arg] if arg.isdecimal() else [f"-{arg.replace('u', 'Z')}"]
    options = read_options(
        args, flags="aAexdTfFlZ", valued="opCUut", idle="wjHLr",
        long="sort= pid:p= user:u= no-headers no-heading:no-headers ppid= format:o=",
    )  # fmt: skip
    processes = list(call.machine.processes)
    chosen: dict[str, Any] = {
        "p": lambda process: str(process.pid),
        "ppid": lambda process: "0" if process.pid == 1 else "1",
        "C": lambda process: process.name,
        "u": lambda process: process.user,
        "U": lambda process: process.user,
    }
    for option, value_of in chosen.items():
        if options.has(option):
            members = re.split(r"[,\s]+", ",".join(options.all(option)))
            processes = [process for process in processes if value_of(process) in members]
    for column in reversed(options.members("sort")):
        processes.sort(key=lambda one: _rank(one, column.lstrip("+-")), reverse=column.startswith("-"))
    if not options.has(*chosen, *"aAexdT"):
        # Without a selection ps shows what runs on this terminal, which is the shell itself.
        here = call.machine.shell_pid, call.machine.user, call.machine.clock.now_s
        processes = [Process(here[0], name, name, here[1], 0, 2, here[2]) for name in ("bash", "ps")]
    kind = "u" if options.has("Z") else "f" if options.has("f", "F") else "l" if options.has("l") else ""
    if kind == "f" and "f" in "".join(arg for arg in call.args if not arg.startswith("-")):
        kind = ""
    columns = [part.strip() for part in (",".join(options.all("o")) or _FORMS[kind]).split(",")]
    _print_table(call, processes, columns, headed=not options.has("no-headers"))
    return 0 if processes else 1


def _print_table(call: Call, processes: list[Process], columns: list[str], *, headed: bool = True) -> None:
    """Columns by name; after `=` stands a title of one's own."""
    named = [(_ALIASES.get(name, name), sign, title) for name, sign, title in (one.partition("=") for one in columns)]
    for column, _, _ in named:
        if column not in _TITLES:
            raise UsageFault(f'error: unknown user-defined format specifier "{column[:40]}"')
    titles = [title if sign else _TITLES[column] for column, sign, title in named]
    rows = [titles] if headed and any(titles) else []
    for cells in (_cells(call, process) for process in processes):
        rows.append([cells[column] for column, _, _ in named])
    call.print(table(rows, [index for index, (column, _, _) in enumerate(named) if column in _LEFT]))


def _cells(call: Call, process: Process) -> dict[str, str]:
    age_s = call.machine.clock.now_s - process.started_s
    busy_s = int(age_s * process.cpu / 100)
    moment = call.machine.clock.moment(process.started_s)
    state = process.state or ("R" if process.cpu > 50 else "S")
    start = f"{moment:%H:%M}" if age_s < 86_400 else f"{moment:%b%d}"
    days = f"{age_s // 86_400}-" if age_s >= 86_400 else ""
    return {
        "%mem": f"{process.memory_mb * 100 / call.machine.ram_mb:.1f}", "%cpu": f"{process.cpu:.1f}",
        "rss": str(int(process.memory_mb * 1024)), "vsz": str(int(process.memory_mb * 1024 * 3)),
        "comm": process.name[:15], "ucmd": process.name[:15], "cmd": process.command, "command": process.command,
        "etime": f"{days}{age_s // 3_600 % 24:02}:{age_s // 60 % 60:02}:{age_s % 60:02}", "etimes": str(age_s),
        "time": f"{busy_s // 3_600:02}:{busy_s // 60 % 60:02}:{busy_s % 60:02}", "start": start, "stime": start,
        "lstart": f"{moment:%a %b} {moment.day:>2} {moment:%H:%M:%S %Y}", "stat": state, "s": state,
        **dict.fromkeys(("pid", "pgid", "sid"), str(process.pid)),
        **dict.fromkeys(("user", "euser", "uid"), process.user),
        "ppid": "0" if process.pid == 1 else "1", "c": str(int(process.cpu)), "ni": "0", "pri": "20", "nlwp": "1",
        "tty": "?",
    }  # fmt: skip


def _rank(process: Process, column: str) -> Any:
    ranks: dict[str, Any] = {
        **dict.fromkeys(("%cpu", "cpu", "time", "c"), process.cpu),
        **dict.fromkeys(("%mem", "rss", "vsz", "mem", "size"), process.memory_mb),
        **dict.fromkeys(("start", "start_time"), process.started_s),
        **dict.fromkeys(("etime", "etimes", "lstart"), -process.started_s),
        **dict.fromkeys(("comm", "cmd", "command"), process.name),
        "user": process.user,
        "pid": process.pid,
    }
    column = column.lower()
    if _ALIASES.get(column, column) not in ranks:
        raise UsageFault(f'error: unknown sort specifier "{column[:40]}"')
    return ranks[_ALIASES.get(column, column)]


@command("top", flags="bc", valued="nopud", idle="wHSdin")
def top(call: Call) -> int:
    options = call.options
    if not options.has("b"):
        raise UsageFault("failed tty get; use 'top -b -n 1'")
    machine, memory, processes = call.machine, call.machine.memory(), list(call.machine.processes)
    busy = min(100.0, sum(process.cpu for process in processes) / machine.n_cpus)
    shown = sorted(processes, key=lambda process: -_rank(process, options.value("o", "%cpu").lstrip("+-")))
    if options.has("p"):
        shown = [process for process in shown if str(process.pid) in options.members("p")]
    if options.has("u"):
        shown = [process for process in shown if process.user == options.value("u")]
    mib = 1024**2
    call.print(f"top -{summary_line(call)}\n")
    call.print(f"Tasks: {len(processes)} total,   {sum(one.cpu > 50 for one in processes)} running\n")
    call.print(f"%Cpu(s): {busy:.1f} us,  0.8 sy,  0.0 ni, {max(0.0, 99.2 - busy):.1f} id,  0.0 wa\n")
    call.print(
        f"MiB Mem : {memory.total / mib:>8.1f} total, {memory.free / mib:>8.1f} free, {memory.used / mib:>8.1f} used, "
        f"{memory.cache / mib:>8.1f} buff/cache\nMiB Swap: {memory.swap_total / mib:>8.1f} total, "
        f"{(memory.swap_total - memory.swap_used) / mib:>8.1f} free, {memory.swap_used / mib:>8.1f} used. "
        f"{memory.available / mib:>8.1f} avail Mem\n\n"
    )
    last = "command" if options.has("c") else "comm"
    _print_table(call, shown, ["pid", "user", "pri", "ni", "vsz", "rss", "s", "%cpu", "%mem", "time", last])
    return 0


def _matching(call: Call, options: Options) -> list[Process]:
    """What pgrep and pkill select by their options and their pattern."""
    users = options.members("u") or options.members("U")
    if not options.operands and not users:
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
        return found != negated and (not users or process.user in users)

    found = sorted(filter(fits, call.machine.processes), key=lambda process: process.started_s)
    found = found[:1] if options.has("o") else found[-1:] if options.has("n") else found
    return sorted(found, key=lambda process: process.pid)


@command(
    "pgrep", flags="flaxoncvi", valued="uUd",
    long="full:f list-name:l list-full:a exact:x oldest:o newest:n count:c inverse:v ignore-case:i "
    "euid:u= uid:U= delimiter:d=",
)  # fmt: skip
def pgrep(call: Call) -> int:
    options, found = call.options, _matching(call, call.options)
    with_command, with_name = options.has("a"), options.has("l")
    lines = [
        f"{process.pid}{f' {process.command}' if with_command else f' {process.name}' if with_name else ''}"
        for process in found
    ]
    listed = options.value("d", "\n").join(lines) + "\n" * bool(lines)
    return call.print(f"{len(found)}\n" if options.has("c") else listed, 0 if found else 1)


@command("pidof", flags="s", idle="qx")
def pidof(call: Call) -> int:
    found = [p for name in call.require_operands() for p in call.machine.processes.named(name.rpartition("/")[2])]
    found = found[:1] if call.options.has("s") else found
    call.print(" ".join(str(process.pid) for process in found) + "\n" * bool(found))
    return 0 if found else 1


def _split_signal(args: list[str]) -> tuple[str, list[str]]:
    """The signal and the other arguments of kill, pkill and killall."""
    rest, signal, waiting = [], "TERM", list(reversed(args))
    while waiting:
        arg = waiting.pop()
        word = waiting.pop() if arg in ("-s", "--signal", "-n") and waiting else ""
        word = word or (arg.removeprefix("--signal=") if arg.startswith("--signal=") else "")
        if word or (arg.startswith("-") and signal_name(arg[1:])):
            found = signal_name(word or arg[1:])
            if found is None:
                raise UsageFault("invalid signal specification")
            signal = found
        elif arg != "--":
            rest.append(arg)
    return signal, rest


@command("kill", raw=True)
def kill(call: Call) -> int:
    if call.args[:1] == ["-l"]:
        return call.print(" 1) SIGHUP\t 2) SIGINT\t 3) SIGQUIT\t 9) SIGKILL\t15) SIGTERM\n")
    signal, targets = _split_signal(call.args)
    if not targets:
        raise UsageFault("usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]", 2)
    code = 0
    for target in targets:
        try:
            if not target.isdecimal() or len(target) > 9:
                code = call.say(f"bash: line 1: kill: {target[:40]}: arguments must be process or job IDs\n")
                continue
            call.machine.processes.signal(int(target), signal)
        except Refusal as refusal:
            code = call.say(f"bash: line 1: kill: ({target}) - {refusal}\n")
    return code


@command("pkill", raw=True)
def pkill(call: Call) -> int:
    signal, rest = _split_signal(call.args)
    options = parse_options(COMMANDS["pgrep"], [word for word in rest if word not in ("-e", "--echo")])
    return _signal_all(call, _matching(call, options), signal)


@command("killall", raw=True)
def killall(call: Call) -> int:
    signal, words = _split_signal(call.args)
    options = read_options(words, flags="q", valued="u", long="quiet:q user:u=", idle="ewv", idle_words="exact wait")
    users, code = options.all("u"), 0
    if not options.operands and not users:
        raise UsageFault("usage: killall [OPTION]... [--] NAME...")
    for name in options.operands or [""]:
        found = [p for p in call.machine.processes if name in ("", p.name) and (not users or p.user in users)]
        if found:
            code = _signal_all(call, found, signal) or code
        else:
            code = 1 if options.has("q") else call.complain(f"{name}: no process found")
    return code


def _signal_all(call: Call, processes: list[Process], signal: str) -> int:
    code = 1
    for process in processes:
        try:
            call.machine.processes.signal(process.pid, signal)
            code = 0
        except Refusal as refusal:
            call.complain(f"killing pid {process.pid} failed: {refusal}")
    return code


@command("lsof", raw=True)
def lsof(call: Call) -> int:
    """Who has which file open, and who listens on which port."""
    # What follows `-i` may stand apart, or not at all, and `+D` is a folder like any other.
    text = re.sub(
        r"(^|\s)-(\w*)i\s+(?=:|tcp|4)", r"\1-\2i", "\n".join(word for word in call.args if word != "+D"), flags=re.I
    )
    words = [f"{word}any" if re.fullmatch(r"-[tnPl]*i", word) else word for word in text.split("\n") if word]
    if any(word.startswith("+") for word in words):
        raise NotSimulated("options with '+' are not supported here")
    options = read_options(words, flags="t", valued="ipucs", idle="nPl")
    ports = [port for value in options.all("i") for port in re.findall(r"\d+", value.partition(":")[2])]
    operands = [call.resolve(operand) for operand in options.operands]
    pids, users, names = options.members("p"), options.members("u"), tuple(options.members("c"))
    rows = [["COMMAND", "PID", "USER", "FD", "TYPE", "SIZE/OFF", "NAME"]]
    for process in call.machine.processes:
        if (pids and str(process.pid) not in pids) or (users and process.user not in users):
            continue
        if names and not process.name.startswith(names):
            continue
        start = [process.name[:9], str(process.pid), process.user]
        for path in [] if options.has("i") else call.machine.open_files(process):
            if not operands or any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in operands):
                size = call.files.peek(path).size if call.files.exists(path) else 0
                rows.append([*start, "4u", "REG", str(size), path])
        for port in process.ports if not operands else ():
            if not ports or str(port) in ports:
                rows.append([*start, "5u", "IPv4", "0t0", f"TCP *:{port} (LISTEN)"])
    if len(rows) == 1:
        return 1
    found = "".join(f"{pid}\n" for pid in dict.fromkeys(row[1] for row in rows[1:]))
    return call.print(found if options.has("t") else table(rows, (0, 2, 6)))


@command("fuser", valued="n", idle="v")
def fuser(call: Call) -> int:
    code = 1
    for operand in call.require_operands():
        port = operand if call.options.has("n") else operand.removesuffix("/tcp") if operand.endswith("/tcp") else ""
        found = [
            f" {process.pid}"
            for process in call.machine.processes
            if call.resolve(operand) in call.machine.open_files(process) or port in map(str, process.ports)
        ]
        if found:
            call.say(f"{operand}:")
            code = call.print("".join(found) + "\n")
    return code
