"""Commands that change files: mkdir, rmdir, rm, mv, cp, touch, chmod, chown, truncate, dd, tee, mktemp, ln, install."""

from __future__ import annotations

import re

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, read_size
from clawgauge.world.commands.dates import read_moment
from clawgauge.world.refusals import NOT_EMPTY, NOT_FOUND, FileFault

_SYMBOLIC = re.compile(r"([ugoa]*)((?:[+=-][rwxXst]*|[+=-][ugo])+)")


@command("mkdir", flags="pv", valued="m", long="parents:p verbose:v mode:m=")
def mkdir(call: Call) -> int:
    options = call.options

    def make(operand: str) -> None:
        path = call.resolve(operand)
        missing = [path]
        while options.has("p") and not call.files.exists(paths.parent(missing[-1])):
            missing.append(paths.parent(missing[-1]))
        mode = read_mode(options.value("m", "0755"), 0o755)
        is_new = not call.files.exists(path)
        call.files.make_directory(path, parents=options.has("p"), mode=mode)
        if options.has("v") and is_new:
            for made in reversed(missing):
                shown = operand if made == path else made
                call.print(f"mkdir: created directory '{shown}'\n")

    return call.each(call.require_operands(), make, "cannot create directory '{}': {}")


@command("rmdir", flags="pv", long="parents:p verbose:v ignore-fail-on-non-empty")
def rmdir(call: Call) -> int:
    options = call.options

    def remove(operand: str) -> None:
        path = call.resolve(operand)
        if not call.files.node(path).is_directory:
            raise FileFault("Not a directory")
        try:
            call.files.remove(path)
        except FileFault as fault:
            if not (options.has("ignore-fail-on-non-empty") and str(fault) == NOT_EMPTY):
                raise
            return
        if options.has("v"):
            call.print(f"rmdir: removing directory, '{operand}'\n")
        above = operand.rstrip("/").rpartition("/")[0]
        if options.has("p") and above:
            remove(above)

    return call.each(call.require_operands(), remove, "failed to remove '{}': {}")


@command(
    "rm", "unlink", flags="rRfvdiI", long="recursive:r force:f verbose:v dir:d no-preserve-root interactive:i",
    idle_words="one-file-system preserve-root",
)  # fmt: skip
def rm(call: Call) -> int:
    if not call.options.operands and call.options.has("f"):
        return 0
    return max([_remove(call, operand) for operand in call.require_operands()])


def _remove(call: Call, operand: str) -> int:
    options, files = call.options, call.files
    path = call.resolve(operand)
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
        call.say(f"rm: remove {'directory' if node.is_directory else 'regular file'} '{operand}'? ")
        return 0
    code = 0
    for target in reversed([path, *(files.inside(path) if node.is_directory and recursive else [])]):
        shown = operand.rstrip("/") + target[len(path) :] if target != path else operand
        is_directory = files.is_directory(target)
        try:
            files.remove(target)
        except FileFault as fault:
            # A directory that keeps something is not a second complaint.
            is_known = str(fault) == NOT_EMPTY and code
            code = 1 if is_known else call.complain(f"cannot remove '{shown}': {fault}")
            continue
        if is_verbose:
            call.print(f"removed {'directory ' if is_directory else ''}'{shown}'\n")
    return code


def _targets(call: Call) -> list[tuple[str, str, str]]:
    """For mv and cp: each source as written, the target as it is to be shown, and the target's path."""
    options = call.options
    operands = options.operands
    if options.has("t"):
        operands = [*operands, options.value("t")]
    if len(operands) < 2:
        problem = f"missing destination file operand after '{operands[0]}'" if operands else "missing file operand"
        raise UsageFault(problem)
    *sources, last = operands
    target = call.resolve(last)
    into = call.files.is_directory(target) and not options.has("T")
    if options.has("t") and not into:
        raise UsageFault(f"target directory '{last}': No such file or directory")
    if not into and (len(sources) > 1 or last.endswith("/")) and not call.files.is_directory(call.resolve(sources[0])):
        problem = "Not a directory" if call.files.exists(target) else "No such file or directory"
        raise UsageFault(f"target '{last}': {problem}")
    pairs = []
    for source in sources:
        name = paths.base(call.resolve(source)) if into else ""
        if into and call.name == "cp" and options.has("parents"):
            name = source.strip("/")
        shown = paths.join(last.rstrip("/") or "/", name) if into else last
        pairs.append((source, shown, paths.join(target, name) if into else target))
    return pairs


