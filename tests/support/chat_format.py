"""`/v1/chat/completions` as three servers speak it.

`llama_cpp` follows recordings. `openai` and `ollama` follow their documentation, not recordings: OpenAI sends
`usage: null` in every chunk when usage was asked for; Ollama repeats the role in each delta, has no role-only chunk,
and sends a tool call whole.
"""

from __future__ import annotations

from typing import Any

from support.http_exchange import ReceivedRequest
from support.replies import Text, split_words
from support.wire_frames import Frame, data_event

CREATED = 1794723893
FINGERPRINTS = {"openai": "fp_scripted", "llama_cpp": "b0-unknown", "ollama": "fp_ollama"}
REASONING_KEYS = {
    "openai": "reasoning_content",
    "llama_cpp": "reasoning_content",
    "ollama": "reasoning",
}
ERROR_TYPES = {
    400: ("invalid_request_error", None),
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("not_found_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def body(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": text.whole_text}
    if text.refusal is not None:
        message |= {"content": None, "refusal": text.refusal}
    if text.reasoning:
        message[text.reasoning_key or REASONING_KEYS[dialect]] = text.reasoning
    if text.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": name, "arguments": "".join(fragments)},
            }
            for index, (name, *fragments) in enumerate(text.tool_calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": text.finish_reason}
    whole = _envelope(text, request, dialect, "chat.completion") | {"choices": [choice]}
    usage = _usage(text)
    return whole | {"usage": usage} if usage is not None else whole


def frames(text: Text, request: ReceivedRequest, dialect: str) -> list[Frame]:
    """The answer as a stream: role, deltas, finish, usage where asked for, `[DONE]`."""
    asked_usage = bool((request.json.get("stream_options") or {}).get("include_usage"))
    envelope = _envelope(text, request, dialect, "chat.completion.chunk")
    null_usage = {"usage": None} if asked_usage and dialect == "openai" else {}
    role = {"role": "assistant"} if dialect == "ollama" else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data_event(envelope | {"choices": [choice]} | null_usage)

    made: list[Frame] = []
    if dialect != "ollama":
        made.append(
            Frame(chunk({"role": "assistant", "content": "" if dialect == "openai" else None}))
        )
    made += [Frame(chunk(role | delta), token=True) for delta in _deltas(text, dialect)]
    if text.finish is not None:
        last_delta = {"role": "assistant", "content": ""} if dialect == "ollama" else {}
        made.append(Frame(chunk(last_delta, text.finish_reason), closing=True))
    usage = _usage(text)
    if asked_usage and usage is not None:
        made.append(Frame(data_event(envelope | {"choices": [], "usage": usage}), closing=True))
    if text.done:
        made.append(Frame(b"data: [DONE]\n\n", closing=True))
    return made


def error_body(status: int, message: str, dialect: str) -> dict[str, Any]:
    """An error as the server words it; llama.cpp repeats the status as a number."""
    kind, code = ERROR_TYPES.get(status, ("server_error", None))
    if dialect == "llama_cpp":
        return {"error": {"code": status, "message": message, "type": kind}}
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": None,
            "code": code if dialect == "openai" else None,
        }
    }


def stream_error(status: int, message: str, sequence_number: int, dialect: str) -> bytes:
    """The same object as an event. `code` is the number, which is how servers say 429 after a 200."""
    kind, _ = ERROR_TYPES.get(status, ("server_error", None))
    return data_event({"error": {"code": status, "message": message, "type": kind}})


def _deltas(text: Text, dialect: str) -> list[dict[str, Any]]:
    key = text.reasoning_key or REASONING_KEYS[dialect]
    deltas: list[dict[str, Any]] = [{key: piece} for piece in split_words(text.reasoning)]
    if text.refusal is not None:
        return deltas + [{"refusal": piece} for piece in split_words(text.refusal)]
    deltas += [{"content": piece} for piece in text.pieces]
    for index, (name, *fragments) in enumerate(text.tool_calls):
        deltas += [
            {"tool_calls": [call]} for call in _tool_call_deltas(index, name, fragments, dialect)
        ]
    return deltas


def _tool_call_deltas(
    index: int, name: str, fragments: list[str], dialect: str
) -> list[dict[str, Any]]:
    whole = "".join(fragments)
    first = {"ollama": whole, "llama_cpp": fragments[0] if fragments else "", "openai": ""}[dialect]
    rest = {"ollama": [], "llama_cpp": fragments[1:], "openai": fragments}[dialect]
    named = {
        "index": index,
        "id": f"call_{index}",
        "type": "function",
        "function": {"name": name, "arguments": first},
    }
    return [named, *({"index": index, "function": {"arguments": fragment}} for fragment in rest)]


def _envelope(text: Text, request: ReceivedRequest, dialect: str, kind: str) -> dict[str, Any]:
    model = text.model if text.model is not None else request.model
    fingerprint = FINGERPRINTS[dialect]
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": CREATED,
        "model": model,
        "system_fingerprint": fingerprint,
    }


def _usage(text: Text) -> dict[str, Any] | None:
    if isinstance(text.usage, dict):
        return text.usage
    counts = text.token_counts()
    if counts is None:
        return None
    usage: dict[str, Any] = {
        "prompt_tokens": counts[0],
        "completion_tokens": counts[1],
        "total_tokens": sum(counts),
    }
    if text.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": text.cached_tokens}
    if text.reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": text.reasoning_tokens}
    return usage
