"""One answer, all the judged fields of its record."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from clawgauge.checks import judge_answer
from clawgauge.checks.detection import detect_tools
from clawgauge.records import Prompt, ToolInvocation
from support.rows import every_row
from support.slow_rest import slow_rest

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object"}},
}


def make_prompt(validator: dict[str, Any] | None = None, **more: Any) -> Prompt:
    return Prompt(id="P0", name="p", prompt="…", validator=validator or {"type": "noop"}, **more)


def native(name: str, arguments: Any = None, valid: bool = True) -> ToolInvocation:
    return ToolInvocation(name=name, arguments=arguments, channel="native", valid=valid)


def test_a_text_prompt_is_judged_on_its_text() -> None:
    """Calls in the text are listed once each, in order, and one expected call is success."""
    prompt = make_prompt(
        {"type": "tool_invocation", "expected_tools": ["free"]}, expected_tools=["free"]
    )
    judgement = judge_answer(prompt, "<think>`rm`</think>Run `df -h`, `free -h` and `df`.", [])
    assert judgement.objective_pass is True
    assert judgement.violation is None
    assert judgement.parsed_output == {"tools": ["df", "free"]}
    assert judgement.tool_calls == ["df", "free"]
    assert judgement.tool_call_count == 2
    assert judgement.tool_use_success is True
    assert [call.name for call in judgement.tool_invocations] == ["df", "free", "df"]


def test_a_prompt_that_offers_tools_is_judged_on_native_calls() -> None:
    """A call written as text is recorded beside the native ones and counts for nothing."""
    prompt = make_prompt(expected_tools=["get_weather"], tools=[TOOL])
    written = judge_answer(prompt, '`get_weather(city="Paris")`', [])
    assert (written.tool_calls, written.tool_call_count, written.tool_use_success) == ([], 0, False)
    assert [call.channel for call in written.tool_invocations] == ["mention"]
    made = judge_answer(prompt, "", [native("Get_Weather", {"city": "Paris"})])
    assert (made.tool_calls, made.tool_call_count, made.tool_use_success) == (
        ["get_weather"],
        1,
        True,
    )
    assert made.tool_invocations[0].arguments == {"city": "Paris"}


def test_a_malformed_call_is_recorded_and_does_not_count() -> None:
    """Arguments that do not parse make no call."""
    prompt = make_prompt(expected_tools=["get_weather"], tools=[TOOL])
    judgement = judge_answer(prompt, "", [native("get_weather", '{"city":', valid=False)])
    assert (judgement.tool_calls, judgement.tool_use_success) == ([], False)
    assert judgement.tool_invocations[0].valid is False


MENTION = "Run `free -h`."
WRITTEN = '<tool_call>{"name": "free", "arguments": {}}</tool_call>'
BROKEN = '<tool_call>{"name": "free", "arguments": {</tool_call>'


@every_row(
    ("text", "calls", "channel"),
    [
        ("Nothing to see.", [], "none"),
        (MENTION, [], "mention"),
        (f"{MENTION}\n{BROKEN}", [], "malformed"),
        (MENTION, [native("free", "{", valid=False)], "malformed"),
        (f"{MENTION}\n{BROKEN}\n{WRITTEN}", [], "text:hermes"),
        (f"[tool: free]\n{WRITTEN}", [], "text:marker"),
        (WRITTEN, [native("free", "{", valid=False)], "text:hermes"),
        (WRITTEN, [native("free", "{", valid=False), native("free", {})], "native"),
    ],
)
@every_row("tools", [[], [TOOL]], ids=["text prompt", "tools offered"])
def test_every_answer_has_a_tool_channel(
    text: str, calls: list[Any], channel: str, tools: list[Any]
) -> None:
    """The best way in which the answer called a tool is named, whichever way the prompt is judged on."""
    assert judge_answer(make_prompt(tools=tools), text, calls).tool_channel == channel


def test_no_expected_tool_is_no_success() -> None:
    """Calling something is not what was asked."""
    assert judge_answer(make_prompt(), "`free -h`", []).tool_use_success is False


def test_a_large_parsed_output_is_dropped_with_a_flag() -> None:
    """The verdict is on the whole answer; only what is kept is bounded."""
    prompt = make_prompt({"type": "json_keys", "required_keys": ["a"]})
    small = judge_answer(prompt, '{"a": "é"}', [])
    assert (small.parsed_output, small.parsed_output_dropped) == ({"a": "é"}, False)
    large = judge_answer(prompt, '{"a": "' + "é" * 33_000 + '"}', [])
    assert (large.objective_pass, large.parsed_output, large.parsed_output_dropped) == (
        True,
        None,
        True,
    )


def test_an_answer_over_the_record_cap_is_judged_whole() -> None:
    """A call far behind the first 64 KB is seen, and a word too many there, too."""
    prompt = make_prompt({"type": "max_words", "value": 1}, expected_tools=["free"])
    judgement = judge_answer(prompt, "x" * 70_000 + " `free -h`", [])
    assert judgement.objective_pass is False
    assert judgement.tool_use_success is True


FLOODS = [
    "`a b` ",
    "$ ls -l\n",
    "```\nls -l\n```\n",
    '"ls -l" ',
    "<tool>ls</tool> ",
    f"{WRITTEN}\n",
    "`5` `ls` 'ls -a'\n",
]


@every_row("unit", FLOODS)
def test_the_first_calls_of_a_flood_are_those_that_come_first(unit: str) -> None:
    """A limit takes the calls that a look at the whole text would list first."""
    text = unit * 50
    assert detect_tools(text, ["ls"], limit=20) == detect_tools(text, ["ls"])[:20]


@pytest.mark.parametrize("unit", slow_rest(["`5` ", "`a b` ", "```\n", "'5 6' "], every=4))
def test_a_flood_costs_little_memory(unit: str) -> None:
    """Looking for calls takes a few times the size of the text, not the hundred times that keeping finds would."""
    text = unit * (100_000 // len(unit))
    detect_tools(f"{unit * 3}\n{unit}", limit=1_000)  # what is loaded once is not counted
    tracemalloc.start()
    try:
        detect_tools(text, limit=1_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(text)


def test_a_flood_of_calls_is_bounded() -> None:
    """A record stays small however many calls an answer holds, native ones first."""
    judgement = judge_answer(make_prompt(), "`a b` " * 5_000, [native("first")])
    assert len(judgement.tool_invocations) == 1_000
    assert judgement.tool_invocations[0].name == "first"
    assert judgement.tool_call_count == len(judgement.tool_calls)


@every_row("arguments", ["x" * 70_000, {"a": ["x" * 70_000]}, "\ud800", {"a": object()}])
def test_arguments_that_cannot_be_kept_are_left_out(arguments: Any) -> None:
    """Too large or not to be written: the call stays, its arguments go."""
    judgement = judge_answer(make_prompt(tools=[TOOL]), "", [native("f", arguments)])
    assert judgement.tool_calls == ["f"]
    assert judgement.tool_invocations[0].arguments is None


def test_all_arguments_together_are_bounded() -> None:
    """Many calls with large arguments do not swell a record."""
    calls = [native("f", "x" * 60_000) for _ in range(20)]
    judgement = judge_answer(make_prompt(tools=[TOOL]), "", calls)
    assert len(msgspec.json.encode(judgement.tool_invocations)) < 300_000
    assert judgement.tool_invocations[0].arguments == "x" * 60_000
