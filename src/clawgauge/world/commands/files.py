"""Commands on files that bashkit leaves words of out of, or that must go by this world's clock, owners and disks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, fill, human, table, unescape
from clawgauge.world.commands.status import format_moment, read_moment
from clawgauge.world.files import DEVICES, Node, blocks_of
from clawgauge.world.refusals import NOT_EMPTY, NOT_FOUND, FileFault

_HALF_YEAR_S = 180 * 86_400
_TIME_STYLES = {
    "long-iso": "%Y-%m-%d %H:%M", "full-iso": "%Y-%m-%d %H:%M:%S.%N +0000", "iso": "%m-%d %H:%M",
}  # fmt: skip
_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_STAT = (
    "  File: %n\n  Size: %s\tBlocks: %b\tIO Block: 4096   %F\nDevice: fe01h/65025d\tInode: %i\tLinks: %h\n"
    "Access: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nAccess: %x\nModify: %y\nChange: %z\n Birth: %w\n"
)

# What find's `-printf` writes, in the letters of stat; and what find cannot know here.
_PRINTF = {
    "p": "%n", "s": "%s", "m": "%a", "M": "%A", "u": "%U", "U": "%u", "g": "%G", "G": "%g", "i": "%i", "b": "%b",
    "n": "%h", "T@": "%Y.0000000000", "%": "%%",
}  # fmt: skip
_FOREIGN = re.compile(
    r"-(fls|fprintf?|fprint0|user|group|no(user|group)|uid|gid|[ac](newer|time|min)|newer[acBm].|samefile|links|inum"
    r"|fstype|used)"
)

# --- looking ---------------------------------------------------------------------------------------------------------


@command("ls")
def ls(call: Call) -> int:
    options, operands = call.options, call.options.operands or ["."]
    plain: list[str] = []
    directories: list[str] = []

    def sort(operand: str) -> None:
        is_listed = call.files.node(call.resolve(operand)).is_directory and not options.has("d")
        (directories if is_listed else plain).append(operand)

    code = 2 * call.each(operands, sort, "cannot access '{}': {}")
    _print_entries(call, {name: call.resolve(name) for name in sorted(plain)}, total=False)
    headed = len(operands) > 1 or options.has("R")
    for index, operand in enumerate(sorted(directories)):
        call.print(f"{chr(10) if index or plain else ''}{operand}:\n" if headed else "")
        code = max(code, _list_directory(call, operand))
    return code


def _list_directory(call: Call, operand: str) -> int:
    options, path, code = call.options, call.resolve(operand), 0
    try:
        names = [name for name in call.files.names(path) if options.has("a", "A") or not name.startswith(".")]
    except FileFault as fault:
        return call.complain(f"cannot open directory '{operand}': {fault}", 2)
    entries = {name: paths.join(path, name) for name in names}
    own = {".": path, "..": paths.dirname(path)} if options.has("a") else {}
    _print_entries(call, own | entries, total=True)
    for name in names if options.has("R") else ():
        if call.files.is_directory(entries[name]):
            shown = f"{operand.rstrip('/')}/{name}"
            call.print(f"\n{shown}:\n")
            code = max(code, _list_directory(call, shown))
    return code


def _print_entries(call: Call, entries: dict[str, str], *, total: bool) -> None:
    options, nodes = call.options, {name: call.files.peek(path) for name, path in entries.items()}
    is_long, all_marks = options.has("l", "n", "g", "o", "full-time"), options.has("F")
    marks = all_marks or options.has("p")
    names = list(nodes)
    if options.has("t", "S"):
        names.sort(key=lambda name: -nodes[name].modified_s if options.has("t") else -nodes[name].size)
    names = names[::-1] if options.has("r") else names
    blocks = sum(blocks_of(node.size) for node in nodes.values())
    if total and is_long:
        call.print(f"total {human(blocks) if options.has('h') else blocks // 1024}\n")
    rows = [_long_cells(call, entries[name], nodes[name]) for name in names] if is_long else [[""]] * len(names)
    left = (0, *range(2, len(rows[0]) - 2), len(rows[0]) - 1) if is_long and rows else ()
    for name, before in zip(names, table(rows, left).splitlines(), strict=True):
        node, inode = nodes[name], f"{_inode(call, entries[name])} " if options.has("i") else ""
        # Whoever marks programs (-F) marks directories too.
        mark = "/" if marks and node.is_directory else "*" if all_marks and node.mode & 0o111 else ""
        call.print(f"{inode}{before}{' ' * bool(before)}{name}{mark}\n")


def _long_cells(call: Call, path: str, node: Node) -> list[str]:
    options, clock = call.options, call.machine.clock
    style = "full-iso" if options.has("full-time") else options.value("time-style")
    form = style[1:] if style.startswith("+") else _TIME_STYLES.get(style, "")
    is_recent = 0 <= clock.now_s - node.modified_s < _HALF_YEAR_S
    time = format_moment(clock.moment(node.modified_s), form or ("%b %e %H:%M" if is_recent else "%b %e  %Y"))
    owners = [*([] if options.has("g") else [node.owner]), *([] if options.has("o") else [node.group])]
    owners = [_user_id(call, owner) if options.has("n") else owner for owner in owners]
    size = human(node.size) if options.has("h") else str(node.size)
    return [node.shown_mode, str(call.files.n_links(path)), *owners, size, time]


def _user_id(call: Call, name: str) -> str:
    return str(call.machine.users().get(name, 1000))


def _inode(call: Call, path: str) -> str:
    return str(call.machine.draw(100_000, 999_999, "inode", path))


@command("stat")
def stat(call: Call) -> int:
    form = f"{call.options.value('c')}\n" if call.options.has("c") else unescape(call.options.value("printf")) or _STAT

    def work(operand: str) -> None:
        path = call.resolve(operand)
        node = call.files.node(path)
        moment = format_moment(call.machine.clock.moment(node.modified_s), "%F %T.%N +0000")
        kind = "directory" if node.is_directory else "regular file" if node.size else "regular empty file"
        values = {
            "s": str(node.size), "b": str(blocks_of(node.size) // 512), "i": _inode(call, path), "%": "%",
            "u": _user_id(call, node.owner), "U": node.owner, "g": _user_id(call, node.group), "G": node.group,
            "n": operand, "N": f"'{operand}'", "a": f"{node.mode:o}", "A": node.shown_mode, "F": kind, "B": "512",
            "h": str(call.files.n_links(path)), "o": "4096", "m": call.machine.disks.disk_of(path).mount,
            **dict.fromkeys("XYZW", str(node.modified_s)), **dict.fromkeys("xyzw", moment),
        }  # fmt: skip
        call.print(fill(r"%([-0]?\d*)(.)", form, values, "directive"))

    return call.each(call.require_operands(), work, "cannot statx '{}': {}")


@command("find", raw=True)
def find(call: Call) -> int:
    """bashkit's find, with what it cannot know of this world put in its own words, and the rest refused by name."""
    words: list[str] = []
    waiting, now = list(reversed(call.args)), call.machine.clock.moment()
    while waiting:
        word = waiting.pop()
        if word == "-newermt" and waiting:
            age_s = (now - read_moment(now, waiting.pop())).total_seconds()
            words += ["-mmin", f"-{max(0, -int(-age_s // 60))}"]
        elif word == "-ls":
            words += ["-exec", "ls", "-dil", "{}", "+"]
        elif word == "-printf" and waiting and re.search(r"%-?\d*[TACtacugUGiDnlb]", waiting[-1]):
            # bashkit knows neither owners nor this world's clock; stat does.
            form = fill(r"%()(T.|.)", waiting.pop(), _PRINTF, "'-printf'")
            words += ["-exec", "stat", f"--printf={form}", "{}", "+"]
        elif _FOREIGN.fullmatch(word):
            raise NotSimulated(f"'{word}' is not supported here")
        else:
            words.append(word)
    return call.shell.pass_on(shlex.join(["find", *words]), call)


