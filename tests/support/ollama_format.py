"""Ollama's own `/api/*`: chatting, what is installed, what is loaded, loading and unloading.

No recording of an Ollama server: the shapes follow its documentation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.http_exchange import ReceivedRequest
from support.replies import Status, Text, split_words
from support.wire_frames import Frame, dump_json

VERSION = "0.12.6"
DIGEST = "a80c4f17acd55265feec403c7aef86be0c25983ab279d83f3bcd3abbcb5b8b72"
STAMP = "2026-02-13T23:59:30.123456789Z"


@dataclass(frozen=True)
class InstalledModel:
    """One row of `ollama list`."""

    name: str
    size: int = 2019393189
    digest: str = DIGEST
    family: str = "llama"
    parameter_size: str = "3.2B"
    quantization_level: str = "Q4_K_M"
    context_length: int = 131072
    parameters: str = ""
    capabilities: tuple[str, ...] | None = None

    def details(self) -> dict[str, Any]:
        return {
            "parent_model": "",
            "format": "gguf",
            "family": self.family,
            "families": [self.family],
            "parameter_size": self.parameter_size,
            "quantization_level": self.quantization_level,
        }


@dataclass
class OllamaState:
    """The models a server has and holds in memory; `loaded` is in order of loading."""

    installed: list[InstalledModel] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def find(self, name: str) -> InstalledModel | None:
        return next((model for model in self.installed if model.name == name), None)

    def note_use(self, name: str) -> None:
        """A call loads the model it names, as a real server does."""
        if self.find(name) and name not in self.loaded:
            self.loaded.append(name)

    def answer(self, path: str, request_json: Any) -> Status | None:
        """The reply to a native path; None where Ollama has no such path."""
        if path == "/api/version":
            return Status(200, {"version": VERSION})
        if path == "/api/tags":
            return Status(200, {"models": [_tag(model) for model in self.installed]})
        if path == "/api/ps":
            running = [self.find(name) or InstalledModel(name) for name in self.loaded]
            return Status(200, {"models": [_running(model) for model in running]})
        if path == "/api/show":
            return self._show(str(request_json.get("model", "")))
        if path == "/api/generate":
            return self._generate(request_json if isinstance(request_json, dict) else {})
        return None

    def _show(self, name: str) -> Status:
        model = self.find(name)
        if model is None:
            return Status(404, {"error": f"model '{name}' not found"})
        info = {
            "general.architecture": model.family,
            f"{model.family}.context_length": model.context_length,
        }
        shown = {"parameters": model.parameters, "details": model.details(), "model_info": info}
        if model.capabilities is not None:
            shown["capabilities"] = list(model.capabilities)
        return Status(200, shown)

    def _generate(self, asked: dict[str, Any]) -> Status:
        name = str(asked.get("model", ""))
        if self.find(name) is None and name not in self.loaded:
            return Status(404, {"error": f"model '{name}' not found"})
        reply = {"model": name, "created_at": STAMP, "response": "", "done": True}
        if asked.get("keep_alive") in (0, "0", "0s"):
            self.loaded = [other for other in self.loaded if other != name]
            return Status(200, reply | {"done_reason": "unload"})
        self.note_use(name)
        return Status(200, reply | {"done_reason": "load"})


# What a call spent, in milliseconds: loading, reading, writing, and all of it; the wait is in none but that.
DURATIONS_MS = {
    "load_duration": 20,
    "prompt_eval_duration": 30,
    "eval_duration": 40,
    "total_duration": 100,
}


def body(text: Text, request: ReceivedRequest, dialect: str) -> dict[str, Any]:
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": text.whole_text}
    if text.reasoning:
        message["thinking"] = text.reasoning
    if text.tool_calls:
        message["tool_calls"] = _tool_calls(text)
    return _envelope(text, request) | {"message": message} | _ending(text)


def frames(text: Text, request: ReceivedRequest, dialect: str) -> list[Frame]:
    """The answer as lines: a piece of thinking or text each, a call whole, and the counts with the last."""

    def line(message: dict[str, Any]) -> bytes:
        said = {"role": "assistant", "content": "", **message}
        return dump_json(_envelope(text, request) | {"message": said, "done": False}) + b"\n"

    made = [Frame(line({"thinking": piece}), token=True) for piece in split_words(text.reasoning)]
    made += [Frame(line({"content": piece}), token=True) for piece in text.pieces]
    made += [Frame(line({"tool_calls": [call]}), token=True) for call in _tool_calls(text)]
    if text.finish is not None:
        message = {"message": {"role": "assistant", "content": ""}}
        made.append(
            Frame(
                dump_json(_envelope(text, request) | message | _ending(text)) + b"\n", closing=True
            )
        )
    return made


def error_body(status: int, message: str, dialect: str) -> dict[str, Any]:
    return {"error": message}


def stream_error(status: int, message: str, sequence_number: int, dialect: str) -> bytes:
    """Ollama says no more than words; a gateway before it may say its status."""
    return (
        dump_json({"error": {"message": message, "code": status} if status == 429 else message})
        + b"\n"
    )


def _envelope(text: Text, request: ReceivedRequest) -> dict[str, Any]:
    return {"model": request.model if text.model is None else text.model, "created_at": STAMP}


def _tool_calls(text: Text) -> list[dict[str, Any]]:
    made = []
    for name, *fragments in text.tool_calls:
        try:
            arguments = json.loads("".join(fragments) or "{}")
        except (ValueError, RecursionError):
            arguments = "".join(fragments)
        made.append({"function": {"name": name, "arguments": arguments}})
    return made


def _ending(text: Text) -> dict[str, Any]:
    last: dict[str, Any] = {"done": True, "done_reason": "stop" if text.tool_calls else text.finish}
    last |= {name: ms * 1_000_000 for name, ms in DURATIONS_MS.items()}
    if isinstance(text.usage, dict):
        return last | text.usage
    if counts := text.token_counts():
        last |= {"prompt_eval_count": counts[0], "eval_count": counts[1]}
    return last


def model_not_found(name: str) -> Status:
    """How Ollama's `/v1` says that a model is not installed."""
    message = f'model "{name}" not found, try pulling it first'
    return Status(
        404, {"error": {"message": message, "type": "not_found_error", "param": None, "code": None}}
    )


def _tag(model: InstalledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": STAMP,
        "size": model.size,
        "digest": model.digest,
        "details": model.details(),
    }


def _running(model: InstalledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "size": model.size,
        "digest": model.digest,
        "details": model.details(),
        "expires_at": STAMP,
        "size_vram": model.size,
        "context_length": 4096,
    }
