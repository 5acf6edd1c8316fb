"""Google's Gemini API: the stream of a reply, the whole one, the provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.gemini.contents import (
    ReplayedPart,
    ReplayedParts,
    answer_format,
    contents_of,
    tool_config_of,
    tools_of,
)
from clawgauge.providers.gemini.thinking import (
    Thinking,
    checks_signatures,
    find_thinking,
    why_not_level,
)
from clawgauge.providers.http.errors import decode_lenient, fit, refuse_crowded, stream_failure
from clawgauge.providers.http.events import EventReader, arguments_text, report_counts
from clawgauge.providers.http.server import HttpServer, listed_models
from clawgauge.records import ModelInfo, as_count
from clawgauge.registry import GEMINI

_API_VERSION = re.compile(r"/v\d[a-z0-9]*\Z")
_DEFAULT_API_VERSION = "/v1beta"
_LIST_NAME_PREFIX = "models/"
# Models that make something else than an answer in text, although they generate content.
_OTHER_KINDS = ("-image", "-tts", "-audio", "-live")
_FINISH_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "RECITATION": "content_filter",
    "SAFETY": "content_filter",
    "SPII": "content_filter",
}
_ORDINARY_ENDINGS = frozenset({"STOP", "MAX_TOKENS"})
# More than any reply is long. What is beyond is not kept, and the turn goes back without
# signatures.
_MAX_REPLAYED_CHARS = 1 << 18
_MAX_QUOTED_CHARS = 300


class _FunctionCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: Any = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    # A boolean.
    thought: Any = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    """A piece of a reply, or a whole one."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    error: Any = None


@dataclass(slots=True)
class GeminiReader(EventReader):
    """Reads the pieces of a reply of the Gemini API, or a whole one."""

    _decoder = msgspec.json.Decoder(_Response)
    _protocol = "a reply of the Gemini API"
    _last_word = "the API said why it stopped"

    _has_model: bool = field(init=False, default=False)
    _n_calls: int = field(init=False, default=0)
    # The parts so far, as they go back to the API in the next turn.
    _parts: list[ReplayedPart] = field(init=False, default_factory=list)
    # The pieces of the text under way.
    _open_texts: list[str] = field(init=False, default_factory=list)
    _n_replayed_chars: int = field(init=False, default=0)
    _is_signed: bool = field(init=False, default=False)

    def _take(self, at_ns: int, name: bytes, event: _Response, data: bytes) -> bool:
        if event.model_version and not self._has_model:
            self._has_model = True
            self.sink.note(model_reported=event.model_version)
        for candidate in event.candidates or ():
            # Only the first candidate is the answer; more are never asked for.
            if candidate.index:
                continue
            if candidate.content is not None:
                for part in candidate.content.parts or ():
                    self._report_part(at_ns, part)
            if candidate.finish_reason:
                self._report_end(candidate.finish_reason, candidate.finish_message)
        feedback = event.prompt_feedback
        if feedback is not None and feedback.block_reason:
            self._report_blocked(feedback)
        if event.usage_metadata:
            _report_usage(self.sink, event.usage_metadata)
        # Nothing else says that this was the last piece. Once there is a reason the model makes no
        # more, and the final counts come beside it.
        return self._ended and bool(event.usage_metadata)

    def _report_part(self, at_ns: int, part: _Part) -> None:
        if part.function_call is not None:
            self._n_calls += 1
            call = part.function_call
            self.sink.tool_whole(at_ns, self._n_calls, call.name, arguments_text(call.args))
        elif part.text and part.thought is True:
            # What is shown of thoughts are summaries; the tokens are counted of the thoughts.
            self.sink.note(reasoning_streamed=False)
            self.sink.reasoning(at_ns, part.text)
        elif part.text:
            self.sink.text(at_ns, part.text)
        self._keep_part(part)

    def _keep_part(self, part: _Part) -> None:
        """Keep a part for the next turn.

        A part with a signature is not joined with others; a summary of thoughts goes back only
        under one.
        """
        signature = part.thought_signature
        is_thought = part.thought is True
        if part.function_call is not None:
            replayed = ReplayedPart(call_id=part.function_call.id, signature=signature)
        elif signature or (part.text and not is_thought):
            replayed = ReplayedPart(part.text or "", is_thought=is_thought, signature=signature)
        else:
            return
        self._n_replayed_chars += len(replayed.text or "") + len(replayed.call_id or "")
        self._n_replayed_chars += len(signature or "") + 1
        if self._n_replayed_chars > _MAX_REPLAYED_CHARS:
            # Half of a reply would not be accepted: all of it is dropped.
            self._parts.clear()
            self._open_texts.clear()
        elif replayed.text is not None and not signature:
            self._open_texts.append(replayed.text)
        else:
            self._close_text()
            self._parts.append(replayed)
            self._is_signed = self._is_signed or bool(signature)

    def _close_text(self) -> None:
        """Pieces of text without a signature are one part."""
        if self._open_texts:
            self._parts.append(ReplayedPart("".join(self._open_texts)))
            self._open_texts.clear()

    def _report_end(self, reason: str, message: str | None) -> None:
        if self._ended:
            return
        self._ended = True
        finish_reason = _FINISH_REASONS.get(reason, reason.lower())
        if reason == "STOP" and self._n_calls:
            finish_reason = "tool_calls"
        self.sink.finish(finish_reason)
        if reason not in _ORDINARY_ENDINGS:
            description = f"{reason}: {message}" if message else reason
            self.sink.note(warning=f"ended_early: the API ended the answer: {_quote(description)}")
        if self._is_signed and self._n_replayed_chars <= _MAX_REPLAYED_CHARS:
            self._close_text()
            self.sink.replay(ReplayedParts(tuple(self._parts)))

    def _report_blocked(self, feedback: _Feedback) -> None:
        """The prompt was refused before the model saw it."""
        if self._ended:
            return
        self._ended = True
        description = str(feedback.block_reason)
        if feedback.block_reason_message:
            description = f"{description}: {feedback.block_reason_message}"
        self.sink.finish("content_filter")
        self.sink.note(refusal=f"the API blocked the prompt: {_quote(description)}")

    def body(self, at_ns: int, data: bytes) -> None:
        refuse_crowded(data)
        reply = decode_lenient(data) or {}
        if reply.get("error") is not None:
            raise stream_failure(reply["error"], "the reply carried an error")
        if not {"candidates", "promptFeedback"} & reply.keys():
            raise self._not_the_protocol(data)
        self.sink.note(first_token_captured=False)
        self._take(at_ns, b"", fit(_Response, reply), data)


