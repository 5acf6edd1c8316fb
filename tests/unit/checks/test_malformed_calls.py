"""Malformed calls, marks that are only mentioned, and what stands around structured calls."""

from __future__ import annotations

from clawgauge.checks import tool_calls_of
from clawgauge.checks.detection import detect_tools
from support.rows import every_row


@every_row(
    ("text", "name", "channel"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": </tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": {}}}</tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": {}} and more</tool_call>', "f", "hermes"),
        ("<tool_call>{'name': 'f', 'arguments': {}}</tool_call>", "f", "hermes"),
        (
            '<tool_call>{"name": "f" "arguments": {"a": "</tool_call> `ls`"}}</tool_call>',
            "f",
            "hermes",
        ),
        (
            '<tool_call>{"name": "f", "arguments": ' + "[" * 300 + "]" * 300 + "}</tool_call>",
            "f",
            "hermes",
        ),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": "free -h"}</tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": {"a": "two\nlines"}}</tool_call>', "f", "hermes"),
        ('<tool_call>{"name": "f", "arguments": {"a": "cut', "f", "hermes"),
        ('<tool_call>{"name": "two words", "arguments": {}}</tool_call>', "", "hermes"),
        ('<tool_call>{"name": 5, "arguments": {}}</tool_call>', "", "hermes"),
        ('<tool_call>{"arguments": {}}</tool_call>', "", "hermes"),
        ("<tool_call>{…}</tool_call>", "", "hermes"),
        ("<tool_call>f<arg_key>a</arg_key></tool_call>", "f", "glm"),
        ('<function=f>{"a": 1</function>', "f", "llama3_json"),
        ('<function=f>["a"]</function>', None, None),
        ('<invoke name="$NAME"><parameter name="a">1</parameter></invoke>', "", "invoke"),
        ('<invoke name="f">{"a": }</invoke>', "f", "invoke"),
        (
            '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">x</｜DSML｜parameter>',
            "f",
            "deepseek",
        ),
        ('<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a"<｜tool▁call▁end｜>', "f", "deepseek"),
        ('<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1', "f", "kimi"),
        (
            '<|open|>call tool="f"<|sep|><|open|>argument key="a" type="number"<|sep|>x<|close|>argument<|sep|>',
            "f",
            "kimi",
        ),
        ('<|open|>call index="1"<|sep|><|close|>call<|sep|>', "", "kimi"),
        ('<|channel|>commentary to=functions.f<|message|>{"a": 1<|call|>', "f", "harmony"),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {', "f", "mistral"),
        ("[TOOL_CALLS]f[ARGS]free -h", "f", "mistral"),
        ("<function_calls>\nf(a=)\n</function_calls>", "f", "olmo"),
        ("<function_calls>\nf(1)\n</function_calls>", "f", "olmo"),
        ("<|tool_call_start|>[f(a=open('x'))]<|tool_call_end|>", "f", "lfm2"),
        ("<|tool_call_start|>[f(a=1) g()]<|tool_call_end|>", "f", "lfm2"),
        ("<start_function_call>call:f{a:<escape>v}<end_function_call>", "f", "gemma"),
        ('functools[{"name": "f"', "f", "phi4"),
        ('<tool_calls>[{"name": "f", "arguments": {}]</tool_calls>', "f", "jamba"),
        ('<|tools_prefix|>[{"f": 1}]<|tools_suffix|>', "f", "apertus"),
        ('<|tools_prefix|>[{"f": {]<|tools_suffix|>', "f", "apertus"),
    ],
)
def test_malformed_calls(text: str, name: str | None, channel: str | None) -> None:
    """What does not decode is on record under the name it seems to have, and is no tool call."""
    found = detect_tools(text)
    expected = [(name, f"text:{channel}", False)] if channel else []
    assert [(call.name, call.channel, call.valid) for call in found] == expected
    assert tool_calls_of(found) == []


@every_row(
    "text",
    [
        '<tool_call>{"name": "f", "arguments": {</tool_call> `ls`',
        '<tool_call>{"name": "f", "arguments": {<tool_call>{"name": "ls", "arguments": {}}</tool_call>',
        '<function=f>{"a": 1</function> then `ls`',
        "<function_calls>f(a=)</function_calls>\n$ ls",
        '[TOOL_CALLS]f[ARGS]{"a" [TOOL_CALLS]ls[ARGS]{}',
    ],
)
def test_a_malformed_call_ends_with_its_mark(text: str) -> None:
    """The calls behind a malformed one are still found."""
    assert tool_calls_of(detect_tools(text)) == ["ls"]


