"""What is read from the output of Claude Code: every recording of the real program, and lines it never printed."""

from __future__ import annotations

import json
import re

from clawgauge.errors import CallFailure
from clawgauge.providers.claude.failures import explain_failure
from clawgauge.providers.claude.stream import ClaudeStream
from support.fake_claude import RECORDINGS, recording_names
from support.rows import every_row
from unit.providers.claude_calls import STREAM_RECORDINGS, SeenCall, kind_of

HELLO = "Hello from the fake server."

# recording: (status and failure type, text, finish reason)
RECORDED = {
    "bad_flag": (("error", "cli_error"), "", None),
    "err_connrefused_retries0": (("skipped_unavailable", "connection_refused"), "", None),
    "err_dropmid": (None, HELLO, "stop"),
    "err_dropmid_nofallback": (("error", "stream_interrupted"), "", None),
    "err_empty": (None, "", "stop"),
    "err_maxtok": (None, "", "length"),
    "err_refusal": (None, "", "refusal"),
    "err_s400": (("error", "context_length_exceeded"), "", None),
    "err_s401_retries0": (("auth_error", "http_401"), "", None),
    "err_s403": (("auth_error", "http_403"), "", None),
    "err_s404": (("skipped_unavailable", "model_not_found"), "", None),
    "err_s429_retries0": (("rate_limited", "http_429"), "", None),
    "err_s429_retries2": (("rate_limited", "http_429"), "", None),
    "err_s500_retries0": (("error", "http_500"), "", None),
    "err_s529_retries0": (("error", "http_529"), "", None),
    "err_streamerr": (None, HELLO, "stop"),
    "hang_apitimeout3s_retries0": (("error", "timeout"), "", None),
    "hangmid_apitimeout3s": (("error", "cli_error"), "", None),
    "no_prompt": (("error", "cli_error"), "", None),
    "nonbare_min": (None, HELLO + " ", "stop"),
    "notloggedin_json": (("auth_error", "cli_auth"), "", None),
    "notloggedin_streamjson": (("auth_error", "cli_auth"), "", None),
    "notloggedin_text": (("auth_error", "cli_auth"), "", None),
    "ok_effort_low": (None, HELLO + " ", "stop"),
    "ok_json": (None, HELLO + " ", "stop"),
    "ok_json_min": (None, HELLO + " ", "stop"),
    "ok_stdin": (None, HELLO + " ", "stop"),
    "ok_stream_min": (None, HELLO + " ", "stop"),
    "real_min_2": (None, "The capital of France is Paris.", "stop"),
    "toolcall_allowed": (None, HELLO + " ", "stop"),
    "toolcall_maxturns1": (None, "", "tool_calls"),
}
STREAMED = {
    "dropped_stream": (("error", "stream_interrupted"), "Hello from ", None),
    "empty_reply": (None, "", "stop"),
    "lone_surrogate": (None, "Hello from \ud83d\ude00 \ud800!the fake server.", "stop"),
    "max_tokens": (None, HELLO, "length"),
    "not_an_api": (("error", "invalid_response"), "", None),
    "overloaded_mid_stream": (("error", "stream_error"), "Hello from ", None),
    "refusal": (None, HELLO, "refusal"),
    "reset_before_reply": (("error", "connection_reset"), "", None),
    "status_401": (("auth_error", "http_401"), "", None),
    "status_404": (("skipped_unavailable", "model_not_found"), "", None),
    "status_429": (("rate_limited", "http_429"), "", None),
    "thinking": (None, HELLO, "stop"),
    "tool_use": (None, "", "tool_calls"),
    "usage_limit": (("rate_limited", "usage_limit"), "", None),
    "v1_0_40_ok": (None, HELLO, None),
    "v2_0_0_context_overflow": (("error", "context_length_exceeded"), "", None),
    "v2_0_0_status_429": (("rate_limited", "http_429"), "", None),
}


def read(
    output: bytes, exit_code: int = 0, stderr: str = ""
) -> tuple[SeenCall, ClaudeStream, CallFailure | None]:
    """Feed the output line by line, line n arriving at n milliseconds."""
    seen = SeenCall()
    stream = ClaudeStream(seen, started_ns=0)
    for number, line in enumerate(output.split(b"\n"), start=1):
        stream.feed(number * 1_000_000, line)
    failure = explain_failure(
        stream, model="claude-sonnet-4-5", exit_code=exit_code, stderr_tail=stderr
    )
    return seen, stream, failure


def read_recording(name: str) -> tuple[SeenCall, ClaudeStream, CallFailure | None]:
    meta = (RECORDINGS / f"{name}.meta").read_text(encoding="utf-8")
    exit_code = re.search(r"^### exit=(\d+)", meta, re.MULTILINE)
    stdout, stderr = RECORDINGS / f"{name}.stdout", RECORDINGS / f"{name}.stderr"
    return read(
        stdout.read_bytes() if stdout.exists() else b"",
        int(exit_code[1]) if exit_code else 1,
        stderr.read_text(encoding="utf-8") if stderr.exists() else "",
    )


