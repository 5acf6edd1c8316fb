"""`/v1/responses` as OpenAI documents it, and as llama.cpp was recorded speaking it.

No recording of OpenAI itself: that dialect follows the documentation. llama.cpp's events lack `output_index`,
`content_index` and `sequence_number`, and a reply cut by the token limit still says `completed`.
"""

from __future__ import annotations

from typing import Any

from support import chat_format
from support.http_exchange import ReceivedRequest
from support.replies import Text, split_words
from support.wire_frames import Frame, named_event

RESPONSE_ID, MESSAGE_ID, REASONING_ID = "resp_scripted", "msg_scripted", "rs_scripted"
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
error_body = chat_format.error_body


def body(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    """The finished response object."""
    return _finished(text, request, dialect)


def frames(text: Text, request: ReceivedRequest, dialect: str) -> list[Frame]:
    """The answer as events, in the order OpenAI sends them."""
    begun = _response(text, request, "in_progress")
    stream = _Stream(numbered=dialect != "llama_cpp")
    stream.add("response.created", response=begun)
    stream.add("response.in_progress", response=begun)
    if text.reasoning:
        _add_reasoning(stream, text, dialect)
    if text.pieces or text.refusal is not None:
        _add_message(stream, text, last=not text.tool_calls)
    for index, call in enumerate(text.tool_calls):
        _add_call(stream, index, call, last=index == len(text.tool_calls) - 1)
    if text.finish is not None:
        finished = _finished(text, request, dialect)
        stream.add(f"response.{finished['status']}", closing=True, response=finished)
    return stream.frames


def stream_error(status: int, message: str, sequence_number: int, dialect: str) -> bytes:
    """The `error` event. OpenAI gives its code as a word; llama.cpp wraps the number as it does over HTTP."""
    kind, word = chat_format.ERROR_TYPES.get(status, ("server_error", "server_error"))
    if dialect == "llama_cpp":
        return named_event(
            {"type": "error", "error": {"code": status, "message": message, "type": kind}}
        )
    event = {"type": "error", "code": word or kind, "message": message, "param": None}
    return named_event(event | {"sequence_number": sequence_number})


class _Stream:
    """Frames with the numbers OpenAI puts in each event, or without them."""

    def __init__(self, *, numbered: bool) -> None:
        self.frames: list[Frame] = []
        self.output_index = -1
        self._numbered = numbered

    def add(self, kind: str, *, token: bool = False, closing: bool = False, **fields: Any) -> None:
        event = {"type": kind, **fields, "sequence_number": len(self.frames)}
        if not self._numbered:
            for name in (
                "output_index",
                "content_index",
                "summary_index",
                "sequence_number",
                "logprobs",
            ):
                event.pop(name, None)
        self.frames.append(Frame(named_event(event), token, closing))


def _add_reasoning(stream: _Stream, text: Text, dialect: str) -> None:
    stream.output_index += 1
    place = {"item_id": REASONING_ID, "output_index": stream.output_index}
    item = {"id": REASONING_ID, "type": "reasoning", "summary": []}
    stream.add("response.output_item.added", output_index=stream.output_index, item=item)
    kind = "reasoning_text" if dialect == "llama_cpp" else "reasoning_summary_text"
    index = {"content_index": 0} if dialect == "llama_cpp" else {"summary_index": 0}
    for piece in split_words(text.reasoning):
        stream.add(f"response.{kind}.delta", token=True, **place, **index, delta=piece)
    stream.add(f"response.{kind}.done", **place, **index, text=text.reasoning)
    item = _reasoning_item(text, dialect)
    stream.add("response.output_item.done", output_index=stream.output_index, item=item)


def _add_message(stream: _Stream, text: Text, *, last: bool) -> None:
    stream.output_index += 1
    kind, key, pieces = _message_part(text)
    place = {"item_id": MESSAGE_ID, "output_index": stream.output_index, "content_index": 0}
    item = {
        "id": MESSAGE_ID,
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }
    stream.add("response.output_item.added", output_index=stream.output_index, item=item)
    stream.add("response.content_part.added", **place, part={"type": kind, key: ""})
    for piece in pieces:
        stream.add(f"response.{kind}.delta", token=True, **place, delta=piece, logprobs=[])
    item = _message_item(text)
    stream.add(f"response.{kind}.done", closing=last, **place, **{key: "".join(pieces)})
    stream.add("response.content_part.done", closing=last, **place, part=item["content"][0])
    stream.add(
        "response.output_item.done", closing=last, output_index=stream.output_index, item=item
    )


def _add_call(stream: _Stream, index: int, call: tuple[str, ...], *, last: bool) -> None:
    stream.output_index += 1
    item = _call_item(index, call)
    place = {"item_id": item["id"], "output_index": stream.output_index}
    begun = item | {"status": "in_progress", "arguments": ""}
    stream.add("response.output_item.added", output_index=stream.output_index, item=begun)
    for fragment in call[1:]:
        stream.add("response.function_call_arguments.delta", token=True, **place, delta=fragment)
    stream.add(
        "response.function_call_arguments.done", closing=last, **place, arguments=item["arguments"]
    )
    stream.add(
        "response.output_item.done", closing=last, output_index=stream.output_index, item=item
    )


def _message_part(text: Text) -> tuple[str, str, list[str]]:
    if text.refusal is not None:
        return "refusal", "refusal", split_words(text.refusal)
    return "output_text", "text", text.pieces


def _message_item(text: Text) -> dict[str, Any]:
    kind, key, pieces = _message_part(text)
    part: dict[str, Any] = {"type": kind, key: "".join(pieces)}
    if kind == "output_text":
        part |= {"annotations": [], "logprobs": []}
    status = "incomplete" if text.finish in INCOMPLETE else "completed"
    return {
        "id": MESSAGE_ID,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
    }


def _reasoning_item(text: Text, dialect: str) -> dict[str, Any]:
    if dialect == "llama_cpp":
        content = [{"type": "reasoning_text", "text": text.reasoning}]
        return {"id": REASONING_ID, "type": "reasoning", "summary": [], "content": content}
    return {
        "id": REASONING_ID,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text.reasoning}],
    }


