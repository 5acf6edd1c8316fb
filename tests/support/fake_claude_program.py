"""The program behind the fake `claude`: `python fake_claude_program.py BEHAVIOUR.json [the CLI's own arguments]`.

Runs by itself, on the standard library alone and without `site`, so that it starts in a few milliseconds. It writes
down how it was called, then does what the behaviour file says. Not to be imported: see `fake_claude`.
"""

# Importing pathlib would double the time this program takes to start.
# ruff: noqa: PTH100, PTH109, PTH110, PTH120, PTH123, PTH208

import fcntl
import json
import os
import signal
import sys
import termios
import time

FOREVER_S = 600.0
SESSION = "53704cbc-baca-44e5-810c-44e77ffb8399"
UUID = "299d0971-1370-473f-8855-f6a4ff753c30"
FLAGS_WITH_VALUE = (
    "--allowedTools",
    "--append-system-prompt",
    "--effort",
    "--max-turns",
    "--mcp-config",
    "--model",
    "--output-format",
    "--permission-mode",
    "--setting-sources",
    "--system-prompt",
    "--tools",
)
PLAIN_FLAGS = (
    "--bare",
    "--disable-slash-commands",
    "--help",
    "--include-partial-messages",
    "--no-session-persistence",
    "--print",
    "--strict-mcp-config",
    "--verbose",
    "--version",
)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        behaviour = json.load(file)
    arguments = sys.argv[2:]
    known = [
        flag for flag in FLAGS_WITH_VALUE + PLAIN_FLAGS if flag not in behaviour["missing_flags"]
    ]
    if "--version" in arguments or "--help" in arguments:
        write_log(behaviour, arguments, kind="question", stdin=b"")
        emit(1, behaviour["version"] + "\n" if "--version" in arguments else help_text(known))
        return 0
    options, words = parse(arguments, known)
    stdin = read_all(0) if behaviour["read_stdin"] else b""
    grandchild = spawn_grandchild() if behaviour["grandchild"] else None
    if behaviour["ignore_sigterm"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_log(behaviour, arguments, kind="call", stdin=stdin, grandchild_pid=grandchild)
    if behaviour["read_stdin"] and not stdin and not words:
        fail(
            "Error: Input must be provided either through stdin or as a prompt argument when using --print"
        )
    if options.get("--output-format") == "stream-json" and "--verbose" not in options:
        fail("Error: When using --print, --output-format=stream-json requires --verbose")
    prompt = stdin.decode("utf-8", "replace") or " ".join(words)
    return behave(behaviour | behaviour["by_prompt"].get(prompt, {}), options, prompt)


def behave(behaviour, options, prompt):
    """Print what the behaviour asks for and return the exit code."""
    emit(2, behaviour["stderr"])
    if behaviour["hang"] == "before_output":
        time.sleep(FOREVER_S)
    time.sleep(behaviour["first_delay_s"])
    while behaviour["waits_for"] and not os.path.exists(behaviour["waits_for"]):
        time.sleep(0.01)
    if behaviour["tool_rounds"] is not None:
        return use_tools(behaviour, options)
    elif behaviour["stdout"] is not None:
        os.write(1, behaviour["stdout"].encode("latin-1"))
    elif behaviour["answer"] is not None or behaviour["echo"]:
        answer(behaviour, options, prompt if behaviour["echo"] else behaviour["answer"])
    else:
        return replay(behaviour)
    linger(behaviour)
    return behaviour["exit_code"] or 0


def use_tools(behaviour, options):
    """Rounds of real calls to the MCP server that was named, then the answer."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from fake_claude_tools import converse

    def print_answer():
        for line in message_lines(behaviour, options, behaviour["answer"]):
            emit_line(line)
        emit_line(result_line(behaviour, options, behaviour["answer"]))

    return converse(behaviour, options, emit_line, print_answer)


def replay(behaviour):
    """A recording, line by line; hanging in the middle leaves half a line in the pipe."""
    lines = behaviour["recorded_stdout"].splitlines(keepends=True)
    emit(2, behaviour["recorded_stderr"])
    if behaviour["hang"] == "mid_stream":
        emit(1, "".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:20])
        time.sleep(FOREVER_S)
    for line in lines:
        emit(1, line)
        time.sleep(behaviour["gap_s"])
    linger(behaviour)
    exit_code = behaviour["exit_code"]
    return behaviour["recorded_exit"] if exit_code is None else exit_code


def answer(behaviour, options, text):
    """An answer as the real program prints it in the output format that was asked for."""
    rounds = 4 if behaviour["stop_reason"] == "max_tokens" else 1
    result = result_line(behaviour, options, text)
    if options.get("--output-format") == "json":
        emit(1, json.dumps(result) + "\n")
    elif options.get("--output-format") == "stream-json":
        emit_line(
            {"type": "system", "subtype": "init", "model": options.get("--model"), "tools": []}
        )
        for _ in range(rounds):
            for line in message_lines(behaviour, options, text):
                emit_line(line, bad_byte=behaviour["invalid_utf8"])
                if behaviour["apart"]:
                    wait_until_read()
                if behaviour["hang"] == "mid_stream" and "content_block_delta" in json.dumps(line):
                    emit(1, '{"type":"stream_ev')
                    time.sleep(FOREVER_S)
        emit_line(result, bad_byte=behaviour["invalid_utf8"])
    else:
        emit(1, text + "\n")


def message_lines(behaviour, options, text):
    model = options.get("--model")
    usage = {
        "input_tokens": 12,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    whole = message | {"content": [{"type": "text", "text": text}]}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for piece in behaviour["chunks"] or [text]:
        delta = {"type": "text_delta", "text": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events.append({"type": "content_block_stop", "index": 0})
    delta = {"stop_reason": behaviour["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": usage | {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    for event in events if "--include-partial-messages" in options else []:
        if event["type"] == "content_block_stop":
            yield {"type": "assistant", "message": whole}
        if event["type"] == "content_block_delta":
            time.sleep(behaviour["gap_s"])
        yield {"type": "stream_event", "event": event, "parent_tool_use_id": None}
    if "--include-partial-messages" not in options:
        yield {"type": "assistant", "message": whole}


def result_line(behaviour, options, text):
    line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "terminal_reason": "completed",
        "stop_reason": behaviour["stop_reason"],
        "result": text,
        "duration_ms": 568,
        "duration_api_ms": 525,
        "num_turns": 1,
        "total_cost_usd": 0.000141,
        "usage": {
            "input_tokens": 12,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 7,
        },
        "modelUsage": {options.get("--model", "default"): {"inputTokens": 12, "outputTokens": 7}},
        "permission_denials": [],
    }
    return line | behaviour["result"]


def parse(arguments, known):
    """(options, words) as the real program reads them; an unknown option ends it in the real program's words."""
    options, words = {}, []
    rest = iter(arguments)
    for argument in rest:
        argument = {"-p": "--print", "-v": "--version"}.get(argument, argument)
        if not argument.startswith("-"):
            words.append(argument)
        elif argument not in known:
            fail(f"error: unknown option '{argument}'")
        else:
            options[argument] = next(rest, "") if argument in FLAGS_WITH_VALUE else True
    return options, words


def help_text(known):
    rows = [f"  {flag}{' <value>' if flag in FLAGS_WITH_VALUE else ''}" for flag in sorted(known)]
    return "\n".join(["Usage: claude [options] [command] [prompt]", "", "Options:", *rows, ""])


def write_log(behaviour, arguments, **facts):
    """One appended write, so that calls at the same time do not mix."""
    entry = {
        "argv": arguments,
        "cwd": os.getcwd(),
        "cwd_entries": sorted(os.listdir(".")),
        "pid": os.getpid(),
        "env_names": sorted(os.environ),
        "env": {name: os.environ[name] for name in behaviour["env_values"] if name in os.environ},
        **facts,
        "stdin": facts["stdin"].decode("utf-8", "surrogateescape"),
    }
    log = os.open(behaviour["log_path"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, json.dumps(entry).encode() + b"\n")
    os.close(log)


def spawn_grandchild():
    """A process that inherits the pipes and outlives this one."""
    command = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({FOREVER_S})"]
    return os.posix_spawn(sys.executable, command, os.environ)


def linger(behaviour):
    if behaviour["hang"] == "after_result":
        time.sleep(FOREVER_S)


def emit_line(value, bad_byte=False):
    line = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    write_all(1, line.replace(b"INVALID", b"\xff") if bad_byte else line)


def emit(descriptor, text):
    write_all(descriptor, text.encode("utf-8", "surrogatepass"))


def write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


def wait_until_read():
    """Nothing of what was printed is left in the pipe. Where a system does not tell, some time has passed."""
    time.sleep(0.01)
    while int.from_bytes(fcntl.ioctl(1, termios.FIONREAD, bytes(4)), sys.byteorder):
        time.sleep(0.002)


def read_all(descriptor):
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)


def fail(message):
    emit(2, message + "\n")
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