def read_streamed(name: str) -> tuple[SeenCall, ClaudeStream, CallFailure | None]:
    exit_codes = json.loads((STREAM_RECORDINGS / "exit_codes.json").read_bytes())
    return read((STREAM_RECORDINGS / f"{name}.stdout").read_bytes(), exit_codes[name])


def api_event(**event: object) -> bytes:
    return json.dumps({"type": "stream_event", "event": event}).encode()


def text_delta(text: str) -> bytes:
    return api_event(
        type="content_block_delta", index=0, delta={"type": "text_delta", "text": text}
    )


def result(**fields: object) -> bytes:
    return json.dumps({"type": "result", "is_error": False, "result": "", **fields}).encode()


def test_no_recording_is_left_out() -> None:
    """Each recording of the real program has an expectation."""
    assert sorted(RECORDED) == recording_names()
    assert sorted(STREAMED) == sorted(path.stem for path in STREAM_RECORDINGS.glob("*.stdout"))


@every_row("name", RECORDED)
def test_a_recorded_call_has_the_status_and_text_of_the_table(name: str) -> None:
    """What the real program printed becomes the right status, and only model text becomes text."""
    seen, stream, failure = read_recording(name)
    assert (kind_of(failure), seen.answer, seen.finish_reason) == RECORDED[name]
    assert (seen.ended_ns is not None) == stream.done


@every_row("name", STREAMED)
def test_a_streamed_call_has_the_status_and_text_of_the_table(name: str) -> None:
    """The same for the flags this project uses, with partial text kept on failures."""
    seen, stream, failure = read_streamed(name)
    assert (kind_of(failure), seen.answer, seen.finish_reason) == STREAMED[name]
    assert stream.plain_text == ""


def test_pieces_carry_the_time_of_their_own_line() -> None:
    """The first token is the first delta's arrival, and the clock stops at the result."""
    seen, _, _ = read_recording("ok_stream_min")
    lines = (RECORDINGS / "ok_stream_min.stdout").read_bytes().split(b"\n")
    first_delta = next(n for n, line in enumerate(lines, start=1) if b"content_block_delta" in line)
    assert seen.texts[0] == (first_delta * 1_000_000, "Hello ")
    assert len(seen.texts) == 5
    assert (
        seen.ended_ns
        == next(n for n, line in enumerate(lines, start=1) if b'"type":"result"' in line)
        * 1_000_000
    )
    assert "first_token_captured" not in seen.notes


@every_row("name", ["ok_json", "err_dropmid", "toolcall_allowed"])
def test_text_that_came_whole_is_no_first_token(name: str) -> None:
    """Where no deltas were printed the text is kept and marked, so that no first-token time is made up."""
    seen, _, _ = read_recording(name)
    assert seen.answer.strip() == HELLO
    assert seen.notes["first_token_captured"] is False


def test_the_tokens_of_a_whole_prompt_are_counted() -> None:
    """Input is uncached plus cached tokens, and the cached part is told apart."""
    seen, _, _ = read_recording("real_min_2")
    assert seen.tokens == {
        "input_tokens": 83,
        "output_tokens": 8,
        "cached_tokens": 82,
        "reasoning_tokens": 0,
    }
    assert seen.notes["model_reported"] == "smollm2-135m-instruct"


def test_a_known_price_is_noted_and_a_made_up_one_is_not() -> None:
    """The cost is the program's own, except for a model whose price it does not know."""
    known, _, _ = read_recording("ok_stream_min")
    unknown, _, _ = read_recording("real_min_2")
    assert known.notes["cost_usd"] == 0.000141
    assert "cost_usd" not in unknown.notes


def test_the_overhead_of_the_program_is_what_the_api_did_not_take() -> None:
    """Overhead is the call's time less the API's, and absent where the API time is the longer one."""
    slow, swift = SeenCall(), SeenCall()
    ClaudeStream(slow, started_ns=1_000_000_000).feed(1_900_000_000, result(duration_api_ms=525))
    ClaudeStream(swift, started_ns=1_000_000_000).feed(1_100_000_000, result(duration_api_ms=525))
    assert slow.notes["cli_overhead_ms"] == 375
    assert "cli_overhead_ms" not in swift.notes


@every_row("name", ["max_tokens", "refusal", "empty_reply", "tool_use"])
def test_a_reply_the_program_would_ask_again_about_ends_the_call(name: str) -> None:
    """Only the first reply counts, with its own tokens; what the program asks next on its own is never read."""
    seen, stream, failure = read_streamed(name)
    assert failure is None
    assert stream.replies == 1 and stream.result is None
    assert seen.tokens["input_tokens"] == 20 and seen.tokens["cached_tokens"] == 5
    assert seen.tokens["output_tokens"] in (7, 9)