def _call_item(index: int, call: tuple[str, ...]) -> dict[str, Any]:
    """A call; of `NAMESPACE::NAME` the namespace has a field of its own, as codex takes it."""
    arguments = "".join(call[1:])
    namespace, _, name = call[0].rpartition("::")
    ids = {"id": f"fc_{index}", "call_id": f"call_{index}"}
    item = ids | {
        "type": "function_call",
        "status": "completed",
        "name": name,
        "arguments": arguments,
    }
    return item | {"namespace": namespace} if namespace else item


def _response(text: Text, request: ReceivedRequest, status: str) -> dict[str, Any]:
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": chat_format.CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": request.json.get("instructions"),
        "max_output_tokens": request.json.get("max_output_tokens"),
        "model": text.model if text.model is not None else request.model,
        "output": [],
        "parallel_tool_calls": True,
        "tools": request.json.get("tools", []),
        "usage": None,
        "metadata": {},
    }


def _finished(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    status, details, error = "completed", None, None
    if text.finish == "failed":
        status, error = "failed", {"code": "server_error", "message": "scripted failure"}
    elif text.finish in INCOMPLETE and dialect != "llama_cpp":
        status, details = "incomplete", {"reason": INCOMPLETE[text.finish]}
    output: list[dict[str, Any]] = [_reasoning_item(text, dialect)] if text.reasoning else []
    if text.pieces or text.refusal is not None:
        output.append(_message_item(text))
    output += [_call_item(index, call) for index, call in enumerate(text.tool_calls)]
    whole = _response(text, request, status) | {
        "output": output,
        "incomplete_details": details,
        "error": error,
    }
    usage = _usage(text)
    return whole | {"usage": usage} if usage is not None else whole


def _usage(text: Text) -> dict[str, Any] | None:
    if isinstance(text.usage, dict):
        return text.usage
    counts = text.token_counts()
    if counts is None:
        return None
    return {
        "input_tokens": counts[0],
        "input_tokens_details": {"cached_tokens": text.cached_tokens or 0},
        "output_tokens": counts[1],
        "output_tokens_details": {"reasoning_tokens": text.reasoning_tokens or 0},
        "total_tokens": sum(counts),
    }
