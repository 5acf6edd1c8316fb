"""The tools `read`, `write` and `edit`.

Owns: what they print. Refuses: anything the file tree refuses, in its words.
"""

from __future__ import annotations

from clawgauge.world import paths
from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.refusals import FileFault, Refusal


def _path_of(machine: Machine, arguments: Arguments) -> str:
    given = arguments.text("path")
    if not given.strip():
        raise Refusal("the argument 'path' is empty")
    if given == "~" or given.startswith("~/"):
        given = machine.home + given[1:]
    return paths.resolve(given, machine.home)


def _named(path: str, fault: FileFault) -> Refusal:
    return Refusal(f"{path[:300]}: {fault}")


def read_file(machine: Machine, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    first = arguments.whole("offset", 1)
    limit = arguments.whole("limit", 2_000)
    try:
        text = machine.files.read(path)
    except FileFault as fault:
        raise _named(path, fault) from None
    lines = text.splitlines(keepends=True)
    shown = lines[first - 1 : first - 1 + limit]
    if lines and not shown:
        raise Refusal(f"{path} has {len(lines)} lines; offset {first} is past its end")
    left = len(lines) - (first - 1) - len(shown)
    tail = f"\n[{left} more lines; continue with offset {first + len(shown)}]" if left > 0 else ""
    return ToolAnswer("".join(shown) + tail or "(the file is empty)")


def write_file(machine: Machine, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    content = arguments.text("content")
    try:
        above = paths.parent(path)
        if not machine.files.exists(above):
            machine.files.make_directory(above, parents=True)
        machine.files.write(path, content)
    except FileFault as fault:
        raise _named(path, fault) from None
    return ToolAnswer(f"Wrote {len(content.encode('utf-8', 'replace'))} bytes to {path}")


def edit_file(machine: Machine, arguments: Arguments) -> ToolAnswer:
    path = _path_of(machine, arguments)
    old, new = arguments.text("oldText"), arguments.text("newText")
    if not old:
        raise Refusal("the argument 'oldText' is empty; give the text to replace")
    try:
        text = machine.files.read(path)
        count = text.count(old)
        if count != 1:
            found = "does not occur" if count == 0 else f"occurs {count} times"
            raise Refusal(f"{path}: the old text {found}; it must occur exactly once, white space included")
        machine.files.write(path, text.replace(old, new))
    except FileFault as fault:
        raise _named(path, fault) from None
    return ToolAnswer(f"Replaced 1 occurrence in {path}")
