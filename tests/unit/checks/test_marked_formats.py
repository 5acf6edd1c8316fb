"""Calls in a format of their own: between marks, family by family, or bare. A row holds an answer and its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clawgauge.checks.detection import detect_tools
from support.rows import Test, every_row

Expected = tuple[str, Any]


def rows(*table: tuple[str, list[Expected]]) -> Callable[[Test], Test]:
    return every_row(("text", "calls"), table)


def read(text: str, format_id: str) -> list[Expected]:
    """The calls in `text`, all of which must be valid and in that format."""
    found = detect_tools(text)
    assert {call.channel for call in found} == {f"text:{format_id}"}
    assert all(call.valid for call in found)
    return [(call.name, call.arguments) for call in found]


@rows(
    ('<tool_call>{"name":"f","arguments":{}}</tool_call>', [("f", {})]),
    ('<tool_call>\n{"name": "f", "arguments": {"a": [1, -2.5, true, null], "b": {"c": "é \\u00e9 \\n"}}}\n'
     "</tool_call>", [("f", {"a": [1, -2.5, True, None], "b": {"c": "é é \n"}})]),
    ('Sure.\n<tool_call>{"arguments": {"a": 1}, "name": "F"}</tool_call>\nDone.', [("f", {"a": 1})]),
    ('<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "b", "arguments": {}}\n'
     "</tool_call>", [("a", {}), ("b", {})]),
    ('<tool_call>{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}</tool_call>', [("a", {}), ("b", {})]),
    ('<tool_call>[{"name": "a", "arguments": {}}, {"name": "b"}]</tool_call>', [("a", {}), ("b", None)]),
    ('<tool_call>\n```json\n{"name": "a", "arguments": {}}\n```\n</tool_call>', [("a", {})]),
    ('<tool_call>{"name": "a", "arguments": {}}', [("a", {})]),
    ('<tool_call>{"name": "a", "arguments": {}}</tool_ca', [("a", {})]),
    ('<tool_call>{"name": "a", "arguments": {}}\n<tool_call>{"name": "b", "arguments": {}}', [("a", {}), ("b", {})]),
    ('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', [("a", {"x": 1})]),
    ('<tool_call>{"name": "a", "arguments": null}</tool_call>', [("a", {})]),
    ('<tool_call>{"name": "a", "arguments": {"x": "</tool_call> \\" {"}}</tool_call>',
     [("a", {"x": '</tool_call> " {'})]),
    ('<tool_call>{"type": "function", "function": {"name": "a", "arguments": {}}}</tool_call>', [("a", {})]),
    ('<tool_call>{"name": "functions.my-tool.v2", "arguments": {}}</tool_call>', [("my-tool.v2", {})]),
    ('<think>\n<tool_call>{"name": "no", "arguments": {}}</tool_call>\n</think>\n<tool_call>{"name": "a"}</tool_call>',
     [("a", None)]),
)  # fmt: skip
def test_hermes(text: str, calls: list[Expected]) -> None:
    """JSON objects in `tool_call` tags: one, several, in a list, in a fence, with the closing tag left out."""
    assert read(text, "hermes") == calls


@rows(
    ("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", [("f", {"a": "1"})]),
    ("<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", [("f", {"a": "1"})]),
    ("<function=f>\n</function>", [("f", {})]),
    ('<function=f>\n<parameter=a>\n["x", {"y": 1}]\n</parameter>\n</function>', [("f", {"a": ["x", {"y": 1}]})]),
    ("<function=f>\n<parameter=a>\n[not, json\n</parameter>\n</function>", [("f", {"a": "[not, json"})]),
    ("<function=f>\n<parameter=a>\n\n  two\n\n lines \n\n</parameter>\n</function>",
     [("f", {"a": "\n  two\n\n lines \n"})]),
    ("<function=f><parameter=a>x < y && </b></parameter></function>", [("f", {"a": "x < y && </b>"})]),
    ("<function=f><parameter=a>1<parameter=b>2</function>", [("f", {"a": "1", "b": "2"})]),
    ("<function=f><parameter=a>1</function><function=g></function>", [("f", {"a": "1"}), ("g", {})]),
    ("<function=f><parameter=a>1</parameter>", [("f", {"a": "1"})]),
    ("<function=f><parameter=a>1", [("f", {"a": "1"})]),
    ("<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>", [("f", {"a": "1"})]),
    ('Now:\n<function="my-f.g">\n<parameter="a">1</parameter>\n</function>\nok', [("my-f.g", {"a": "1"})]),
)  # fmt: skip
def test_qwen_coder(text: str, calls: list[Expected]) -> None:
    """Tags that hold the name behind an equals sign, with the outer tag or without; text stays text."""
    assert read(text, "qwen3_coder") == calls


@rows(
    ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", [("f", {"a": "1"})]),
    ("<tool_call>f<arg_key>a</arg_key><arg_value>x y</arg_value><arg_key>b</arg_key><arg_value>[1]</arg_value>"
     "</tool_call>", [("f", {"a": "x y", "b": [1]})]),
    ("<tool_call>get-time\n</tool_call><tool_call>g</tool_call>", [("get-time", {}), ("g", {})]),
    ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1", [("f", {"a": "1"})]),
    ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</tool_call>", [("f", {"a": "1"})]),
)  # fmt: skip
def test_glm(text: str, calls: list[Expected]) -> None:
    """A name and pairs of tags."""
    assert read(text, "glm") == calls


@rows(
    ('<longcat_tool_call>{"name": "f", "arguments": {"a": 1}}</longcat_tool_call>', [("f", {"a": 1})]),
    ("<longcat_tool_call>f\n<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n"
     "</longcat_tool_call>", [("f", {"a": "1"})]),
)  # fmt: skip
def test_longcat(text: str, calls: list[Expected]) -> None:
    """The two grammars above under a prefix of their own."""
    assert read(text, "longcat") == calls


@rows(
    ('<|python_tag|>{"name": "f", "parameters": {"a": "1"}}', [("f", {"a": "1"})]),
    ('<|python_tag|>{"type": "function", "name": "f", "parameters": {}}<|eom_id|>', [("f", {})]),
    (
        '<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}',
        [("f", {}), ("g", {})],
    ),
    ('<|python_tag|>{"name": "f", "parameters": {}}\nand that is all', [("f", {})]),
    ('<function=f>{"a": [1]}</function>', [("f", {"a": [1]})]),
    (
        '<function=f>{}</function> <function=g> {"b": "</function>"} </function>',
        [("f", {}), ("g", {"b": "</function>"})],
    ),
    ('<function=f>{"a": 1}', [("f", {"a": 1})]),
)
def test_llama_json(text: str, calls: list[Expected]) -> None:
    """Objects behind the Python tag, and one object in a tag that names the function."""
    assert read(text, "llama3_json") == calls


@rows(
    ("<function_calls>\nf(a=1)\n</function_calls>", [("f", {"a": 1})]),
    ("<function_calls>f(a=1)\ng(b='x', c=null)\nh()\n</function_calls>", [("f", {"a": 1}), ("g", {"b": "x", "c": None}),
     ("h", {})]),
    ("<function_calls>\n[f(a=1), g()]\n</function_calls>", [("f", {"a": 1}), ("g", {})]),
    ("<function_calls>\nf(a=1)", [("f", {"a": 1})]),
)  # fmt: skip
def test_olmo(text: str, calls: list[Expected]) -> None:
    """Calls in Python's notation, one a line."""
    assert read(text, "olmo") == calls


