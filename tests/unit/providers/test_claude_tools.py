"""A prompt's own tools on Claude Code: a fake `claude` that really starts the MCP server it is given and calls it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.claude import provider as claude_provider
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.providers.claude.tools import report_answers
from clawgauge.timeline import Timeline
from clawgauge.world import tool_definitions
from clawgauge.world.mcp import LoggedCall
from support.fake_claude import FakeClaude, install_fake_claude
from support.rows import every_row
from support.waiting import growing_deadlines
from unit.providers.claude_calls import environment, kind_of
from unit.providers.observed import attempt

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PARIS, ROME = ("get_weather", '{"city": "Paris"}'), ("get_weather", '{"city": "Rome"}')
WORLD = {"files": {"/home/claw/todo.txt": "buy milk"}}
LOOK = ("read", '{"path": "/home/claw/todo.txt"}')
TEXT_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m1", "model": "m", "content": []}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "you"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
]


def ask(bin_dir: Path, **call: Any) -> tuple[Reply, CallFailure | None]:
    given = {"environ": environment(bin_dir)}
    return attempt("claude_code_cli", "", settings=given, **{"tools": [WEATHER], **call})


def ask_task(bin_dir: Path, **call: Any) -> tuple[Reply, CallFailure | None]:
    return ask(
        bin_dir,
        **{"tools": tool_definitions(["read", "exec"]), "world": WORLD, "max_turns": 4, **call},
    )


def value_of(fake: FakeClaude, flag: str) -> str:
    argv = fake.calls[0].argv
    return argv[argv.index(flag) + 1]


def test_the_tools_are_offered_and_nothing_else(tmp_path: Path) -> None:
    """The CLI is given our server, exactly the prompt's tools, and none of its own."""
    fake = install_fake_claude(tmp_path, tool_rounds=[("", [PARIS])])
    done, failure = ask(tmp_path)
    assert failure is None and [call.name for call in done.native_calls] == ["get_weather"]
    assert "--strict-mcp-config" in fake.calls[0].argv and value_of(fake, "--tools") == ""
    assert value_of(fake, "--allowedTools") == "mcp__clawgauge__get_weather"
    assert value_of(fake, "--max-turns") == "1"
    assert fake.calls[0].cwd_entries == [], (
        "the server's files are not where the model could be told of them"
    )
    assert not Path(value_of(fake, "--mcp-config")).exists(), "and are gone after the call"


def test_calls_have_the_names_and_arguments_of_the_prompt(tmp_path: Path) -> None:
    """Parallel calls are kept apart, the CLI's prefix is not part of a name, and text beside a call is text."""
    install_fake_claude(tmp_path, tool_rounds=[("Looking.", [PARIS, ROME])])
    done, failure = ask(tmp_path)
    assert failure is None and done.text == "Looking." and done.finish_reason == "tool_calls"
    assert [(call.name, call.arguments, call.valid) for call in done.native_calls] == [
        ("get_weather", {"city": "Paris"}, True),
        ("get_weather", {"city": "Rome"}, True),
    ]
    assert (done.input_tokens, done.output_tokens, done.cost_usd) == (10, 5, 0.002)
    assert done.ttft_ns is not None and done.ttft_ns <= done.e2e_ns


def test_one_turn_is_all_a_prompt_without_a_world_gets(tmp_path: Path) -> None:
    """The conversation ends after the first round of calls: what the model would say next is not asked for."""
    install_fake_claude(
        tmp_path, tool_rounds=[("", [PARIS]), ("again", [ROME])], answer="It is sunny."
    )
    done, failure = ask(tmp_path)
    assert (
        failure is None
        and done.text == ""
        and len(done.native_calls) == 1
        and done.transcript is None
    )


def test_arguments_that_do_not_parse_are_a_malformed_call(tmp_path: Path) -> None:
    """The CLI refuses them and the server never sees them; the record shows what the model wrote."""
    install_fake_claude(tmp_path, tool_rounds=[("", [("get_weather", '{"city": ')])])
    done, failure = ask(tmp_path)
    assert failure is None
    assert [(call.arguments, call.valid) for call in done.native_calls] == [('{"city": ', False)]


def test_no_call_is_an_answer(tmp_path: Path) -> None:
    """A model that is offered tools and does not use them has simply answered."""
    install_fake_claude(tmp_path, tool_rounds=[], answer="I would rather not.")
    done, failure = ask(tmp_path)
    assert failure is None and done.text == "I would rather not." and done.native_calls == []