@every_row(
    "text",
    [
        "Wrap it in `<tool_call>` and `</tool_call>` tags, then `ls`.",
        "Use <tool_call> and </tool_call> around it; `ls`",
        "The <tool_call> tag and `ls`",
        "`<function=f>` names the function, `ls`",
        '`<invoke name="f">` opens a call, `ls` follows',
        "[TOOL_CALLS] is one token and `ls`",
        "`<function_calls>` holds lines, `ls`",
        "<|python_tag|> comes before code, `ls`",
        "<|channel|> and <|message|> are tokens, `ls`",
        "<|tool_call_begin|> starts one, `ls`",
        "<｜tool▁call▁begin｜> as well, `ls`",
        "<|tool_call> and <start_function_call>, `ls`",
        "import functools, functools[0], my.functools[{}] and `ls`",
        "<|action_start|> <|plugin|> then `ls`",
        "<tool_calls> <|tool_call|> <function_call> <|START_ACTION|> <|tools_prefix|> `ls`",
        '<|open|>tools<|sep|> <|open|>call tool="f" `ls`',
        "<function_calls>see (page 3)</function_calls> `ls`",
        '<|start|>functions.f to=assistant<|channel|>commentary<|message|>{"t": 1}<|end|>`ls`',
        "<|channel|>final<|message|>Run `ls`<|return|>",
        "<functions=f> <invoked name='f'> <function>f</function> <parameter=a>1</parameter> `ls`",
        "[THINK]`rm -rf /`[/THINK]`ls`",
        "<seed:think>`rm`</seed:think>`ls`",
        "<|START_THINKING|>`rm`<|END_THINKING|>`ls`",
        "`ls` [THINK",
        "The [THINK] mark, then `ls`",
    ],
)
def test_a_mark_that_is_only_mentioned_is_no_call(text: str) -> None:
    """Prose about a format yields nothing and hides nothing; thinking in marks of its own is thinking."""
    assert [(call.name, call.channel) for call in detect_tools(text)] == [("ls", "mention")]


@every_row("opening", ["[THINK]", "<|START_THINKING|>", "<seed:think>", " <|open|>think<|sep|>"])
def test_thinking_that_is_never_closed_holds_no_call(opening: str) -> None:
    """An answer that opens with thinking and breaks off there calls nothing."""
    assert (
        detect_tools(f'{opening}`ls` <tool_call>{{"name": "f", "arguments": {{}}}}</tool_call>')
        == []
    )


def test_structured_calls_come_before_markers_and_keep_the_order_of_the_text() -> None:
    """Formats of all kinds in one answer are read each once, beside markers and mentions."""
    text = (
        "[tool: a] [TOOL_CALLS]b[ARGS]{} `c` <tool_call>{\"name\": \"d\", \"arguments\": {\"x\": \"[tool: no] `no`\"}}"
        "</tool_call> <tool>e</tool> <invoke name=\"f\"></invoke> [tool: [TOOL_CALLS]g[ARGS]{} h]\n{\"name\": \"i\", "
        '"arguments": {}}\n$ j'
    )  # fmt: skip
    assert [call.name for call in detect_tools(text)] == [
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "i",
        "j",
    ]


@every_row(
    "opening", ["<tool_call>", "<|tool_call|>", "<|python_tag|>", "<function_call>", "[TOOL_CALLS]"]
)
def test_data_behind_a_call_that_is_not_closed_is_no_call(opening: str) -> None:
    """A result that a model makes up after its call is not taken for a second, malformed one."""
    first = f'{opening}{{"name": "f", "arguments": {{}}}}'
    second = f'{opening}{{"name": "g", "arguments": {{}}}}'
    text = f'{first}\n\n{{"celsius": 5}}\n{second}'
    assert [(call.name, call.valid) for call in detect_tools(text)] == [("f", True), ("g", True)]


@every_row("expected", [[], ["get_weather"], ["other"]])
def test_structured_calls_need_no_expectation(expected: list[str]) -> None:
    """A structured call is a call whatever the prompt expects, and in capitals, too."""
    text = '<tool_call>{"name": "GET_WEATHER", "arguments": {}}</tool_call>'
    assert [call.name for call in detect_tools(text, expected)] == ["get_weather"]
