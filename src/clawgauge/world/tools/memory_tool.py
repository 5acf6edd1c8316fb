"""The tool `memory`: notes the agent keeps for itself."""

from __future__ import annotations

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine
from clawgauge.world.notes import Note


def _line(note: Note) -> str:
    return f"{note.id}: {note.text}"


def memory(machine: Machine, arguments: Arguments) -> ToolAnswer:
    match arguments.action("store", "search", "list", "delete"):
        case "store":
            return ToolAnswer(f"Stored as {machine.notes.store(arguments.text('text')).id}")
        case "search":
            found = machine.notes.search(arguments.text("query"))
            return ToolAnswer("\n".join(map(_line, found)) or "No note matches.")
        case "list":
            return ToolAnswer("\n".join(map(_line, machine.notes.notes)) or "No notes.")
        case _:
            return ToolAnswer(f"Deleted {machine.notes.delete(arguments.text('id')).id}")
