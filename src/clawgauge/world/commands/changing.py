"""Commands that change files: mkdir, rm, mv, cp, touch, chmod, chown, truncate, fallocate, dd, tee, mktemp."""

from __future__ import annotations

import re
import shlex

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, read_size
from clawgauge.world.commands.status import read_moment
from clawgauge.world.files import to_bytes
from clawgauge.world.refusals import NOT_EMPTY, NOT_FOUND, FileFault

_STAMP = re.compile(r"(\d{2}|\d{4})?(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d\d))?")  # [[CC]YY]MMDDhhmm[.ss]
_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@command("mkdir", flags="pv", valued="m", long="parents:p verbose:v mode:m=")
def mkdir(call: Call) -> int:
    options = call.options
    if not re.fullmatch("[0-7]{1,4}", options.value("m", "755")):
        raise NotSimulated(f"the mode '{options.value('m')[:40]}' is not supported here; give it as a number")

    def make(operand: str) -> None:
        path = call.resolve(operand)
        parents = options.has("p")
        above = [one for one in paths.ancestors(path) if parents and not call.files.exists(one)]
        made = [*above, operand] if options.has("v") and not call.files.exists(path) else []
        call.files.make_directory(path, parents=parents, mode=int(options.value("m", "755"), 8))
        call.print("".join(f"mkdir: created directory '{one}'\n" for one in made))

    return call.each(call.require_operands(), make, "cannot create directory '{}': {}")


@command(
    "rm", "unlink", flags="rRfvdiI", long="recursive:r force:f verbose:v dir:d no-preserve-root interactive:i",
    idle_words="one-file-system preserve-root",
)  # fmt: skip
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
    for target in reversed([path, *(files.inside(path) if node.is_directory and recursive else [])]):
        shown = operand.rstrip("/") + target[len(path) :] if target != path else operand
        kind = "directory " if files.is_directory(target) else ""
        try:
            files.remove(target)
            call.print(f"removed {kind}'{shown}'\n" if is_verbose else "")
        except FileFault as fault:
            # A directory that keeps something is not a second complaint.
            code = 1 if code and str(fault) == NOT_EMPTY else call.complain(f"cannot remove '{shown}': {fault}")
    return code


def _targets(call: Call) -> list[tuple[str, str, str]]:
    """For mv and cp: each source as written, the target as it is to be shown, and the target's path."""
    options = call.options
    operands = [*options.operands, *options.all("t")[-1:]]
    if len(operands) < 2:
        raise UsageFault(
            f"missing destination file operand after '{operands[0]}'" if operands else "missing file operand"
        )
    *sources, last = operands
    target = call.resolve(last)
    into = call.files.is_directory(target) and not options.has("T")
    if options.has("t") and not into:
        raise UsageFault(f"target directory '{last}': No such file or directory")
    if not into and (len(sources) > 1 or last.endswith("/")) and not call.files.is_directory(call.resolve(sources[0])):
        problem = "Not a directory" if call.files.exists(target) else "No such file or directory"
        raise UsageFault(f"target '{last}': {problem}")
    if not into:
        return [(source, last, target) for source in sources]
    with_parents = call.name == "cp" and options.has("parents")
    names = [source.strip("/") if with_parents else paths.base(call.resolve(source)) for source in sources]
    stem = last.rstrip("/") or "/"
    return [(s, paths.join(stem, name), paths.join(target, name)) for s, name in zip(sources, names, strict=True)]


def _is_skipped(call: Call, source: str, target: str) -> bool:
    """Whether `-n`, `-i` or `-u` keep what is there; `-b` puts it aside first."""
    files, options = call.files, call.options
    keep, update, backup = options.has("n", "i"), options.has("u"), options.has("b", "S")
    if not files.exists(target) or files.is_directory(target):
        return False
    if keep or (update and files.node(source).modified_s <= files.node(target).modified_s):
        return True
    if backup:
        files.copy(target, target + options.value("S", "~"))
    return False


@command(
    "mv", flags="nivuTb", valued="tS", long="interactive:i force:f no-clobber:n verbose:v update:u "
    "target-directory:t= no-target-directory:T backup:b suffix:S=", idle="f",
)  # fmt: skip
def mv(call: Call) -> int:
    code, verbose = 0, call.options.has("v")
    for source, shown, target in _targets(call):
        path = call.resolve(source)
        try:
            call.files.node(path)
            if path == target:
                raise UsageFault(f"'{source}' and '{shown}' are the same file")
            if target.startswith(paths.prefix_of(path)):
                raise UsageFault(f"cannot move '{source}' to a subdirectory of itself, '{shown}'")
            if not _is_skipped(call, path, target):
                call.files.move(path, target)
                call.print(f"renamed '{source}' -> '{shown}'\n" if verbose else "")
        except FileFault as fault:
            missing = str(fault) == NOT_FOUND and not call.files.exists(path)
            what = f"stat '{source}'" if missing else f"move '{source}' to '{shown}'"
            code = call.complain(f"cannot {what}: {fault}")
    return code