def test_a_model_that_was_not_shown_the_tools_is_not_judged(tmp_path: Path) -> None:
    """Where the CLI could not reach the server the call fails and says so, instead of looking like restraint."""
    install_fake_claude(tmp_path, tool_rounds=[], answer="What tools?", mcp_fails=True)
    _, failure = ask(tmp_path)
    assert kind_of(failure) == ("error", "cli_error")
    assert (
        failure is not None
        and "did not take the tools" in failure.message
        and "failed" in failure.message
    )


def test_an_old_program_that_takes_no_tools(tmp_path: Path) -> None:
    """A CLI without the flags is told apart before anything is sent, with the way out."""
    fake = install_fake_claude(tmp_path, answer="hi", missing_flags=["--mcp-config"])
    _, failure = ask(tmp_path)
    assert (
        kind_of(failure) == ("error", "cli_error")
        and failure is not None
        and "update it" in failure.message
    )
    assert fake.calls == []


def test_without_tools_no_server_is_started(tmp_path: Path) -> None:
    """A prompt that offers nothing is put as ever."""
    fake = install_fake_claude(tmp_path, answer="hi")
    _, failure = ask(tmp_path, tools=[])
    assert failure is None and not {"--mcp-config", "--allowedTools", "--max-turns"} & set(
        fake.calls[0].argv
    )


def test_a_task_is_run_to_its_end(tmp_path: Path) -> None:
    """Each turn's text, calls and the world's own answers come back, and the last turn's text is the answer."""
    install_fake_claude(
        tmp_path,
        tool_rounds=[("Let me look.", [LOOK]), ("", [("exec", '{"command": "pwd"}')])],
        answer="Buy milk.",
    )
    done, failure = ask_task(tmp_path)
    assert failure is None and done.text == "Buy milk." and done.finish_reason == "stop"
    assert [(call.name, call.turn) for call in done.native_calls] == [("read", 1), ("exec", 2)]
    assert done.transcript is not None and [turn.text for turn in done.transcript] == [
        "Let me look.",
        "",
        "Buy milk.",
    ]
    assert (
        "buy milk" in done.transcript[0].answers[0]
        and "/home/claw" in done.transcript[1].answers[0]
    )
    assert done.output_tps is None


def test_a_task_ends_when_its_turns_are_spent(tmp_path: Path) -> None:
    """`max_turns` reaches the CLI, and its end by it is no failure."""
    fake = install_fake_claude(tmp_path, tool_rounds=[("", [LOOK])] * 5, answer="never said")
    done, failure = ask_task(tmp_path, max_turns=3)
    assert failure is None and value_of(fake, "--max-turns") == "3"
    assert (
        done.transcript is not None
        and len(done.transcript) == 3
        and done.finish_reason == "tool_calls"
    )
    assert (done.input_tokens, done.output_tokens) == (30, 15)


def test_a_call_the_cli_refused_was_not_made(tmp_path: Path) -> None:
    """In a transcript a call without an answer is told from one that was answered with nothing."""
    install_fake_claude(tmp_path, tool_rounds=[("", [("read", "{"), LOOK])], answer="ok")
    done, failure = ask_task(tmp_path)
    assert failure is None and done.transcript is not None
    refused, answered = done.transcript[0].answers
    assert refused == "(not executed)" and "buy milk" in answered


def test_a_program_that_does_not_name_its_calls(tmp_path: Path) -> None:
    """Without ids in the server's log each call is still one call, and the same call twice is two."""
    install_fake_claude(tmp_path, tool_rounds=[("", [PARIS, ROME, PARIS])], names_calls=False)
    done, failure = ask(tmp_path)
    assert failure is None
    assert [call.arguments["city"] for call in done.native_calls] == ["Paris", "Rome", "Paris"]


def test_answers_find_their_calls_without_ids(tmp_path: Path) -> None:
    """Each answer stands beside its own call, though one was refused and the log has no ids."""
    pwd = ("exec", '{"command": "pwd"}')
    install_fake_claude(
        tmp_path, tool_rounds=[("", [("read", "{"), pwd, LOOK])], answer="ok", names_calls=False
    )
    done, failure = ask_task(tmp_path)
    assert failure is None and done.transcript is not None
    refused, where, note = done.transcript[0].answers
    assert refused == "(not executed)" and "/home/claw" in where and "buy milk" in note