@command("du")
def du(call: Call) -> int:
    options, total = call.options, 0
    deepest = 0 if options.has("s") else options.whole("d", 1_000)
    unit = 1 if options.has("b") else 1024**2 if options.has("m") else 1024

    def line(size: int, name: str) -> None:
        call.print(f"{human(size) if options.has('h') else -(-size // unit)}\t{name}\n")

    def work(operand: str) -> None:
        nonlocal total
        top = call.resolve(operand)
        call.files.node(top)
        stem, sizes = len(top.rstrip("/")), dict.fromkeys([top, *call.files.inside(top)], 0)
        for path in sizes:
            node = call.files.peek(path)
            size = node.size if options.has("b", "apparent-size") else blocks_of(node.size)
            for above in {path, *paths.ancestors(path)} & sizes.keys():
                sizes[above] += size
        # Children before their parents, and otherwise in the order of their names.
        for path in sorted(sizes, key=lambda member: [*member[stem:].split("/"), "\U0010ffff"]):
            is_shown = path[stem:].count("/") <= deepest and (options.has("a") or call.files.is_directory(path))
            if path == top or (is_shown and path not in DEVICES):
                line(sizes[path], operand if path == top else operand.rstrip("/") + path[stem:])
        total += sizes[top]

    code = call.each(options.operands or ["."], work, "cannot access '{}': {}")
    if options.has("c"):
        line(total, "total")
    return code


