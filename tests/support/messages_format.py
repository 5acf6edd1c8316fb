"""Anthropic's `/v1/messages`, enough for the real `claude` CLI to be served from a script.

The shapes are those the CLI and llama.cpp were recorded with; the error kinds follow Anthropic's documentation.
"""

from __future__ import annotations

import json
from typing import Any

from support.http_exchange import ReceivedRequest
from support.replies import Text, split_words
from support.wire_frames import Frame, named_event

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
}
ERROR_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def body(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    """The finished message."""
    content: list[dict[str, Any]] = []
    if text.reasoning:
        content.append(
            {"type": "thinking", "thinking": text.reasoning, "signature": "c2NyaXB0ZWQ="}
        )
    if text.whole_text:
        content.append({"type": "text", "text": text.whole_text})
    for index, (name, *fragments) in enumerate(text.tool_calls):
        arguments = json.loads("".join(fragments) or "{}")
        content.append(
            {"type": "tool_use", "id": _tool_id(request, index), "name": name, "input": arguments}
        )
    usage = {"usage": _usage(text)} if text.usage is not None else {}
    return _message(text, request) | {"content": content, "stop_reason": _stop_reason(text)} | usage


def frames(text: Text, request: ReceivedRequest, dialect: str) -> list[Frame]:
    """The answer as events: one block per channel, then why it stopped."""
    begun = {} if isinstance(text.usage, dict) else {"output_tokens": 1}
    started = _message(text, request) | (
        {"usage": _usage(text) | begun} if text.usage is not None else {}
    )
    made = [Frame(named_event({"type": "message_start", "message": started}))]
    blocks = _blocks(text, request)
    for index, (start, deltas) in enumerate(blocks):
        event = {"type": "content_block_start", "index": index, "content_block": start}
        made.append(Frame(named_event(event)))
        if index == 0:
            made.append(Frame(named_event({"type": "ping"})))
        for delta in deltas:
            event = {"type": "content_block_delta", "index": index, "delta": delta}
            made.append(Frame(named_event(event), token=delta["type"] != "signature_delta"))
        stop = {"type": "content_block_stop", "index": index}
        made.append(Frame(named_event(stop), closing=index == len(blocks) - 1))
    if text.finish is not None:
        delta = {"stop_reason": _stop_reason(text), "stop_sequence": None}
        counted = {"usage": _usage(text)} if text.usage is not None else {}
        event = {"type": "message_delta", "delta": delta, **counted}
        made.append(Frame(named_event(event), closing=True))
        made.append(Frame(named_event({"type": "message_stop"}), closing=True))
    return made


def error_body(status: int, message: str, dialect: str) -> dict[str, Any]:
    error = {"type": ERROR_KINDS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def stream_error(status: int, message: str, sequence_number: int, dialect: str) -> bytes:
    return named_event(
        {
            "type": "error",
            "error": {"type": ERROR_KINDS.get(status, "api_error"), "message": message},
        }
    )


def _blocks(
    text: Text, request: ReceivedRequest
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """(opening block, its deltas) for thinking, text and each tool call that is there."""
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if text.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": piece} for piece in split_words(text.reasoning)
        ]
        signature = {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if text.pieces:
        deltas = [{"type": "text_delta", "text": piece} for piece in text.pieces]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for index, (name, *fragments) in enumerate(text.tool_calls):
        deltas = [{"type": "input_json_delta", "partial_json": fragment} for fragment in fragments]
        blocks.append(
            (
                {"type": "tool_use", "id": _tool_id(request, index), "name": name, "input": {}},
                deltas,
            )
        )
    return blocks


def _n_before(request: ReceivedRequest) -> int:
    """Ids differ between the turns of a conversation; a client takes two messages of one id for one."""
    return len(request.json.get("messages") or ())


def _tool_id(request: ReceivedRequest, index: int) -> str:
    return f"toolu_{_n_before(request)}_{index}"


def _message(text: Text, request: ReceivedRequest) -> dict[str, Any]:
    return {
        "id": f"msg_scripted_{_n_before(request)}",
        "type": "message",
        "role": "assistant",
        "model": text.model if text.model is not None else request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(text: Text) -> str | None:
    return STOP_REASONS.get(text.finish_reason or "", text.finish_reason)


def _usage(text: Text) -> dict[str, Any]:
    if isinstance(text.usage, dict):
        return text.usage
    input_tokens, output_tokens = text.token_counts() or (0, 0)
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": text.cached_tokens or 0,
        "output_tokens": output_tokens,
    }
