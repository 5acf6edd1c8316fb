"""The tools as a model is told of them: names, descriptions, JSON Schema parameters.

Owns: the wording a model reads. Refuses: what the tools do. The wording is part of what is measured, so a change of it
changes the hash of every suite that offers the tool.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from clawgauge.errors import SuiteError

Definition = dict[str, Any]
# An argument is text, or after its description stand the values it may have, or that it is a whole number.
_Argument = str | tuple[str, type[int]] | tuple[str, list[str]]


def _schema(argument: _Argument) -> dict[str, Any]:
    match argument:
        case (description, [*values]):
            return {"type": "string", "enum": list(values), "description": description}
        case (description, _):
            return {"type": "integer", "description": description}
    return {"type": "string", "description": argument}


def _tool(name: str, description: str, arguments: Mapping[str, _Argument], n_required: int) -> Definition:
    """The first `n_required` arguments must be given."""
    properties = {argument: _schema(given) for argument, given in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)[:n_required]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TOOLS: tuple[tuple[str, str, Mapping[str, _Argument], int], ...] = (
    (
        "exec",
        "Run a command line in bash on the server and get what it prints. The usual command-line tools are there; "
        "python3, perl and node are not. There is no terminal, so nothing interactive.",
        {"command": "The command line.", "workdir": "Directory to run it in; the home directory if left out."},
        1,
    ),
    (
        "read",
        "Read a text file.",
        {
            "path": "Path of the file.",
            "offset": ("First line to show, counted from 1.", int),
            "limit": ("How many lines to show at most.", int),
        },
        1,
    ),
    (
        "write",
        "Write a text file: it is made if it is not there and replaced if it is. Missing directories are made.",
        {"path": "Path of the file.", "content": "The whole new content."},
        2,
    ),
    (
        "edit",
        "Change a text file in place: the old text, which must occur exactly once, becomes the new text.",
        {
            "path": "Path of the file.",
            "oldText": "The text to replace, exactly as it stands in the file.",
            "newText": "The text to put in its place.",
        },
        3,
    ),
    (
        "web_fetch",
        "Fetch a web page and get its text.",
        {"url": "The address, starting with http:// or https://."},
        1,
    ),
    (
        "message",
        "Send a message to a person or a channel, or read the messages that came in.",
        {
            "action": ("What to do.", ["send", "read"]),
            "to": "send: the name of the person or channel.",
            "text": "send: what to say.",
            "from": "read: only messages from this person or channel.",
        },
        1,
    ),
    (
        "ask_user",
        "Ask the person who gave you the job a question, and get the answer. Use it where something only they can "
        "know or decide is missing.",
        {"question": "The question."},
        1,
    ),
    (
        "cron",
        "List, add or remove scheduled jobs.",
        {
            "action": ("What to do.", ["list", "add", "remove"]),
            "schedule": "add: five cron fields, such as '30 2 * * *'.",
            "command": "add: the command line to run.",
            "name": "add: a short name for the job.",
            "id": "remove: the id of the job, as listed.",
        },
        1,
    ),
    (
        "memory",
        "Your own notes, kept between conversations: store one, search them, list them or delete one.",
        {
            "action": ("What to do.", ["store", "search", "list", "delete"]),
            "text": "store: the note.",
            "query": "search: words to look for.",
            "id": "delete: the id of the note, as listed.",
        },
        1,
    ),
    (
        "process",
        "List the running processes, look at one, or end one.",
        {
            "action": ("What to do.", ["list", "info", "kill"]),
            "pid": ("info, kill: the process id.", int),
            "signal": ("kill: the signal; TERM if left out.", ["TERM", "KILL", "HUP", "INT"]),
        },
        1,
    ),
)
_DEFINITIONS = {tool[0]: _tool(*tool) for tool in _TOOLS}
TOOL_NAMES: tuple[str, ...] = tuple(_DEFINITIONS)


def tool_definitions(names: Iterable[str]) -> list[Definition]:
    """The definitions of the tools called `names`, in that order, in the shape of chat completions."""
    definitions = []
    for name in names:
        if name not in _DEFINITIONS:
            raise SuiteError(f"no built-in tool is called '{name}'; the tools are {', '.join(TOOL_NAMES)}")
        definitions.append(copy.deepcopy(_DEFINITIONS[name]))
    return definitions