def _is_skipped(call: Call, source: str, target: str) -> bool:
    """Whether `-n`, `-i` or `-u` keep what is there; `-b` puts it aside first."""
    files = call.files
    keep, update, backup = call.options.has("n", "i"), call.options.has("u"), call.options.has("b", "S")
    if not files.exists(target) or files.is_directory(target):
        return False
    if keep or (update and files.node(source).modified_s <= files.node(target).modified_s):
        return True
    if backup:
        files.copy(target, target + call.options.value("S", "~"))
    return False


@command(
    "mv", flags="nivuTb", valued="tS", long="interactive:i force:f no-clobber:n verbose:v update:u "
    "target-directory:t= no-target-directory:T backup:b suffix:S=", idle="f",
)  # fmt: skip
def mv(call: Call) -> int:
    code = 0
    verbose = call.options.has("v")
    for source, shown, target in _targets(call):
        path = call.resolve(source)
        try:
            call.files.node(path)
            if path == target:
                raise UsageFault(f"'{source}' and '{shown}' are the same file")
            if target.startswith(paths.prefix_of(path)):
                raise UsageFault(f"cannot move '{source}' to a subdirectory of itself, '{shown}'")
            if _is_skipped(call, path, target):
                continue
            call.files.move(path, target)
        except FileFault as fault:
            missing = str(fault) == NOT_FOUND and not call.files.exists(path)
            code = call.complain(
                f"cannot {f'stat {source!r}' if missing else f'move {source!r} to {shown!r}'}: {fault}"
            )
            continue
        if verbose:
            call.print(f"renamed '{source}' -> '{shown}'\n")
    return code


@command(
    "cp", flags="rRapnivuTbd", valued="tS",
    long="interactive:i recursive:r archive:a force:f no-clobber:n verbose:v update:u "
    "target-directory:t= parents preserve:p no-target-directory:T backup:b suffix:S=", idle="fLPH",
)  # fmt: skip
def cp(call: Call) -> int:
    code = 0
    for source, shown, target in _targets(call):
        path = call.resolve(source)
        try:
            if call.options.has("parents"):
                call.files.make_directory(paths.parent(target), parents=True)
            if not _is_skipped(call, path, target):
                code = _copy(call, source, shown, target) or code
        except FileFault as fault:
            missing = not call.files.exists(path)
            place = f"cannot stat '{source}'" if missing else f"cannot create regular file '{shown}'"
            code = call.complain(f"{place}: {fault}")
    return code


def _copy(call: Call, source: str, shown: str, target: str) -> int:
    options, files = call.options, call.files
    path = call.resolve(source)
    verbose = options.has("v")
    if not files.node(path).is_directory:
        if path == target:
            return call.complain(f"'{source}' and '{shown}' are the same file")
        _copy_one(call, path, target)
        if verbose:
            call.print(f"'{source}' -> '{shown}'\n")
        return 0
    if not options.has("r", "R", "a"):
        return call.complain(f"-r not specified; omitting directory '{source}'")
    if target == path or target.startswith(paths.prefix_of(path)):
        return call.complain(f"cannot copy a directory, '{source}', into itself, '{shown}'")
    for inner in [path, *files.inside(path)]:
        rest = inner[len(path) :]
        if files.peek(inner).is_directory:
            files.make_directory(target + rest, parents=True)
        else:
            _copy_one(call, inner, target + rest)
        if verbose:
            call.print(f"'{source.rstrip('/')}{rest}' -> '{shown}{rest}'\n")
    return 0


def _copy_one(call: Call, path: str, target: str) -> None:
    call.files.copy(path, target)
    if call.options.has("a", "p", "d") and call.options.has("a", "p"):
        original = call.files.node(path)
        call.files.touch(target, original.modified_s)
        call.files.node(target).mode = original.mode


@command("touch", flags="c", valued="dtr", long="no-create:c date:d= reference:r= time=", idle="ahm", idle_words="time")
def touch(call: Call) -> int:
    options = call.options
    at_s = None
    if options.has("d"):
        at_s = int(read_moment(call.machine.clock.moment(), options.value("d")).timestamp())
    elif options.has("r"):
        at_s = call.files.node(call.resolve(options.value("r"))).modified_s
    elif options.has("t"):
        at_s = _stamp(call, options.value("t"))

    def work(operand: str) -> None:
        if call.files.exists(call.resolve(operand)) or not options.has("c"):
            call.files.touch(call.resolve(operand), at_s)

    return call.each(call.require_operands("missing file operand"), work, "cannot touch '{}': {}")