def _quote(text: str) -> str:
    return " ".join(text.split())[:_MAX_QUOTED_CHARS]


def _report_usage(sink: Sink, usage: Mapping[str, Any]) -> None:
    """Report the token counts.

    The API counts thoughts apart from the answer, and bills both as output.
    """
    n_input_tokens = usage.get("promptTokenCount")
    # It leaves out what is 0; no prompt is empty.
    absent = 0 if as_count(n_input_tokens) else None
    n_answer_tokens = usage.get("candidatesTokenCount", absent)
    n_thought_tokens = usage.get("thoughtsTokenCount", absent)
    n_output_tokens = n_answer_tokens
    if as_count(n_answer_tokens) is not None and as_count(n_thought_tokens) is not None:
        n_output_tokens = n_answer_tokens + n_thought_tokens
    counts = {
        "input_tokens": n_input_tokens,
        "input_tokens_details": {"cached_tokens": usage.get("cachedContentTokenCount", absent)},
        "output_tokens": n_output_tokens,
        "output_tokens_details": {"reasoning_tokens": n_thought_tokens},
    }
    report_counts(sink, counts, "input_tokens", "output_tokens")


class GeminiServer(HttpServer):
    """Google's API for Gemini models, and servers that speak it."""

    default_base_url = GEMINI.default_address
    # As many as there can be in one list.
    models_path = "/models?pageSize=1000"
    key_header = "x-goog-api-key"
    key_format = "{}"
    sampling_member = "generationConfig"
    sampling_names = {
        "temperature": ("temperature",),
        "max_tokens": ("maxOutputTokens",),
        "seed": ("seed",),
    }

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        # Google's own clients are given the address without a version, OpenClaw is with one.
        if not _API_VERSION.search(self.base_url):
            self.base_url += _DEFAULT_API_VERSION

    def why_not_level(self, model: str, level: str) -> str | None:
        return why_not_level(_plain_name(model), level)

    def sampling(self, call: Call) -> Sampling:
        sampling = Provider.sampling(self, call)
        if sampling.max_tokens is not None:
            # Thoughts come on top of the answer, whose limit is sent for both together.
            max_tokens = sampling.max_tokens + _find_thinking(call).room
            sampling = sampling._replace(max_tokens=max_tokens)
        return self.override_sampling(sampling)

    async def models(self) -> list[ModelInfo]:
        models = []
        for item in listed_models(await self.query_list(), "models", "name"):
            name = _plain_name(item["name"])
            models.append(
                ModelInfo(
                    name=name,
                    kind=_find_kind(name, item),
                    context_tokens=as_count(item.get("inputTokenLimit")),
                )
            )
        return models

    def request_path(self, call: Call) -> str:
        model = _plain_name(call.model)
        method = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        return f"/models/{quote(model, safe='', errors='replace')}:{method}"

    def settings_body(self, call: Call) -> dict[str, Any]:
        sampling = self.sampling(call)
        settings = {
            "temperature": sampling.temperature,
            "maxOutputTokens": sampling.max_tokens,
            "seed": sampling.seed,
            "thinkingConfig": _find_thinking(call).config,
        }
        return {"generationConfig": settings}

    async def attempt(self, call: Call, sink: Sink) -> None:
        model = _plain_name(call.model)
        settings = {
            **self.settings_body(call)["generationConfig"],
            **answer_format(call.response_format),
        }
        body = {
            "systemInstruction": {"parts": [{"text": call.system}]} if call.system else None,
            "contents": contents_of(call, with_signatures=checks_signatures(model)),
            "tools": tools_of(call),
            "toolConfig": tool_config_of(call),
            "generationConfig": settings,
        }
        await self._post(body, call, GeminiReader(sink, call.model))


def _plain_name(model: str) -> str:
    """A model's name without what the API's own list puts before it."""
    return model.removeprefix(_LIST_NAME_PREFIX)


def _find_thinking(call: Call) -> Thinking:
    """What is sent of thinking. Raises `CallFailure` where the model cannot be told the level."""
    model = _plain_name(call.model)
    level = call.thinking_level
    why_not = None if level is None else why_not_level(model, level)
    if why_not is not None:
        raise CallFailure("error", "invalid_prompt", why_not)
    return find_thinking(model, level)


def _find_kind(name: str, listed: Mapping[str, Any]) -> str:
    """Whether a listed model is one to chat with, as far as its entry tells."""
    methods = listed.get("supportedGenerationMethods")
    if isinstance(methods, list) and "generateContent" not in methods:
        return "embedding" if "embedContent" in methods else "other"
    return "other" if any(part in name for part in _OTHER_KINDS) else "chat"
