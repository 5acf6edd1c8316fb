"""The wire formats that agent programs speak: what a request offers and asks, who reads the reply.

The readers are those of the bare providers, so that a first token, a call and a count mean the same
inside a program as outside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clawgauge.providers.base import Sink
from clawgauge.providers.claude.messages import MessagesReader
from clawgauge.providers.http.reply import Reader
from clawgauge.providers.ollama import OllamaReader
from clawgauge.providers.openai.chat import ChatReader
from clawgauge.providers.openai.responses import ResponsesReader
from clawgauge.registry import Wire


class NamespacedResponsesReader(ResponsesReader):
    """Reads the events of a response whose calls may name a namespace, as those of codex do.

    A call is reported as `NAMESPACE.NAME`.
    """

    __slots__ = ()

    def _take(self, at_ns: int, name: bytes, event: Any, data: bytes) -> bool:
        if event.item is not None:
            _name_with_namespace(event.item)
        if event.response is not None:
            _name_listed_calls(event.response)
        # A dataclass with slots is made anew, so that `super()` would not know it.
        return ResponsesReader._take(self, at_ns, name, event, data)

    def _report_response(self, at_ns: int, response: dict[str, Any]) -> None:
        _name_listed_calls(response)
        ResponsesReader._report_response(self, at_ns, response)


def _name_listed_calls(response: dict[str, Any]) -> None:
    for item in _dicts(response.get("output")):
        _name_with_namespace(item)


def _name_with_namespace(item: dict[str, Any]) -> None:
    namespace = item.pop("namespace", None)
    if isinstance(namespace, str) and namespace and isinstance(item.get("name"), str):
        item["name"] = f"{namespace}.{item['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One wire format, as far as a recorder has to know it."""

    wire: Wire
    path_ending: str
    """How the path of a request to the model ends."""
    prompt_members: tuple[str, ...]
    """The members of a request that the model reads."""
    messages_member: str
    make_reader: Callable[[Sink, str], Reader]

    def is_model_request(self, method: str, path: str) -> bool:
        return method == "POST" and path.partition("?")[0].endswith(self.path_ending)

    def offered_tools(self, request: Mapping[str, Any]) -> list[str]:
        """The names of the tools that a request offers; a tool without a name by its type."""
        names = []
        for tool in _dicts(request.get("tools")):
            if tool.get("type") == "namespace":
                namespace = tool.get("name")
                for member in _dicts(tool.get("tools")):
                    names.append(f"{namespace}.{member.get('name')}")
                continue
            function = tool.get("function")
            described = function if isinstance(function, dict) else tool
            names.append(str(described.get("name") or tool.get("type")))
        return names

    def count_user_messages(self, request: Mapping[str, Any]) -> int:
        """How many messages of the user a request holds, results of tools apart."""
        messages = request.get(self.messages_member)
        if isinstance(messages, str):
            return 1
        n_messages = 0
        for message in _dicts(messages):
            if message.get("role") == "user" and not _is_tool_result(message):
                n_messages += 1
        return n_messages

    def describe_prompt(self, request: Mapping[str, Any]) -> tuple[int, str]:
        """How many characters of JSON the model is given to read, and their SHA-256."""
        members = {name: request.get(name) for name in self.prompt_members}
        text = json.dumps(members, ensure_ascii=False, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return len(text), digest


def _is_tool_result(message: Mapping[str, Any]) -> bool:
    """Whether a message of the Messages API brings nothing but results of tools."""
    parts = _dicts(message.get("content"))
    return bool(parts) and all(part.get("type") == "tool_result" for part in parts)


def _dicts(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _responses_reader(sink: Sink, model: str) -> Reader:
    return NamespacedResponsesReader(sink, model, None)


WIRE_FORMATS = {
    Wire.CHAT: WireFormat(
        wire=Wire.CHAT,
        path_ending="/chat/completions",
        prompt_members=("messages", "tools"),
        messages_member="messages",
        make_reader=ChatReader,
    ),
    Wire.RESPONSES: WireFormat(
        wire=Wire.RESPONSES,
        path_ending="/responses",
        prompt_members=("instructions", "input", "tools"),
        messages_member="input",
        make_reader=_responses_reader,
    ),
    Wire.MESSAGES: WireFormat(
        wire=Wire.MESSAGES,
        path_ending="/v1/messages",
        prompt_members=("system", "messages", "tools"),
        messages_member="messages",
        make_reader=MessagesReader,
    ),
    Wire.OLLAMA: WireFormat(
        wire=Wire.OLLAMA,
        path_ending="/api/chat",
        prompt_members=("messages", "tools"),
        messages_member="messages",
        make_reader=OllamaReader,
    ),
}
