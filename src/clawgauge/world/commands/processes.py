"""Commands on processes and what they listen on: ps, top, pgrep, pidof, pkill, kill, killall, lsof, ss."""

import re
from typing import Any

import re2

from clawgauge.world.commands.call import (
    COMMANDS,
    TABLE,
    Call,
    NotSimulated,
    Options,
    command,
    table,
)
from clawgauge.world.commands.status import summary_line
from clawgauge.world.effects import Refusal
from clawgauge.world.processes import Process, signal_name

_FORMS, _TITLES, _ALIASES = (TABLE["ps"][name] for name in ("forms", "titles", "aliases"))
_LEFT = frozenset({"user", "comm", "cmd", "command", "stat", "s", "tty", "uid"})


@command("ps", raw=True)
def ps(call: Call) -> int:
    """In either of its two spellings: letters without a dash are those of BSD, of which only `o`, `p` take a value."""
    args: list[str] = []
    for index, arg in enumerate(call.args):
        is_value = (
            index > 0
            and bool(re.fullmatch(r"-?\w*[opCUut]|--\w+", args[-1]))
            and call.args[index - 1] != "u"
        )
        if arg.startswith("-") or is_value:
            args.append("-w" if arg == "-u" and index == len(call.args) - 1 else arg)
        else:
            # A plain `u` is the form for people, and not the user of `-u`.
            args += ["-p", arg] if arg.isdecimal() else [f"-{arg.replace('u', 'Z')}"]
    options = COMMANDS["ps"].parse(args)
    processes = list(call.machine.processes)
    chosen = {"p": "pid", "ppid": "ppid", "C": "comm", "u": "user", "U": "user"}
    for option, column in chosen.items():
        if options.has(option):
            members = re.split(r"[,\s]+", ",".join(options.all(option)))
            processes = [
                process for process in processes if _cell(call, process, column)[0] in members
            ]
    for column in reversed(options.members("sort")):
        processes = _sorted(call, processes, column.lstrip("+"))
    if not options.has(*chosen, *"aAexdT"):
        # Without a selection ps shows what runs on this terminal, which is the shell itself.
        own: Any = {"pid": 31_006, "user": call.machine.user, "started_s": call.machine.clock.now_s}
        processes = [
            Process(name=name, command=name, cpu=0, memory_mb=2, **own) for name in ("bash", "ps")
        ]
    kind = (
        "u"
        if options.has("Z")
        else "f"
        if options.has("f", "F")
        else "l"
        if options.has("l")
        else ""
    )
    if kind == "f" and "f" in "".join(arg for arg in call.args if not arg.startswith("-")):
        kind = ""
    columns = [
        part.strip() for part in (",".join(options.all("o")) or _FORMS[kind or "plain"]).split(",")
    ]
    _print_table(call, processes, columns, headed=not options.has("no-headers"))
    return 0 if processes else 1


def _print_table(
    call: Call, processes: list[Process], columns: list[str], *, headed: bool = True
) -> None:
    """Columns by name; after `=` stands a title of one's own."""
    named = [
        (_ALIASES.get(name, name), sign, title)
        for name, sign, title in (one.partition("=") for one in columns)
    ]
    titles = [
        title if sign else _TITLES.get(column, column.upper()) for column, sign, title in named
    ]
    rows = [titles] if headed and any(titles) else []
    rows += [[_cell(call, process, column)[0] for column, _, _ in named] for process in processes]
    call.print(
        table(rows, [index for index, (column, _, _) in enumerate(named) if column in _LEFT])
    )


def _sorted(call: Call, processes: list[Process], column: str) -> list[Process]:
    name = _ALIASES.get(column.lstrip("-").lower(), column.lstrip("-").lower())
    return sorted(
        processes,
        key=lambda process: _cell(call, process, name)[-1],
        reverse=column.startswith("-"),
    )


