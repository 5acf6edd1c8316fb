"""What belongs to the shell itself: echo, printf, test, cd, read, export, exit, sleep, command, and wrappers.

Owns: their behaviour as POSIX has it. Refuses: changing the machine, but for its clock in `sleep`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clawgauge.world.refusals import FileFault, Refusal
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.formatting import format_once, unescape
from clawgauge.world.shell.interpreter import ShellExit
from clawgauge.world.shell.options import parse_options
from clawgauge.world.shell.streams import Input

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smh]?)")


def echo(call: Call) -> int:
    args = list(call.args)
    ends, escapes = "\n", False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        ends = "" if "n" in args[0] else ends
        escapes = escapes or "e" in args[0]
        args.pop(0)
    text = " ".join(args)
    call.print((unescape(text) if escapes else text) + ends)
    return 0


def printf(call: Call) -> int:
    if not call.args:
        raise UsageFault("usage: printf format [arguments]")
    form, values = unescape(call.args[0]), list(reversed(call.args[1:]))
    while True:
        before = len(values)
        call.print(format_once(form, values))
        if not values or len(values) == before:
            return 0


def succeed(call: Call) -> int:
    return 0


def fail(call: Call) -> int:
    return 1


def change_directory(call: Call) -> int:
    target = call.args[0] if call.args else call.scope.home
    path = call.resolve(target)
    try:
        if not call.machine.files.node(path).is_directory:
            raise FileFault("Not a directory")
    except FileFault as fault:
        return call.complain(f"{target[:300]}: {fault}")
    call.scope.workdir = path
    return 0


def print_workdir(call: Call) -> int:
    call.print(f"{call.scope.workdir}\n")
    return 0


def export(call: Call) -> int:
    for arg in call.args:
        name, has_value, value = arg.partition("=")
        if has_value and name.isidentifier():
            call.scope.variables[name] = value
    return 0


def unset(call: Call) -> int:
    for arg in call.args:
        call.scope.variables.pop(arg, None)
    return 0


def environment(call: Call) -> int:
    assignments = [arg for arg in call.args if "=" in arg]
    rest = [arg for arg in call.args if "=" not in arg and not arg.startswith("-")]
    if rest:
        export(call)
        return call.run(call.args[call.args.index(rest[0]) :], call.stdin, call.out, call.err)
    for name, value in sorted(call.scope.variables.items()):
        call.print(f"{name}={value}\n")
    call.print("".join(f"{assignment}\n" for assignment in assignments))
    return 0


def leave(call: Call) -> int:
    code = call.args[0] if call.args else str(call.scope.last_code)
    raise ShellExit(int(code) % 256 if code.isdecimal() and len(code) < 10 else 2)


def read(call: Call) -> int:
    names = parse_options(call.args, "rs", "pd").operands or ["REPLY"]
    line = call.stdin.take_line()
    parts = _split_fields(line or "", call.scope.variables.get("IFS"), len(names))
    for index, name in enumerate(names):
        call.scope.variables[name] = parts[index] if index < len(parts) else ""
    return 1 if line is None else 0


def _split_fields(line: str, separators: str | None, count: int) -> list[str]:
    if separators is None or not separators.strip(" \t\n"):
        return [line] if separators == "" else line.strip().split(None, count - 1)
    return re.split(f"[{re.escape(separators)}]", line, maxsplit=count - 1) if count > 1 else [line]


def sleep(call: Call) -> int:
    total_s = 0.0
    for arg in call.args:
        found = _DURATION.fullmatch(arg)
        if found is None:
            raise UsageFault(f"invalid time interval '{arg[:40]}'", 1)
        total_s += float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3_600}[found[2]]
    if total_s > 600:
        raise UsageFault("stopped after 600 s", 124)
    call.machine.clock.advance(total_s)
    return 0


def test(call: Call) -> int:
    args = list(call.args)
    if call.name == "[":
        if args[-1:] != ["]"]:
            raise UsageFault("missing ']'")
        args.pop()
    negated = False
    while args[:1] == ["!"]:
        negated = not negated
        args.pop(0)
    return int(_holds(call, args) == negated)


def _holds(call: Call, args: list[str]) -> bool:
    match args:
        case []:
            return False
        case [text]:
            return bool(text)
        case [operator, operand]:
            return _unary(call, operator, operand)
        case [left, operator, right] if operator in _COMPARISONS:
            return _COMPARISONS[operator](left, right)
        case [left, operator, right] if operator in _NUMERIC:
            if not all(re.fullmatch(r"-?\d{1,15}", word) for word in (left, right)):
                raise UsageFault("integer expression expected")
            return _NUMERIC[operator](int(left), int(right))
    raise UsageFault("this test is not supported here")


_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}


def _unary(call: Call, operator: str, operand: str) -> bool:
    if operator in ("-n", "-z"):
        return bool(operand) == (operator == "-n")
    files, path = call.machine.files, call.resolve(operand)
    if operator not in ("-e", "-f", "-d", "-r", "-w", "-x", "-s"):
        raise UsageFault(f"{operator[:20]}: unary operator expected")
    try:
        node = files.node(path)
    except FileFault:
        return False
    match operator:
        case "-f":
            return not node.is_directory
        case "-d":
            return node.is_directory
        case "-s":
            return node.size > 0
        case "-r" | "-w" | "-x":
            return node.allows(files.user, {"-r": 4, "-w": 2, "-x": 1}[operator])
    return True


def xargs(call: Call) -> int:
    options = parse_options(call.args, "0rt", "nIPd", {"null": "0", "no-run-if-empty": "r"}, mixed=False)
    text = call.stdin.take_all()
    replaced = options.value("I")
    if options.has("0"):
        items = [item for item in text.split("\0") if item]
    else:
        items = [line.strip() for line in text.splitlines() if line.strip()] if replaced else _unquoted(text)
    command = options.operands or ["echo"]
    if replaced:
        batches = [[word.replace(replaced, item) for word in command] for item in items]
    else:
        size = max(1, options.whole("n", len(items) or 1))
        batches = [[*command, *items[at : at + size]] for at in range(0, len(items), size)]
        if not items and not options.has("r"):
            batches = [command]
    code = 0
    for batch in batches:
        code = call.run(batch, Input(), call.out, call.err) or code
    return 123 if code else 0


def _unquoted(text: str) -> list[str]:
    return [word[1:-1] if word[0] in "'\"" else word for word in re.findall(r"'[^']*'|\"[^\"]*\"|[^\s]+", text)]


def sudo(call: Call) -> int:
    words = call.args[1:] if call.args[:1] == ["-n"] else call.args
    if call.machine.user == "root" or call.machine.may_sudo:
        with call.machine.acting_as("root"):
            return call.run(words, call.stdin, call.out, call.err) if words else 1
    raise Refusal("a terminal is required to read the password; sudo is not available to this agent")


def wrap(call: Call) -> int:
    """nohup, time, nice, timeout, command: run what follows."""
    args = list(call.args)
    while args and args[0].startswith("-") and args[0] not in ("-v", "-V"):
        args.pop(0)
    if call.name == "timeout" and args:
        args.pop(0)
    if call.name == "command" and args[:1] in (["-v"], ["-V"]):
        call.name, call.args = "which", args[1:]
        return call.run(["which", *args[1:]], call.stdin, call.out, call.err)
    return call.run(args, call.stdin, call.out, call.err) if args else 0
