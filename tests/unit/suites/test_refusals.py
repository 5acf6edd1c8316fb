"""Every bad suite is refused before anything is sent, with the file, the prompt, the key and a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.suites import load_suite
from support.rows import every_row

GOOD: dict[str, Any] = {"id": "A", "name": "n", "prompt": "p", "validator": {"type": "noop"}}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "lookup", "parameters": {"type": "object"}},
}


def refusal(path: Path, content: object) -> str:
    """Write the file, load it, and give back what the user is told, without the path in front."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
    with pytest.raises(SuiteError) as caught:
        load_suite(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


BAD_PROMPTS: list[tuple[str, object, str]] = [
    ("not_an_object", "say hi", "must be an object with id, name, prompt, validator"),
    (
        "id_missing",
        {"id": None},
        "prompt 2, key 'id' is missing; it must be text that is not blank",
    ),
    ("id_number", {"id": 7}, "prompt 2, key 'id' must be text that is not blank, not 7"),
    ("id_blank", {"id": " "}, "prompt 2, key 'id' must be text that is not blank, not ' '"),
    (
        "id_comma",
        {"id": "a,b"},
        "prompt 2 ('a,b'), key 'id' must be a short plain word without comma",
    ),
    (
        "id_control",
        {"id": "a\nb"},
        "prompt 2 ('a\\nb'), key 'id' must be a short plain word without comma",
    ),
    (
        "id_twice",
        {"id": "A"},
        "prompt 2 ('A'), key 'id': 'A' is already the id of prompt 1; give each its own",
    ),
    (
        "prompt_empty",
        {"prompt": ""},
        "prompt 2 ('B'), key 'prompt' must be text that is not blank, not ''",
    ),
    (
        "validator_missing",
        {"validator": None},
        'key \'validator\' is missing; it must be an object such as {"type": "noop"}',
    ),
    ("validator_text", {"validator": "noop"}, "key 'validator' must be an object such as"),
    (
        "unknown_key",
        {"promt": "x"},
        "prompt 2 ('B'), key 'promt' is not known here; did you mean 'prompt'",
    ),
    (
        "far_key",
        {"zzzz": 1},
        "prompt 2 ('B'), key 'zzzz' is not known here; the keys here are id, name, prompt",
    ),
    (
        "pair_unknown",
        {"pair": "nobody"},
        "prompt 2 ('B'), key 'pair': 'nobody' is not known; give the id of a prompt of this suite",
    ),
    ("pair_itself", {"pair": "B"}, "key 'pair': names the prompt itself; name the other one"),
    ("pair_number", {"pair": 1}, "key 'pair' must be text that is not blank, not 1"),
    (
        "pair_variants",
        {"pair": "A", "prompt": "{p}", "variants": [{"p": "one"}, {"p": "two"}]},
        "key 'pair': given with 'variants'; the prompts of a pair have one form each",
    ),
    ("category_number", {"category": 3}, "key 'category' must be text, not 3"),
    ("system_object", {"system": {}}, "key 'system' must be text, not an object"),
    (
        "temperature_text",
        {"temperature": "0"},
        "key 'temperature' must be a number, 0 or more, not '0'",
    ),
    (
        "temperature_low",
        {"temperature": -0.1},
        "key 'temperature' must be a number, 0 or more, not -0.1",
    ),
    (
        "max_tokens_float",
        {"max_tokens": 1.5},
        "key 'max_tokens' must be a whole number, 1 or more, not 1.5",
    ),
    (
        "max_tokens_zero",
        {"max_tokens": 0},
        "key 'max_tokens' must be a whole number, 1 or more, not 0",
    ),
    (
        "expected_text",
        {"expected_tool_calls": "df"},
        "key 'expected_tool_calls' must be a list of tool names, not 'df'",
    ),
    (
        "expected_blank",
        {"expected_tool_calls": ["df", " "]},
        "key 'expected_tool_calls[1]' must be text that is not blank",
    ),
    (
        "tools_object",
        {"tools": TOOL},
        "key 'tools' must be a list of tool definitions, not an object",
    ),
    ("tool_text", {"tools": ["f"]}, "key 'tools[0]': must be an object"),
    (
        "tool_type",
        {"tools": [{**TOOL, "type": "web"}]},
        "key 'tools[0].type' must be 'function', not 'web'",
    ),
    (
        "tool_bare",
        {"tools": [{"type": "function", "name": "f"}]},
        "key 'tools[0].function' is missing; it must be an object with name",
    ),
    (
        "tool_name",
        {"tools": [{"type": "function", "function": {"name": 1}}]},
        "key 'tools[0].function.name' must be text",
    ),
    (
        "tool_parameters",
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
        "key 'tools[0].function.parameters' must be an object, not a list",
    ),
    ("tool_twice", {"tools": [TOOL, TOOL]}, "key 'tools[1]': 'lookup' is offered twice"),
    (
        "choice_alone",
        {"tool_choice": "auto"},
        "key 'tool_choice': given without 'tools'; offer some, or leave it out",
    ),
    (
        "choice_word",
        {"tools": [TOOL], "tool_choice": "always"},
        'key \'tool_choice\': must be "auto", "none"',
    ),
    (
        "choice_stranger",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        "key 'tool_choice': names 'other', which is not offered; the tools are lookup",
    ),
    (
        "format_type",
        {"response_format": {"type": "xml"}},
        "prompt 2 ('B'), key 'response_format.type' must be one of json_schema, json_object, not 'xml'",
    ),
    (
        "format_without_schema",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer"}}},
        "key 'response_format.json_schema.schema' is missing; it must be an object",
    ),
    (
        "format_name",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "my answer", "schema": {}},
            }
        },
        "key 'response_format.json_schema.name' must be up to 64 letters, digits, underscores and hyphens",
    ),
    (
        "format_of_a_task",
        {"response_format": {"type": "json_object"}, "world": {"files": {}}},
        "key 'response_format': given with 'world'; a task's answers may be calls, so leave it out",
    ),
    (
        "surrogate",
        {"prompt": "\ud800"},
        "prompt 2 ('B'), key 'prompt': holds half of a surrogate pair",
    ),
    (
        "huge_integer",
        {"max_tokens": 2**64},
        "prompt 2 ('B'), key 'max_tokens': the integer does not fit in 64 bits",
    ),
    (
        "infinite",
        {"temperature": float("inf")},
        "prompt 2 ('B'), key 'temperature': the number is not finite",
    ),
]


