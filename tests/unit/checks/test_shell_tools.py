"""Tools that run a command line: the call counts, and so do the commands it runs."""

from __future__ import annotations

import json
from typing import Any

from clawgauge.checks.detection import detect_tools
from support.rows import every_row


@every_row(
    ("name", "arguments", "names"),
    [
        ("exec", {"command": "free -h"}, ["exec", "free"]),
        ("Bash", {"command": "ps aux | sort -rk4 | head -3"}, ["bash", "ps", "sort", "head"]),
        ("functions.shell", {"cmd": "sudo -u bob du -sh /; df"}, ["shell", "du", "df"]),
        ("system.run", {"command": "FREE -h"}, ["system.run", "free"]),
        (
            "terminal",
            {"command": "# look first\nfree -h\ncat <<EOF > f\nrm x\nEOF"},
            ["terminal", "free", "cat"],
        ),
        ("execute_bash", {"script": "ls &&\\\n pwd", "timeout": 5}, ["execute_bash", "ls", "pwd"]),
        ("run_command", {"commands": ["ls -la", "df"]}, ["run_command", "ls", "df"]),
        ("shell", {"command": ["bash", "-lc", "free -h && df"]}, ["shell", "free", "df"]),
        ("shell", {"command": ["ls", "-la", "a b; c"]}, ["shell", "ls"]),
        ("shell", {"command": ["ls -la", "df -h"]}, ["shell", "ls", "df"]),
        ("shell", {"command": []}, ["shell"]),
        ("shell", {"command": ["bash", 5]}, ["shell"]),
        ("shell", {"command": 5}, ["shell"]),
        ("shell", {"path": "free -h"}, ["shell"]),
        ("shell", {}, ["shell"]),
        ("write_file", {"command": "free -h"}, ["write_file"]),
    ],
)
def test_commands_follow_their_tool(name: str, arguments: dict[str, Any], names: list[str]) -> None:
    """The tool comes first, then each command of the line, whichever argument and form holds it."""
    text = f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
    found = detect_tools(text)
    assert [call.name for call in found] == names
    assert {call.channel for call in found} == {"text:hermes"}


@every_row(
    ("text", "channel"),
    [
        (
            "<function=bash>\n<parameter=command>\nfree -h\n</parameter>\n</function>",
            "text:qwen3_coder",
        ),
        (
            "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>free -h</arg_value>\n</tool_call>",
            "text:glm",
        ),
        ("[bash(command='free -h')]", "text:pythonic"),
        ('[TOOL_CALLS]bash[ARGS]{"command": "free -h"}', "text:mistral"),
        (
            '<|channel|>commentary to=functions.bash<|message|>{"command": "free -h"}<|call|>',
            "text:harmony",
        ),
        ('<|tool_call>call:bash{command:<|"|>free -h<|"|>}<tool_call|>', "text:gemma"),
        ('```json\n{"name": "bash", "arguments": {"command": "free -h"}}\n```', "text:json"),
        ('{"name": "bash", "arguments": "{\\"command\\": \\"free -h\\"}"}', "text:json"),
    ],
)
def test_every_format_has_its_commands_read(text: str, channel: str) -> None:
    """A command in an argument is found in any format, in the format's own channel, with its arguments."""
    tool, command = detect_tools(text)
    assert (tool.name, tool.channel) == ("bash", channel)
    assert (command.name, command.arguments, command.channel) == ("free", "-h", channel)


def test_a_malformed_call_runs_nothing() -> None:
    """The command of a call that does not decode is not taken for one that ran."""
    found = detect_tools(
        '<tool_call>{"name": "bash", "arguments": {"command": "free -h"}</tool_call>'
    )
    assert [(call.name, call.valid) for call in found] == [("bash", False)]


def test_commands_stay_beside_their_tool() -> None:
    """In parallel calls each tool's commands come before the next tool."""
    one, other = (
        json.dumps({"name": "bash", "arguments": {"command": line}}) for line in ("a; b", "c")
    )
    found = detect_tools(f"<tool_call>[{one}, {other}]</tool_call> `d`")
    assert [call.name for call in found] == ["bash", "a", "b", "bash", "c", "d"]
