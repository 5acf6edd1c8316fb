"""What must hold for any bytes at all, one function for each kind of thing the program is handed.

A target raises only where the program is wrong. What the bytes of a kind mean is in its docstring; everything a target
does is decided by them, so a find can be kept as a file.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from clawgauge.checks import check_spec, judge_answer
from clawgauge.checks.detection import detect_tools
from clawgauge.cli import main
from clawgauge.errors import CallFailure, SuiteError
from clawgauge.journal.lines import encode_line
from clawgauge.outcomes import AttemptOutcome, CallOutcome, CellOutcome, Reply
from clawgauge.providers.claude.failures import explain_failure
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.providers.http.reply import (
    REPLY_CAP_BYTES,
    STREAM_END,
    HttpReply,
    Reader,
    SseDecoder,
    SseEvent,
)
from clawgauge.providers.openai.chat import ChatReader
from clawgauge.providers.openai.responses import ResponsesReader
from clawgauge.records import Prompt, Result, SuiteRecord, Target
from clawgauge.runner.agenda import Cell
from clawgauge.runner.record import Source, make_result
from clawgauge.suites import load_suite, prompts_sha256
from clawgauge.timeline import Timeline

SPECS: list[dict[str, Any]] = [
    {"type": "noop"},
    {"type": "exact", "value": "42"},
    {"type": "one_of", "values": ["free", "ls"]},
    {"type": "regex_fullmatch", "pattern": "(a+)+b"},
    {"type": "max_words", "value": 3},
    {"type": "max_sentences", "value": 2},
    {"type": "exact_bullets", "value": 3},
    {
        "type": "json_keys",
        "required_keys": ["a"],
        "key_rules": {"a": {"type": "number"}},
        "strict": True,
    },
    {"type": "json_schema", "schema": {"required": ["a"], "properties": {"a": {"type": "number"}}}},
    {"type": "tool_invocation", "expected_tools": ["free", "get_weather"]},
]
TOOLS = {"mcp__t__get_weather": "get_weather", "mcp__t__free": "free"}
ENDINGS = {0, 2, 3, 5}  # of a verb that only reads: the machine is well, and no gate was set
# Byte by byte up to here; what is longer is cut at random.
EVERY_BYTE = 600


def sse(data: bytes) -> None:
    """A stream of events: read as the grammar says, wherever it is cut."""
    expected = _plain_events(data)
    for pieces in _cuts(data):
        decoder = SseDecoder()
        events = [event for piece in pieces for event in decoder.feed(piece)]
        assert events + decoder.feed(STREAM_END) == expected, pieces


def chat(data: bytes) -> None:
    """The payload of a reply to a chat request, events or one body."""
    _reply(data, ChatReader)


def responses(data: bytes) -> None:
    """The payload of a reply to a Responses request."""
    _reply(data, lambda sink, model: ResponsesReader(sink, model, 5))


def gzip(data: bytes) -> None:
    """A content encoding on the first line, then the body so encoded: what is readable comes out, up to the cap."""
    encoding, _, body = data.partition(b"\n")
    headers = {"Content-Encoding": encoding.decode("latin-1"), "Content-Type": "application/json"}
    found = []
    for pieces in _cuts(body):
        reader = _Collector()
        failure = _taken_in(pieces, headers, reader)
        found.append((failure and failure.failure_type, reader.whole, reader.events))
    failed, whole, events = found[0]
    # What came before the fault is told or not, as it comes in one piece with the fault or before it.
    assert all(one == found[0] or (failed and one[0] == failed) for one in found), found
    assert len(whole) + sum(map(len, events)) <= REPLY_CAP_BYTES
    if not failed and not events and encoding in (b"gzip", b"x-gzip"):
        plain = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body)
        # Blank space in front is keep-alive, and no part of a body.
        assert plain.lstrip(b" \t\r\n\v\f\xef\xbb\xbf") == whole.lstrip(b" \t\r\n\v\f\xef\xbb\xbf")


def claude_stream(data: bytes) -> None:
    """What the CLI prints, line by line: with tools on offer or without, it is an answer or a failure with a name."""
    for tools in ({}, TOOLS):
        folded = []
        for _ in range(2):
            timeline = Timeline()
            timeline.start(0)
            stream = ClaudeStream(
                timeline, started_ns=0, tools=tools, max_turns=3, is_task=bool(tools)
            )
            for number, line in enumerate(data.split(b"\n")):
                stream.feed(number, line)
            stream.settle()
            failure = explain_failure(stream, model="m", exit_code=len(data) % 2, stderr_tail="")
            folded.append((timeline.fold(1000), failure and (failure.status, failure.failure_type)))
            _recorded(folded[-1][0], failure)
        assert folded[0] == folded[1]


def detection(data: bytes) -> None:
    """An answer: judged the same twice, by every validator, and every judgement can be written and read back."""
    text = (
        data.decode("utf-8", "surrogatepass" if len(data) % 2 else "surrogateescape")
        if _is_text(data)
        else repr(data)
    )
    expected = ["free", "get_weather"]
    calls = detect_tools(text, expected)
    assert calls == detect_tools(text, expected)
    assert detect_tools(text, expected, limit=2) == calls[:2]
    assert [call.name for call in detect_tools(text.replace("\r\n", "\n"), expected)] == [
        call.name for call in calls
    ]
    for spec in SPECS:
        prompt = Prompt(id="P", name="p", prompt="?", validator=spec, expected_tools=expected)
        judgement = judge_answer(prompt, text, [])
        assert judgement == judge_answer(prompt, text, [])
        assert (judgement.violation is not None) == (judgement.objective_pass is False)
        msgspec.json.decode(encode_line(judgement))


def suite(data: bytes) -> None:
    """A suffix on the first line, then a suite file: refused in a sentence, or the same after a round through JSON."""
    suffix, _, content = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as folder:
        path = (
            Path(folder)
            / f"suite{suffix.decode('latin-1') if suffix in SUITE_SUFFIXES else '.json'}"
        )
        path.write_bytes(content)
        try:
            loaded = load_suite(str(path))
        except SuiteError as refused:
            assert str(path) in str(refused) and "\n" not in str(refused), refused
            return
        assert loaded == load_suite(str(path))
    again = msgspec.json.decode(encode_line(loaded), type=SuiteRecord)
    assert again == loaded and prompts_sha256(again.prompts) == loaded.sha256
    for prompt in loaded.prompts[:20]:
        check_spec(prompt.validator)
        judge_answer(prompt, "an answer of no kind", [])


def run_folder(data: bytes) -> None:
    """Files, each after a line `--- NAME`: every reading verb says what it finds, and changes nothing."""
    with tempfile.TemporaryDirectory() as place:
        folder, other = Path(place) / "r", Path(place) / "other"
        files = {name: content for name, content in _files(data) if name in FOLDER_FILES}
        for made in (folder, other):
            made.mkdir()
            for name, content in files.items():
                (made / name).write_bytes(content)
        for words in READING_VERBS:
            code, said = _call(
                [{"RUN": str(folder), "OTHER": str(other)}.get(word, word) for word in words]
            )
            assert code in ENDINGS, (words, code, said)
            assert "Traceback" not in said, said
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


SUITE_SUFFIXES = (b".json", b".toml", b".yaml")
FOLDER_FILES = ("results.jsonl", "config.json", "events.jsonl", "inventory.json", "summary.json")
READING_VERBS = (
    ("show", "RUN"),
    ("show", "RUN", "--json"),
    ("show", "RUN", "P0"),
    ("export", "RUN", "--format", "jsonl"),
    ("report", "RUN", "-o", "-"),
    ("compare", "RUN", "OTHER"),
)
TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (sse, chat, responses, gzip, claude_stream, detection, suite, run_folder)
}


def _cuts(data: bytes) -> Iterator[list[bytes]]:
    """The bytes whole, one at a time, and cut at a few places."""
    if len(data) < 2:
        yield [data] if data else []
        return
    yield [data]
    if len(data) <= EVERY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]
    rng = Random(zlib.crc32(data))
    for n_cuts in (1, 5):
        places = [0, *sorted({rng.randrange(1, len(data)) for _ in range(n_cuts)}), len(data)]
        yield [data[start:end] for start, end in pairwise(places)]


def _plain_events(data: bytes) -> list[SseEvent]:
    """The events of a whole stream, read in the plainest way there is."""
    events: list[SseEvent] = []
    name, lines = b"", []
    for line in [*re.split(rb"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf")), b""]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if lines:
                events.append((name, b"\n".join(lines)))
            name, lines = b"", []
        elif field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    return events


def _reply(data: bytes, reader: Callable[[Any, str], Reader]) -> None:
    """The same answer or the same failure however the bytes are cut, and a record that can be read back."""
    for content_type in ("text/event-stream", "application/json"):
        seen = []
        for pieces in _cuts(data):
            timeline = Timeline()
            timeline.start(0)
            failure = _taken_in(pieces, {"Content-Type": content_type}, reader(timeline, "m"))
            completion = timeline.fold(1000)
            _recorded(completion, failure)
            seen.append(
                (completion, failure and (failure.status, failure.failure_type, failure.retryable))
            )
        assert all(one == seen[0] for one in seen), seen


def _taken_in(pieces: list[bytes], headers: dict[str, str], reader: Reader) -> CallFailure | None:
    """One reply from its head to its end, which is the connection's."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    try:
        reply = HttpReply(reader)
        for piece in (f"HTTP/1.1 200 OK\r\n{head}\r\n".encode("latin-1"), *pieces):
            reply.feed(20, piece)
            while reply.behind:
                reply.feed(20, b"")
            if reply.is_answered:
                return None
        reply.connection_ended()
        reply.feed(20, b"")
    except CallFailure as failure:
        return failure
    return None


