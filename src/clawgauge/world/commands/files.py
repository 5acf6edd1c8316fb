"""Commands that change files: rm, cp, mv, touch, tee, mktemp, chmod, chown, chgrp.

They are ours where bashkit leaves words of them out, or where they must go by this machine's clock,
owners and disks.
"""

import posixpath
import re
import shlex

from clawgauge.world.commands.call import Call, NotSimulated, Options, command
from clawgauge.world.commands.dates import read_moment
from clawgauge.world.effects import (
    IS_A_DIRECTORY,
    NOT_A_DIRECTORY,
    NOT_EMPTY,
    NOT_FOUND,
    FileFault,
    Refusal,
)
from clawgauge.world.paths import prefix_of

_RANDOM_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CHMOD_OPTION = re.compile(r"-[Rvcf]+|--recursive|--verbose|--changes|--silent|--")
_CHMOD_RECURSIVE = re.compile(r"-[vcf]*R[Rvcf]*|--recursive")


@command("rm")
def rm(call: Call) -> int:
    options = call.options
    if options.has("f") and not options.operands:
        return 0
    is_recursive = options.has("r", "R")

    def remove(operand: str, path: str) -> int:
        if path == "/" and is_recursive and not options.has("no-preserve-root"):
            return call.complain(
                "it is dangerous to operate recursively on '/'\n"
                "rm: use --no-preserve-root to override this failsafe"
            )
        if operand.rstrip("/").rpartition("/")[2] in (".", ".."):
            return call.complain(f"refusing to remove '.' or '..' directory: skipping '{operand}'")
        if options.has("f") and not call.files.exists(path):
            return 0
        if call.files.node(path).is_directory and not is_recursive and not options.has("d"):
            raise FileFault(IS_A_DIRECTORY)
        # Nobody is there to say yes, unless the input does.
        if options.has("i", "I") and not call.stdin.lower().startswith("y"):
            return call.say(f"rm: remove '{operand}'? ", 0)
        inner_paths = call.files.inside(path) if is_recursive else []
        return _remove_all(call, operand, [path, *inner_paths])

    return call.each(call.require_operands(), remove, "cannot remove '{}': {}")


def _remove_all(call: Call, operand: str, paths: list[str]) -> int:
    """Remove what an operand means: its own path and those inside it, the innermost first."""
    code = 0
    top = paths[0]
    for path in reversed(paths):
        shown = operand if path == top else operand.rstrip("/") + path[len(top) :]
        kind = "directory " if call.files.is_directory(path) else ""
        try:
            call.files.remove(path)
        except FileFault as fault:
            # A directory that keeps something is not a second complaint.
            if code == 0 or str(fault) != NOT_EMPTY:
                code = call.complain(f"cannot remove '{shown}': {fault}")
        else:
            call.print(f"removed {kind}'{shown}'\n" if call.options.has("v") else "")
    return code


@command("cp", "mv")
def transfer(call: Call) -> int:
    options = call.options
    operands = call.require_operands("missing file operand")
    *sources, last = [*operands, *options.all("t")[-1:]]
    if not sources:
        raise Refusal(f"missing destination file operand after '{last}'")
    target = call.resolve(last)
    is_into = call.files.is_directory(target) and not options.has("T")
    must_be_folder = len(sources) > 1 or options.has("t")
    if last.endswith("/") and call.name == "cp":
        must_be_folder = True
    if must_be_folder and not is_into:
        problem = NOT_A_DIRECTORY if call.files.exists(target) else NOT_FOUND
        raise Refusal(f"target '{last}': {problem}")

    def work(source: str, path: str) -> int:
        shown_target = last
        if is_into:
            name = source.strip("/") if options.has("parents") else posixpath.basename(path)
            shown_target = posixpath.join(last, name)
        return _transfer_one(call, source, shown_target)

    return call.each(sources, work, "cannot stat '{}': {}")


def _transfer_one(call: Call, source: str, shown_target: str) -> int:
    """Copy or move one operand, with all that is in it."""
    options = call.options
    files = call.files
    path = call.resolve(source)
    target = call.resolve(shown_target)
    moves = call.name == "mv"
    verb = "move" if moves else "copy"
    if files.node(path).is_directory and not moves and not options.has("r", "R", "a"):
        return call.complain(f"-r not specified; omitting directory '{source}'")
    if path == target:
        return call.complain(f"'{source}' and '{shown_target}' are the same file")
    if target.startswith(prefix_of(path)):
        return call.complain(f"cannot {verb} '{source}' into itself, '{shown_target}'")
    if _is_kept(call, path, target):
        return 0
    try:
        if options.has("parents"):
            files.make_directory(posixpath.dirname(target), parents=True)
        if moves:
            files.move(path, target)
            shown = f"renamed '{source}' -> '{shown_target}'\n"
            call.print(shown if options.has("v") else "")
            return 0
        for inner in [path, *files.inside(path)]:
            rest = inner[len(path) :]
            _copy_one(call, inner, target + rest)
            shown_source = source.rstrip("/") + rest if rest else source
            shown = f"'{shown_source}' -> '{shown_target}{rest}'\n"
            call.print(shown if options.has("v") else "")
    except FileFault as fault:
        return call.complain(f"cannot {verb} '{source}' to '{shown_target}': {fault}")
    return 0


