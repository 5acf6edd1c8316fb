"""find: walking a tree with tests and actions.

Owns: the tests people use (-name, -type, -size, -mtime, …), -delete and -exec. Refuses: -o, parentheses and -printf, by
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from clawgauge.world import paths
from clawgauge.world.globs import matches_glob
from clawgauge.world.nodes import Node
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.streams import Input

_AMOUNT = re.compile(r"([+-]?)(\d{1,12})([ckMGbw]?)")
_UNITS = {"c": 1, "w": 2, "b": 512, "": 512, "k": 1024, "M": 1024**2, "G": 1024**3}

# A test is asked about the path as it will be shown, which is what -path looks at, and the node.
Test = Callable[[str, str, Node], bool]


@dataclass(slots=True)
class _Search:
    """What to walk, what to look for and what to do with it."""

    roots: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    least_depth: int = 0
    most_depth: int = 1_000
    deletes: bool = False
    prints: bool = False
    print_end: str = "\n"
    commands: list[tuple[list[str], bool]] = field(default_factory=list)


def find(call: Call) -> int:
    search = _read(call)
    code = 0
    found: list[tuple[str, str]] = []
    for root in search.roots or ["."]:
        top = call.resolve(root)
        try:
            call.machine.files.node(top)
        except FileFault as fault:
            code = call.complain(f"'{root}': {fault}")
            continue
        found.extend(_walk(call, search, root, top))
    if search.prints or not (search.deletes or search.commands):
        call.print("".join(shown + search.print_end for shown, _ in found))
    for command, at_once in search.commands:
        code = _execute(call, command, [shown for shown, _ in found], at_once=at_once) or code
    if search.deletes:
        for shown, path in reversed(found):
            try:
                call.machine.files.remove(path)
            except FileFault as fault:
                code = call.complain(f"cannot delete '{shown}': {fault}")
    return code


def _walk(call: Call, search: _Search, root: str, top: str) -> list[tuple[str, str]]:
    files = call.machine.files
    stem = len(top.rstrip("/"))
    found = []
    closed: list[str] = []
    for path in [top, *(files.inside(top) if files.is_directory(top) else [])]:
        if any(path.startswith(f"{directory}/") for directory in closed):
            continue
        node = files.peek(path)
        shown = root if path == top else root.rstrip("/") + path[stem:]
        if node.is_directory and not node.allows(files.user, 5):
            call.complain(f"'{shown}': Permission denied")
            closed.append(path)
        depth = 0 if path == top else path[stem:].count("/")
        if search.least_depth <= depth <= search.most_depth and all(test(shown, path, node) for test in search.tests):
            found.append((shown, path))
    return found


def _execute(call: Call, command: list[str], names: list[str], *, at_once: bool) -> int:
    batches = [names] if at_once and names else [[name] for name in names]
    code = 0
    for batch in batches:
        if at_once:
            args = [part for word in command for part in (batch if word == "{}" else [word])]
        else:
            args = [word.replace("{}", batch[0]) for word in command]
        code = call.run(args, Input(), call.out, call.err) or code
    return 1 if code else 0


def _read(call: Call) -> _Search:
    search = _Search()
    waiting = list(reversed(call.args))
    while waiting and not waiting[-1].startswith(("-", "(", "!")):
        search.roots.append(waiting.pop())
    negated = False
    while waiting:
        word = waiting.pop()
        if word in ("!", "-not"):
            negated = True
            continue
        test = _read_test(call, word, waiting)
        if test is not None:
            search.tests.append(_negation(test) if negated else test)
        elif not _read_action(search, word, waiting):
            known = (
                "-o, parentheses and -printf are" if word in ("-o", "-or", "(", ")", "-printf", "\\(") else "that is"
            )
            raise UsageFault(f"'{word[:60]}': {known} not supported here", 1)
        negated = False
    return search


def _negation(test: Test) -> Test:
    return lambda shown, path, node: not test(shown, path, node)


def _value(word: str, waiting: list[str]) -> str:
    if not waiting:
        raise UsageFault(f"missing argument to '{word}'", 1)
    return waiting.pop()


def _read_test(call: Call, word: str, waiting: list[str]) -> Test | None:
    match word:
        case "-name" | "-iname":
            pattern, ignore_case = _value(word, waiting), word == "-iname"
            return lambda shown, path, node: matches_glob(pattern, paths.base(path), ignore_case=ignore_case)
        case "-path" | "-wholename":
            pattern = _value(word, waiting)
            return lambda shown, path, node: matches_glob(pattern, shown, across=True)
        case "-type":
            wants_directory = _value(word, waiting) == "d"
            return lambda shown, path, node: node.is_directory == wants_directory
        case "-user":
            owner = _value(word, waiting)
            return lambda shown, path, node: node.owner == owner
        case "-empty":
            return lambda shown, path, node: not (call.machine.files.inside(path) if node.is_directory else node.size)
        case "-size":
            amount, unit = _amount(word, _value(word, waiting))
            return lambda shown, path, node: amount(-(-node.size // unit))
        case "-mtime" | "-mmin":
            age, _ = _amount(word, _value(word, waiting))
            unit_s = 86_400 if word == "-mtime" else 60
            now_s = call.machine.clock.now_s
            return lambda shown, path, node: age((now_s - node.modified_s) // unit_s)
        case "-newer":
            other = call.machine.files.node(call.resolve(_value(word, waiting)))
            return lambda shown, path, node: node.modified_s > other.modified_s
    return None


def _amount(word: str, text: str) -> tuple[Callable[[int], bool], int]:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise UsageFault(f"invalid argument '{text[:40]}' to '{word}'", 1)
    number = int(found[2])
    compare: dict[str, Callable[[int], bool]] = {
        "+": lambda value: value > number,
        "-": lambda value: value < number,
        "": lambda value: value == number,
    }
    return compare[found[1]], _UNITS[found[3]]


def _read_action(search: _Search, word: str, waiting: list[str]) -> bool:
    match word:
        case "-maxdepth" | "-mindepth":
            depth = _value(word, waiting)
            if not depth.isdecimal() or len(depth) > 6:
                raise UsageFault(f"invalid argument '{depth[:40]}' to '{word}'", 1)
            if word == "-maxdepth":
                search.most_depth = int(depth)
            else:
                search.least_depth = int(depth)
        case "-print":
            search.prints = True
        case "-print0":
            search.prints, search.print_end = True, "\0"
        case "-delete":
            search.deletes = True
        case "-a" | "-and" | "-depth" | "-xdev" | "-mount":
            pass
        case "-exec" | "-execdir":
            command = []
            while (part := _value(word, waiting)) not in (";", "+"):
                command.append(part)
            if not command:
                raise UsageFault("-exec needs a command", 1)
            search.commands.append((command, part == "+"))
        case "-ls":
            search.commands.append((["ls", "-ld", "{}"], False))
        case _:
            return False
    return True
