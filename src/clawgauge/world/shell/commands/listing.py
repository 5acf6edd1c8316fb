"""Commands that look at files from outside: ls, stat, du, file, realpath, basename, dirname.

Owns: their output, as GNU prints it. Refuses: links and inodes, which this file system has not.
"""

from __future__ import annotations

from clawgauge.world import paths
from clawgauge.world.disks import blocks_of
from clawgauge.world.nodes import Node
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.sizes import human
from clawgauge.world.shell.options import Options, parse_options

_HALF_YEAR_S = 180 * 86_400
_LS_LONG = {"all": "a", "almost-all": "A", "human-readable": "h", "recursive": "R", "reverse": "r", "directory": "d"}


def ls(call: Call) -> int:
    options = parse_options(call.args, "laAhtSrR1dFnogsip", long=_LS_LONG)
    operands = options.operands or ["."]
    plain: list[str] = []
    directories: list[str] = []
    code = 0
    for operand in operands:
        try:
            call.machine.files.node(call.resolve(operand))
        except FileFault as fault:
            code = call.complain(f"cannot access '{operand}': {fault}", 2)
            continue
        is_listed = call.machine.files.is_directory(call.resolve(operand)) and not options.has("d")
        (directories if is_listed else plain).append(operand)
    _print_entries(call, options, [(name, call.resolve(name)) for name in plain], total=False)
    headed = len(operands) > 1 or options.has("R")
    for index, operand in enumerate(directories):
        if headed:
            call.print(f"{chr(10) if index or plain else ''}{operand}:\n")
        code = max(code, _list_directory(call, options, operand))
    return code


def _list_directory(call: Call, options: Options, operand: str) -> int:
    path = call.resolve(operand)
    try:
        names = call.machine.files.names(path)
    except FileFault as fault:
        return call.complain(f"cannot open directory '{operand}': {fault}", 2)
    names = [name for name in names if options.has("a", "A") or not name.startswith(".")]
    entries = [(name, paths.join(path, name)) for name in names]
    if options.has("a"):
        entries = [(".", path), ("..", paths.parent(path)), *entries]
    _print_entries(call, options, entries, total=True)
    code = 0
    if options.has("R"):
        for name, inner in entries:
            if name not in (".", "..") and call.machine.files.is_directory(inner):
                shown = f"{operand.rstrip('/')}/{name}"
                call.print(f"\n{shown}:\n")
                code = max(code, _list_directory(call, options, shown))
    return code


def _print_entries(call: Call, options: Options, entries: list[tuple[str, str]], *, total: bool) -> None:
    nodes = [(name, call.machine.files.node(path)) for name, path in entries]
    if options.has("t"):
        nodes.sort(key=lambda pair: -pair[1].modified_s)
    elif options.has("S"):
        nodes.sort(key=lambda pair: -pair[1].size)
    if options.has("r"):
        nodes.reverse()
    if not options.has("l", "n", "o", "g"):
        marks = options.has("F", "p")
        call.print("".join(f"{name}{'/' if marks and node.is_directory else ''}\n" for name, node in nodes))
        return
    if total:
        blocks = sum(blocks_of(node.size) for _, node in nodes)
        call.print(f"total {human(blocks) if options.has('h') else blocks // 1024}\n")
    sizes = [human(node.size) if options.has("h") else str(node.size) for _, node in nodes]
    width = max(map(len, sizes), default=1)
    for (name, node), size in zip(nodes, sizes, strict=True):
        links = 2 if node.is_directory else 1
        owner = f"{node.owner} {node.owner}"
        call.print(f"{node.shown_mode} {links} {owner} {size:>{width}} {_shown_time(call, node)} {name}\n")


def _shown_time(call: Call, node: Node) -> str:
    moment = call.machine.clock.moment(node.modified_s)
    is_recent = 0 <= call.machine.clock.now_s - node.modified_s < _HALF_YEAR_S
    return f"{moment:%b} {moment.day:>2} " + (f"{moment:%H:%M}" if is_recent else f" {moment:%Y}")


