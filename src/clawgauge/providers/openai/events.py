"""What chat completions and the Responses API have in common: past calls, and replies of which some are odd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Generic, TypeVar

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Sink, Turn
from clawgauge.providers.http.errors import stream_failure
from clawgauge.providers.http.lenient_json import decode_lenient, fit
from clawgauge.records import MAX_TOKENS, as_count

# What a decoder says to an event that is not as it should be.
ODD = (msgspec.MsgspecError, UnicodeError, RecursionError)
_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64
E = TypeVar("E", bound=msgspec.Struct)


def past_turns(call: Call) -> Iterator[tuple[Turn, list[tuple[str, str, str, str]]]]:
    """Every earlier turn with its calls: the id, name, arguments and answer of each.

    The ids are ours: servers differ in what they send, some send none, and one family takes nothing but nine letters
    and digits. They are counted from the start of the task, so a call keeps its id in every later request.
    """
    ids = (f"call{number:05d}" for number in count(1))
    functions = (tool.get("function") for tool in call.tools)
    names = (function.get("name") for function in functions if isinstance(function, dict))
    offered = {name.lower(): name for name in names if isinstance(name, str)}
    for turn in call.history:
        calls = []
        for made, answer in zip(turn.calls, turn.answers, strict=True):
            # As it was offered; a name the model made up is sent as servers accept names, or they refuse the request.
            name = offered.get(made.name) or _UNSENDABLE.sub("_", made.name)[:_NAME_CHARS] or "unnamed"
            # Malformed ones go back as none: servers that parse them again would refuse the request, and the answer
            # beside them tells the model what was wrong.
            arguments = json.dumps(made.arguments, ensure_ascii=False) if isinstance(made.arguments, dict) else "{}"
            calls.append((next(ids), name, arguments, answer))
        yield turn, calls


def encode_body(body: dict[str, Any], extra: dict[str, Any]) -> bytes:
    """The request. A member that is None was not asked for, and is not sent; `extra` is sent as it is.

    A lone surrogate in a prompt is sent as its escape rather than failing the call.
    """
    body = {name: value for name, value in body.items() if value is not None} | extra
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode("ascii")


class EventReader(Generic[E]):
    """Reads events of one kind, the odd ones as far as they can be, and knows a stream that had no other."""

    __slots__ = ("_read_any", "_sink", "_unread", "model")
    _kind: type[E]
    _protocol: str

    def __init__(self, sink: Sink, model: str) -> None:
        self.model = model
        self._sink = sink
        self._read_any = False
        self._unread = b""

    def _decode_odd(self, name: bytes, data: bytes) -> E | None:
        """The event as far as it can be read; None, and a failure where it is named `error`, if it cannot be at all."""
        fields = decode_lenient(data)
        if fields is not None:
            return fit(self._kind, fields)
        if name == b"error":
            raise stream_failure(data.decode("utf-8", "replace"))
        self._unread = self._unread or data
        return None

    def _require_any(self) -> None:
        """The stream says that it is over: it must have held something of the protocol."""
        if self._unread and not self._read_any:
            raise self._not_the_protocol(self._unread)

    def _not_the_protocol(self, data: bytes) -> CallFailure:
        """A 200 whose body is something else: a proxy's page, another API."""
        head = data[:200].decode("utf-8", "replace").strip()
        return CallFailure("error", "invalid_response", f"the reply is not {self._protocol}: {head!r}")


def report_counts(sink: Sink, usage: Any, input_name: str, output_name: str) -> int | None:
    """Token counts under a protocol's names for them. What is no count is as if not said. Returns the output's."""
    if not isinstance(usage, dict):
        return None
    inputs, outputs = usage.get(f"{input_name}_details"), usage.get(f"{output_name}_details")
    said = {
        "input_tokens": usage.get(input_name),
        "output_tokens": usage.get(output_name),
        "cached_tokens": inputs.get("cached_tokens") if isinstance(inputs, dict) else None,
        "reasoning_tokens": outputs.get("reasoning_tokens") if isinstance(outputs, dict) else None,
    }
    counts = {name: as_count(value, MAX_TOKENS) for name, value in said.items()}
    if strange := [name for name, value in said.items() if value is not None and counts[name] is None]:
        sink.note(warning=f"usage: what the server sent as {', '.join(strange)} is no count of tokens")
    sink.usage(**counts)
    return counts["output_tokens"]


def arguments_text(arguments: Any) -> str | None:
    """The text of arguments, which some servers send as an object; too deep to be written, they are no arguments."""
    if arguments is None or isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments)
    except RecursionError:
        return "nested too deeply"
