"""Commands on files that bashkit leaves words of out of, or that must go by this world's clock, owners and disks."""

import posixpath
import re
import shlex

from clawgauge.world.commands.call import (
    TABLE,
    Call,
    NotSimulated,
    command,
    fill,
    human,
    table,
    unescape,
)
from clawgauge.world.commands.status import format_moment, read_moment
from clawgauge.world.disks import blocks_of
from clawgauge.world.effects import (
    IS_A_DIRECTORY,
    NOT_A_DIRECTORY,
    NOT_EMPTY,
    NOT_FOUND,
    FileFault,
    Refusal,
)
from clawgauge.world.files import DEVICES
from clawgauge.world.paths import ancestors, prefix_of

_LONG = ("l", "n", "g", "o", "full-time")
_HALF_YEAR_S = 180 * 86_400
_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
# What find cannot know here.
_FOREIGN = re.compile(TABLE["find"]["foreign"])


@command("ls")
def ls(call: Call) -> int:
    options, operands = call.options, call.options.operands or ["."]
    plain: list[str] = []
    waiting: list[str] = []

    def sort(operand: str, path: str) -> None:
        is_listed = call.files.node(path).is_directory and not options.has("d")
        (waiting if is_listed else plain).append(operand)

    code = 2 * call.each(operands, sort, "cannot access '{}': {}")
    _print_entries(call, {name: call.resolve(name) for name in sorted(plain)})
    headed, gap = len(operands) > 1 or options.has("R"), "\n" if plain else ""
    waiting.sort(reverse=True)
    while waiting:
        operand = waiting.pop()
        path = call.resolve(operand)
        call.print(f"{gap}{operand}:\n" if headed else "")
        gap = "\n"
        try:
            names = [
                name
                for name in call.files.names(path)
                if options.has("a", "A") or not name.startswith(".")
            ]
        except FileFault as fault:
            code = call.complain(f"cannot open directory '{operand}': {fault}", 2)
            continue
        entries = {".": path, "..": posixpath.dirname(path)} if options.has("a") else {}
        entries |= {name: posixpath.join(path, name) for name in names}
        if options.has(*_LONG):
            blocks = sum(blocks_of(call.files.peek(member).size) for member in entries.values())
            call.print(f"total {human(blocks) if options.has('h') else blocks // 1024}\n")
        _print_entries(call, entries)
        if options.has("R"):
            waiting += [
                posixpath.join(operand, name)
                for name in names[::-1]
                if call.files.is_directory(entries[name])
            ]
    return code


def _print_entries(call: Call, entries: dict[str, str]) -> None:
    options, clock, users = call.options, call.machine.clock, call.machine.users()
    nodes = {name: call.files.peek(path) for name, path in entries.items()}
    names, rows = list(nodes), [[""]] * len(nodes)
    if options.has("t", "S"):
        names.sort(
            key=lambda name: -nodes[name].modified_s if options.has("t") else -nodes[name].size
        )
    names = names[::-1] if options.has("r") else names
    style = "full-iso" if options.has("full-time") else options.value("time-style")
    form = style[1:] if style.startswith("+") else TABLE["ls"]["time_styles"].get(style, "")
    for index, name in enumerate(names if options.has(*_LONG) else ()):
        node = nodes[name]
        usual = "%b %e %H:%M" if 0 <= clock.now_s - node.modified_s < _HALF_YEAR_S else "%b %e  %Y"
        size = human(node.size) if options.has("h") else str(node.size)
        owners = [
            owner
            for letter, owner in (("g", node.owner), ("o", node.group))
            if not options.has(letter)
        ]
        owners = [str(users.get(owner, 1000)) if options.has("n") else owner for owner in owners]
        time = format_moment(clock.moment(node.modified_s), form or usual)
        rows[index] = [node.shown_mode, str(call.files.n_links(entries[name])), *owners, size, time]
    left = (0, *range(2, len(rows[0]) - 2), len(rows[0]) - 1) if rows else ()
    for name, before in zip(names, table(rows, left).splitlines(), strict=True):
        node, inode = nodes[name], f"{_inode(call, entries[name])} " if options.has("i") else ""
        # Whoever marks programs (-F) marks directories too.
        mark = "/" if node.is_directory and options.has("F", "p") else ""
        mark = "*" if not node.is_directory and node.mode & 0o111 and options.has("F") else mark
        call.print(f"{inode}{before}{' ' * bool(before)}{name}{mark}\n")


def _inode(call: Call, path: str) -> str:
    return str(call.machine.draw(100_000, 999_999, "inode", path))