def _stamp(call: Call, text: str) -> int:
    """`[[CC]YY]MMDDhhmm[.ss]`"""
    found = re.fullmatch(r"(\d{2}|\d{4})?(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d\d))?", text)
    if found is None:
        raise UsageFault(f"invalid date format '{text[:40]}'")
    year = found[1] or str(call.machine.clock.moment().year)
    year = year if len(year) == 4 else f"20{year}"
    written = f"{year}-{found[2]}-{found[3]} {found[4]}:{found[5]}:{found[6] or '00'}"
    return int(read_moment(call.machine.clock.moment(), written).timestamp())


@command("truncate", flags="c", valued="sr", long="size:s= no-create:c reference:r=")
def truncate(call: Call) -> int:
    options = call.options
    if options.has("r"):
        size = str(call.files.node(call.resolve(options.value("r"))).size)
    elif options.has("s"):
        size = options.value("s")
    else:
        raise UsageFault("you must specify either '--size' or '--reference'")

    def work(operand: str) -> None:
        path = call.resolve(operand)
        if not call.files.exists(path) and options.has("c"):
            return
        before = call.files.node(path).size if call.files.exists(path) else 0
        change = {"+": 1, "-": -1}.get(size[:1], 0)
        wanted = max(0, before + change * read_size(size[1:])) if change else read_size(size)
        text = call.files.text_of(path) or ""
        kept = text.encode()[:wanted].decode("utf-8", "ignore")
        call.files.write(path, kept, hidden_bytes=wanted - len(kept.encode()))

    return call.each(call.require_operands("missing file operand"), work, "cannot open '{}' for writing: {}")


@command("fallocate", valued="l", long="length:l=")
def fallocate(call: Call) -> int:
    if not call.options.has("l"):
        raise UsageFault("no length argument specified")
    size = read_size(call.options.value("l"))
    return call.each(
        call.require_operands("no filename specified"),
        lambda operand: call.files.write(call.resolve(operand), "", hidden_bytes=size),
        "cannot open {}: {}",
    )


@command("dd", raw=True)
def dd(call: Call) -> int:
    words = dict(arg.partition("=")[::2] for arg in call.args)
    for word in words:
        if word not in ("if", "of", "bs", "count", "status", "conv", "oflag", "iflag"):
            raise NotSimulated(f"operand '{word[:40]}' is not supported here")
    block = read_size(words.get("bs", "512"))
    count = int(words["count"]) if words.get("count", "").isdecimal() else None
    source = words.get("if", "")
    try:
        text = call.read_operand(source or "-")
        is_zero = source in ("/dev/zero", "/dev/full")
        if count is None and source.startswith("/dev/") and source != "/dev/null":
            raise NotSimulated("without 'count' it would never end")
        hidden = 0 if is_zero or not source else call.files.node(call.resolve(source)).hidden_bytes
        total = (
            block * count if is_zero and count is not None else len(text.encode("utf-8", "surrogateescape")) + hidden
        )
        total = total if count is None else min(total, block * count)
        if "of" in words:
            kept = "" if is_zero else text[:total]
            call.files.write(call.resolve(words["of"]), kept, hidden_bytes=total - len(kept.encode()) if is_zero else 0)
        else:
            call.print(text[:total])
    except FileFault as fault:
        return call.complain(f"failed to open '{words.get('of', source)}': {fault}")
    if words.get("status") != "none":
        full, rest = divmod(total, block)
        records = f"{full}+{int(rest > 0)}"
        call.say(f"{records} records in\n{records} records out\n{total} bytes copied, 0.01 s\n")
    return 0


@command("tee", flags="a", long="append:a ignore-interrupts:i", idle="ip")
def tee(call: Call) -> int:
    append = call.options.has("a")
    call.print(call.stdin)
    return call.each(
        call.options.operands, lambda operand: call.files.write(call.resolve(operand), call.stdin, append=append)
    )


@command("mktemp", flags="dut", valued="p", long="directory:d dry-run:u tmpdir:p= suffix= quiet:q", idle="q")
def mktemp(call: Call) -> int:
    options = call.options
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    if "XXX" not in template:
        raise UsageFault(f"too few X's in template '{template}'")
    folder = options.value("p") or ("/tmp" if options.has("t") or not options.operands else "")  # noqa: S108 - simulated
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    number = call.machine.count_name()
    seen = call.machine.incidentals
    drawn = re.sub(
        "X",
        lambda found: letters[seen.between(0, 55, "mktemp", number, found.start())],
        template[template.index("XXX") :],
    )
    shown = template[: template.index("XXX")] + drawn + options.value("suffix")
    shown = f"{folder.rstrip('/')}/{shown}" if folder else shown
    path = call.resolve(shown)
    try:
        if not options.has("u"):
            if options.has("d"):
                call.files.make_directory(path, mode=0o700)
            else:
                call.files.write(path, "")
                call.files.node(path).mode = 0o600
    except FileFault as fault:
        return call.complain(f"failed to create file via template '{template}': {fault}")
    call.print(f"{shown}\n")
    return 0


