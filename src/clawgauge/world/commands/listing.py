"""Commands that look at files from outside: ls, stat, du, file, which, find's own words, namei."""

from __future__ import annotations

import re
import shlex

from clawgauge.world import paths
from clawgauge.world.commands.call import COMMANDS, Call, NotSimulated, command, human, table
from clawgauge.world.commands.dates import format_moment, read_moment
from clawgauge.world.files import DEVICES, Node, blocks_of
from clawgauge.world.refusals import FileFault

_HALF_YEAR_S = 180 * 86_400
_TIME_STYLES = {
    "long-iso": "%Y-%m-%d %H:%M", "full-iso": "%Y-%m-%d %H:%M:%S.%N +0000", "iso": "%m-%d %H:%M",
}  # fmt: skip


@command(
    "ls", flags="laAhtSrRdFnogspiUXBvcuCxmQm", valued="I",
    long="all:a almost-all:A human-readable:h recursive:R reverse:r directory:d classify:F full-time size:s inode:i "
    "group-directories-first sort= time-style= time= ignore:I= numeric-uid-gid:n no-group:o file-type:p color:G si:h",
    idle="G1LNbk", idle_words="color hyperlink quoting-style time",
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
    options, path = call.options, call.resolve(operand)
    try:
        names = call.files.names(path)
    except FileFault as fault:
        return call.complain(f"cannot open directory '{operand}': {fault}", 2)
    hides = [re.compile(_glob(pattern)) for pattern in options.all("I")]
    show_all, almost, backups = options.has("a"), options.has("A"), options.has("B")
    names = [
        name
        for name in names
        if (show_all or almost or not name.startswith("."))
        and not (backups and name.endswith("~"))
        and not any(pattern.fullmatch(name) for pattern in hides)
    ]
    entries = [(name, paths.join(path, name)) for name in names]
    if show_all:
        entries = [(".", path), ("..", paths.parent(path)), *entries]
    _print_entries(call, entries, total=True)
    code = 0
    if options.has("R"):
        for name, inner in entries:
            if name not in (".", "..") and call.files.is_directory(inner):
                shown = f"{operand.rstrip('/')}/{name}"
                call.print(f"\n{shown}:\n")
                code = max(code, _list_directory(call, shown))
    return code


def _glob(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _print_entries(call: Call, entries: list[tuple[str, str]], *, total: bool) -> None:
    options = call.options
    nodes = [(name, path, call.files.peek(path)) for name, path in entries]
    _sort(call, nodes)
    quote = options.has("Q")
    shown = [f'"{name}"' if quote else name for name, _, _ in nodes]
    shown = [f"{name}{_mark(call, node)}" for name, (_, _, node) in zip(shown, nodes, strict=True)]
    prefixes = ["" for _ in nodes]
    if options.has("i"):
        prefixes = [f"{call.machine.incidentals.between(100_000, 999_999, 'inode', name)} " for name, _, _ in nodes]
    if options.has("s"):
        blocks = [_size(call, blocks_of(node.size) if node.size else 0, 1024) for _, _, node in nodes]
        width = max(map(len, blocks), default=1)
        prefixes = [f"{prefix}{block:>{width}} " for prefix, block in zip(prefixes, blocks, strict=True)]
    if total and (options.has("s") or _is_long(call)):
        call.print(f"total {_size(call, sum(blocks_of(node.size) for _, _, node in nodes), 1024)}\n")
    if _is_long(call):
        shown = _long_lines(call, nodes, shown)
    elif options.has("m"):
        call.print(", ".join(shown) + "\n" if shown else "")
        return
    elif options.has("C", "x") and shown:
        call.print("  ".join(shown) + "\n")
        return
    call.print("".join(f"{prefix}{line}\n" for prefix, line in zip(prefixes, shown, strict=True)))


def _is_long(call: Call) -> bool:
    return call.options.has("l", "n", "o", "g", "full-time")


def _sort(call: Call, nodes: list[tuple[str, str, Node]]) -> None:
    options = call.options
    kind = options.value("sort") or ("time" if options.has("t", "c", "u") and options.has("t") else "")
    kind = kind or (
        "size" if options.has("S") else "extension" if options.has("X") else "none" if options.has("U") else ""
    )
    if kind == "time":
        nodes.sort(key=lambda pair: (-pair[2].modified_s, pair[0]))
    elif kind == "size":
        nodes.sort(key=lambda pair: (-pair[2].size, pair[0]))
    elif kind == "extension":
        nodes.sort(key=lambda pair: (pair[0].rpartition(".")[2] if "." in pair[0] else "", pair[0]))
    elif kind == "version" or (options.has("v") and not kind):
        nodes.sort(key=lambda pair: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", pair[0])])
    elif kind not in ("", "none", "name"):
        raise NotSimulated(f"'--sort={kind[:20]}' is not supported here", 2)
    if options.has("r"):
        nodes.reverse()
    if options.has("group-directories-first"):
        nodes.sort(key=lambda pair: not pair[2].is_directory)


def _mark(call: Call, node: Node) -> str:
    if node.is_directory:
        return "/" if call.options.has("F", "p") else ""
    return "*" if call.options.has("F") and node.mode & 0o111 else ""


def _size(call: Call, size: int, unit: int = 1) -> str:
    options = call.options
    return human(size) if options.has("h") else str(-(-size // unit))


def _long_lines(call: Call, nodes: list[tuple[str, str, Node]], shown: list[str]) -> list[str]:
    options = call.options
    as_numbers, no_owner, no_group = options.has("n"), options.has("g"), options.has("o")
    rows = []
    for _, path, node in nodes:
        owners = [] if no_owner else [_user_id(node.owner) if as_numbers else node.owner]
        owners += [] if no_group else [_user_id(node.group) if as_numbers else node.group]
        rows.append(
            [node.shown_mode, str(call.files.n_links(path)), *owners, _size(call, node.size), _shown_time(call, node)]
        )
    if not rows:
        return []
    left = (0, *range(2, len(rows[0]) - 2), len(rows[0]) - 1)
    lines = table(rows, left).splitlines()
    return [f"{line} {name}" for line, name in zip(lines, shown, strict=True)]


def _user_id(name: str) -> str:
    return {"root": "0", "www-data": "33", "postgres": "105"}.get(name, "1000")


def _shown_time(call: Call, node: Node) -> str:
    moment = call.machine.clock.moment(node.modified_s)
    style = "full-iso" if call.options.has("full-time") else call.options.value("time-style")
    if style.startswith("+"):
        return format_moment(moment, style[1:])
    if style in _TIME_STYLES:
        return format_moment(moment, _TIME_STYLES[style])
    is_recent = 0 <= call.machine.clock.now_s - node.modified_s < _HALF_YEAR_S
    return format_moment(moment, "%b %e %H:%M" if is_recent else "%b %e  %Y")


@command("stat", flags="ft", valued="c", long="format:c= printf= dereference:L terse:t file-system:f", idle="L")
def stat(call: Call) -> int:
    options = call.options
    if options.has("f", "t"):
        raise NotSimulated("options '-f' and '-t' are not supported here")

    def work(operand: str) -> None:
        node = call.files.node(call.resolve(operand))
        if options.has("c"):
            call.print(_filled(call, options.value("c"), operand, node) + "\n")
        elif options.has("printf"):
            escaped = options.value("printf").replace("\\n", "\n").replace("\\t", "\t")
            call.print(_filled(call, escaped, operand, node))
        else:
            call.print(_filled(call, _STAT, operand, node))

    return call.each(call.require_operands(), work, "cannot statx '{}': {}")


_STAT = (
    "  File: %n\n  Size: %s\tBlocks: %b\tIO Block: 4096   %F\nDevice: fe01h/65025d\tInode: %i\tLinks: %h\n"
    "Access: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nAccess: %x\nModify: %y\nChange: %z\n Birth: %w\n"
)


def _filled(call: Call, form: str, name: str, node: Node) -> str:
    path = call.resolve(name)
    moment = format_moment(call.machine.clock.moment(node.modified_s), "%F %T.%N +0000")
    kind = "directory" if node.is_directory else "regular file" if node.size else "regular empty file"
    values = {
        "n": name, "N": f"'{name}'", "s": str(node.size), "U": node.owner, "G": node.group, "u": _user_id(node.owner),
        "g": _user_id(node.group), "a": f"{node.mode:o}", "A": node.shown_mode, "F": kind,
        "h": str(call.files.n_links(path)), "b": str(blocks_of(node.size) // 512), "B": "512",
        "o": "4096",
        "i": str(call.machine.incidentals.between(100_000, 999_999, "inode", path)),
        "m": call.machine.disks.disk_of(path).mount,
        **dict.fromkeys("XYZW", str(node.modified_s)), **dict.fromkeys("xyzw", moment), "%": "%", "d": "65025",
        "D": "fe01",
        "f": f"{(0o040000 if node.is_directory else 0o100000) | node.mode:x}",
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        if found[2] not in values:
            raise NotSimulated(f"directive '%{found[2]}' is not supported here")
        text = values[found[2]]
        width = int(found[1].lstrip("-0") or 0) if found[1] else 0
        return (
            text.rjust(width, "0")
            if found[1].startswith("0")
            else text.ljust(width)
            if found[1].startswith("-")
            else text.rjust(width)
        )

    return re.sub(r"%([-0]?\d*)(.)", fill, form, flags=re.DOTALL)


@command(
    "du", flags="shabcmS0", valued="dtB",
    long="summarize:s human-readable:h all:a bytes:b total:c max-depth:d= apparent-size one-file-system:x exclude= "
    "threshold:t= block-size:B= separate-dirs:S null:0 time", idle="lLkx",
)  # fmt: skip
def du(call: Call) -> int:
    options = call.options
    if options.has("S", "0", "t", "time"):
        raise NotSimulated("options '-S', '-0', '-t' and '--time' are not supported here")
    deepest = 0 if options.has("s") else options.whole("d", 1_000)
    total = 0

    def work(operand: str) -> None:
        nonlocal total
        total += _measure(call, operand, deepest)

    code = call.each(options.operands or ["."], work, "cannot access '{}': {}")
    if options.has("c"):
        call.print(f"{_shown_size(call, total)}\ttotal\n")
    return code


def _measure(call: Call, operand: str, deepest: int) -> int:
    """Print the sizes under `operand`, children first, and return the whole."""
    options, files, top = call.options, call.files, call.resolve(operand)
    apparent = options.has("b", "apparent-size")
    hides = [re.compile(_glob(pattern)) for pattern in options.all("exclude")]
    files.node(top)
    members = [
        path
        for path in [top, *(files.inside(top) if files.is_directory(top) else [])]
        if path not in DEVICES and not any(hide.fullmatch(paths.base(path)) for hide in hides)
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
    stem = len(top.rstrip("/"))
    show_files = options.has("a")
    # Children before their parents, and otherwise in the order of their names.
    for path in sorted(members, key=lambda member: [*member[stem:].split("/"), "\U0010ffff"]):
        depth = path[stem:].count("/") if path != top else 0
        if path == top or (depth <= deepest and (show_files or files.is_directory(path))):
            shown = operand if path == top else operand.rstrip("/") + path[stem:]
            call.print(f"{_shown_size(call, sizes[path])}\t{shown}\n")
    return sizes[top]


def _shown_size(call: Call, size: int) -> str:
    options = call.options
    if options.has("h"):
        return human(size)
    unit = {"M": 1024**2, "G": 1024**3, "1": 1, "K": 1024}.get(options.value("B", "K")[:1].upper(), 1024)
    return str(-(-size // (1 if options.has("b") else 1024**2 if options.has("m") else unit)))


@command("file", flags="bi", long="brief:b mime:i mime-type:i", idle="L")
def file(call: Call) -> int:
    brief, mime = call.options.has("b"), call.options.has("i")
    for operand in call.require_operands():
        try:
            node = call.files.node(call.resolve(operand))
            kind = "inode/directory" if mime and node.is_directory else "text/plain" if mime else _kind(node)
        except FileFault as fault:
            kind = f"cannot open `{operand}' ({fault})"
        call.print(kind + "\n" if brief else f"{operand}: {kind}\n")
    return 0


def _kind(node: Node) -> str:
    text = node.text
    if node.is_directory:
        return "directory"
    if not node.size:
        return "empty"
    if text.startswith("\x1f\udc8b"):
        return "gzip compressed data"
    if node.hidden_bytes or "\0" in text or any("\udc80" <= char <= "\udcff" for char in text):
        return "data"
    found = re.match(r"#!\s*/\S*?/(?:env )?(\w+)", text)
    encoding = "ASCII" if text.isascii() else "Unicode text, UTF-8"
    if found:
        names = {"sh": "POSIX shell script", "bash": "Bourne-Again shell script", "python3": "Python script"}
        return f"{names.get(found[1], found[1] + ' script')}, {encoding} text executable"
    if re.match(r"\s*[\[{]", text) and re.search(r"[\]}]\s*$", text):
        return "JSON text data"
    ends = (
        ", with CRLF line terminators" if "\r\n" in text else ", with no line terminators" if "\n" not in text else ""
    )
    return f"{encoding} text{ends}"


@command("which", idle="sa")
def which(call: Call) -> int:
    code = 0
    for name in call.require_operands():
        if (name in COMMANDS and call.shell.has_command(name)) or call.shell.has_command(name):
            call.print(f"/usr/bin/{name}\n")
        else:
            code = 1
    return code


@command("find", raw=True)
def find(call: Call) -> int:
    """bashkit's find, with what it cannot know of this world put in its own words, and the rest refused by name."""
    words, owner, form = _translated(call)
    result = call.shell.run_native(shlex.join(["find", *words]), call)
    call.say(result.errors)
    if owner is None and form is None:
        call.print(result.text)
        return result.code
    for shown in result.text.splitlines():
        path = call.resolve(shown)
        if not call.files.exists(path) or (owner is not None and (call.files.peek(path).owner == owner[0]) == owner[1]):
            continue
        call.print(f"{shown}\n" if form is None else _written(call, form, shown))
    return result.code


_NOT_OURS = (
    "-fprint",
    "-fprintf",
    "-group",
    "-nouser",
    "-nogroup",
    "-anewer",
    "-samefile",
    "-links",
    "-inum",
    "-fstype",
)
_ACTIONS = ("-exec", "-execdir", "-delete", "-o", "-or", "-ok", "-print0", "-printf", "-quit")
_FIND_LS = "%i %8b %M %n %u %g %s %Tb %Te %TH:%TM %p\\n"


def _translated(call: Call) -> tuple[list[str], tuple[str, bool] | None, str | None]:
    """The words for bashkit's find, the owner to look for (or to leave out), and what to write of each file."""
    words: list[str] = []
    owner: tuple[str, bool] | None = None
    form: str | None = None
    waiting = list(reversed(call.args))
    now = call.machine.clock.moment()
    while waiting:
        word = waiting.pop()
        if word in ("-newermt", "-newerct", "-newerat") and waiting:
            age_s = (now - read_moment(now, waiting.pop())).total_seconds()
            words += ["-mmin", f"-{max(0, -int(-age_s // 60))}"]
        elif word == "-user" and waiting:
            owner = (waiting.pop(), words[-1:] in (["!"], ["-not"]))
            words = words[:-1] if owner[1] else words
        elif word == "-ls" or (word == "-printf" and waiting and re.search(r"%-?\d*[TACtacugUGiDnlb]", waiting[-1])):
            form = _FIND_LS if word == "-ls" else waiting.pop()
            if waiting:
                raise NotSimulated(f"'{word}' is supported only as the last word here")
        elif word in _NOT_OURS:
            raise NotSimulated(f"'{word}' is not supported here")
        else:
            words.append(word)
    if (owner is not None or form is not None) and any(word in _ACTIONS for word in words):
        raise NotSimulated("'-user', '-ls' and '-printf' together with other actions or '-o' are not supported here")
    return words, owner, form


def _written(call: Call, form: str, shown: str) -> str:
    """One file as `-printf` writes it."""
    path = call.resolve(shown)
    node = call.files.peek(path)
    moment = call.machine.clock.moment(node.modified_s)
    values = {
        "p": shown, "f": paths.base(path), "h": shown.rpartition("/")[0] or ".", "s": str(node.size),
        "m": f"{node.mode:o}",
        "M": node.shown_mode, "u": node.owner, "g": node.group, "U": _user_id(node.owner), "G": _user_id(node.group),
        "y": "d" if node.is_directory else "f", "n": str(call.files.n_links(path)),
        "b": str(blocks_of(node.size) // 512),
        "k": str(blocks_of(node.size) // 1024), "i": str(call.machine.incidentals.between(100_000, 999_999, "inode",
        path)),
        "%": "%", **dict.fromkeys("tac", format_moment(moment, "%a %b %e %H:%M:%S.0000000000 %Y")),
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        width, letter = int(found[1] or 0), found[2]
        if letter in "TAC" and found[3]:
            times = {"@": f"{node.modified_s}.0000000000", "+": format_moment(moment, "%F+%T.0000000000")}
            text = times.get(found[3]) or format_moment(moment, f"%{found[3]}")
        elif letter in values:
            return values[letter].ljust(-width) + found[3] if width < 0 else values[letter].rjust(width) + found[3]
        else:
            raise NotSimulated(f"'-printf %{letter}' is not supported here")
        return text.rjust(width)

    written = re.sub(r"%(-?\d*)([A-Za-z%])((?<=[TAC])[@+A-Za-z]|)", fill, form)
    return written.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")