@command("which")
def which(call: Call) -> int:
    known = [name for name in call.require_operands() if call.shell.has_command(name)]
    return call.print("".join(f"/usr/bin/{name}\n" for name in known), int(len(known) < len(call.options.operands)))


# --- changing --------------------------------------------------------------------------------------------------------


@command("rm")
def rm(call: Call) -> int:
    if not call.options.operands and call.options.has("f"):
        return 0
    return max([_remove(call, operand) for operand in call.require_operands()])


def _remove(call: Call, operand: str) -> int:
    options, files, path, code = call.options, call.files, call.resolve(operand), 0
    recursive, is_verbose, by_force = options.has("r", "R"), options.has("v"), options.has("f")
    if path == "/" and recursive and not options.has("no-preserve-root"):
        return call.complain(
            "it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe"
        )
    if operand.rstrip("/").rpartition("/")[2] in (".", ".."):
        return call.complain(f"refusing to remove '.' or '..' directory: skipping '{operand}'")
    try:
        node = files.node(path)
    except FileFault as fault:
        return 0 if str(fault) == NOT_FOUND and by_force else call.complain(f"cannot remove '{operand}': {fault}")
    if node.is_directory and not recursive and not options.has("d"):
        return call.complain(f"cannot remove '{operand}': Is a directory")
    # Nobody is there to say yes, unless the input does.
    if options.has("i", "I") and not call.stdin.lower().startswith("y"):
        return call.say(f"rm: remove {'directory' if node.is_directory else 'regular file'} '{operand}'? ", 0)
    for target in reversed([path, *(files.inside(path) if recursive else [])]):
        shown = operand.rstrip("/") + target[len(path) :] if target != path else operand
        kind = "directory " if files.is_directory(target) else ""
        try:
            files.remove(target)
            call.print(f"removed {kind}'{shown}'\n" if is_verbose else "")
        except FileFault as fault:
            # A directory that keeps something is not a second complaint.
            code = 1 if code and str(fault) == NOT_EMPTY else call.complain(f"cannot remove '{shown}': {fault}")
    return code


def _transfer(call: Call, verb: str, work: Callable[[str, str, str], int]) -> int:
    """For mv and cp: `work` with each source as written, its target as it is to be shown, and the target's path."""
    options, files, code = call.options, call.files, 0
    *sources, last = [*options.operands, *options.all("t")[-1:]] or [""]
    if not sources:
        raise UsageFault(f"missing destination file operand after '{last}'" if last else "missing file operand")
    folder = call.resolve(last)
    into = files.is_directory(folder) and not options.has("T")
    if not into and (len(sources) > 1 or options.has("t") or (last[-1:] == "/" and verb == "copy")):
        problem = "Not a directory" if files.exists(folder) else "No such file or directory"
        raise UsageFault(f"target '{last}': {problem}")
    for source in sources:
        path, shown, target = call.resolve(source), last, folder
        if into:
            name = source.strip("/") if options.has("parents") else paths.basename(path)
            shown, target = paths.join(last.rstrip("/") or "/", name), paths.join(folder, name)
        try:
            files.node(path)
            if path == target:
                raise UsageFault(f"'{source}' and '{shown}' are the same file")
            if target.startswith(paths.prefix_of(path)):
                raise UsageFault(f"cannot {verb} '{source}' into itself, '{shown}'")
            # What `-n`, `-i` or `-u` keep stays as it is: nobody is there to say yes.
            keeps = files.exists(target) and not files.is_directory(target)
            is_newer = keeps and files.node(path).modified_s > files.node(target).modified_s
            if not keeps or not (options.has("n", "i") or (options.has("u") and not is_newer)):
                code = work(source, shown, target) or code
        except FileFault as fault:
            what = f"{verb} '{source}' to '{shown}'" if files.exists(path) else f"stat '{source}'"
            code = call.complain(f"cannot {what}: {fault}")
    return code