@rows(
    ("<|tool_call_start|>[f(a=1)]<|tool_call_end|>", [("f", {"a": 1})]),
    ('<|tool_call_start|>[f(a="x, y)", b={"k": [True]}), my_ns.g()]<|tool_call_end|>Checking.',
     [("f", {"a": "x, y)", "b": {"k": [True]}}), ("my_ns.g", {})]),
    ("<|tool_call_start|>f(a=1)<|tool_call_end|>", [("f", {"a": 1})]),
    ('<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}}]<|tool_call_end|>', [("f", {"a": 1})]),
)  # fmt: skip
def test_lfm2(text: str, calls: list[Expected]) -> None:
    """A list in Python's notation, or in JSON, between two tokens."""
    assert read(text, "lfm2") == calls


@rows(
    ('<|python_tag|>brave_search.call(query="a b")', [("brave_search", {"query": "a b"})]),
    ("<|python_tag|>[f(a=1)]", [("f", {"a": 1})]),
    ("<|python_start|>[f(a=1), g()]<|python_end|>", [("f", {"a": 1}), ("g", {})]),
)
def test_llama_python(text: str, calls: list[Expected]) -> None:
    """Calls in Python's notation behind Llama's tokens; a built-in tool is called by a method."""
    assert read(text, "pythonic") == calls