@every_row(("change", "expected"), [pytest.param(c, e, id=i) for i, c, e in BAD_PROMPTS])
def test_bad_prompt_is_refused_by_name(tmp_path: Path, change: object, expected: str) -> None:
    """A bad prompt is refused with its position, its id where it has one, the key, and what is wrong with it."""
    entry = {**GOOD, "id": "B", **change} if isinstance(change, dict) else change
    assert expected in refusal(tmp_path / "s.json", [GOOD, entry])
    assert expected in refusal(tmp_path / "s.json", {"name": "s", "prompts": [GOOD, entry]})


def test_a_pair_is_two_prompts_and_no_more(tmp_path: Path) -> None:
    """Neither three prompts that name one, nor a chain, wherever in the file the first of them stands."""
    second = GOOD | {"id": "B", "pair": "A"}
    third = GOOD | {"id": "C", "pair": "A"}
    told = refusal(tmp_path / "three.json", {"prompts": [GOOD, second, third]})
    assert told == "prompt 3 ('C'), key 'pair': 'A' is in a pair with 'B'; a pair has two prompts"
    chained = third | {"pair": "B"}
    for prompts in ([GOOD, second, chained], [chained, second, GOOD]):
        told = refusal(tmp_path / "chain.json", {"prompts": prompts})
        assert "'B' is the second prompt of a pair itself; a pair has two prompts" in told
    path = tmp_path / "good.json"
    path.write_text(json.dumps({"prompts": [second, GOOD]}))
    assert [prompt.pair for prompt in load_suite(str(path)).prompts] == ["A", None]


def test_bad_validator_is_refused_with_its_prompt(tmp_path: Path) -> None:
    """What is wrong with a validator is told behind the file, the prompt and its id."""
    message = refusal(
        tmp_path / "s.json", [GOOD, {**GOOD, "id": "B", "validator": {"type": "exact"}}]
    )
    assert message.startswith("prompt 2 ('B'): validator: key 'value' is missing")