@command("ln", "link", long="symbolic:s force:f no-dereference:n verbose:v relative:r", idle="Tfnrsv")
def ln(call: Call) -> int:
    raise NotSimulated("links are not supported on this file system")


@command("chmod", raw=True)
def chmod(call: Call) -> int:
    words = [arg for arg in call.args if not re.fullmatch(r"-[Rvcf]+|--recursive|--verbose|--changes|--silent", arg)]
    recursive = any(re.fullmatch(r"-[vcf]*R[Rvcf]*|--recursive", arg) for arg in call.args)
    if words[:1] == ["--"]:
        words.pop(0)
    if words and words[0].startswith("--"):
        raise NotSimulated(f"option '{words[0][:40]}' is not supported here")
    if len(words) < 2:
        raise UsageFault(f"missing operand after '{words[0]}'" if words else "missing operand")

    def work(operand: str) -> None:
        path = call.resolve(operand)
        call.files.node(path)
        for target in [path, *(call.files.inside(path) if recursive else [])]:
            node = call.files.node(target)
            call.files.set_mode(target, read_mode(words[0], node.mode, is_directory=node.is_directory))

    code = 0
    for operand in words[1:]:
        missing = not call.files.exists(call.resolve(operand))
        complaint = "cannot access '{}': {}" if missing else "changing permissions of '{}': {}"
        code = call.each([operand], work, complaint) or code
    return code


def read_mode(text: str, mode: int, *, is_directory: bool = False) -> int:
    """An octal or symbolic mode, applied to `mode`."""
    if re.fullmatch(r"[0-7]{1,4}", text):
        return int(text, 8)
    for clause in text.split(","):
        found = _SYMBOLIC.fullmatch(clause)
        if found is None:
            raise UsageFault(f"invalid mode: '{text[:40]}'")
        whom = set("ugo") if not found[1] or "a" in found[1] else set(found[1])
        for sign, letters in re.findall(r"([+=-])([rwxXstugo]*)", found[2]):
            mode = _apply(mode, whom, sign, letters, is_directory)
    return mode


def _apply(mode: int, whom: set[str], sign: str, letters: str, is_directory: bool) -> int:
    shifts = {"u": 6, "g": 3, "o": 0}
    bits = 0
    for letter in letters:
        if letter in shifts:
            bits |= mode >> shifts[letter] & 7
        elif letter == "X":
            bits |= 1 if is_directory or mode & 0o111 else 0
        else:
            bits |= {"r": 4, "w": 2, "x": 1}.get(letter, 0)
    special = (0o4000 if "s" in letters and "u" in whom else 0) | (0o2000 if "s" in letters and "g" in whom else 0)
    special |= 0o1000 if "t" in letters else 0
    for who in whom:
        if sign == "=":
            mode &= ~(7 << shifts[who])
        mode = mode & ~(bits << shifts[who]) if sign == "-" else mode | bits << shifts[who]
    return mode & ~special if sign == "-" else mode | special


@command("chown", "chgrp", flags="Rv", long="recursive:R verbose:v", idle="chf")
def chown(call: Call) -> int:
    if len(call.options.operands) < 2:
        raise UsageFault("missing operand")
    whom, *operands = call.options.operands
    owner, _, group = whom.partition(":")
    if call.name == "chgrp":
        owner, group = "", whom
    elif whom.endswith(":"):
        group = owner
    known = call.machine.users()
    for name in (owner, group):
        if name and name not in known and not name.isdecimal():
            raise UsageFault(f"invalid {'group' if call.name == 'chgrp' else 'user'}: '{whom[:60]}'")
    recursive, verbose = call.options.has("R"), call.options.has("v")

    def work(operand: str) -> None:
        path = call.resolve(operand)
        call.files.node(path)
        for target in [path, *(call.files.inside(path) if recursive else [])]:
            call.files.set_owner(target, owner, group)
            if verbose:
                call.print(f"changed ownership of '{operand}{target[len(path) :]}' to {whom}\n")

    what = "group" if call.name == "chgrp" else "ownership"
    return call.each(operands, work, f"changing {what} of '{{}}': {{}}")
