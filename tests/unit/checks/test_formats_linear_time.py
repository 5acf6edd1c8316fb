"""Hostile answers made of the marks of structured formats: twice the text takes at most three times as long."""

from __future__ import annotations

import pytest

from clawgauge.checks import detect_tools
from support.slow_rest import slow_rest
from unit.checks.format_samples import SAMPLES, VARIANTS
from unit.checks.growth import grows_linearly

UNITS = [
    "<tool_call>",
    "<tool_call>f",
    "<tool_call>{",
    '<tool_call>{"',
    '<tool_call>{"a',
    "<tool_call>{}",
    "<tool_call>{{}",
    '<tool_call>[{"name": "f"}, ',
    "<tool_call>f<arg_key>",
    "<tool_call>f<arg_key>a</arg_key><arg_value>",
    "<longcat_tool_call>{",
    "<function=f>",
    "<function=f>{",
    "<function=f><parameter=a>",
    "<function=f><parameter=a><![CDATA[",
    "<parameter=a>",
    "<function= ",
    "<function name='a ",
    '<function name="f"><param name="a">',
    '<invoke name="f">',
    '<invoke name="f"><parameter name="a">',
    '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">{',
    "<|python_tag|>{",
    "<|python_tag|>f(",
    "<function_calls>f(a='",
    "<function_calls>f(a='''",
    "<function_calls>f(a=[",
    "<|tool_call_start|>[f(a={'a':",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [{",
    "[TOOL_CALLS]f[ARGS]",
    "[TOOL_CALLS]f{",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>```json\n{",
    "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{",
    '<|open|>call tool="f"<|sep|>',
    '<|open|>call tool="f"<|sep|><|open|>argument key="a" type="number"<|sep|>',
    "<|open|>call ",
    "<|start|>",
    "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{",
    "<|channel|>analysis<|message|>",
    "<|start|>a<|channel|>b<|constrain|>c",
    "<start_function_call>call:f{a:<escape>",
    '<|tool_call>call:f{a:[{"a":<|"|>',
    "<|tool_call>call:f{a:b",
    "functools[",
    "functools[{",
    "<tool_calls>[{",
    "<|tool_call|>[{",
    "<function_call>{",
    "<|tools_prefix|>[{",
    "<|action_start|> <|plugin|>{",
    "<|action_start|> ",
    "<|START_ACTION|>[",
    "<|START_THINKING|>",
    "[THINK]",
    "{",
    "{ ",
    "[",
    "[{",
    '{"',
    '{"a":',
    '{"a": "\\"',
    '[{"name": "f", "arguments": {}}, ',
    '{"name": "f", "arguments": {}} ',
    '{"name": "f", "arguments": {}}\n',
    '{"name": "f", "arguments": "{\\"a\\": 1}"}\n',
    "f(a=1), ",
    "</",
    "<|",
    "<｜",
    "<a",
]
PREFIXES = ["", "[", '<tool_call>{"a": "']


@pytest.mark.parametrize("unit", slow_rest(UNITS, every=6))
def test_opening_marks_are_read_in_linear_time(unit: str) -> None:
    """Openings that are never closed, one inside the other, in a string or in a list, are looked at once."""
    for prefix in PREFIXES:
        assert grows_linearly(detect_tools, unit, prefix), f"after {prefix!r}"


@pytest.mark.parametrize("unit", slow_rest([*SAMPLES.values(), *VARIANTS], every=6))
def test_whole_calls_are_read_in_linear_time(unit: str) -> None:
    """An answer may hold any number of calls."""
    assert grows_linearly(detect_tools, unit)
    assert grows_linearly(detect_tools, unit[: len(unit) * 2 // 3])


def test_all_marks_together_are_read_in_linear_time() -> None:
    """Marks of every format in turn, each opening what the next does not close."""
    assert grows_linearly(detect_tools, "".join(UNITS))
    assert grows_linearly(detect_tools, "".join(reversed(UNITS)))


@pytest.mark.parametrize("unit", ["a; ", "'", "cat <<E\\n", "sudo "])
def test_long_command_arguments_are_read_in_linear_time(unit: str) -> None:
    """The command line in an argument may be as long as the answer."""
    prefix, suffix = '<tool_call>{"name": "exec", "arguments": {"command": "', '"}}</tool_call>'
    assert grows_linearly(detect_tools, unit, prefix, suffix)