def _cell(call: Call, process: Process, column: str) -> tuple[Any, ...]:
    """What a column says of a process, and where that is another thing, what it is sorted by."""
    age_s, moment = (
        call.machine.clock.now_s - process.started_s,
        call.machine.clock.moment(process.started_s),
    )
    state = process.state or ("R" if process.cpu > 50 else "S")
    start = f"{moment:%H:%M}" if age_s < 86_400 else f"{moment:%b%d}"
    days = f"{age_s // 86_400}-" if age_s >= 86_400 else ""
    busy_s, memory_mb = int(age_s * process.cpu / 100), process.memory_mb
    cells: dict[str, tuple[Any, ...]] = {
        "%mem": (f"{memory_mb * 100 / call.machine.spec.ram_mb:.1f}", memory_mb),
        "%cpu": (f"{process.cpu:.1f}", process.cpu), "etimes": (str(age_s), age_s),
        "rss": (str(int(memory_mb * 1024)), memory_mb), "vsz": (str(int(memory_mb * 1024 * 3)), memory_mb),
        "comm": (process.name[:15],), "cmd": (process.command,), "command": (process.command,),
        "etime": (f"{days}{age_s // 3_600 % 24:02}:{age_s // 60 % 60:02}:{age_s % 60:02}", age_s),
        "time": (f"{busy_s // 3_600:02}:{busy_s // 60 % 60:02}:{busy_s % 60:02}", busy_s),
        "start": (start, process.started_s), "stime": (start, process.started_s), "stat": (state,), "s": (state,),
        "lstart": (f"{moment:%a %b} {moment.day:>2} {moment:%H:%M:%S %Y}", process.started_s),
        "pid": (str(process.pid), process.pid), "user": (process.user,), "uid": (process.user,), "tty": ("?",),
        "ppid": ("0" if process.pid == 1 else "1",), "c": (str(int(process.cpu)), process.cpu), "ni": ("0",),
        "pri": ("20",),
    }  # fmt: skip
    if column not in cells:
        raise Refusal(f'error: unknown format specifier "{column[:40]}"')
    return cells[column]


@command("top")
def top(call: Call) -> int:
    if not call.options.has("b"):
        raise Refusal("failed tty get; use 'top -b -n 1'")
    machine, processes = call.machine, list(call.machine.processes)
    busy = min(100.0, sum(process.cpu for process in processes) / machine.spec.cpus)
    mib = {name: f"{size / 1024**2:>8.1f}" for name, size in machine.memory()._asdict().items()}
    told = {
        "summary": summary_line(machine),
        "n": len(processes),
        "n_busy": sum(one.cpu > 50 for one in processes),
    }
    call.print(TABLE["top"]["head"].format(**told, **mib, busy=busy, idle=max(0.0, 99.2 - busy)))
    shown = _sorted(call, processes, f"-{call.options.value('o', '%cpu').lstrip('+-')}")
    last = "command" if call.options.has("c") else "comm"
    _print_table(
        call, shown, ["pid", "user", "pri", "ni", "vsz", "rss", "s", "%cpu", "%mem", "time", last]
    )
    return 0


def _matching(call: Call, options: Options) -> list[Process]:
    users = options.members("u") or options.members("U")
    if not options.operands and not users:
        raise Refusal("no matching criteria specified", 2)
    pattern = options.operands[0] if options.operands else ""
    settings = re2.Options()
    settings.log_errors = False
    settings.case_sensitive = not options.has("i")
    try:
        expression = re2.compile(pattern, settings)
    except re2.error:
        raise Refusal(f"invalid pattern '{pattern[:60]}'", 2) from None
    match = expression.fullmatch if options.has("x") else expression.search
    oldest_first, told = (
        sorted(call.machine.processes, key=lambda one: one.started_s),
        options.has("f"),
    )
    found = [one for one in oldest_first if match(one.command if told else one.name)]
    found = [one for one in found if not users or one.user in users]
    found = found[:1] if options.has("o") else found[-1:] if options.has("n") else found
    return sorted(found, key=lambda process: process.pid)


@command("pgrep")
def pgrep(call: Call) -> int:
    options, found = call.options, _matching(call, call.options)
    form = (
        "{0.pid} {0.command}"
        if options.has("a")
        else "{0.pid} {0.name}"
        if options.has("l")
        else "{0.pid}"
    )
    listed = options.value("d", "\n").join(form.format(process) for process in found) + "\n" * bool(
        found
    )
    return call.print(f"{len(found)}\n" if options.has("c") else listed, 0 if found else 1)


@command("pidof")
def pidof(call: Call) -> int:
    found = [
        p
        for name in call.require_operands()
        for p in call.machine.processes.named(name.rpartition("/")[2])
    ]
    shown = " ".join(
        str(process.pid) for process in (found[:1] if call.options.has("s") else found)
    )
    return call.print(f"{shown}\n" if found else "", int(not found))


