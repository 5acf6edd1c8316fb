"""Calls without marks: call objects in JSON, and a message that is nothing but a list of calls."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import detect_tools

Expected = tuple[str, Any]

CALL = '{"name": "f", "arguments": {"a": 1}}'
OTHER = '{"name": "g", "parameters": {}}'


def rows(*table: tuple[str, list[Expected]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("text", "calls"), table)


def read(text: str, format_id: str) -> list[Expected]:
    found = detect_tools(text)
    assert {call.channel for call in found} <= {f"text:{format_id}"}
    assert all(call.valid for call in found)
    return [(call.name, call.arguments) for call in found]


@rows(
    (CALL, [("f", {"a": 1})]),
    (f"  {CALL}\n", [("f", {"a": 1})]),
    (f"Sure, calling it: {CALL}", [("f", {"a": 1})]),
    (f"{CALL}\nThat should do.", [("f", {"a": 1})]),
    (f"{CALL} {OTHER}", [("f", {"a": 1}), ("g", {})]),
    (f"{CALL}; {OTHER}", [("f", {"a": 1}), ("g", {})]),
    (f"{CALL}\n{OTHER}\n", [("f", {"a": 1}), ("g", {})]),
    (f"[{CALL}, {OTHER}]", [("f", {"a": 1}), ("g", {})]),
    ('{\n  "name": "f",\n  "arguments": {\n    "a": [\n      {"b": null}\n    ]\n  }\n}',
     [("f", {"a": [{"b": None}]})]),
    ('{"type": "function", "name": "f", "parameters": {"a": 1}}', [("f", {"a": 1})]),
    ('{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}', [("f", {"a": 1})]),
    ('{"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}', [("f", {})]),
    ('{"tool_name": "f", "parameters": {}}', [("f", {})]),
    ('{"name": "f", "parameters": {"type": "object", "id": 5}}', [("f", {"type": "object", "id": 5})]),
    ('{"name": "f", "arguments": {"type": "object", "properties": {}}}',
     [("f", {"type": "object", "properties": {}})]),
    (f'A set {{x}} and a stray {{"y\n{CALL}', [("f", {"a": 1})]),
    (f"<think>{OTHER}</think>{CALL}", [("f", {"a": 1})]),
)  # fmt: skip
def test_call_objects_in_the_text(text: str, calls: list[Expected]) -> None:
    """An object with a name and arguments is a call where nothing but another one follows on its last line."""
    assert read(text, "json") == calls


@rows(
    (f"```json\n{CALL}\n```", [("f", {"a": 1})]),
    (f"```JSON\n[{CALL},\n {OTHER}]\n```\nDone.", [("f", {"a": 1}), ("g", {})]),
    (f"```json\n{CALL}\n{OTHER}\n```", [("f", {"a": 1}), ("g", {})]),
    (f"```\n{CALL}\n```", [("f", {"a": 1})]),
    (f"```json\n{CALL}```\n`", [("f", {"a": 1})]),
    (f"```json {CALL}```", [("f", {"a": 1})]),
    (f"~~~json\n{CALL}\n~~~", [("f", {"a": 1})]),
    (f"```json\n{CALL}", [("f", {"a": 1})]),
    (f"```tool_call\n{CALL}\n```", [("f", {"a": 1})]),
    (f"```python\nx = 1\n```\n{CALL}", [("f", {"a": 1})]),
)
def test_call_objects_in_a_block(text: str, calls: list[Expected]) -> None:
    """A block of JSON or of no language holds calls, one or several, in a list or not."""
    assert read(text, "json") == calls


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada Lovelace", "age": 36}',
        '{"name": "Ada Lovelace", "parameters": {}}',
        '{"name": "f"}',
        '{"arguments": {}}',
        '{"name": "f", "arguments": null}',
        '{"name": "f", "arguments": "for and against"}',
        '{"name": "f", "arguments": ""}',
        '{"name": "f", "parameters": [1, 2]}',
        '{"name": "f", "parameters": 7000000000}',
        '{"name": "42", "parameters": {}}',
        '{"name": ["f"], "parameters": {}}',
        '{"name": "f", "description": "x", "parameters": {"a": 1}}',
        '{"name": "f", "parameters": {"type": "object", "properties": {}}}',
        '{"name": "f", "parameters": {"type": "object", "properties": {"a": {}}, "required": ["a"]}}',
        '{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}',
        '{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}',
        '[{"name": "f", "arguments": {}}, {"name": "Ada", "age": 36}]',
        '{"data": {"name": "f", "arguments": {}}}',
        f'{{"data":\n{CALL}\n}}',
        f'{{"data":\n{CALL}\n, broken',
        '{"name": "f", "arguments": {},}',
        '{"name": "f", "name": "g", "arguments": {}}',
        '{"name": "f", "arguments": {}',
        f"{CALL} is what I would send.",
        f"{CALL}, and that is all",
        f"{CALL} {OTHER} is what I would send.",
        f'{CALL} {{"x": 1}}',
        f"`{CALL}`",
        f"```python\n{CALL}\n```",
        f"```yaml\n{CALL}",
        f"```bash\ncat <<EOF\n{CALL}\nEOF\n```",
        '```json\n{"ram_used_gib": 7.6}\n```',
        "[]",
        "{}",
        "[" * 5000,
        '{"a":' * 5000,
    ],
)
def test_other_json_is_data(text: str) -> None:
    """A record, a definition, a sentence about a call, broken JSON and code in another language call nothing."""
    assert not [call for call in detect_tools(text) if call.channel != "mention"]


@rows(
    ("[f(a=1), g()]", [("f", {"a": 1}), ("g", {})]),
    (" \n[f()]\n", [("f", {})]),
    ("<think>hm</think>\n[f()]", [("f", {})]),
    ("[f(a='x', b=\"y, z)\", c=[1, -2.5, 1e3], d={'k': [None, true]}, e=False,)]",
     [("f", {"a": "x", "b": "y, z)", "c": [1, -2.5, 1000.0], "d": {"k": [None, True]}, "e": False})]),
    ("[f(a='it\\'s', b=\"\\n\\x41\\u00e9\\101\\q\", c='''two\nlines''', d=\"\"\"a \"b\" c\"\"\")]",
     [("f", {"a": "it's", "b": "\nAéA\\q", "c": "two\nlines", "d": 'a "b" c'})]),
    ("[spotify.play(artist='x'), get-time()]", [("spotify.play", {"artist": "x"}), ("get-time", {})]),
    ("[\n  f(\n    a = 1,\n    from = 2\n  ),\n  g(),\n]", [("f", {"a": 1, "from": 2}), ("g", {})]),
    ("[f(a='\\ud83d\\ude00', b='\\ud800')]", [("f", {"a": "😀", "b": "\N{REPLACEMENT CHARACTER}"})]),
)  # fmt: skip
def test_a_message_that_is_a_list_of_calls(text: str, calls: list[Expected]) -> None:
    """Calls in Python's notation, with literals of every kind JSON knows."""
    assert read(text, "pythonic") == calls


@pytest.mark.parametrize(
    "text",
    [
        "[see the docs (page 3)]",
        "[f(a=1)] is the call",
        "Calling [f(a=1)]",
        "[f(a=1)][g()]",
        "[f(1)]",
        "[f(a)]",
        "[f(a=b)]",
        "[f(a=g())]",
        "[f(a=1 + 1)]",
        "[f(a==1)]",
        "[f(a=(1, 2))]",
        "[f(a={1: 2})]",
        "[f(a=007)]",
        "[f(a=1e999)]",
        "[f(a=" + "9" * 5000 + ")]",
        "[f(a='x\ny')]",
        "[f(a='x]",
        "[f, g]",
        "[]",
        "[f(a=" + "[" * 100 + "]" * 100 + ")]",
        "f(a=1)",
        "(f(a=1))",
        "```python\n[f(a=1)]\n```",
    ],
)
def test_other_messages_in_brackets_are_text(text: str) -> None:
    """Prose in brackets, a list with words around it, and whatever would have to be evaluated call nothing."""
    assert detect_tools(text) == []