@every_row("shown", [0, 3, 99], ids=["nothing", "text", "everything"])
def test_a_call_known_from_the_log_alone_does_not_move_the_clock(shown: int) -> None:
    """The log is read when the program is gone: the call is in the record, and every time is as the stream had it."""
    lines = [
        {"type": "system", "subtype": "init", "tools": ["mcp__clawgauge__get_weather"]},
        *({"type": "stream_event", "event": event} for event in TEXT_EVENTS),
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "Hi you",
            "stop_reason": "end_turn",
        },
    ]
    logged = LoggedCall(
        id=None, name="get_weather", arguments={"city": "Oslo"}, answer="sunny", is_error=False
    )
    times = []
    for log in ([], [logged]):
        timeline = Timeline()
        timeline.start(1_000)
        stream = ClaudeStream(
            timeline, started_ns=1_000, tools={"mcp__clawgauge__get_weather": "get_weather"}
        )
        for number, line in enumerate(lines[:shown]):
            stream.feed(2_000 + number, json.dumps(line).encode())
        if stream.clock_runs:
            timeline.end(3_000)
        report_answers(timeline, stream, log)
        done = timeline.fold(9_000)
        assert len(done.native_calls) == len(log)
        times.append((done.e2e_ns, done.ttft_ns, done.output_tps))
    assert times[0] == times[1]


def test_names_that_the_program_would_make_one_are_kept_apart(tmp_path: Path) -> None:
    """Tools whose names differ only in characters the CLI does not take are offered apart, and recorded as they are."""
    names = ["a.b", "a_b", "a b", "a_b_2"]
    tools = [
        {"type": "function", "function": {**WEATHER["function"], "name": name}} for name in names
    ]
    offered = ["a_b_3", "a_b", "a_b_4", "a_b_2"]
    fake = install_fake_claude(
        tmp_path, tool_rounds=[("", [(name, "{}") for name in offered])], names_calls=False
    )
    done, failure = ask(tmp_path, tools=tools)
    assert failure is None and [call.name for call in done.native_calls] == names
    assert set(value_of(fake, "--allowedTools").split(",")) == {
        f"mcp__clawgauge__{name}" for name in offered
    }


def one_round(*names: str) -> bytes:
    """What the CLI prints up to the end of a reply that calls a tool, with these tools on offer."""
    init = {
        "type": "system",
        "subtype": "init",
        "tools": [f"mcp__clawgauge__{name}" for name in names],
    }
    message = {
        "id": "m1",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "x"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 4},
        },
    ]
    lines = [init, *({"type": "stream_event", "event": event} for event in events)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("ending", "waited_s"),
    [({"hang": "after_result"}, 1.0), ({"exit_code": 1}, 0.0)],
    ids=["hangs", "dies"],
)
def test_a_call_that_was_made_does_not_wait_for_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: dict[str, Any], waited_s: float
) -> None:
    """Once the reply with its calls is whole, a CLI that hangs or dies over the rest costs neither answer nor time."""
    monkeypatch.setattr(claude_provider, "SETTLE_S", 1.0)
    install_fake_claude(tmp_path, stdout=one_round("get_weather"), **ending)
    began_ns = time.perf_counter_ns()
    done, failure = ask(tmp_path)
    assert done.e2e_ns <= time.perf_counter_ns() - began_ns - waited_s * 0.9e9, (
        "waiting for more is not part of the call"
    )
    assert failure is None and len(done.native_calls) == 1 and done.finish_reason == "tool_calls"
    assert (done.input_tokens, done.output_tokens) == (9, 4)


def test_a_task_cut_off_keeps_its_turns(tmp_path: Path) -> None:
    """A deadline in the middle leaves the turns that were taken, with what they cost."""
    install_fake_claude(tmp_path, stdout=one_round("read", "exec"), hang="after_result")
    for timeout_s in growing_deadlines(1.0):
        done, failure = ask_task(tmp_path, timeout_s=timeout_s)
        assert kind_of(failure) == ("error", "timeout")
        if done.transcript:
            break  # the turn came before the deadline
    assert done.transcript is not None and [len(turn.calls) for turn in done.transcript] == [1]
    assert (done.input_tokens, done.output_tokens) == (9, 4)