@command(
    "cp", flags="rRapnivuTb", valued="tS",
    long="interactive:i recursive:r archive:a force:f no-clobber:n verbose:v update:u "
    "target-directory:t= parents preserve:p no-target-directory:T backup:b suffix:S=", idle="fLPHd",
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
    options, files, path = call.options, call.files, call.resolve(source)
    verbose, recursive, exact = options.has("v"), options.has("r", "R", "a"), options.has("a", "p")
    is_directory = files.node(path).is_directory
    if path == target and not is_directory:
        return call.complain(f"'{source}' and '{shown}' are the same file")
    if is_directory and not recursive:
        return call.complain(f"-r not specified; omitting directory '{source}'")
    if is_directory and (target == path or target.startswith(paths.prefix_of(path))):
        return call.complain(f"cannot copy a directory, '{source}', into itself, '{shown}'")
    for inner in [path, *files.inside(path)]:
        rest, node = inner[len(path) :], files.peek(inner)
        if node.is_directory:
            files.make_directory(target + rest, parents=True)
        else:
            files.copy(inner, target + rest)
            if exact:
                files.touch(target + rest, node.modified_s)
                files.node(target + rest).mode = node.mode
        call.print(f"'{source.rstrip('/') if rest else source}{rest}' -> '{shown}{rest}'\n" if verbose else "")
    return 0


@command("touch", flags="c", valued="dtr", long="no-create:c date:d= reference:r= time=", idle="ahm", idle_words="time")
def touch(call: Call) -> int:
    options, now = call.options, call.machine.clock.moment()
    at_s = call.files.node(call.resolve(options.value("r"))).modified_s if options.has("r") else None
    written = options.value("d")
    if options.has("t"):
        found = _STAMP.fullmatch(options.value("t"))
        if found is None:
            raise UsageFault(f"invalid date format '{options.value('t')[:40]}'")
        year = f"20{found[1]}" if len(found[1] or "") == 2 else found[1] or now.year
        written = f"{year}-{found[2]}-{found[3]} {found[4]}:{found[5]}:{found[6] or '00'}"
    if written:
        at_s = int(read_moment(now, written).timestamp())

    def work(operand: str) -> None:
        if not options.has("c") or call.files.exists(call.resolve(operand)):
            call.files.touch(call.resolve(operand), at_s)

    return call.each(call.require_operands("missing file operand"), work, "cannot touch '{}': {}")


@command("truncate", flags="c", valued="s", long="size:s= no-create:c")
def truncate(call: Call) -> int:
    options, size = call.options, call.options.value("s")
    if not size:
        raise UsageFault("you must specify either '--size' or '--reference'")

    def work(operand: str) -> None:
        path = call.resolve(operand)
        if options.has("c") and not call.files.exists(path):
            return
        before = call.files.node(path).size if call.files.exists(path) else 0
        change = {"+": 1, "-": -1}.get(size[:1], 0)
        wanted = max(0, before + change * read_size(size[1:])) if change else read_size(size)
        kept = (call.files.text_of(path) or "").encode()[:wanted].decode("utf-8", "ignore")
        call.files.write(path, kept, hidden_bytes=wanted - len(kept.encode()))

    return call.each(call.require_operands("missing file operand"), work, "cannot open '{}' for writing: {}")


@command("fallocate", valued="l", long="length:l=")
def fallocate(call: Call) -> int:
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
    block, source = read_size(words.get("bs", "512")), words.get("if", "-")
    most = block * int(words["count"]) if words.get("count", "").isdecimal() else None
    if most is None and source.startswith("/dev/") and source != "/dev/null":
        raise NotSimulated("without 'count' it would never end")
    try:
        # Zeros have only a size, like all that is large and not text.
        content = b"" if source == "/dev/zero" else to_bytes(call.read_operand(source))[:most]
        hidden_bytes = most if source == "/dev/zero" and most is not None else 0
        text = content.decode("utf-8", "surrogateescape")
        if "of" in words:
            call.files.write(call.resolve(words["of"]), text, hidden_bytes=hidden_bytes)
        else:
            call.print(text)
    except FileFault as fault:
        return call.complain(f"failed to open '{words.get('of', source)}': {fault}")
    if words.get("status") != "none":
        total = len(content) + hidden_bytes
        records = f"{total // block}+{int(total % block > 0)}"
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
    head, mark, tail = template.partition("XXX")
    if not mark:
        raise UsageFault(f"too few X's in template '{template}'")
    number, draw = call.machine.count_name(), call.machine.incidentals.between
    drawn = re.sub("X", lambda found: _LETTERS[draw(0, 55, "mktemp", number, found.start())], mark + tail)
    folder = options.value("p") or ("/tmp" if options.has("t") or not options.operands else "")  # noqa: S108 - simulated
    shown = f"{folder.rstrip('/')}/" * bool(folder) + head + drawn + options.value("suffix")
    path = call.resolve(shown)
    try:
        if options.has("d") and not options.has("u"):
            call.files.make_directory(path, mode=0o700)
        elif not options.has("u"):
            call.files.write(path, "")
            call.files.node(path).mode = 0o600
    except FileFault as fault:
        return call.complain(f"failed to create file via template '{template}': {fault}")
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


@command("chown", "chgrp", flags="Rv", long="recursive:R verbose:v", idle="chf")
def chown(call: Call) -> int:
    if len(call.options.operands) < 2:
        raise UsageFault("missing operand")
    whom, *operands = call.options.operands
    what = "group" if call.name == "chgrp" else "ownership"
    owner, colon, group = whom.partition(":") if call.name == "chown" else ("", "", whom)
    group = group or (owner if colon else "")
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
            call.print(f"changed ownership of '{operand}{target[len(path) :]}' to {whom}\n" if verbose else "")

    return call.each(operands, work, f"changing {what} of '{{}}': {{}}")
