"""Commands that change files: mkdir, rmdir, rm, mv, cp, touch, chmod, truncate.

Owns: which operand is source and which target, and their complaints, as GNU words them. Refuses: asking questions;
there is no terminal to answer from.
"""

from __future__ import annotations

import re

from clawgauge.world import paths
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.options import Options, parse_options

_SYMBOLIC = re.compile(r"([ugoa]*)([+=-])([rwx]*)")


def mkdir(call: Call) -> int:
    options = parse_options(call.args, "pv", "m", {"parents": "p", "verbose": "v", "mode": "m"})
    if not options.operands:
        raise UsageFault("missing operand", 1)
    code = 0
    for operand in options.operands:
        try:
            call.machine.files.make_directory(call.resolve(operand), parents=options.has("p"))
        except FileFault as fault:
            code = call.complain(f"cannot create directory '{operand}': {fault}")
    return code


def rmdir(call: Call) -> int:
    code = 0
    for operand in parse_options(call.args, "pv").operands:
        path = call.resolve(operand)
        try:
            if not call.machine.files.node(path).is_directory:
                raise FileFault("Not a directory")
            call.machine.files.remove(path)
        except FileFault as fault:
            code = call.complain(f"failed to remove '{operand}': {fault}")
    return code


def rm(call: Call) -> int:
    options = parse_options(
        call.args,
        "rRfvidIP",
        long={"recursive": "r", "force": "f", "verbose": "v", "no-preserve-root": "P", "dir": "d"},
    )
    if not options.operands:
        if options.has("f"):
            return 0
        raise UsageFault("missing operand", 1)
    return max([_remove(call, options, operand) for operand in options.operands])


def _remove(call: Call, options: Options, operand: str) -> int:
    files = call.machine.files
    path = call.resolve(operand)
    recursive = options.has("r", "R")
    if path == "/" and recursive and not options.has("P"):
        return call.complain(
            "it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe"
        )
    if operand.rstrip("/").rpartition("/")[2] in (".", ".."):
        return call.complain(f"refusing to remove '.' or '..' directory: skipping '{operand}'")
    try:
        node = files.node(path)
    except FileFault as fault:
        missing = str(fault) == "No such file or directory"
        return 0 if missing and options.has("f") else call.complain(f"cannot remove '{operand}': {fault}")
    if node.is_directory and not recursive and not options.has("d"):
        return call.complain(f"cannot remove '{operand}': Is a directory")
    doomed = [path, *(files.inside(path) if node.is_directory and recursive else [])]
    code = 0
    for target in reversed(doomed):
        shown = operand.rstrip("/") + target[len(path) :] if target != path else operand
        try:
            files.remove(target)
        except FileFault as fault:
            # A directory that keeps something is not a second complaint.
            code = (
                1
                if str(fault) == "Directory not empty" and code
                else call.complain(f"cannot remove '{shown}': {fault}")
            )
            continue
        if options.has("v"):
            call.print(f"removed '{shown}'\n")
    return code


def _targets(call: Call, options: Options) -> list[tuple[str, str, str]]:
    """For mv and cp: each source as written, its path, and the path it goes to."""
    operands = options.operands
    directory = options.value("t")
    if directory:
        operands = [*operands, directory]
    if len(operands) < 2:
        problem = f"missing destination file operand after '{operands[0]}'" if operands else "missing file operand"
        raise UsageFault(problem, 1)
    *sources, last = operands
    target = call.resolve(last)
    into = call.machine.files.is_directory(target)
    if not into and (len(sources) > 1 or last.endswith("/")):
        raise UsageFault(f"target '{last}': No such file or directory", 1)
    pairs = []
    for source in sources:
        path = call.resolve(source)
        pairs.append((source, path, paths.join(target, paths.base(path)) if into else target))
    return pairs