@command("stat")
def stat(call: Call) -> int:
    users, form = (
        call.machine.users(),
        unescape(call.options.value("printf")) or TABLE["stat"]["usual"],
    )
    form = f"{call.options.value('c')}\n" if call.options.has("c") else form

    def work(operand: str, path: str) -> None:
        node = call.files.node(path)
        moment = format_moment(
            changed := call.machine.clock.moment(node.modified_s), "%F %T.%N +0000"
        )
        kind = (
            "directory"
            if node.is_directory
            else "regular file"
            if node.size
            else "regular empty file"
        )
        values = {
            "s": str(node.size), "b": str(blocks_of(node.size) // 512), "i": _inode(call, path), "%": "%",
            "u": str(users.get(node.owner, 1000)), "U": node.owner, "g": str(users.get(node.group, 1000)),
            "G": node.group, "n": operand, "N": f"'{operand}'", "a": f"{node.mode:o}", "A": node.shown_mode,
            "F": kind, "B": "512", "h": str(call.files.n_links(path)), "m": call.machine.disks.disk_of(path).mount,
            **dict.fromkeys("XYZW", str(node.modified_s)), **dict.fromkeys("xyzw", moment),
            **{f"T{letter}": format_moment(changed, f"%{letter}") for letter in "YmdeHMFbBajy"},  # of `find -printf`
        }  # fmt: skip
        call.print(fill(r"%([-0]?\d*)(T[A-Za-z]|.)", form, values, "directive"))

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
            form = fill(r"%()(T.|.)", waiting.pop(), TABLE["find"]["printf"], "'-printf'")
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

    def work(operand: str, top: str) -> None:
        nonlocal total
        call.files.node(top)
        stem, sizes = len(top.rstrip("/")), dict.fromkeys([top, *call.files.inside(top)], 0)
        for path in sizes:
            node = call.files.peek(path)
            size = node.size if options.has("b", "apparent-size") else blocks_of(node.size)
            for above in {path, *ancestors(path)} & sizes.keys():
                sizes[above] += size
        # Children before their parents, and otherwise in the order of their names.
        for path in sorted(sizes, key=lambda member: [*member[stem:].split("/"), "\U0010ffff"]):
            is_shown = path[stem:].count("/") <= deepest and (
                options.has("a") or call.files.is_directory(path)
            )
            if path == top or (is_shown and path not in DEVICES):
                line(sizes[path], operand if path == top else operand.rstrip("/") + path[stem:])
        total += sizes[top]

    code = call.each(options.operands or ["."], work, "cannot access '{}': {}")
    if options.has("c"):
        line(total, "total")
    return code


@command("rm")
def rm(call: Call) -> int:
    options, files, recursive = call.options, call.files, call.options.has("r", "R")

    def remove(operand: str, path: str) -> int:
        code = 0
        if path == "/" and recursive and not options.has("no-preserve-root"):
            way_out = "rm: use --no-preserve-root to override this failsafe"
            return call.complain(f"it is dangerous to operate recursively on '/'\n{way_out}")
        if operand.rstrip("/").rpartition("/")[2] in (".", ".."):
            return call.complain(f"refusing to remove '.' or '..' directory: skipping '{operand}'")
        if options.has("f") and not files.exists(path):
            return 0
        if files.node(path).is_directory and not recursive and not options.has("d"):
            raise FileFault(IS_A_DIRECTORY)
        # Nobody is there to say yes, unless the input does.
        if options.has("i", "I") and not call.stdin.lower().startswith("y"):
            return call.say(f"rm: remove '{operand}'? ", 0)
        for target in reversed([path, *(files.inside(path) if recursive else [])]):
            shown = operand.rstrip("/") + target[len(path) :] if target != path else operand
            kind = "directory " if files.is_directory(target) else ""
            try:
                files.remove(target)
                call.print(f"removed {kind}'{shown}'\n" if options.has("v") else "")
            except FileFault as fault:
                # A directory that keeps something is not a second complaint.
                code = (
                    1
                    if code and str(fault) == NOT_EMPTY
                    else call.complain(f"cannot remove '{shown}': {fault}")
                )
        return code

    operands = [] if options.has("f") and not options.operands else call.require_operands()
    return call.each(operands, remove, "cannot remove '{}': {}")


@command("cp", "mv")
def transfer(call: Call) -> int:
    options, files, moves = call.options, call.files, call.name == "mv"
    *sources, last = [*call.require_operands("missing file operand"), *options.all("t")[-1:]]
    if not sources:
        raise Refusal(f"missing destination file operand after '{last}'")
    folder, verb = call.resolve(last), "move" if moves else "copy"
    into = files.is_directory(folder) and not options.has("T")
    if not into and (len(sources) > 1 or options.has("t") or (last.endswith("/") and not moves)):
        raise Refusal(f"target '{last}': {NOT_A_DIRECTORY if files.exists(folder) else NOT_FOUND}")

    def work(source: str, path: str) -> int:
        name = source.strip("/") if options.has("parents") else posixpath.basename(path)
        shown = posixpath.join(last, name) if into else last
        target = call.resolve(shown)
        if files.node(path).is_directory and not moves and not options.has("r", "R", "a"):
            return call.complain(f"-r not specified; omitting directory '{source}'")
        if path == target:
            return call.complain(f"'{source}' and '{shown}' are the same file")
        if target.startswith(prefix_of(path)):
            return call.complain(f"cannot {verb} '{source}' into itself, '{shown}'")
        # What `-n`, `-i` or `-u` keep stays as it is: nobody is there to say yes.
        if files.exists(target) and not files.is_directory(target):
            is_newer = files.node(path).modified_s > files.node(target).modified_s
            if options.has("n", "i") or (options.has("u") and not is_newer):
                return 0
        try:
            if options.has("parents"):
                files.make_directory(posixpath.dirname(target), parents=True)
            for inner in [path, *([] if moves else files.inside(path))]:
                rest, node = inner[len(path) :], files.peek(inner)
                if moves:
                    files.move(inner, target)
                elif node.is_directory:
                    files.make_directory(target + rest, parents=True)
                else:
                    files.copy(inner, target + rest)
                    if options.has("a", "p"):
                        files.touch(target + rest, node.modified_s)
                        files.node(target + rest).mode = node.mode
                said = f"'{source.rstrip('/') if rest else source}{rest}' -> '{shown}{rest}'\n"
                call.print("renamed " * moves + said if options.has("v") else "")
        except FileFault as fault:
            return call.complain(f"cannot {verb} '{source}' to '{shown}': {fault}")
        return 0

    return call.each(sources, work, "cannot stat '{}': {}")


@command("touch")
def touch(call: Call) -> int:
    options, now = call.options, call.machine.clock.moment()
    at_s = (
        call.files.node(call.resolve(options.value("r"))).modified_s if options.has("r") else None
    )
    if options.has("d"):
        at_s = int(read_moment(now, options.value("d")).timestamp())

    def work(_: str, path: str) -> None:
        if not options.has("c") or call.files.exists(path):
            call.files.touch(path, at_s)

    return call.each(call.require_operands("missing file operand"), work, "cannot touch '{}': {}")


@command("tee")
def tee(call: Call) -> int:
    append = call.options.has("a")
    call.print(call.stdin)
    return call.each(
        call.options.operands, lambda _, path: call.files.write(path, call.stdin, append=append)
    )


@command("mktemp")
def mktemp(call: Call) -> int:
    """Names drawn at random that are the same in every replay."""
    options, machine = call.options, call.machine
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    if "XXX" not in template:
        raise Refusal(f"too few X's in template '{template}'")
    machine.n_drawn += 1
    number, draw = machine.n_drawn, machine.draw
    drawn = re.sub(
        "X(?=X*$|X+[^X]*$)",
        lambda found: _LETTERS[draw(0, 55, "mktemp", number, found.start())],
        template,
    )
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
    words = [
        arg
        for arg in call.args
        if not re.fullmatch(r"-[Rvcf]+|--recursive|--verbose|--changes|--silent|--", arg)
    ]
    recursive = any(re.fullmatch(r"-[vcf]*R[Rvcf]*|--recursive", arg) for arg in call.args)
    if words and words[0].startswith("--"):
        raise NotSimulated(f"option '{words[0][:40]}' is not supported here")
    inside = [
        path for word in words[1:] for path in call.files.inside(call.resolve(word)) if recursive
    ]
    return call.shell.pass_on(shlex.join(["chmod", *words, *inside]), call)


@command("chown", "chgrp")
def chown(call: Call) -> int:
    if len(call.options.operands) < 2:
        raise Refusal("missing operand")
    whom, *operands = call.options.operands
    owner, colon, group = whom.partition(":") if call.name == "chown" else ("", "", whom)
    group = group or (owner if colon else "")
    for name in (owner, group):
        if name and name not in call.machine.users():
            raise Refusal(f"invalid {'user' if call.name == 'chown' else 'group'}: '{whom[:60]}'")

    def work(_: str, path: str) -> None:
        call.files.node(path)
        for target in [path, *(call.files.inside(path) if call.options.has("R") else [])]:
            call.files.set_owner(target, owner, group)

    what = "ownership" if call.name == "chown" else "group"
    return call.each(operands, work, f"changing {what} of '{{}}': {{}}")