@rows(
    ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}, "id": "VvvODy9mT"}]',
     [("f", {"a": 1}), ("g", {})]),
    ('[TOOL_CALLS][{"name": "f", "arguments": {}}]', [("f", {})]),
    ('[TOOL_CALLS]{"name": "f", "arguments": {}}', [("f", {})]),
    ('[TOOL_CALLS]f[ARGS]{"a": 1}', [("f", {"a": 1})]),
    ('[TOOL_CALLS]f{"a": "[TOOL_CALLS]"}', [("f", {"a": "[TOOL_CALLS]"})]),
    ('[TOOL_CALLS]f[CALL_ID]VvvODy9mT[ARGS]{"a": 1}[TOOL_CALLS]g-h[CALL_ID]X[ARGS]{}', [("f", {"a": 1}), ("g-h", {})]),
    ('Let me look.[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g{}', [("f", {"a": 1}), ("g", {})]),
    ('[TOOL_CALLS]f[ARGS]{"a": 1} [1] is the source', [("f", {"a": 1})]),
)  # fmt: skip
def test_mistral(text: str, calls: list[Expected]) -> None:
    """A list of objects, or a name and an object, with ids or without."""
    assert read(text, "mistral") == calls


@rows(
    ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>\n'
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     [("f", {"a": 1}), ("g", {})]),
    ('<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>', [("f", {"a": 1})]),
    ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}<｜tool▁call▁end｜>", [("function", {})]),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁calls▁end｜>", [("f", {})]),
    ("<|tool_call_begin|>f<|tool_sep|>{}<|tool_call_end|>", [("f", {})]),
    ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
     '<｜DSML｜parameter name="a" string="true">1</｜DSML｜parameter>\n'
     '<｜DSML｜parameter name="b" string="false">[1, true]</｜DSML｜parameter>\n'
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     [("f", {"a": "1", "b": [1, True]})]),
    ('<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n<｜DSML｜invoke name="g">{"a": 1}</｜DSML｜invoke>',
     [("f", {}), ("g", {"a": 1})]),
    ('<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">3</parameter>', [("f", {"a": 3})]),
)  # fmt: skip
def test_deepseek(text: str, calls: list[Expected]) -> None:
    """A name and an object, fenced or not, and the markup that came later, where each argument says if it is text."""
    assert read(text, "deepseek") == calls