class _Collector:
    """A reader that keeps what it is given."""

    model = "m"
    by_line = False

    def __init__(self) -> None:
        self.sink = Timeline()
        self.whole = b""
        self.events: list[bytes] = []

    def event(self, _at_ns: int, _name: bytes, data: bytes) -> bool:
        self.events.append(data)
        return False

    def body(self, _at_ns: int, data: bytes) -> None:
        self.whole = data

    def close(self) -> None:
        return


def _recorded(reply: Reply, failure: CallFailure | None) -> None:
    """Whatever came back becomes a line that reads as the record it was."""
    prompt = Prompt(id="P", name="p", prompt="?", validator=SPECS[7], expected_tools=["free"])
    attempt = AttemptOutcome(reply=reply, failure=failure, started_at_ms=1, e2e_ns=reply.e2e_ns)
    outcome = CellOutcome(call=CallOutcome.of_attempt(attempt, []), total_ns=9)
    result = make_result(Source("r", 0, Target("p", "m"), str), Cell(prompt, 0), outcome)
    line = encode_line(result)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert encode_line(msgspec.json.decode(line, type=Result)) == line


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _files(data: bytes) -> Iterator[tuple[str, bytes]]:
    for part in re.split(rb"^--- ", data, flags=re.MULTILINE)[1:]:
        name, _, content = part.partition(b"\n")
        yield name.decode("latin-1"), content


def _call(words: list[str]) -> tuple[int, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, err.getvalue()
