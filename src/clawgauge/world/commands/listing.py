"""Commands that look at files: ls, stat, find, du."""

import posixpath
import re
import shlex
from typing import Any

from clawgauge.world.commands.call import TABLE, Call, NotSimulated, command
from clawgauge.world.commands.dates import format_moment, read_moment
from clawgauge.world.commands.layout import fill, human, in_units, table, unescape
from clawgauge.world.disks import blocks_of
from clawgauge.world.effects import FileFault
from clawgauge.world.files import DEVICES, Node
from clawgauge.world.machine import FIRST_USER_ID
from clawgauge.world.paths import ancestors

_LONG_FORMS = ("l", "n", "g", "o", "full-time")
_TIME_STYLES: dict[str, str] = TABLE["ls"]["time_styles"]
_HALF_YEAR_S = 180 * 86_400
_NO_LIMIT = 1_000
_SECTOR_BYTES = 512
# What find cannot know here.
_FOREIGN = re.compile(TABLE["find"]["foreign"])
_NEEDS_STAT = re.compile(r"%-?\d*[TACtacugUGiDnlb]")
_MTIME_LETTERS = "YmdeHMFbBajy"


@command("ls")
def ls(call: Call) -> int:
    options = call.options
    operands = options.operands or ["."]
    files: list[str] = []
    directories: list[str] = []

    def sort(operand: str, path: str) -> None:
        is_directory = call.files.node(path).is_directory
        (directories if is_directory and not options.has("d") else files).append(operand)

    code = 2 * call.each(operands, sort, "cannot access '{}': {}")
    _print_entries(call, {operand: call.resolve(operand) for operand in sorted(files)})
    is_headed = len(operands) > 1 or options.has("R")
    is_first = not files
    waiting = sorted(directories, reverse=True)  # the next is the last
    while waiting:
        directory = waiting.pop()
        header = f"{directory}:\n" if is_headed else ""
        if is_headed and not is_first:
            header = f"\n{header}"
        call.print(header)
        is_first = False
        try:
            inner_directories = _list_directory(call, directory)
        except FileFault as fault:
            code = call.complain(f"cannot open directory '{directory}': {fault}", 2)
            continue
        if options.has("R"):
            waiting += reversed(inner_directories)
    return code


