"""A stand-in for the `claude` program that prints stream-json on the schedule its model name spells.

`scheduled_claude TRUTH.csv [the CLI's own arguments]`: reads the prompt from standard input, prints, and appends what
really happened as one line of TRUTH.csv. Its clock starts at its first statement; what the system took to start it lies
before, and is kept small for that reason. Native tool calls are not part of what it prints.
"""

import sys
import time

BEGAN_NS = time.perf_counter_ns()

import json  # noqa: E402  # the clock is read before anything that takes time
import os  # noqa: E402

from bench.schedule import Schedule, word  # noqa: E402

FLAGS = (
    "--bare", "--disable-slash-commands", "--effort", "--help", "--include-partial-messages", "--model",
    "--no-session-persistence", "--output-format", "--print", "--setting-sources", "--strict-mcp-config",
    "--system-prompt", "--tools", "--verbose", "--version",
)  # fmt: skip


def main() -> int:
    truth_path, arguments = sys.argv[1], sys.argv[2:]
    if "--version" in arguments:
        emit("2.1.325 (Claude Code)\n")
    elif "--help" in arguments:
        emit(
            "Usage: claude [options] [prompt]\n\nOptions:\n"
            + "".join(f"  {flag}\n" for flag in FLAGS)
        )
    else:
        answer(truth_path, arguments[arguments.index("--model") + 1], read_prompt())
    return 0


def answer(truth_path: str, model: str, prompt: str) -> None:
    """Print one reply on its schedule, then write down when it was."""
    schedule = Schedule(model)
    lines = token_lines(schedule)
    lines[-1] += ending(schedule)
    head_ns = time.perf_counter_ns()
    emit(opening(model))
    reason_ns = first_ns = last_ns = late_ns = 0
    for k, (line, offset_ns) in enumerate(zip(lines, schedule.offsets_ns(), strict=True)):
        last_ns = sleep_until(BEGAN_NS + offset_ns)
        late_ns = max(late_ns, last_ns - BEGAN_NS - offset_ns)
        if k < schedule.n_reasoning:
            reason_ns = reason_ns or last_ns
        else:
            first_ns = first_ns or last_ns
        emit(line)
    times = (BEGAN_NS, head_ns, reason_ns, first_ns, last_ns, late_ns, time.perf_counter_ns())
    tag = prompt.partition("[[id:")[2].partition("]]")[0]
    write_truth(
        truth_path,
        f"0,{tag},{model},cli,1,200,0,{schedule.n_tokens},0,{','.join(map(str, times))}\n",
    )


def opening(model: str) -> str:
    message = {
        "id": "msg_calibrated",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    return to_line({"type": "system", "subtype": "init"}) + event(
        type="message_start", message=message
    )


def token_lines(schedule: Schedule) -> list[str]:
    """One line per token."""
    thoughts = [
        {"type": "thinking_delta", "thinking": word(k)} for k in range(schedule.n_reasoning)
    ]
    said = [{"type": "text_delta", "text": word(k)} for k in range(schedule.n_text)]
    return [event(type="content_block_delta", index=0, delta=delta) for delta in thoughts + said]


def ending(schedule: Schedule) -> str:
    usage = {"input_tokens": 12, "output_tokens": schedule.n_tokens}
    text = "".join(map(word, range(schedule.n_text)))
    result = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}
    return (
        event(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        + event(type="message_stop")
        + to_line({**result, "result": text, "usage": usage})
    )


def event(**fields: object) -> str:
    return to_line({"type": "stream_event", "event": fields, "parent_tool_use_id": None})


def to_line(value: dict[str, object]) -> str:
    return json.dumps(value) + "\n"


def sleep_until(due_ns: int) -> int:
    """Returns the time at which it woke."""
    while (now_ns := time.perf_counter_ns()) < due_ns:
        time.sleep((due_ns - now_ns) / 1e9)
    return now_ns


def read_prompt() -> str:
    parts = []
    while part := os.read(0, 65536):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def write_truth(path: str, line: str) -> None:
    """One appended write, so that calls at the same time do not mix."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line.encode())
    os.close(log)


def emit(text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]
