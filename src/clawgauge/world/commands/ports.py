"""Commands on what processes have open and listen on: lsof, ss."""

import re
from collections.abc import Iterator

from clawgauge.world.commands.call import COMMANDS, Call, NotSimulated, Options, command
from clawgauge.world.commands.layout import table
from clawgauge.world.paths import prefix_of
from clawgauge.world.processes import Process

_MAX_NAME_CHARS = 9
_PORT_FILTER = re.compile(r"\bs?port\s*=?=?\s*:?(\d+)")


@command("lsof", raw=True)
def lsof(call: Call) -> int:
    options = COMMANDS["lsof"].parse(_joined_args(call.args))
    rows = [["COMMAND", "PID", "USER", "FD", "TYPE", "SIZE/OFF", "NAME"]]
    for process in call.machine.processes:
        if _is_selected(process, options):
            rows += _open_rows(call, process, options)
    pids = list(dict.fromkeys(row[1] for row in rows[1:]))
    code = 0 if pids else 1
    if options.has("t"):
        return call.print("".join(f"{pid}\n" for pid in pids), code)
    return call.print(table(rows, (0, 2, 6)) if pids else "", code)


def _joined_args(args: list[str]) -> list[str]:
    """The arguments of lsof as getopt reads them.

    What follows `-i` may stand apart, or not at all, and `+D` is a folder like any other.
    """
    text = "\n".join(word for word in args if word != "+D")
    text = re.sub(r"(?im)^-([tnPl]*)i\n(?=:|tcp|4)", r"-\1i", text)
    joined = []
    for word in text.split("\n"):
        if re.fullmatch(r"-[tnPl]*i", word):
            joined.append(f"{word}any")
        elif word:
            joined.append(word)
    return joined


def _is_selected(process: Process, options: Options) -> bool:
    """Whether a process is of the pids, users and names that are given."""
    if options.has("p") and str(process.pid) not in options.members("p"):
        return False
    if options.has("u") and process.user not in options.members("u"):
        return False
    return not options.has("c") or process.name in options.members("c")


def _open_rows(call: Call, process: Process, options: Options) -> Iterator[list[str]]:
    """A row for each file and port of a process that is asked for."""
    start = [process.name[:_MAX_NAME_CHARS], str(process.pid), process.user]
    folders = [call.resolve(operand) for operand in options.operands]
    if not options.has("i"):
        for path in call.machine.open_files(process):
            if folders and not _is_in_any(path, folders):
                continue
            size = call.files.peek(path).size if call.files.exists(path) else 0
            yield [*start, "4u", "REG", str(size), path]
    if folders:
        return
    ports: list[str] = []
    for value in options.all("i"):
        ports += re.findall(r"\d+", value.partition(":")[2])
    for port in process.ports:
        if not ports or str(port) in ports:
            yield [*start, "5u", "IPv4", "0t0", f"TCP *:{port} (LISTEN)"]


def _is_in_any(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(prefix_of(folder)) for folder in folders)


@command("ss")
def ss(call: Call) -> int:
    options = call.options
    port_filter = _PORT_FILTER.search(" ".join(options.operands))
    if options.operands and port_filter is None:
        raise NotSimulated(f"the filter '{' '.join(options.operands)[:60]}' is not supported here")
    rows = [["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Process"]]
    shows_tcp = options.has("t") or not options.has("u")
    for process in call.machine.processes:
        for port in process.ports:
            if not shows_tcp or (port_filter is not None and port != int(port_filter[1])):
                continue
            user = f'users:(("{process.name}",pid={process.pid},fd=5))'
            rows.append(["LISTEN", "0", "511", f"0.0.0.0:{port}", "0.0.0.0:*", user])
    if not options.has("p"):
        rows = [row[:-1] for row in rows]
    if options.has("H"):
        rows = rows[1:]
    return call.print(table(rows, [0, 5], "  "))