@command("kill", "pkill", "killall", raw=True)
def kill(call: Call) -> int:
    if call.args[:1] == ["-l"]:
        return call.print(" 1) SIGHUP\t 2) SIGINT\t 3) SIGQUIT\t 9) SIGKILL\t15) SIGTERM\n")
    words, signal, waiting = list[str](), signal_name("TERM"), list(reversed(call.args))
    while waiting:
        word = waiting.pop()
        if word in ("-s", "--signal") and waiting:
            signal = signal_name(waiting.pop())
        elif word.startswith("--signal=") or (word.startswith("-") and signal_name(word[1:])):
            signal = signal_name(word.removeprefix("--signal=").lstrip("-"))
        else:
            words.append(word)
    if signal is None:
        raise Refusal("invalid signal specification")
    if call.name == "kill":
        if not (words := [word for word in words if word != "--"]):
            raise Refusal(
                "usage: kill [-s sigspec | -sigspec] pid | jobspec ... or kill -l [sigspec]", 2
            )
        for word in words:
            if not word.isdecimal() or len(word) > 9:
                return call.say(
                    f"bash: line 1: kill: {word[:40]}: arguments must be process or job IDs\n"
                )
        return max(
            [_signal(call, int(word), signal, "bash: line 1: kill: ({}) - {}\n") for word in words]
        )
    failure = f"{call.name}: killing pid {{}} failed: {{}}\n"
    if call.name == "pkill":
        options = COMMANDS["pgrep"].parse([word for word in words if word not in ("-e", "--echo")])
        return min(
            [_signal(call, process.pid, signal, failure) for process in _matching(call, options)],
            default=1,
        )
    options, code = COMMANDS["killall"].parse(words), 0
    for name in options.operands or [""]:
        codes = [
            _signal(call, process.pid, signal, failure)
            for process in call.machine.processes.named(name)
        ]
        nothing = "" if codes or options.has("q") else f"killall: {name}: no process found\n"
        code = call.say(nothing, min(codes, default=1))
    return code


def _signal(call: Call, pid: int, signal: str, failure: str) -> int:
    try:
        call.machine.processes.signal(pid, signal)
    except Refusal as refusal:
        return call.say(failure.format(pid, refusal))
    return 0


@command("lsof", raw=True)
def lsof(call: Call) -> int:
    # What follows `-i` may stand apart, or not at all, and `+D` is a folder like any other.
    text = "\n".join(word for word in call.args if word != "+D")
    text = re.sub(r"(?im)^-([tnPl]*)i\n(?=:|tcp|4)", r"-\1i", text)
    words = [
        f"{word}any" if re.fullmatch(r"-[tnPl]*i", word) else word
        for word in text.split("\n")
        if word
    ]
    options = COMMANDS["lsof"].parse(words)
    ports = [
        port for value in options.all("i") for port in re.findall(r"\d+", value.partition(":")[2])
    ]
    operands = [call.resolve(operand) for operand in options.operands]
    rows = [["COMMAND", "PID", "USER", "FD", "TYPE", "SIZE/OFF", "NAME"]]
    for process in call.machine.processes:
        wanted = {"p": str(process.pid), "u": process.user, "c": process.name}
        if any(
            options.has(option) and value not in options.members(option)
            for option, value in wanted.items()
        ):
            continue
        start = [process.name[:9], str(process.pid), process.user]
        for path in [] if options.has("i") else call.machine.open_files(process):
            if not operands or any(
                path == one or path.startswith(f"{one.rstrip('/')}/") for one in operands
            ):
                size = call.files.peek(path).size if call.files.exists(path) else 0
                rows.append([*start, "4u", "REG", str(size), path])
        for port in process.ports if not operands else ():
            if not ports or str(port) in ports:
                rows.append([*start, "5u", "IPv4", "0t0", f"TCP *:{port} (LISTEN)"])
    found = "".join(f"{pid}\n" for pid in dict.fromkeys(row[1] for row in rows[1:]))
    return call.print(
        found if options.has("t") else table(rows, (0, 2, 6)) if found else "", int(not found)
    )


@command("ss")
def ss(call: Call) -> int:
    options = call.options
    wanted = re.search(r"\bs?port\s*=?=?\s*:?(\d+)", " ".join(options.operands))
    if options.operands and wanted is None:
        raise NotSimulated(f"the filter '{' '.join(options.operands)[:60]}' is not supported here")
    rows = [["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Process"]]
    rows += [
        [
            "LISTEN",
            "0",
            "511",
            f"0.0.0.0:{port}",
            "0.0.0.0:*",
            f'users:(("{process.name}",pid={process.pid},fd=5))',
        ]
        for process in call.machine.processes
        for port in process.ports
        if (options.has("t") or not options.has("u")) and (wanted is None or port == int(wanted[1]))
    ]
    rows = rows if options.has("p") else [row[:-1] for row in rows]
    return call.print(table(rows[1:] if options.has("H") else rows, [0, 5], "  "))
