"""Ollama's own `/api/*`: what is installed, what is loaded, loading and unloading.

No recording of an Ollama server: the shapes follow its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.replies import Status

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
        if path == "/api/generate":
            return self._generate(request_json if isinstance(request_json, dict) else {})
        return None

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


def model_not_found(name: str) -> Status:
    """How Ollama's `/v1` says that a model is not installed."""
    message = f'model "{name}" not found, try pulling it first'
    return Status(404, {"error": {"message": message, "type": "not_found_error", "param": None, "code": None}})


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
