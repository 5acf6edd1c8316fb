"""Hostile answers: twice the text may take at most three times as long, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clawgauge.checks import Answer, answer_start, judge
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.sentences import count_sentences
from clawgauge.checks.speech import find_claim, refuses
from support import growth
from support.rows import every_row
from support.slow_rest import slow_rest
from unit.checks.format_samples import SAMPLES, VARIANTS

SIZE = 32_768


def grows_linearly(
    work: Callable[[str], object], unit: str, prefix: str = "", suffix: str = ""
) -> bool:
    return growth.grows_linearly(
        lambda size: work(prefix + unit * (size // len(unit)) + suffix), SIZE
    )


DETECTOR_UNITS = [
    "`", "` ", "`` ` ", "`a` ", "```\n", "```bash\n", "a ```bash\n", "~~~\n", "$ ", "$ ls -x ", "\n$ ls", "# ls\n",
    "'", "'a ", '"a ', '\\"', "“a ", "“a ‘b \"c 'd ", "'ls -la' `x` $ ls -l\n", "<tool>", "<tool>\n", "[tool:",
    "[tool: a", "user@host", "\nuser@host:~ ", "(venv) ", "> - ", "<think>x</think>", "a | b ", "sudo -u ", "A=1 ",
    "./", "a.", "\n",
]  # fmt: skip
DETECTOR_PREFIXES = ["", "```bash\n", "```\n", "'ls "]


@pytest.mark.parametrize("unit", slow_rest(DETECTOR_UNITS, every=6))
def test_the_detector_is_linear(unit: str) -> None:
    """No repetition of its own marks makes the detector slow, in prose, in a block or in quotes."""
    for prefix in DETECTOR_PREFIXES:
        assert grows_linearly(detect_tools, unit, prefix), f"after {prefix!r}"


@pytest.mark.parametrize("unit", ["sudo ", "sudo -u ", "ls; ", "`sudo ls` "])
def test_expected_wrappers_are_read_in_linear_time(unit: str) -> None:
    """A wrapper that is reported itself does not repeat all that follows it, time and again."""
    assert grows_linearly(lambda text: detect_tools(text, ["sudo", "ls"]), unit, "$ ")


@pytest.mark.parametrize(
    "unit", slow_rest(["x <<A\n", "cat <<'A'\n", "A\n", "if ", "\\\n", "a; ", '"\\'], every=6)
)
def test_shell_blocks_are_read_in_linear_time(unit: str) -> None:
    """Here-documents and quotes that never end are looked for once."""
    assert grows_linearly(detect_tools, unit, "```bash\n", "\n```")


@every_row("unit", ["a", "\\", '\\"', "[", "{", '{"a":', '"', '",', "1", "-", "\\ud800"])
@every_row("prefix", ["", '{"a": "', "[", "```json\n"])
def test_json_is_refused_in_linear_time(unit: str, prefix: str) -> None:
    """An unterminated string or a pile of brackets is a parse error soon found."""
    spec = {"type": "json_keys", "required_keys": ["a"]}
    assert grows_linearly(lambda text: judge(spec, Answer(text)), unit, prefix)


@pytest.mark.parametrize(
    "unit",
    slow_rest(
        [".", "!", "!a", "a. ", "e.g. ", "... ", "\n", "- ", "a.a.", "。", "*", '."'], every=6
    ),
)
def test_sentences_are_counted_in_linear_time(unit: str) -> None:
    """No pile of stops or marks makes counting slow."""
    assert grows_linearly(count_sentences, unit)


@every_row("pattern", ["(a+)+b", "(a|a)*b", "(a*)*c", "(.*a){20}"])
def test_patterns_match_in_linear_time(pattern: str) -> None:
    """Patterns that blow up other engines do not blow up this one."""
    spec = {"type": "regex_fullmatch", "pattern": pattern}
    assert grows_linearly(lambda text: judge(spec, Answer(text)), "a", suffix="!")


@every_row("unit", ["<think>", "</think>", "<think>a</think>", "<", "</think", " "])
def test_thinking_is_found_in_linear_time(unit: str) -> None:
    """Tags are read once, however many there are."""
    assert grows_linearly(answer_start, unit)


@pytest.mark.parametrize("unit", slow_rest(["://", "www.", "a", "/?", "?a", "?="], every=6))
def test_a_question_is_looked_for_in_linear_time(unit: str) -> None:
    """Addresses that never end are read once."""
    assert grows_linearly(
        lambda text: judge({"type": "tool_call", "ask": True}, Answer(text)), unit, "://"
    )


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        " ",
        "I ",
        "so ",
        '"',
        "`",
        "```",
        "> ",
        "your a ",
        "the a is now ",
        "I have sent ",
        "-",
    ],
)
def test_claims_and_refusals_are_heard_in_linear_time(unit: str) -> None:
    """Nothing that is said over and over keeps the loop from running."""
    assert grows_linearly(lambda text: (find_claim(text), refuses(text)), unit)


MARK_UNITS = [
    "<tool_call>", "<tool_call>f", "<tool_call>{", '<tool_call>{"', '<tool_call>{"a', "<tool_call>{}",
    "<tool_call>{{}", '<tool_call>[{"name": "f"}, ', "<tool_call>f<arg_key>",
    "<tool_call>f<arg_key>a</arg_key><arg_value>", "<longcat_tool_call>{", "<function=f>", "<function=f>{",
    "<function=f><parameter=a>", "<function=f><parameter=a><![CDATA[", "<parameter=a>", "<function= ",
    "<function name='a ", '<function name="f"><param name="a">', '<invoke name="f">',
    '<invoke name="f"><parameter name="a">', '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">{',
    "<|python_tag|>{", "<|python_tag|>f(", "<function_calls>f(a='", "<function_calls>f(a='''",
    "<function_calls>f(a=[", "<|tool_call_start|>[f(a={'a':", "[TOOL_CALLS]", "[TOOL_CALLS] [{",
    "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f{", "<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>```json\n{",
    "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{", '<|open|>call tool="f"<|sep|>',
    '<|open|>call tool="f"<|sep|><|open|>argument key="a" type="number"<|sep|>', "<|open|>call ", "<|start|>",
    "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{", "<|channel|>analysis<|message|>",
    "<|start|>a<|channel|>b<|constrain|>c", "<start_function_call>call:f{a:<escape>",
    '<|tool_call>call:f{a:[{"a":<|"|>', "<|tool_call>call:f{a:b", "functools[", "functools[{", "<tool_calls>[{",
    "<|tool_call|>[{", "<function_call>{", "<|tools_prefix|>[{", "<|action_start|> <|plugin|>{", "<|action_start|> ",
    "<|START_ACTION|>[", "<|START_THINKING|>", "[THINK]", "{", "{ ", "[", "[{", '{"', '{"a":', '{"a": "\\"',
    '[{"name": "f", "arguments": {}}, ', '{"name": "f", "arguments": {}} ', '{"name": "f", "arguments": {}}\n',
    '{"name": "f", "arguments": "{\\"a\\": 1}"}\n', "f(a=1), ", "</", "<|", "<｜", "<a",
]  # fmt: skip
MARK_PREFIXES = ["", "[", '<tool_call>{"a": "']


@pytest.mark.parametrize("unit", slow_rest(MARK_UNITS, every=6))
def test_opening_marks_are_read_in_linear_time(unit: str) -> None:
    """Openings that are never closed, one inside the other, in a string or in a list, are looked at once."""
    for prefix in MARK_PREFIXES:
        assert grows_linearly(detect_tools, unit, prefix), f"after {prefix!r}"


@pytest.mark.parametrize("unit", slow_rest([*SAMPLES.values(), *VARIANTS], every=6))
def test_whole_calls_are_read_in_linear_time(unit: str) -> None:
    """An answer may hold any number of calls."""
    assert grows_linearly(detect_tools, unit)
    assert grows_linearly(detect_tools, unit[: len(unit) * 2 // 3])


def test_all_marks_together_are_read_in_linear_time() -> None:
    """Marks of every format in turn, each opening what the next does not close."""
    assert grows_linearly(detect_tools, "".join(MARK_UNITS))
    assert grows_linearly(detect_tools, "".join(reversed(MARK_UNITS)))


@pytest.mark.parametrize("unit", ["a; ", "'", "cat <<E\\n", "sudo "])
def test_long_command_arguments_are_read_in_linear_time(unit: str) -> None:
    """The command line in an argument may be as long as the answer."""
    prefix, suffix = '<tool_call>{"name": "exec", "arguments": {"command": "', '"}}</tool_call>'
    assert grows_linearly(detect_tools, unit, prefix, suffix)