@every_row(
    ("content", "expected"),
    [
        ({"prompt": []}, "key 'prompt' is not known here; did you mean 'prompts'?"),
        ({"name": "s"}, "key 'prompts' is missing; it must be a list of one or more prompts"),
        ({"prompts": {"A": GOOD}}, "key 'prompts' must be a list of one or more prompts"),
        ([], "key 'prompts' is empty"),
        ({"version": 1, "prompts": [GOOD]}, "key 'version' must be text, not 1"),
        (
            {"name": ["s"], "prompts": [GOOD]},
            "key 'name' must be text that is not blank, not a list",
        ),
        ({"name": "a\tb", "prompts": [GOOD]}, "key 'name' must be a short plain word"),
        (
            {"temperature": "hot", "prompts": [GOOD]},
            "key 'temperature' must be a number, 0 or more, not 'hot'",
        ),
        (
            "3",
            "holds a whole number; a suite is a list of prompts, or an object with the key 'prompts'",
        ),
        (
            [{**GOOD, "id": f"P{number}"} for number in range(10_001)],
            "key 'prompts': 10001 prompts; at most 10000",
        ),
    ],
    ids=[
        "near_key",
        "no_prompts",
        "object",
        "none",
        "version",
        "name",
        "name_tab",
        "sampling",
        "scalar",
        "too_many",
    ],
)
def test_bad_header_is_refused_by_key(tmp_path: Path, content: object, expected: str) -> None:
    """A fault outside the prompts names the key of the header."""
    assert refusal(tmp_path / "s.json", content).startswith(expected)