def stat(call: Call) -> int:
    options = parse_options(call.args, "L", "c", {"format": "c"})
    if not options.operands:
        raise UsageFault("missing operand", 1)
    code = 0
    for operand in options.operands:
        try:
            node = call.machine.files.node(call.resolve(operand))
        except FileFault as fault:
            code = call.complain(f"cannot statx '{operand}': {fault}")
            continue
        if "c" in options.values:
            call.print(_formatted(call, options.value("c"), operand, node) + "\n")
            continue
        kind = "directory" if node.is_directory else "regular file"
        moment = call.machine.clock.moment(node.modified_s)
        call.print(
            f"  File: {operand}\n  Size: {node.size}\tBlocks: {blocks_of(node.size) // 512}\t{kind}\n"
            f"Access: ({node.mode:04o}/{node.shown_mode})  Uid: {node.owner}   Gid: {node.owner}\n"
            f"Modify: {moment:%Y-%m-%d %H:%M:%S} +0000\n"
        )
    return code


def _formatted(call: Call, form: str, name: str, node: Node) -> str:
    values = {
        "%n": name, "%s": str(node.size), "%U": node.owner, "%G": node.owner, "%a": f"{node.mode:o}",
        "%A": node.shown_mode, "%Y": str(node.modified_s), "%F": "directory" if node.is_directory else "regular file",
        "%y": f"{call.machine.clock.moment(node.modified_s):%Y-%m-%d %H:%M:%S}.000000000 +0000",
    }  # fmt: skip
    for mark, value in values.items():
        form = form.replace(mark, value)
    return form


def du(call: Call) -> int:
    options = parse_options(
        call.args,
        "shabckmx",
        "d",
        {"summarize": "s", "human-readable": "h", "all": "a", "bytes": "b", "total": "c", "max-depth": "d"},
    )
    deepest = 0 if options.has("s") else options.whole("d", 1_000)
    code = total = 0
    for operand in options.operands or ["."]:
        try:
            total += _measure(call, options, operand, deepest)
        except FileFault as fault:
            code = call.complain(f"cannot access '{operand}': {fault}")
    if options.has("c"):
        call.print(f"{_shown_size(options, total)}\ttotal\n")
    return code


def _measure(call: Call, options: Options, operand: str, deepest: int) -> int:
    """Print the sizes under `operand`, children first, and return the whole."""
    files = call.machine.files
    top = call.resolve(operand)
    files.node(top)
    members = [top, *(files.inside(top) if files.is_directory(top) else [])]
    sizes = dict.fromkeys(members, 0)
    for path in members:
        node = files.node(path) if path == top else files.peek(path)
        size = node.size if options.has("b") else blocks_of(node.size)
        while True:
            sizes[path] += size
            if path == top:
                break
            path = paths.parent(path)
    stem = len(top.rstrip("/"))
    for path in reversed(members):
        depth = path[stem:].count("/")
        if path == top or (depth <= deepest and (options.has("a") or files.is_directory(path))):
            shown = operand if path == top else operand.rstrip("/") + path[stem:]
            call.print(f"{_shown_size(options, sizes[path])}\t{shown}\n")
    return sizes[top]


def _shown_size(options: Options, size: int) -> str:
    if options.has("h"):
        return human(size)
    if options.has("b"):
        return str(size)
    return str(-(-size // (1024**2 if options.has("m") else 1024)))


def file(call: Call) -> int:
    for operand in parse_options(call.args, "b").operands:
        try:
            node = call.machine.files.node(call.resolve(operand))
        except FileFault as fault:
            call.print(f"{operand}: cannot open ({fault})\n")
            continue
        kind = "data" if node.hidden_bytes else "ASCII text" if node.text.isascii() else "UTF-8 Unicode text"
        call.print(f"{operand}: {'directory' if node.is_directory else kind if node.size else 'empty'}\n")
    return 0


def realpath(call: Call) -> int:
    for operand in parse_options(call.args, "efm").operands:
        call.print(f"{call.resolve(operand)}\n")
    return 0


def basename(call: Call) -> int:
    operands = parse_options(call.args, "a", "s").operands
    if not operands:
        raise UsageFault("missing operand", 1)
    name = paths.base(operands[0].rstrip("/") or "/")
    suffix = operands[1] if len(operands) > 1 else ""
    call.print(f"{name.removesuffix(suffix) if name != suffix else name}\n")
    return 0


def dirname(call: Call) -> int:
    for operand in parse_options(call.args).operands:
        call.print(f"{operand.rstrip('/').rpartition('/')[0] or ('/' if operand.startswith('/') else '.')}\n")
    return 0