def mv(call: Call) -> int:
    options = parse_options(call.args, "fnvi", "t", {"force": "f", "no-clobber": "n", "verbose": "v"})
    code = 0
    for source, path, target in _targets(call, options):
        if options.has("n") and call.machine.files.exists(target):
            continue
        try:
            call.machine.files.move(path, target)
        except FileFault as fault:
            missing = str(fault) == "No such file or directory" and not call.machine.files.exists(path)
            place = f"cannot stat '{source}'" if missing else f"cannot move '{source}' to '{target}'"
            code = call.complain(f"{place}: {fault}")
            continue
        if options.has("v"):
            call.print(f"renamed '{source}' -> '{target}'\n")
    return code


def cp(call: Call) -> int:
    options = parse_options(
        call.args, "rRafpnvi", "t", {"recursive": "r", "archive": "a", "force": "f", "no-clobber": "n", "verbose": "v"}
    )
    code = 0
    for source, path, target in _targets(call, options):
        if options.has("n") and call.machine.files.exists(target):
            continue
        try:
            code = _copy(call, options, source, path, target) or code
        except FileFault as fault:
            missing = not call.machine.files.exists(path)
            place = f"cannot stat '{source}'" if missing else f"cannot create regular file '{target}'"
            code = call.complain(f"{place}: {fault}")
    return code


def _copy(call: Call, options: Options, source: str, path: str, target: str) -> int:
    files = call.machine.files
    if not files.node(path).is_directory:
        files.copy(path, target)
        if options.has("v"):
            call.print(f"'{source}' -> '{target}'\n")
        return 0
    if not options.has("r", "R", "a"):
        return call.complain(f"-r not specified; omitting directory '{source}'")
    if target == path or target.startswith(paths.prefix_of(path)):
        return call.complain(f"cannot copy a directory, '{source}', into itself, '{target}'")
    inside = files.inside(path)
    files.make_directory(target, parents=True)
    for inner in inside:
        copied = target + inner[len(path) :]
        if files.peek(inner).is_directory:
            files.make_directory(copied, parents=True)
        else:
            files.copy(inner, copied)
    return 0


def touch(call: Call) -> int:
    code = 0
    for operand in parse_options(call.args, "acm", "d").operands:
        try:
            call.machine.files.touch(call.resolve(operand))
        except FileFault as fault:
            code = call.complain(f"cannot touch '{operand}': {fault}")
    return code


def truncate(call: Call) -> int:
    options = parse_options(call.args, "c", "s", {"size": "s"})
    if options.value("s") != "0":
        raise UsageFault("only '-s 0' is supported here", 1)
    code = 0
    for operand in options.operands:
        try:
            call.machine.files.write(call.resolve(operand), "")
        except FileFault as fault:
            code = call.complain(f"cannot open '{operand}' for writing: {fault}")
    return code


def chmod(call: Call) -> int:
    args = [arg for arg in call.args if arg not in ("-R", "-v", "--recursive")]
    recursive = "-R" in call.args or "--recursive" in call.args
    if len(args) < 2:
        raise UsageFault("missing operand", 1)
    code = 0
    for operand in args[1:]:
        path = call.resolve(operand)
        try:
            inside = call.machine.files.inside(path) if recursive else []
            for target in [path, *inside]:
                node = call.machine.files.node(target)
                call.machine.files.set_mode(target, _mode(args[0], node.mode))
        except FileFault as fault:
            code = call.complain(f"changing permissions of '{operand}': {fault}")
    return code


def _mode(text: str, mode: int) -> int:
    if re.fullmatch(r"[0-7]{1,4}", text):
        return int(text, 8)
    for clause in text.split(","):
        found = _SYMBOLIC.fullmatch(clause)
        if found is None:
            raise UsageFault(f"invalid mode: '{text[:40]}'", 1)
        bits = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(found[3]))
        whom = set("ugo") if not found[1] or "a" in found[1] else set(found[1])
        for who in whom:
            shift = {"u": 6, "g": 3, "o": 0}[who]
            if found[2] == "=":
                mode &= ~(7 << shift)
            mode = mode & ~(bits << shift) if found[2] == "-" else mode | bits << shift
    return mode