DEEP = 100_000
BAD_FILES: list[tuple[str, object, str]] = [
    ("s.json", "[{]", "not JSON at line 1, column 3"),
    ("s.json", "", "not JSON at line 1, column 1"),
    (
        "s.json",
        '[{"id": "A", "name": NaN}]',
        "prompt 1 ('A'), key 'name': the number is not finite",
    ),
    (
        "s.json",
        '[{"id": "A", "prompt": "p", "id": "B"}]',
        "prompt 1 ('B'), key 'id': given twice in one object",
    ),
    (
        "s.json",
        '[{"id": "A", "validator": {"type": 1, "type": 2}}]',
        "prompt 1 ('A'), key 'validator.type': given twice",
    ),
    (
        "s.json",
        '{"name": "a", "name": "b"}',
        "key 'name': given twice in one object; keep one of them",
    ),
    ("s.json", "[" * DEEP, "nested deeper than 64 levels; flatten it"),
    (
        "s.json",
        "[" * 90 + "]" * 90,
        "prompt 1, key '" + "[0]" * 64 + "': nested deeper than 64 levels",
    ),
    (
        "s.json",
        '[{"max_tokens": ' + "9" * 5000 + "}]",
        "an integer of 5000 digits does not fit in 64 bits",
    ),
    ("s.json", b'["caf\xe9"]', "not UTF-8 at byte 5; save it as UTF-8"),
    ("s.json", '["a"]'.encode("utf-16"), "not UTF-8 at byte 0; save it as UTF-8"),
    ("s.json", b"[" + b"{}," * 6_000_000 + b"{}]", "holds more than 4,000,000 values; split it"),
    ("s.txt", "[]", "a suite file ends in .json, .toml, .yaml or .yml; rename it"),
    ("s.toml", "name = ", "not TOML: Invalid value (at end of document)"),
    ("s.toml", 'name = "a"\nname = "b"', "not TOML: Cannot overwrite a value"),
    (
        "s.toml",
        "[[prompts]]\nid = 'A'\nname = 2026-02-13",
        "prompt 1 ('A'), key 'name': holds a date; put it in quotes",
    ),
    ("s.toml", "temperature = nan", "key 'temperature': the number is not finite"),
    ("s.toml", "max_tokens = " + "9" * 5000, "an integer does not fit in 64 bits"),
    ("s.toml", "name = " + "[" * DEEP, "nested deeper than 64 levels"),
    ("s.toml", "a" + ".a" * DEEP + " = 1", "a key of more than 64 dotted parts; flatten it"),
    ("s.toml", "[a" + '."a"' * DEEP + "]", "a key of more than 64 dotted parts; flatten it"),
    (
        "s.toml",
        "x = { a" + " . 'a'" * DEEP + " = 1 }",
        "a key of more than 64 dotted parts; flatten it",
    ),
    ("s.yaml", "prompts: [", "not YAML at line"),
    ("s.yaml", "a: b: c", "not YAML at line 1"),
    ("s.yaml", "name: \x07", "not YAML"),
    ("s.yaml", "", "holds null; a suite is a list of prompts"),
    (
        "s.yaml",
        "- id: A\n  name: a\n  name: b",
        "prompt 1 ('A'), key 'name': given twice in one object",
    ),
    (
        "s.yaml",
        "- &x {id: A}\n- *x",
        "line 1: anchors and aliases (&x) are not allowed; write the value out",
    ),
    (
        "s.yaml",
        "- {id: A, name: *name}",
        "line 1: anchors and aliases (*name) are not allowed; write the value out or quote it",
    ),
    (
        "s.yaml",
        "- id: !!python/object/apply:os.system [ls]",
        "line 1: tags (tag:yaml.org,2002:python/object/apply:os",
    ),
    ("s.yaml", "- id: !!binary aGk=", "line 1: tags (tag:yaml.org,2002:binary) are not allowed"),
    ("s.yaml", "- id: !mine x", "line 1: tags (!mine) are not allowed"),
    ("s.yaml", "- id: A\n  <<: {name: n}", "prompt 1 ('A'), key '<<' is not known here"),
    ("s.yaml", "- ? [a]\n  : b", "line 1: a key must be text; put it in quotes"),
    ("s.yaml", "- id: A\n---\n- id: B", "line 2: a second YAML document"),
    ("s.yaml", "[" * DEEP, "line 1: nested deeper than 64 levels"),
    ("s.yaml", "{" * DEEP, "line 1: a key must be text; put it in quotes"),
    ("s.yaml", "{a: " * DEEP, "line 1: nested deeper than 64 levels"),
    ("s.yaml", "- " * 80 + "x", "line 1: nested deeper than 64 levels"),
    ("s.yaml", "- id: " + "9" * 5000, "an integer of 5000 digits does not fit in 64 bits"),
    ("s.yaml", "temperature: 1e999\nprompts: []", "key 'temperature': the number is not finite"),
]


@every_row(
    ("name", "content", "expected"), BAD_FILES, ids=[f"{n}-{e[:40]}" for n, _, e in BAD_FILES]
)
def test_bad_file_is_refused(tmp_path: Path, name: str, content: object, expected: str) -> None:
    """A file that is broken, ambiguous or hostile is refused in one sentence that says where."""
    assert refusal(tmp_path / name, content).startswith(expected)