def _list_directory(call: Call, directory: str) -> list[str]:
    """Print what is in a directory, and give the directories among it."""
    options = call.options
    path = call.resolve(directory)
    names = call.files.names(path)
    if not options.has("a", "A"):
        names = [name for name in names if not name.startswith(".")]
    entries: dict[str, str] = {}
    if options.has("a"):
        entries["."] = path
        entries[".."] = posixpath.dirname(path)
    for name in names:
        entries[name] = posixpath.join(path, name)
    if options.has(*_LONG_FORMS):
        n_bytes = sum(blocks_of(call.files.peek(entry).size) for entry in entries.values())
        total = human(n_bytes) if options.has("h") else str(n_bytes // 1024)
        call.print(f"total {total}\n")
    _print_entries(call, entries)
    inner_directories = []
    for name in names:
        if call.files.is_directory(entries[name]):
            inner_directories.append(posixpath.join(directory, name))
    return inner_directories


def _print_entries(call: Call, paths_by_name: dict[str, str]) -> None:
    options = call.options
    nodes = {name: call.files.peek(path) for name, path in paths_by_name.items()}
    names = list(nodes)
    if options.has("t"):
        names.sort(key=lambda name: -nodes[name].modified_s)
    elif options.has("S"):
        names.sort(key=lambda name: -nodes[name].size)
    if options.has("r"):
        names.reverse()
    details = [""] * len(names)
    if options.has(*_LONG_FORMS) and names:
        rows = [_long_row(call, paths_by_name[name], nodes[name]) for name in names]
        last = len(rows[0]) - 1
        # All but the number of links and the size begin at the left.
        left = [0, *range(2, last - 1), last]
        details = [f"{line} " for line in table(rows, left).splitlines()]
    for name, detail in zip(names, details, strict=True):
        inode = f"{_inode(call, paths_by_name[name])} " if options.has("i") else ""
        call.print(f"{inode}{detail}{name}{_type_mark(call, nodes[name])}\n")


def _long_row(call: Call, path: str, node: Node) -> list[str]:
    """Mode, links, owners, size and time of a file."""
    options = call.options
    row = [node.shown_mode, str(call.files.n_links(path))]
    if not options.has("g"):
        row.append(_shown_owner(call, node.owner))
    if not options.has("o"):
        row.append(_shown_owner(call, node.group))
    row.append(human(node.size) if options.has("h") else str(node.size))
    clock = call.machine.clock
    row.append(format_moment(clock.moment(node.modified_s), _time_form(call, node)))
    return row


def _shown_owner(call: Call, owner: str) -> str:
    return _user_number(call, owner) if call.options.has("n") else owner


def _user_number(call: Call, user: str) -> str:
    return str(call.machine.users().get(user, FIRST_USER_ID))


def _time_form(call: Call, node: Node) -> str:
    style = call.options.value("time-style")
    if call.options.has("full-time"):
        style = "full-iso"
    form = style[1:] if style.startswith("+") else _TIME_STYLES.get(style, "")
    if form:
        return form
    is_recent = 0 <= call.machine.clock.now_s - node.modified_s < _HALF_YEAR_S
    return "%b %e %H:%M" if is_recent else "%b %e  %Y"


def _type_mark(call: Call, node: Node) -> str:
    """What -F and -p put behind a name. Whoever marks programs (-F) marks directories too."""
    if node.is_directory:
        return "/" if call.options.has("F", "p") else ""
    is_program = node.mode & 0o111
    return "*" if is_program and call.options.has("F") else ""


def _inode(call: Call, path: str) -> str:
    return str(call.machine.draw(100_000, 999_999, "inode", path))


@command("stat")
def stat(call: Call) -> int:
    options = call.options
    form = unescape(options.value("printf")) or TABLE["stat"]["usual"]
    if options.has("c"):
        form = f"{options.value('c')}\n"

    def work(operand: str, path: str) -> None:
        values = _stat_values(call, operand, path)
        call.print(fill(r"%([-0]?\d*)(T[A-Za-z]|.)", form, values, "directive"))

    return call.each(call.require_operands(), work, "cannot statx '{}': {}")


def _stat_values(call: Call, operand: str, path: str) -> dict[str, str]:
    """What each directive of `stat -c` writes; those in `T…` are of `find -printf`."""
    node = call.files.node(path)
    modified = call.machine.clock.moment(node.modified_s)
    kind = "regular file" if node.size else "regular empty file"
    if node.is_directory:
        kind = "directory"
    values = {
        "%": "%",
        "a": f"{node.mode:o}",
        "A": node.shown_mode,
        "b": str(blocks_of(node.size) // _SECTOR_BYTES),
        "B": str(_SECTOR_BYTES),
        "F": kind,
        "g": _user_number(call, node.group),
        "G": node.group,
        "h": str(call.files.n_links(path)),
        "i": _inode(call, path),
        "m": call.machine.disks.disk_of(path).mount,
        "n": operand,
        "N": f"'{operand}'",
        "s": str(node.size),
        "u": _user_number(call, node.owner),
        "U": node.owner,
    }
    for letter in "XYZW":
        values[letter] = str(node.modified_s)
    for letter in "xyzw":
        values[letter] = format_moment(modified, "%F %T.%N +0000")
    for letter in _MTIME_LETTERS:
        values[f"T{letter}"] = format_moment(modified, f"%{letter}")
    return values


@command("find", raw=True)
def find(call: Call) -> int:
    """bashkit's find: what it cannot know of this machine is put in other words, or refused."""
    words: list[str] = []
    waiting = list(reversed(call.args))  # the next is the last
    while waiting:
        word = waiting.pop()
        if word == "-newermt" and waiting:
            words += ["-mmin", f"-{_minutes_since(call, waiting.pop())}"]
        elif word == "-ls":
            words += ["-exec", "ls", "-dil", "{}", "+"]
        elif word == "-printf" and waiting and _NEEDS_STAT.search(waiting[-1]):
            # bashkit knows neither owners nor this machine's clock; stat does.
            form = fill(r"%()(T.|.)", waiting.pop(), TABLE["find"]["printf"], "'-printf'")
            words += ["-exec", "stat", f"--printf={form}", "{}", "+"]
        elif _FOREIGN.fullmatch(word):
            raise NotSimulated(f"'{word}' is not supported here")
        else:
            words.append(word)
    return call.shell.pass_on(shlex.join(["find", *words]), call)


def _minutes_since(call: Call, written: str) -> int:
    """The minutes since a moment, the last one begun counted in full."""
    now = call.machine.clock.moment()
    age_s = (now - read_moment(now, written)).total_seconds()
    return max(0, -int(-age_s // 60))


@command("du")
def du(call: Call) -> int:
    options = call.options
    max_depth = 0 if options.has("s") else options.whole("d", _NO_LIMIT)
    shows_files = options.has("a")
    total = 0

    def work(operand: str, top: str) -> None:
        nonlocal total
        call.files.node(top)
        sizes = _sizes_below(call, top)
        stem_length = len(top.rstrip("/"))
        for path in _children_first(sizes, stem_length):
            inner = path[stem_length:]
            is_shown = shows_files or call.files.is_directory(path)
            if path == top:
                _print_size(call, sizes[path], operand)
            elif is_shown and inner.count("/") <= max_depth and path not in DEVICES:
                _print_size(call, sizes[path], operand.rstrip("/") + inner)
        total += sizes[top]

    code = call.each(options.operands or ["."], work, "cannot access '{}': {}")
    if options.has("c"):
        _print_size(call, total, "total")
    return code


def _sizes_below(call: Call, top: str) -> dict[str, int]:
    """What each path from `top` on takes, with all that is in it."""
    sizes = dict.fromkeys([top, *call.files.inside(top)], 0)
    for path in sizes:
        node = call.files.peek(path)
        size = blocks_of(node.size)
        if call.options.has("b", "apparent-size"):
            size = node.size
        sizes[path] += size
        for directory in ancestors(path):
            if directory in sizes and directory != path:
                sizes[directory] += size
    return sizes


def _children_first(sizes: dict[str, int], stem_length: int) -> list[str]:
    """Children before their parents, and otherwise in the order of their names."""

    def key(path: str) -> list[str]:
        return [*path[stem_length:].split("/"), "\U0010ffff"]

    return sorted(sizes, key=key)


def _print_size(call: Call, size: int, name: str) -> None:
    options = call.options
    if options.has("h"):
        shown: Any = human(size)
    elif options.has("b"):
        shown = size
    else:
        shown = in_units(size, 1024**2 if options.has("m") else 1024)
    call.print(f"{shown}\t{name}\n")


_KINDS: list[tuple[str, str]] = TABLE["file"]["kinds"]


@command("file")
def file(call: Call) -> int:
    operands = call.require_operands()
    width = 0 if call.options.has("b") else 2 + max(map(len, operands))

    def work(operand: str, path: str) -> None:
        is_directory = call.files.node(path).is_directory
        kind = "directory" if is_directory else _kind_of(call.files.read(path))
        name = f"{operand}:".ljust(width)[:width]
        call.print(f"{name}{kind}\n")

    return call.each(operands, work, "cannot open `{}' ({})")


def _kind_of(text: str) -> str:
    """What a text looks like."""
    if _is_csv(text):
        return "CSV text"
    for pattern, kind in _KINDS:
        if re.match(pattern, text):
            return kind
    raise ValueError("the last kind fits every text")


def _is_csv(text: str) -> bool:
    """Whether all lines, more than one, have as many commas."""
    if text.count("\n") <= 1:
        return False
    n_commas = {line.count(",") for line in text.splitlines()}
    return len(n_commas) == 1 and 0 not in n_commas
