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


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole_number(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def _choice(description: str, *values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values), "description": description}


def _tool(name: str, description: str, properties: dict[str, Any], *required: str) -> Definition:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_DEFINITIONS: Mapping[str, Definition] = {
    tool["function"]["name"]: tool
    for tool in (
        _tool(
            "exec",
            "Run a command line in bash on the server and get what it prints. The usual command-line tools are there; "
            "python3, perl and node are not. There is no terminal, so nothing interactive.",
            {
                "command": _text("The command line."),
                "workdir": _text("Directory to run it in; the home directory if left out."),
            },
            "command",
        ),
        _tool(
            "read",
            "Read a text file.",
            {
                "path": _text("Path of the file."),
                "offset": _whole_number("First line to show, counted from 1."),
                "limit": _whole_number("How many lines to show at most."),
            },
            "path",
        ),
        _tool(
            "write",
            "Write a text file: it is made if it is not there and replaced if it is. Missing directories are made.",
            {"path": _text("Path of the file."), "content": _text("The whole new content.")},
            "path",
            "content",
        ),
        _tool(
            "edit",
            "Change a text file in place: the old text, which must occur exactly once, becomes the new text.",
            {
                "path": _text("Path of the file."),
                "oldText": _text("The text to replace, exactly as it stands in the file."),
                "newText": _text("The text to put in its place."),
            },
            "path",
            "oldText",
            "newText",
        ),
        _tool(
            "web_fetch",
            "Fetch a web page and get its text.",
            {"url": _text("The address, starting with http:// or https://.")},
            "url",
        ),
        _tool(
            "message",
            "Send a message to a person or a channel, or read the messages that came in.",
            {
                "action": _choice("What to do.", "send", "read"),
                "to": _text("send: the name of the person or channel."),
                "text": _text("send: what to say."),
                "from": _text("read: only messages from this person or channel."),
            },
            "action",
        ),
        _tool(
            "ask_user",
            "Ask the person who gave you the job a question, and get the answer. Use it where something only they can "
            "know or decide is missing.",
            {"question": _text("The question.")},
            "question",
        ),
        _tool(
            "cron",
            "List, add or remove scheduled jobs.",
            {
                "action": _choice("What to do.", "list", "add", "remove"),
                "schedule": _text("add: five cron fields, such as '30 2 * * *'."),
                "command": _text("add: the command line to run."),
                "name": _text("add: a short name for the job."),
                "id": _text("remove: the id of the job, as listed."),
            },
            "action",
        ),
        _tool(
            "memory",
            "Your own notes, kept between conversations: store one, search them, list them or delete one.",
            {
                "action": _choice("What to do.", "store", "search", "list", "delete"),
                "text": _text("store: the note."),
                "query": _text("search: words to look for."),
                "id": _text("delete: the id of the note, as listed."),
            },
            "action",
        ),
        _tool(
            "process",
            "List the running processes, look at one, or end one.",
            {
                "action": _choice("What to do.", "list", "info", "kill"),
                "pid": _whole_number("info, kill: the process id."),
                "signal": _choice("kill: the signal; TERM if left out.", "TERM", "KILL", "HUP", "INT"),
            },
            "action",
        ),
    )
}

TOOL_NAMES: tuple[str, ...] = tuple(_DEFINITIONS)


def tool_definitions(names: Iterable[str]) -> list[Definition]:
    """The definitions of the tools called `names`, in that order, in the shape of chat completions."""
    definitions = []
    for name in names:
        if name not in _DEFINITIONS:
            raise SuiteError(f"no built-in tool is called '{name}'; the tools are {', '.join(TOOL_NAMES)}")
        definitions.append(copy.deepcopy(_DEFINITIONS[name]))
    return definitions