def test_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    """Nine lines of YAML that would unfold to a billion values are refused without unfolding one."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    told = refusal(tmp_path / "bomb.yaml", "\n".join(lines))
    assert told.startswith("line 1: anchors and aliases (&a0)"), (
        "the first anchor is enough, before any alias"
    )


def test_missing_file_and_directory_are_refused(tmp_path: Path) -> None:
    """A path that leads nowhere, or to a directory, says so."""
    with pytest.raises(SuiteError, match=r"none\.json: no such file; check the path"):
        load_suite("none.json", base_dir=tmp_path)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(SuiteError, match=r"folder\.json: is a directory; name a file in it"):
        load_suite("folder.json", base_dir=tmp_path)
    with pytest.raises(SuiteError, match=r"sub/none: a suite file ends in \.json"):
        load_suite("sub/none", base_dir=tmp_path)
    (tmp_path / "file.json").write_text("[]")
    with pytest.raises(SuiteError, match=r"file\.json/x\.json: cannot be read \(Not a directory\)"):
        load_suite("file.json/x.json", base_dir=tmp_path)


def test_paths_no_file_can_have_are_refused() -> None:
    """A NUL in the path, or the home of a user who does not exist, is a refusal and not a crash."""
    with pytest.raises(SuiteError, match="take the NUL character out"):
        load_suite("a\x00b.json")
    with pytest.raises(SuiteError, match="names a home directory that is not there"):
        load_suite("~no-such-user-here/s.json")


def test_dotted_text_at_the_start_of_a_line_is_not_a_key_bomb(tmp_path: Path) -> None:
    """Prompts may hold version numbers, host names and IPv6 reverse names at the start of a line."""
    name = ".".join("b8d01200") + ".0" * 24 + ".ip6.arpa"
    body = f"[[prompts]]\nid = 'A'\nname = 'n'\nvalidator = {{ type = 'noop' }}\nprompt = '''\n{name}\n1.2.3.4'''\n"
    (tmp_path / "s.toml").write_text(body)
    assert load_suite(str(tmp_path / "s.toml")).prompts[0].prompt == f"{name}\n1.2.3.4"


def _numbered(schema: dict[str, Any], *values: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"n": schema}}
    tool = {"type": "function", "function": {"name": "t", "parameters": parameters}}
    calls = [{"name": "t", "arguments": {"n": list(values)}}]
    return {"tools": [tool], "validator": {"type": "tool_call", "expected_calls": calls}}


def _task(world: dict[str, Any], condition: dict[str, Any]) -> dict[str, Any]:
    return {
        "tools": ["exec", "message"],
        "world": world,
        "validator": {"type": "world_state", "expect": [condition]},
    }


_RESTARTS = {
    "type": "effect",
    "expected_tools": ["exec"],
    "expect": [{"service": "nginx", "restarted": True}],
}
IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    (
        "too_large",
        _numbered({"type": "integer", "maximum": 10}, 10, 11),
        "n[1]' is 11, but the schema's 'maximum' is 10",
    ),
    (
        "at_the_edge",
        _numbered({"type": "number", "exclusiveMinimum": 0}, 0),
        "the schema's 'exclusiveMinimum' is 0",
    ),
    (
        "no_such_word",
        _numbered({"type": "string", "enum": ["a"]}, "re:b.*"),
        "which no value of the schema's enum fits",
    ),
    (
        "no_such_service",
        _task({}, {"service": "nginx", "state": "active"}),
        "expect[0].service' is 'nginx', which is not",
    ),
    (
        "no_such_person",
        _task({"contacts": ["dana"]}, {"message": "mika"}),
        "expect[0].message' is 'mika', who is not",
    ),
    (
        "service_of_an_effect",
        {"validator": _RESTARTS},
        "expect[0].service' is 'nginx', which is not among the world's",
    ),
    (
        "nothing_to_run_it",
        {
            "tools": [TOOL],
            "validator": {
                "type": "effect",
                "expected_tools": ["exec"],
                "output": {"contains_all": ["x"]},
            },
        },
        "none of the tools runs a command; offer 'exec'",
    ),
]


@every_row(("name", "keys", "words"), IMPOSSIBLE)
def test_what_no_answer_could_pass_is_refused(
    tmp_path: Path, name: str, keys: dict[str, Any], words: str
) -> None:
    assert words in refusal(tmp_path / f"{name}.json", {"name": "s", "prompts": [GOOD | keys]})


def test_what_an_answer_can_just_pass_is_accepted(tmp_path: Path) -> None:
    """The edges of a range, a pattern that one word fits, a unit by its full name, a channel without its mark."""
    fine = [
        _numbered({"type": "integer", "minimum": 1, "maximum": 10}, 1, 10),
        _numbered({"type": "string", "enum": ["low", "high"]}, "re:h.*"),
        _task(
            {"services": [{"name": "web"}]},
            {"service": "web.service", "restarted": True, "since": "/etc/web.conf"},
        ),
        _task({"contacts": ["#ops"]}, {"message": "ops", "times": 1}),
    ]
    path = tmp_path / "fine.json"
    prompts = [GOOD | keys | {"id": f"P{number}"} for number, keys in enumerate(fine)]
    path.write_text(json.dumps({"name": "s", "prompts": prompts}), encoding="utf-8")
    assert len(load_suite(str(path)).prompts) == len(fine)
