"""Google's Gemini API: `streamGenerateContent` and `generateContent`, its list of models, its errors.

No recording of the API: the shapes follow Google's documentation and its own clients.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Sequence
from typing import Any

from support.http_exchange import ReceivedRequest
from support.ollama_format import InstalledModel
from support.replies import Status, Text, split_words
from support.wire_frames import Frame, dump_json

FINISH_REASONS = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
}
STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def body(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    """The answer in one piece."""
    parts: list[dict[str, Any]] = []
    if text.reasoning:
        parts.append({"text": text.reasoning, "thought": True})
    if text.whole_text:
        parts.append({"text": text.whole_text})
    parts += _call_parts(text, request)
    _sign(parts, text, request)
    return _response(text, request, parts, ends=True, n_sent=len(text.pieces))


def frames(text: Text, request: ReceivedRequest, dialect: str) -> list[Frame]:
    """The answer as responses: a piece of thoughts or text each, a call whole, the reason with the last."""
    parts = [{"text": piece, "thought": True} for piece in split_words(text.reasoning)]
    parts += [{"text": piece} for piece in text.pieces]
    parts += _call_parts(text, request)
    last: list[dict[str, Any]] = []
    if not text.tool_calls:
        last = [{"text": ""}]
    _sign(parts if text.tool_calls else last, text, request)
    made = []
    for n_sent, part in enumerate(parts):
        response = _response(text, request, [part], ends=False, n_sent=n_sent)
        made.append(Frame(event(response), token=True))
    if text.finish is not None:
        response = _response(text, request, last, ends=True, n_sent=len(parts))
        made.append(Frame(event(response), closing=True))
    return made


def event(response: Any) -> bytes:
    """One server-sent event, with Google's line ends."""
    return b"data: " + dump_json(response) + b"\r\n\r\n"


def error_body(status: int, message: str, dialect: str) -> dict[str, Any]:
    name = STATUS_NAMES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": name}}


def stream_error(status: int, message: str, sequence_number: int, dialect: str) -> bytes:
    return event(error_body(status, message, dialect))


def model_list(models: Sequence[InstalledModel]) -> dict[str, Any]:
    """What `/v1beta/models` says of these models, and of one for embeddings."""
    rows: list[dict[str, Any]] = []
    for model in models:
        rows.append(
            {
                "name": f"models/{model.name}",
                "version": "001",
                "displayName": model.name,
                "inputTokenLimit": model.context_length,
                "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
                "thinking": True,
            }
        )
    rows.append(
        {
            "name": "models/gemini-embedding-001",
            "version": "001",
            "inputTokenLimit": 2_048,
            "outputTokenLimit": 1,
            "supportedGenerationMethods": ["embedContent"],
        }
    )
    return {"models": rows}


def key_refused() -> Status:
    """How the API says that it does not know a key: with status 400."""
    error = error_body(400, "API key not valid. Please pass a valid API key.", "")
    info = {"@type": ERROR_INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
    error["error"]["details"] = [info]
    return Status(400, error)


def quota_spent(quota_id: str, retry_delay: str | None = "26s") -> Status:
    """A 429 as the API sends it: no header, but the quota and when to ask again."""
    error = error_body(429, "You exceeded your current quota.", "")
    details: list[dict[str, Any]] = [
        {"@type": QUOTA_FAILURE, "violations": [{"quotaId": quota_id, "quotaValue": "10"}]}
    ]
    if retry_delay is not None:
        details.append({"@type": RETRY_INFO, "retryDelay": retry_delay})
    error["error"]["details"] = details
    return Status(429, error)


def model_not_found(name: str) -> Status:
    message = (
        f"models/{name} is not found for API version v1beta, or is not supported for "
        "generateContent. Call ListModels to see the list of available models."
    )
    return Status(404, error_body(404, message, ""))


def blocked_prompt(reason: str) -> dict[str, Any]:
    """The only response to a prompt that the API lets no model see."""
    return {
        "promptFeedback": {"blockReason": reason},
        "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12},
        "modelVersion": "scripted-model",
    }


def unsigned_call(request: ReceivedRequest) -> Status | None:
    """The refusal of a conversation whose calls lack their signatures, as from Gemini 3 on."""
    for content in request.json["contents"]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        # Of calls side by side only the first is signed.
        if calls and "thoughtSignature" not in calls[0]:
            name = calls[0]["functionCall"]["name"]
            message = (
                "Function call is missing a thought_signature in functionCall parts. Additional "
                f"data, function call `default_api:{name}`, position 1."
            )
            return Status(400, error_body(400, message, ""))
    return None


def signature(request: ReceivedRequest) -> str:
    """What the reply to this request is signed with: another for each turn."""
    return base64.b64encode(f"thoughts {_n_before(request)}".encode()).decode()


def call_id(request: ReceivedRequest, index: int) -> str:
    return f"call-{_n_before(request)}-{index}"


def _n_before(request: ReceivedRequest) -> int:
    return len(request.json.get("contents") or ())


def _call_parts(text: Text, request: ReceivedRequest) -> list[dict[str, Any]]:
    parts = []
    for index, (name, *fragments) in enumerate(text.tool_calls):
        arguments: Any = "".join(fragments) or "{}"
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
        call = {"name": name, "args": arguments, "id": call_id(request, index)}
        parts.append({"functionCall": call})
    return parts


def _sign(parts: list[dict[str, Any]], text: Text, request: ReceivedRequest) -> None:
    """The first call is signed; where there is none, the last part of a reply that was thought about."""
    calls = [part for part in parts if "functionCall" in part]
    if calls:
        calls[0]["thoughtSignature"] = signature(request)
    elif parts and text.reasoning:
        parts[-1]["thoughtSignature"] = signature(request)


def _response(
    text: Text, request: ReceivedRequest, parts: list[dict[str, Any]], *, ends: bool, n_sent: int
) -> dict[str, Any]:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = parts
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if ends and text.finish is not None:
        candidate["finishReason"] = FINISH_REASONS.get(text.finish, text.finish)
        if text.refusal is not None:
            candidate["finishMessage"] = text.refusal
    response: dict[str, Any] = {"candidates": [candidate]}
    usage = _usage(text, n_sent, ends)
    if usage is not None:
        response["usageMetadata"] = usage
    response["modelVersion"] = request.model if text.model is None else text.model
    response["responseId"] = "scripted"
    return response


def _usage(text: Text, n_sent: int, ends: bool) -> dict[str, Any] | None:
    """The counts so far, as every response has them. What is 0 is left out, as protocol buffers do."""
    if isinstance(text.usage, dict):
        return text.usage
    counts = text.token_counts()
    if counts is None:
        return None
    n_input, n_output = counts
    usage = {
        "promptTokenCount": n_input,
        "candidatesTokenCount": n_output if ends else min(n_sent, n_output),
        "thoughtsTokenCount": text.reasoning_tokens or 0,
        "cachedContentTokenCount": text.cached_tokens or 0,
    }
    usage["totalTokenCount"] = (
        n_input + usage["candidatesTokenCount"] + (text.reasoning_tokens or 0)
    )
    return {name: count for name, count in usage.items() if count}
