"""Commands that look at files from outside: ls, stat, du, which, and find's own words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, command, human, table
from clawgauge.world.commands.status import format_moment, read_moment
from clawgauge.world.files import DEVICES, Node, blocks_of
from clawgauge.world.paths import matches_glob
from clawgauge.world.refusals import FileFault

_HALF_YEAR_S = 180 * 86_400
_TIME_STYLES = {
    "long-iso": "%Y-%m-%d %H:%M", "full-iso": "%Y-%m-%d %H:%M:%S.%N +0000", "iso": "%m-%d %H:%M",
}  # fmt: skip
_Entry = tuple[str, str, Node]


@command(
    "ls", flags="laAhtSrRdFnogspiUXBvCxmQ", valued="I",
    long="all:a almost-all:A human-readable:h recursive:R reverse:r directory:d classify:F full-time size:s inode:i "
    "group-directories-first sort= time-style= ignore:I= numeric-uid-gid:n no-group:o file-type:p color:G si:h",
    idle="G1LNbk", idle_words="color hyperlink quoting-style",
)  # fmt: skip
def ls(call: Call) -> int:
    options = call.options
    operands = options.operands or ["."]
    plain: list[str] = []
    directories: list[str] = []
    code = 0
    for operand in operands:
        try:
            node = call.files.node(call.resolve(operand))
        except FileFault as fault:
            code = call.complain(f"cannot access '{operand}': {fault}", 2)
            continue
        (directories if node.is_directory and not options.has("d") else plain).append(operand)
    _print_entries(call, [(name, call.resolve(name)) for name in sorted(plain)], total=False)
    headed = len(operands) > 1 or options.has("R")
    for index, operand in enumerate(sorted(directories)):
        if headed:
            call.print(f"{chr(10) if index or plain else ''}{operand}:\n")
        code = max(code, _list_directory(call, operand))
    return code


def _list_directory(call: Call, operand: str) -> int:
    options, path, code = call.options, call.resolve(operand), 0
    try:
        names = call.files.names(path)
    except FileFault as fault:
        return call.complain(f"cannot open directory '{operand}': {fault}", 2)
    hidden = [*options.all("I"), *(["*~"] if options.has("B") else [])]
    hidden += [] if options.has("a", "A") else [".*"]
    names = [name for name in names if not any(matches_glob(pattern, name) for pattern in hidden)]
    entries = [(name, paths.join(path, name)) for name in names]
    own = [(".", path), ("..", paths.parent(path))] if options.has("a") else []
    _print_entries(call, [*own, *entries], total=True)
    for name, inner in entries if options.has("R") else ():
        if call.files.is_directory(inner):
            shown = f"{operand.rstrip('/')}/{name}"
            call.print(f"\n{shown}:\n")
            code = max(code, _list_directory(call, shown))
    return code


def _print_entries(call: Call, entries: list[tuple[str, str]], *, total: bool) -> None:
    options = call.options
    nodes = _sorted(call, [(name, path, call.files.peek(path)) for name, path in entries])
    quote, marks_all, marks = '"' if options.has("Q") else "", options.has("F"), options.has("F", "p")
    is_long = options.has("l", "n", "o", "g", "full-time")
    shown, prefixes = [], [""] * len(nodes)
    for name, _, node in nodes:
        # Whoever marks programs (-F) marks directories too.
        mark = "/" if marks and node.is_directory else "*" if marks_all and node.mode & 0o111 else ""
        shown.append(f"{quote}{name}{quote}{mark}")
    if options.has("i"):
        prefixes = [f"{_inode(call, path)} " for _, path, _ in nodes]
    if options.has("s"):
        blocks = [_size(call, blocks_of(node.size), 1024) for _, _, node in nodes]
        width = max(map(len, blocks), default=1)
        prefixes = [f"{prefix}{block:>{width}} " for prefix, block in zip(prefixes, blocks, strict=True)]
    if total and (options.has("s") or is_long):
        call.print(f"total {_size(call, sum(blocks_of(node.size) for _, _, node in nodes), 1024)}\n")
    if is_long:
        shown = _long_lines(call, nodes, shown)
    elif options.has("m", "C", "x") and shown:
        shown, prefixes = [(", " if options.has("m") else "  ").join(shown)], [""]
    call.print("".join(f"{prefix}{line}\n" for prefix, line in zip(prefixes, shown, strict=True)))


def _sorted(call: Call, nodes: list[_Entry]) -> list[_Entry]:
    options = call.options
    letters = {"t": "time", "S": "size", "X": "extension", "v": "version", "U": "none"}
    kind = options.value("sort") or next((letters[letter] for letter in letters if options.has(letter)), "name")
    keys: dict[str, Callable[[_Entry], Any]] = {
        "time": lambda entry: (-entry[2].modified_s, entry[0]),
        "size": lambda entry: (-entry[2].size, entry[0]),
        "extension": lambda entry: (entry[0].rpartition(".")[2] if "." in entry[0] else "", entry[0]),
        "version": lambda entry: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", entry[0])],
        "none": lambda entry: 0,
        "name": lambda entry: 0,
    }
    if kind not in keys:
        raise NotSimulated(f"'--sort={kind[:20]}' is not supported here", 2)
    nodes.sort(key=keys[kind])
    if options.has("r"):
        nodes.reverse()
    if options.has("group-directories-first"):
        nodes.sort(key=lambda entry: not entry[2].is_directory)
    return nodes


def _size(call: Call, size: int, unit: int = 1) -> str:
    return human(size) if call.options.has("h") else str(-(-size // unit))


def _long_lines(call: Call, nodes: list[_Entry], shown: list[str]) -> list[str]:
    options, clock = call.options, call.machine.clock
    ids = _user_ids(call) if options.has("n") else {}
    no_owner, no_group = options.has("g"), options.has("o")
    style = "full-iso" if options.has("full-time") else options.value("time-style")
    form = style[1:] if style.startswith("+") else _TIME_STYLES.get(style, "")
    rows = []
    for _, path, node in nodes:
        owners = [*([] if no_owner else [node.owner]), *([] if no_group else [node.group])]
        owners = [ids.get(name, name) for name in owners]
        is_recent = 0 <= clock.now_s - node.modified_s < _HALF_YEAR_S
        time = format_moment(clock.moment(node.modified_s), form or ("%b %e %H:%M" if is_recent else "%b %e  %Y"))
        rows.append([node.shown_mode, str(call.files.n_links(path)), *owners, _size(call, node.size), time])
    left = (0, *range(2, len(rows[0]) - 2), len(rows[0]) - 1) if rows else ()
    return [f"{line} {name}" for line, name in zip(table(rows, left).splitlines(), shown, strict=True)]


def _user_ids(call: Call) -> dict[str, str]:
    return {name: str(number) for name, number in call.machine.users().items()}


def _inode(call: Call, path: str) -> str:
    return str(call.machine.incidentals.between(100_000, 999_999, "inode", path))


@command("stat", valued="c", long="format:c= printf= dereference:L", idle="L")
def stat(call: Call) -> int:
    escaped = call.options.value("printf").replace("\\n", "\n").replace("\\t", "\t")
    form = f"{call.options.value('c')}\n" if call.options.has("c") else escaped or _STAT

    def work(operand: str) -> None:
        path = call.resolve(operand)
        node = call.files.node(path)
        moment = format_moment(call.machine.clock.moment(node.modified_s), "%F %T.%N +0000")
        kind = "directory" if node.is_directory else "regular file" if node.size else "regular empty file"
        values = _facts(call, path, node) | {
            "n": operand, "N": f"'{operand}'", "a": f"{node.mode:o}", "A": node.shown_mode, "F": kind, "B": "512",
            "h": str(call.files.n_links(path)), "o": "4096", "m": call.machine.disks.disk_of(path).mount, "d": "65025",
            "D": "fe01", "f": f"{(0o040000 if node.is_directory else 0o100000) | node.mode:x}",
            "U": node.owner, "u": _user_ids(call).get(node.owner, "1000"), "G": node.group,
            "g": _user_ids(call).get(node.group, "1000"),
            **dict.fromkeys("XYZW", str(node.modified_s)), **dict.fromkeys("xyzw", moment),
        }  # fmt: skip

        def fill(found: re.Match[str]) -> str:
            if found[2] not in values:
                raise NotSimulated(f"directive '%{found[2]}' is not supported here")
            return _padded(values[found[2]], found[1])

        call.print(re.sub(r"%([-0]?\d*)(.)", fill, form, flags=re.DOTALL))

    return call.each(call.require_operands(), work, "cannot statx '{}': {}")


_STAT = (
    "  File: %n\n  Size: %s\tBlocks: %b\tIO Block: 4096   %F\nDevice: fe01h/65025d\tInode: %i\tLinks: %h\n"
    "Access: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nAccess: %x\nModify: %y\nChange: %z\n Birth: %w\n"
)


def _padded(text: str, width: str) -> str:
    """`text` in the width of a directive: `10`, `-10`, `04`."""
    n_chars = int(width.lstrip("-0") or 0)
    return text.ljust(n_chars) if width.startswith("-") else text.rjust(n_chars, "0" if width[:1] == "0" else " ")


def _facts(call: Call, path: str, node: Node) -> dict[str, str]:
    """What stat and find write of a file under the same letters."""
    return {"s": str(node.size), "b": str(blocks_of(node.size) // 512), "i": _inode(call, path), "%": "%"}


@command(
    "du", flags="shabcm", valued="dB",
    long="summarize:s human-readable:h all:a bytes:b total:c max-depth:d= apparent-size one-file-system:x exclude= "
    "block-size:B=", idle="lLkx",
)  # fmt: skip
def du(call: Call) -> int:
    options, total = call.options, 0
    deepest = 0 if options.has("s") else options.whole("d", 1_000)
    unit = {"M": 1024**2, "G": 1024**3, "1": 1}.get(options.value("B")[:1].upper(), 1024)
    unit = 1 if options.has("b") else 1024**2 if options.has("m") else unit

    def line(size: int, name: str) -> None:
        call.print(f"{human(size) if options.has('h') else -(-size // unit)}\t{name}\n")

    def work(operand: str) -> None:
        nonlocal total
        top = call.resolve(operand)
        stem = len(top.rstrip("/"))
        sizes = _sizes(call, top)
        # Children before their parents, and otherwise in the order of their names.
        for path in sorted(sizes, key=lambda member: [*member[stem:].split("/"), "\U0010ffff"]):
            is_shown = path[stem:].count("/") <= deepest and (options.has("a") or call.files.is_directory(path))
            if path == top or is_shown:
                line(sizes[path], operand if path == top else operand.rstrip("/") + path[stem:])
        total += sizes[top]

    code = call.each(options.operands or ["."], work, "cannot access '{}': {}")
    if options.has("c"):
        line(total, "total")
    return code


def _sizes(call: Call, top: str) -> dict[str, int]:
    """How much each path from `top` on takes, with all that is in it."""
    files, apparent, hidden = call.files, call.options.has("b", "apparent-size"), call.options.all("exclude")
    files.node(top)
    members = [
        path
        for path in [top, *files.inside(top)]
        if path not in DEVICES and not any(matches_glob(pattern, paths.base(path)) for pattern in hidden)
    ]
    sizes = dict.fromkeys(members, 0)
    for path in members:
        node = files.peek(path)
        size = node.size if apparent else blocks_of(node.size)
        while path in sizes:
            sizes[path] += size
            if path == top:
                break
            path = paths.parent(path)
    return sizes


@command("which", idle="sa")
def which(call: Call) -> int:
    known = [name for name in call.require_operands() if call.shell.has_command(name)]
    return call.print("".join(f"/usr/bin/{name}\n" for name in known), int(len(known) < len(call.options.operands)))


_NOT_OURS = frozenset({
    "-fprint", "-fprintf", "-group", "-nouser", "-nogroup", "-anewer", "-samefile", "-links", "-inum", "-fstype",
})  # fmt: skip
_ACTIONS = frozenset({"-exec", "-execdir", "-delete", "-o", "-or", "-ok", "-print0", "-printf", "-quit"})


@command("find", raw=True)
def find(call: Call) -> int:
    """bashkit's find, with what it cannot know of this world put in its own words, and the rest refused by name."""
    words: list[str] = []
    owner: tuple[str, bool] | None = None
    form: str | None = None
    waiting, now = list(reversed(call.args)), call.machine.clock.moment()
    while waiting:
        word = waiting.pop()
        if word in ("-newermt", "-newerct", "-newerat") and waiting:
            age_s = (now - read_moment(now, waiting.pop())).total_seconds()
            words += ["-mmin", f"-{max(0, -int(-age_s // 60))}"]
        elif word == "-user" and waiting:
            owner = (waiting.pop(), words[-1:] in (["!"], ["-not"]))
            words = words[:-1] if owner[1] else words
        elif word == "-ls" or (word == "-printf" and waiting and re.search(r"%-?\d*[TACtacugUGiDnlb]", waiting[-1])):
            form = "%i %8b %M %n %u %g %s %Tb %Te %TH:%TM %p\\n" if word == "-ls" else waiting.pop()
            if waiting:
                raise NotSimulated(f"'{word}' is supported only as the last word here")
        elif word in _NOT_OURS:
            raise NotSimulated(f"'{word}' is not supported here")
        else:
            words.append(word)
    if (owner is not None or form is not None) and not _ACTIONS.isdisjoint(words):
        raise NotSimulated("'-user', '-ls' and '-printf' together with other actions or '-o' are not supported here")
    result = call.shell.run_native(shlex.join(["find", *words]), call)
    call.say(result.errors)
    if owner is None and form is None:
        return call.print(result.text, result.code)
    for shown in result.text.splitlines():
        path = call.resolve(shown)
        if call.files.exists(path) and (owner is None or (call.files.peek(path).owner == owner[0]) != owner[1]):
            call.print(f"{shown}\n" if form is None else _written(call, form, shown))
    return result.code