@rows(
    ('<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
     "<|tool_call_begin|>functions.g-h:12<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     [("f", {"a": 1}), ("g-h", {})]),
    ("<|tool_call_begin|> f <|tool_call_argument_begin|> {} <|tool_call_end|>", [("f", {})]),
    ("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|><|tool_call_end|>", [("f", {})]),
    ('<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|> 1 '
     '<|close|>argument<|sep|><|open|>argument key="b" type="number"<|sep|>2<|close|>argument<|sep|>'
     '<|close|>call<|sep|><|open|>call tool="g" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
     [("f", {"a": " 1 ", "b": 2}), ("g", {})]),
    ('<|open|>call tool="f"<|sep|><|open|>argument key="a&quot;&amp;" type="array"<|sep|>[{}]<|close|>argument<|sep|>',
     [("f", {'a"&': [{}]})]),
    ('<|open|>call tool="f" index="1"<|sep|><|open|>json type="object"<|sep|>{"a": 1}<|close|>json<|sep|>'
     "<|close|>call<|sep|>", [("f", {"a": 1})]),
    ('<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>cut', [("f", {"a": "cut"})]),
    ('<|open|>think<|sep|>`rm`<|close|>think<|sep|><|open|>call tool="f"<|sep|><|close|>call<|sep|>', [("f", {})]),
)  # fmt: skip
def test_kimi(text: str, calls: list[Expected]) -> None:
    """Two generations of one family: a name with an index, and a markup with typed arguments."""
    assert read(text, "kimi") == calls


@rows(
    ('<|channel|>commentary to=functions.f<|constrain|>json<|message|>{"a": 1}<|call|>', [("f", {"a": 1})]),
    ('<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "<|call|>"}<|call|>',
     [("f", {"a": "<|call|>"})]),
    ('<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>', [("f", {"a": 1})]),
    ("<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>"
     "<|start|>assistant<|channel|>commentary to=functions.g<|message|>{}", [("f", {}), ("g", {})]),
    ("<|channel|>commentary to=functions.f<|message|><|call|>", [("f", {})]),
    ('<|channel|>analysis to=browser.search code<|message|>{"query": "x"}<|call|>',
     [("browser.search", {"query": "x"})]),
    ("<|channel|>analysis to=python code<|message|>import os<|call|>", [("python", "import os")]),
    ("<|channel|>analysis<|message|>maybe `rm -rf /`, or {\"name\": \"x\", \"arguments\": {}}<|end|>"
     "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>", [("f", {})]),
)  # fmt: skip
def test_harmony(text: str, calls: list[Expected]) -> None:
    """A message to a tool is a call, on whichever channel; analysis to no one is thinking."""
    assert read(text, "harmony") == calls


@rows(
    ('<function_calls>\n<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n</function_calls>',
     [("f", {"a": "1"})]),
    ('<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n'
     '<invoke name="g">\n</invoke>\n</minimax:tool_call>', [("f", {"a": "1"}), ("g", {})]),
    ("<ns:invoke name='My-Tool'><ns:parameter name='a'>\nx\ny\n</ns:parameter></ns:invoke>",
     [("my-tool", {"a": "x\ny"})]),
    ('<invoke name="f">{"a": 1}</invoke>', [("f", {"a": 1})]),
    ('<invoke name="f"><parameter name="a">1</parameter><parameter name="b">{"k": 2}</parameter>',
     [("f", {"a": "1", "b": {"k": 2}})]),
    ('<invoke name="write"><parameter name="text"><tool_call>{"name": "no"}</tool_call> `rm -rf /`</parameter>'
     "</invoke>",
     [("write", {"text": '<tool_call>{"name": "no"}</tool_call> `rm -rf /`'})]),
)  # fmt: skip
def test_invoke(text: str, calls: list[Expected]) -> None:
    """Tags with the name as an attribute, bare or wrapped; what an argument quotes is no call."""
    assert read(text, "invoke") == calls


@rows(
    ('<function name="f"><param name="a">1</param></function>', [("f", {"a": "1"})]),
    ('<function name="f"><param name="a"><![CDATA[</param>\n&]]></param><param name="b">2</param></function>',
     [("f", {"a": "</param>\n&", "b": "2"})]),
    ('<function name="f"></function>\n<function name="g"><param name="a">', [("f", {}), ("g", {"a": ""})]),
)  # fmt: skip
def test_minicpm(text: str, calls: list[Expected]) -> None:
    """The same with other words, and values that may be quoted whole."""
    assert read(text, "minicpm") == calls


@rows(
    ("<start_function_call>call:f{a:<escape>v<escape>}<end_function_call>", [("f", {"a": "v"})]),
    ("<start_function_call>call:f{a:<escape>x, {y}: z<escape>,n:-3,r:1.5,t:true,l:[<escape>p<escape>,2,[]],o:{k:null}}"
     "<end_function_call>",
     [("f", {"a": "x, {y}: z", "n": -3, "r": 1.5, "t": True, "l": ["p", 2, []], "o": {"k": None}})]),
    ('<|tool_call>call:f{a:<|"|>v<|"|>}<tool_call|><|tool_call>call:my-ns.g{}<tool_call|>',
     [("f", {"a": "v"}), ("my-ns.g", {})]),
    ('<|tool_call> call:f { <|"|>a<|"|> : 2024-01-02 10:30 , "b" : "c" } <tool_call|>',
     [("f", {"a": "2024-01-02 10:30", "b": "c"})]),
    ("<|tool_call>call:f{}", [("f", {})]),
)  # fmt: skip
def test_gemma(text: str, calls: list[Expected]) -> None:
    """Bare keys, text between marks of its own, lists and objects inside each other."""
    assert read(text, "gemma") == calls


@rows(
    (
        'functools[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
        [("f", {"a": 1}), ("g", {})],
    ),
    ('Calling functools[{"name": "f", "arguments": {}}] now', [("f", {})]),
)
def test_phi(text: str, calls: list[Expected]) -> None:
    """A word and a list."""
    assert read(text, "phi4") == calls


@pytest.mark.parametrize(
    ("format_id", "before", "after"),
    [
        ("jamba", "<tool_calls>", "</tool_calls>"),
        ("granite", "<|tool_call|>", ""),
        ("granite", "<|tool_call|>", "<|/tool_call|>"),
        ("granite", "<function_call> ", ""),
        ("granite", "<function_call>", "</function_call>"),
        ("internlm", "<|action_start|> <|plugin|>\n", "<|action_end|>"),
        ("internlm", "<|action_start|><|plugin|>", "<|action_end|>\n"),
        ("cohere", "<|START_ACTION|>", "<|END_ACTION|>"),
        ("apertus", "<|tools_prefix|>", "<|tools_suffix|>"),
    ],
)
@rows(
    ('[{"name": "f", "arguments": {"a": [1, "x"]}}]', [("f", {"a": [1, "x"]})]),
    ('[\n  {"name": "f", "parameters": {"a": 1}},\n  {"name": "g-h.i", "arguments": {}}\n]',
     [("f", {"a": 1}), ("g-h.i", {})]),
    ('{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}', [("f", {"a": 1})]),
)  # fmt: skip
def test_lists_between_tokens(
    text: str, calls: list[Expected], format_id: str, before: str, after: str
) -> None:
    """Jamba, Hunyuan, Granite, InternLM and Cohere differ in their tokens only, with words around them or without."""
    assert read(before + text + after, format_id) == calls
    assert read(f"I will look.\n{before}{text}{after}", format_id) == calls


@rows(
    ('<|tools_prefix|>[{"f": {}}]<|tools_suffix|>', [("f", {})]),
    ('<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}, "h": {}}]', [("f", {"a": 1}), ("g", {}), ("h", {})]),
    ("<|inner_prefix|>`rm`<|inner_suffix|><|tools_prefix|>[{\"f\": {}}]<|tools_suffix|>", [("f", {})]),
)  # fmt: skip
def test_apertus(text: str, calls: list[Expected]) -> None:
    """The names are keys."""
    assert read(text, "apertus") == calls


CALL = '{"name": "f", "arguments": {"a": 1}}'
OTHER = '{"name": "g", "parameters": {}}'


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


@every_row(
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


@every_row(
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
