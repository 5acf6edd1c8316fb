"""What holds for every answer there could be."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from clawgauge.characters import well_formed
from clawgauge.checks import answer_start, check_spec, judge_answer, split_thinking, tool_calls_of
from clawgauge.checks.detection import detect_tools
from clawgauge.records import Prompt, ToolInvocation

# All of Unicode, lone surrogates too, and the marks the readers look for, put together at random.
MARKS = [
    "`", "``", "```", "```bash", "~~~", "\n", "\r\n", " ", "$ ", "# ", "##", "'", '"', "“", "”", "‘", "’", "<tool>",
    "</tool>", "[tool:", "]", "<think>", "</think>", "user@host:~", "(venv) ", "- ", "> ", "| ", "|", "&&", ";", "&",
    "\\", "=", "<<EOF", "EOF", "FOO=1 ", "sudo ", "timeout 5 ", "free", "LS", "ls -la", "/usr/bin/du", "./run.sh", "-h",
    "$HOME", "> out", "a.txt", "(", ")", "{", "}", ":", ",", '{"a": 1}', "1e999", "NaN", "e.g. ", "... ", "\x00",
    "<tool_call>", "</tool_call>", '{"name": "ls", "arguments": {}}', "<function=ls>", "</function>", "[TOOL_CALLS]",
    "[ARGS]", '<invoke name="ls">', '<parameter name="a">', "<|python_tag|>", "<|channel|>analysis<|message|>",
    "[ls(a=1)]",
]  # fmt: skip
any_text = st.text(st.characters(exclude_categories=()))
marked_text = st.lists(st.sampled_from(MARKS) | any_text, max_size=30).map("".join)
answers = any_text | marked_text
tool_names = st.lists(st.sampled_from(["free", "ls", "du", "get_weather", "EOF", "Ls"]), max_size=3)

SPECS: list[dict[str, Any]] = [
    {"type": "noop"},
    {"type": "exact", "value": "free"},
    {"type": "one_of", "values": ["free", "ls"]},
    {"type": "regex_fullmatch", "pattern": r"(?s).*\w+"},
    {"type": "max_words", "value": 3},
    {"type": "max_sentences", "value": 1},
    {"type": "exact_bullets", "value": 1},
    {"type": "json_keys", "required_keys": ["a"], "key_rules": {"a": {"type": "number", "min": 0}}},
    {"type": "tool_invocation", "expected_tools": ["free", "ls"]},
]
for spec in SPECS:
    check_spec(spec)


@settings(max_examples=300)
@given(text=answers, expected=tool_names, spec=st.sampled_from(SPECS), offered=st.booleans())
def test_every_answer_gets_a_judgement_that_can_be_written(
    text: str, expected: list[str], spec: dict[str, Any], offered: bool
) -> None:
    """Nothing raises, the fields agree with each other, and all of them encode."""
    tools: list[dict[str, Any]] = [{"type": "function"}] if offered else []
    prompt = Prompt(
        id="P0", name="p", prompt="…", validator=spec, expected_tools=expected, tools=tools
    )
    judgement = judge_answer(prompt, text, [])
    assert judgement.tool_call_count == len(judgement.tool_calls) == len(set(judgement.tool_calls))
    assert (judgement.violation is not None) == (judgement.objective_pass is False)
    assert (judgement.objective_pass is None) == (spec["type"] == "noop")
    assert not judgement.tool_use_success or set(judgement.tool_calls) & {
        name.lower() for name in expected
    }
    fields = (
        judgement.violation,
        judgement.parsed_output,
        judgement.tool_calls,
        judgement.tool_invocations,
    )
    assert msgspec.json.decode(msgspec.json.encode(fields)) is not None


@settings(max_examples=300)
@given(text=answers, expected=tool_names)
def test_names_are_lower_case_names(text: str, expected: list[str]) -> None:
    """A tool is never called by white space, punctuation, capitals or a path; a malformed call may have no name."""
    for call in detect_tools(text, expected):
        if not call.valid and call.name == "":
            continue
        assert call.name == call.name.lower()
        assert call.name.isascii()
        assert call.name[0].isalnum() or call.name[0] == "_"
        assert not set(call.name) & set(" \t\n\0/`'\"|&;<>$()")


@settings(max_examples=200)
@given(text=answers, thought=answers)
def test_thinking_changes_nothing_that_is_detected(text: str, thought: str) -> None:
    """Thinking before or after an answer neither adds a call nor hides one."""
    answer = split_thinking(text).replace("<", "(").replace(">", ")")
    thought = thought.replace("<", "(")
    found = detect_tools(answer)
    assert detect_tools(f"<think>{thought}</think>{answer}") == found
    assert detect_tools(f"{answer}<think>{thought}") == found


@settings(max_examples=200)
@given(text=answers)
def test_the_answer_starts_where_the_text_without_thinking_does(text: str) -> None:
    """The first visible character of the raw answer is that of the answer alone."""
    start = answer_start(text)
    answer = split_thinking(text).lstrip()
    assert (start is None) == (answer == "")
    assert start is None or text[start] == answer[0]


@given(text=answers)
def test_repaired_text_stays_as_it_is(text: str) -> None:
    """Repairing is done once and for all, and changes no text that was well formed."""
    repaired = well_formed(text)
    assert well_formed(repaired) == repaired
    assert repaired == text or any("\ud800" <= char <= "\udfff" for char in text)
    repaired.encode()


@given(names=st.lists(st.sampled_from(["Free", "free", "ls", "DU", "du"])))
def test_tool_calls_are_a_set_in_order(names: list[str]) -> None:
    """Listing the listed names again gives the same list."""
    listed = tool_calls_of(ToolInvocation(name=name) for name in names)
    assert tool_calls_of(ToolInvocation(name=name) for name in listed) == listed
    assert set(listed) == {name.lower() for name in names}