@command("mv")
def mv(call: Call) -> int:
    def move(source: str, shown: str, target: str) -> int:
        call.files.move(call.resolve(source), target)
        return call.print(f"renamed '{source}' -> '{shown}'\n" if call.options.has("v") else "")

    return _transfer(call, "move", move)


@command("cp")
def cp(call: Call) -> int:
    options, files = call.options, call.files

    def copy(source: str, shown: str, target: str) -> int:
        path, exact = call.resolve(source), options.has("a", "p")
        if files.is_directory(path) and not options.has("r", "R", "a"):
            return call.complain(f"-r not specified; omitting directory '{source}'")
        if options.has("parents"):
            files.make_directory(paths.dirname(target), parents=True)
        for inner in [path, *files.inside(path)]:
            rest, node = inner[len(path) :], files.peek(inner)
            if node.is_directory:
                files.make_directory(target + rest, parents=True)
            else:
                files.copy(inner, target + rest)
                if exact:
                    files.touch(target + rest, node.modified_s)
                    files.node(target + rest).mode = node.mode
            said = f"'{source.rstrip('/') if rest else source}{rest}' -> '{shown}{rest}'\n"
            call.print(said if options.has("v") else "")
        return 0

    return _transfer(call, "copy", copy)


@command("touch")
def touch(call: Call) -> int:
    options, now = call.options, call.machine.clock.moment()
    at_s = call.files.node(call.resolve(options.value("r"))).modified_s if options.has("r") else None
    if options.has("d"):
        at_s = int(read_moment(now, options.value("d")).timestamp())

    def work(operand: str) -> None:
        if not options.has("c") or call.files.exists(call.resolve(operand)):
            call.files.touch(call.resolve(operand), at_s)

    return call.each(call.require_operands("missing file operand"), work, "cannot touch '{}': {}")


@command("tee")
def tee(call: Call) -> int:
    append = call.options.has("a")
    call.print(call.stdin)
    return call.each(
        call.options.operands, lambda operand: call.files.write(call.resolve(operand), call.stdin, append=append)
    )


@command("mktemp")
def mktemp(call: Call) -> int:
    """Names drawn at random that are the same in every replay."""
    options, machine = call.options, call.machine
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    if "XXX" not in template:
        raise UsageFault(f"too few X's in template '{template}'")
    machine.n_drawn += 1
    number, draw = machine.n_drawn, machine.draw
    drawn = re.sub("X(?=X*$|X+[^X]*$)", lambda found: _LETTERS[draw(0, 55, "mktemp", number, found.start())], template)
    folder = options.value("p") or ("/tmp" if options.has("t") or not options.operands else "")  # noqa: S108 - simulated
    shown = f"{folder.rstrip('/')}/" * bool(folder) + drawn + options.value("suffix")
    if options.has("d"):
        call.files.make_directory(call.resolve(shown), mode=0o700)
    else:
        call.files.write(call.resolve(shown), "", mode=0o600)
    return call.print(f"{shown}\n")


@command("chmod", raw=True)
def chmod(call: Call) -> int:
    """bashkit's, which does not go into directories."""
    words = [arg for arg in call.args if not re.fullmatch(r"-[Rvcf]+|--recursive|--verbose|--changes|--silent|--", arg)]
    recursive = any(re.fullmatch(r"-[vcf]*R[Rvcf]*|--recursive", arg) for arg in call.args)
    if words and words[0].startswith("--"):
        raise NotSimulated(f"option '{words[0][:40]}' is not supported here")
    inside = [path for word in words[1:] for path in call.files.inside(call.resolve(word)) if recursive]
    return call.shell.pass_on(shlex.join(["chmod", *words, *inside]), call)


@command("chown", "chgrp")
def chown(call: Call) -> int:
    if len(call.options.operands) < 2:
        raise UsageFault("missing operand")
    whom, *operands = call.options.operands
    owner, colon, group = whom.partition(":") if call.name == "chown" else ("", "", whom)
    group = group or (owner if colon else "")
    for name in (owner, group):
        if name and name not in call.machine.users():
            raise UsageFault(f"invalid {'user' if call.name == 'chown' else 'group'}: '{whom[:60]}'")

    def work(operand: str) -> None:
        path = call.resolve(operand)
        call.files.node(path)
        for target in [path, *(call.files.inside(path) if call.options.has("R") else [])]:
            call.files.set_owner(target, owner, group)

    what = "ownership" if call.name == "chown" else "group"
    return call.each(operands, work, f"changing {what} of '{{}}': {{}}")
