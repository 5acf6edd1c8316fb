"""A small machine made of a turn, on which other commands can be seen to print the same."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clawgauge.checks.command_lines import only_looks
from clawgauge.own_work.masking import Mask
from clawgauge.own_work.rules import RULES
from clawgauge.own_work.turns import HistoryTurn
from clawgauge.secrets import mask_strings
from clawgauge.world import can_run
from clawgauge.world.world import World

_MAX_FILES = 40
_MAX_FILE_CHARS = 20_000
_MAX_LINES = 40
# Almost anything holds a 2: what is no longer than this must stand apart in an output.
_SHORT_CHARS = 20
_HOME = re.compile(r"/home/[^/]+")


class PastCall(NamedTuple):
    """A call made before a turn, and its result."""

    name: str
    arguments: dict[str, Any]
    result: str


def past_calls(turn: HistoryTurn) -> Iterator[PastCall]:
    for index, message in enumerate(turn.messages):
        # The results stand behind the message, in the order of the calls.
        for number, call in enumerate(message.get("calls", ()), start=1):
            result = turn.messages[index + number]["content"]
            yield PastCall(call["name"], call["arguments"], result)


def find_effect(turn: HistoryTurn, mask: Mask) -> dict[str, Any] | None:
    """What must come of a command that means the same as the one that was called.

    A specification with a machine on which that command prints what it printed; None where there
    was another call, or no such machine can be made.
    """
    command = _find_command(turn)
    lines = [line for line in turn.first_output.splitlines() if line.strip()]
    if not only_looks(command) or not 0 < len(lines) <= _MAX_LINES or not can_run():
        return None
    files = _find_files(turn, command, lines)
    world = _make_world(turn.cwd, files)
    try:
        printed = World(world).call("exec", {"command": command}).text
    except Exception:  # a history may hold any name: then there is no such machine
        return None
    if printed.split() != turn.first_output.split():
        return None
    output = {
        "contains_all": [_stand_apart(mask(line)) for line in lines],
        "contains_none": RULES["not_looked_at"],
    }
    return {
        "expected_tools": ["exec"],
        "world": mask_strings(world, mask),
        "output": output,
    }


def _find_command(turn: HistoryTurn) -> str:
    """The command that was called; empty where it was not the only call."""
    if len(turn.calls) != 1:
        return ""
    return str(turn.calls[0].arguments.get("command", ""))


def _find_files(turn: HistoryTurn, command: str, lines: Sequence[str]) -> dict[str, str]:
    """The files that the history tells of, by path: what a listing names, what was read or written.

    Those that were seen last come last; one that was changed since is not among them.
    """
    files: dict[str, str] = {}
    program, *arguments = command.split()
    if program == "ls":
        folders = [argument for argument in arguments if not argument.startswith("-")]
        folder = folders[0] if folders else "."
        for line in lines:
            if not line.endswith("/"):
                files[posixpath.join(folder, line)] = ""
    for call in past_calls(turn):
        path = call.arguments.get("path")
        if call.name not in ("write", "read", "edit") or not isinstance(path, str):
            continue
        files.pop(path, None)
        text = _file_text_of(call)
        if isinstance(text, str) and len(text) <= _MAX_FILE_CHARS:
            files[path] = text
    return files


def _file_text_of(call: PastCall) -> Any:
    """What is in a file after a call; None where the call does not tell."""
    if call.name == "write":
        return call.arguments.get("content")
    is_whole_file = call.name == "read" and len(call.arguments) == 1
    return call.result if is_whole_file else None


def _make_world(cwd: str, files: dict[str, str]) -> dict[str, Any]:
    match = _HOME.match(cwd)
    home = match[0] if match else "/root"
    # A relative path is looked for at home on the machine, in the workspace in history.
    folders = (home, cwd or "/")
    files_on_machine = {}
    for path, text in list(files.items())[-_MAX_FILES:]:
        for folder in folders:
            files_on_machine[posixpath.normpath(posixpath.join(folder, path))] = text
    return {"user": posixpath.basename(home), "files": files_on_machine}


def _stand_apart(line: str) -> str:
    """What to look for in a line's stead.

    A short one must stand apart from other text, and one without letters alone on its line.
    """
    if len(line) > _SHORT_CHARS:
        return line
    pattern = r"\s+".join(re.escape(word) for word in line.split())
    has_letters = re.search(r"[^\W\d_]", line) is not None
    if has_letters:
        return rf"re:(?m)(?:^|[\s:/]){pattern}(?:\s|$)"
    return rf"re:(?m)^\s*{pattern}\s*$"