def _written(call: Call, form: str, shown: str) -> str:
    """One file as `-printf` writes it."""
    path = call.resolve(shown)
    node = call.files.peek(path)
    moment = call.machine.clock.moment(node.modified_s)
    values = _facts(call, path, node) | {
        "p": shown, "f": paths.base(path), "h": shown.rpartition("/")[0] or ".", "m": f"{node.mode:o}",
        "M": node.shown_mode, "y": "d" if node.is_directory else "f", "n": str(call.files.n_links(path)),
        "k": str(blocks_of(node.size) // 1024), "u": node.owner, "U": _user_ids(call).get(node.owner, "1000"),
        "g": node.group, "G": _user_ids(call).get(node.group, "1000"),
        **dict.fromkeys("tac", format_moment(moment, "%a %b %e %H:%M:%S.0000000000 %Y")),
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        letter, part = found[2], found[3]
        if part:
            times = {"@": f"{node.modified_s}.0000000000", "+": format_moment(moment, "%F+%T.0000000000")}
            return _padded(times.get(part) or format_moment(moment, f"%{part}"), found[1])
        if letter not in values:
            raise NotSimulated(f"'-printf %{letter}' is not supported here")
        return _padded(values[letter], found[1])

    written = re.sub(r"%(-?\d*)([A-Za-z%])((?<=[TAC])[@+A-Za-z]|)", fill, form)
    return written.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")