def test_a_refusal_is_noted() -> None:
    """A refusal is told by its finish and by a note in words."""
    for seen, _, failure in (read_streamed("refusal"), read_recording("err_refusal")):
        assert failure is None and seen.finish_reason == "refusal" and seen.notes["refusal"]


def test_thinking_is_kept_apart() -> None:
    """Thinking arrives on its own channel, before the answer."""
    seen, _, _ = read_streamed("thinking")
    assert seen.thinking == "Let me think."
    assert seen.thoughts[0][0] < seen.texts[0][0]


def test_a_tool_call_is_put_together_from_its_fragments() -> None:
    """The name comes with the first fragment of the arguments, and all fragments share one index."""
    seen, _, _ = read_streamed("tool_use")
    assert seen.tools == [("toolu_1", "Bash", '{"command"'), ("toolu_1", None, ': "echo hi"}')]


def test_a_tool_call_without_arguments_is_not_lost() -> None:
    """A call whose arguments never come is reported when its block ends."""
    seen = SeenCall()
    stream = ClaudeStream(seen, started_ns=0)
    block = {"type": "tool_use", "id": "toolu_9", "name": "Clock", "input": {}}
    stream.feed(1, api_event(type="content_block_start", index=0, content_block=block))
    assert seen.tools == []
    stream.feed(2, api_event(type="content_block_stop", index=0))
    assert seen.tools == [("toolu_9", "Clock", None)]


def test_a_whole_message_with_a_tool_call_keeps_its_arguments() -> None:
    """Without deltas the call's arguments are those of the message."""
    seen, _, _ = read_recording("toolcall_allowed")
    assert [
        (name, json.loads(arguments or "")["command"]) for _, name, arguments in seen.tools
    ] == [("Bash", "echo hi-from-tool")]


def test_the_words_of_the_program_are_never_model_text() -> None:
    """An error message that the program prints in the model's place is not an answer, nor is its made-up model."""
    for name in ("notloggedin_streamjson", "status_401", "v2_0_0_status_429"):
        seen = (read_recording if name in RECORDED else read_streamed)(name)[0]
        assert seen.answer == "" and "model_reported" not in seen.notes


def test_unknown_and_broken_lines_do_no_harm() -> None:
    """Kinds of lines of the future are skipped, the first unreadable one is kept to be quoted, the answer is whole."""
    lines = [
        b'{"type":"of_the_future","event":7}',
        b"Debugger attached.",
        b'{"type":"stream_event","event":"not an object"}',
        b"[1, 2]",
        b"7",
        b'{"type":' + b"[" * 100_000,
        b'{"type":"assistant","message":{"content":"a string"}}',
        text_delta("Pa"),
        b"",
        text_delta("ris") + b"\r",
        result(result="Paris"),
    ]
    seen, stream, failure = read(b"\n".join(lines))
    assert failure is None and seen.answer == "Paris"
    assert stream.plain_text == "Debugger attached."


@every_row(
    "usage", [None, "many", [], {"input_tokens": -1, "output_tokens": "7"}, {"input_tokens": True}]
)
def test_strange_usage_costs_the_counts_and_not_the_answer(usage: object) -> None:
    """Token counts that are missing, negative or no numbers are null; the call is fine."""
    seen, _, failure = read(
        text_delta("Paris") + b"\n" + result(usage=usage, total_cost_usd="free", modelUsage=3)
    )
    assert failure is None and seen.answer == "Paris"
    assert seen.tokens["input_tokens"] is None and seen.tokens["output_tokens"] is None


def test_empty_deltas_are_no_tokens() -> None:
    """A delta without text reports nothing."""
    seen, _, _ = read(b"\n".join([text_delta(""), text_delta("x"), result()]))
    assert [piece for _, piece in seen.texts] == ["x"]


def test_a_subagents_text_is_not_the_answer() -> None:
    """Events of another agent inside the call are left out."""
    line = json.loads(text_delta("inner")) | {"parent_tool_use_id": "toolu_1"}
    seen, _, _ = read(json.dumps(line).encode() + b"\n" + text_delta("outer") + b"\n" + result())
    assert seen.answer == "outer"


def test_an_unknown_stop_reason_is_kept_in_the_servers_word() -> None:
    """A stop reason of the future becomes the finish reason as it is."""
    stop = api_event(
        type="message_delta", delta={"stop_reason": "tired"}, usage={"output_tokens": 2}
    )
    seen, _, _ = read(b"\n".join([text_delta("zzz"), stop, result()]))
    assert seen.finish_reason == "tired"