def _is_kept(call: Call, path: str, target: str) -> bool:
    """Whether `-n`, `-i` or `-u` keep the target as it is: nobody is there to say yes."""
    options = call.options
    if not call.files.exists(target) or call.files.is_directory(target):
        return False
    is_newer = call.files.node(path).modified_s > call.files.node(target).modified_s
    return options.has("n", "i") or (options.has("u") and not is_newer)


def _copy_one(call: Call, source: str, target: str) -> None:
    """Copy a file, or make the directory that a directory becomes."""
    files = call.files
    node = files.peek(source)
    if node.is_directory:
        files.make_directory(target, parents=True)
        return
    files.copy(source, target)
    if call.options.has("a", "p"):
        files.touch(target, node.modified_s)
        files.node(target).mode = node.mode


@command("touch")
def touch(call: Call) -> int:
    options = call.options
    at_s: int | None = None
    if options.has("r"):
        at_s = call.files.node(call.resolve(options.value("r"))).modified_s
    if options.has("d"):
        at_s = int(read_moment(call.machine.clock.moment(), options.value("d")).timestamp())

    def work(_: str, path: str) -> None:
        if not options.has("c") or call.files.exists(path):
            call.files.touch(path, at_s)

    return call.each(call.require_operands("missing file operand"), work, "cannot touch '{}': {}")


@command("tee")
def tee(call: Call) -> int:
    append = call.options.has("a")
    call.print(call.stdin)

    def work(_: str, path: str) -> None:
        call.files.write(path, call.stdin, append=append)

    return call.each(call.options.operands, work)


@command("mktemp")
def mktemp(call: Call) -> int:
    """Names that look drawn at random and are the same in every replay."""
    options = call.options
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    if "XXX" not in template:
        raise Refusal(f"too few X's in template '{template}'")
    name = _fill_template(call, template)
    folder = _temporary_folder(options)
    if folder:
        name = f"{folder.rstrip('/')}/{name}"
    shown = name + options.value("suffix")
    if options.has("d"):
        call.files.make_directory(call.resolve(shown), mode=0o700)
    else:
        call.files.write(call.resolve(shown), "", mode=0o600)
    return call.print(f"{shown}\n")


def _fill_template(call: Call, template: str) -> str:
    """The template with a letter for each of its last X's."""
    machine = call.machine
    machine.n_drawn += 1

    def draw_letter(x: re.Match[str]) -> str:
        last = len(_RANDOM_LETTERS) - 1
        return _RANDOM_LETTERS[machine.draw(0, last, "mktemp", machine.n_drawn, x.start())]

    return re.sub("X(?=X*$|X+[^X]*$)", draw_letter, template)


def _temporary_folder(options: Options) -> str:
    """Where the file is made; empty where the template says it."""
    folder = options.value("p")
    if folder:
        return folder
    is_in_tmp = options.has("t") or not options.operands
    return "/tmp" if is_in_tmp else ""  # noqa: S108 - simulated


@command("chmod", raw=True)
def chmod(call: Call) -> int:
    """bashkit's, which does not go into directories."""
    words = [arg for arg in call.args if not _CHMOD_OPTION.fullmatch(arg)]
    if words and words[0].startswith("--"):
        raise NotSimulated(f"option '{words[0][:40]}' is not supported here")
    inner_paths: list[str] = []
    if any(_CHMOD_RECURSIVE.fullmatch(arg) for arg in call.args):
        for word in words[1:]:
            inner_paths += call.files.inside(call.resolve(word))
    return call.shell.pass_on(shlex.join(["chmod", *words, *inner_paths]), call)


@command("chown", "chgrp")
def chown(call: Call) -> int:
    if len(call.options.operands) < 2:
        raise Refusal("missing operand")
    written, *operands = call.options.operands
    owner, group = _read_owner(call, written)

    def work(_: str, path: str) -> None:
        call.files.node(path)
        inner_paths = call.files.inside(path) if call.options.has("R") else []
        for target in [path, *inner_paths]:
            call.files.set_owner(target, owner, group)

    noun = "ownership" if call.name == "chown" else "group"
    return call.each(operands, work, f"changing {noun} of '{{}}': {{}}")


def _read_owner(call: Call, written: str) -> tuple[str, str]:
    """The owner and the group in `claw`, `claw:web`, `:web` or `claw:`; empty for what stays."""
    if call.name == "chgrp":
        _refuse_unknown(call, written, written)
        return "", written
    owner, colon, group = written.partition(":")
    if colon and not group:
        group = owner
    for name in (owner, group):
        _refuse_unknown(call, name, written)
    return owner, group


def _refuse_unknown(call: Call, name: str, written: str) -> None:
    """Refuse a user that is not there; a group has the name of its one member."""
    if name and name not in call.machine.users():
        noun = "user" if call.name == "chown" else "group"
        raise Refusal(f"invalid {noun}: '{written[:60]}'")
