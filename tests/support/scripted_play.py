"""Lets a scripted server or the fake `claude` act out players: whatever protocol asks, the same script answers.

Owns: finding in a request which prompt it asks and how far the script has got. Both are read off the wire, so a turn
that is sent wrong plays the wrong line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.http_exchange import ReceivedRequest
from support.scripted_server import ScriptedServer, Text
from support.task_models import Player, Script

INPUT_TOKENS, OUTPUT_TOKENS = 4_000, 7


@dataclass(frozen=True)
class Question:
    """What one request asks, in any protocol."""

    prompt: str
    tools: list[dict[str, Any]]
    n_calls_made: int


def read_question(body: Mapping[str, Any]) -> Question:
    """The question in a request's body."""
    if "max_tokens" in body and isinstance(body["messages"][0]["content"], list):
        blocks = [block for message in body["messages"] for block in message["content"]]
        tools = [{**tool, "parameters": tool["input_schema"]} for tool in body.get("tools", [])]
        tools = [{key: tool[key] for key in tool if key != "input_schema"} for tool in tools]
        return Question(
            blocks[0]["text"], tools, sum(block["type"] == "tool_result" for block in blocks)
        )
    if "contents" in body:
        parts = [part for content in body["contents"] for part in content["parts"]]
        declarations = body["tools"][0]["functionDeclarations"] if "tools" in body else []
        tools = [_chat_function(declaration) for declaration in declarations]
        n_results = sum("functionResponse" in part for part in parts)
        return Question(parts[0]["text"], tools, n_results)
    if "messages" in body:
        prompt = next(
            message["content"] for message in body["messages"] if message["role"] == "user"
        )
        tools = [tool["function"] for tool in body.get("tools", [])]
        return Question(
            prompt, tools, sum(message["role"] == "tool" for message in body["messages"])
        )
    items = (
        body["input"]
        if isinstance(body["input"], list)
        else [{"role": "user", "content": body["input"]}]
    )
    tools = [
        {key: tool[key] for key in tool if key not in ("type", "strict")} for tool in body["tools"]
    ]
    return Question(
        items[0]["content"],
        tools,
        sum(item.get("type") == "function_call_output" for item in items),
    )


def _chat_function(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of Gemini's as a chat defines it."""
    names = {"parametersJsonSchema": "parameters"}
    return {names.get(name, name): value for name, value in declaration.items()}


class Cast:
    """Which player plays which prompt: those of a suite take its prompts in turn."""

    def __init__(self, players: Mapping[str, Iterable[Player]]) -> None:
        self.prompts: list[Prompt] = []
        self._players: dict[str, Player] = {}
        self._by_text: dict[str, Prompt] = {}
        for suite, listed in players.items():
            own = list(listed)
            for number, prompt in enumerate(load_suite(suite).prompts):
                self.prompts.append(prompt)
                self._by_text[prompt.prompt] = prompt
                self._players[prompt.prompt] = own[number % len(own)]
        assert len(self._by_text) == len(self.prompts), "two prompts read the same"

    def player_of(self, prompt: Prompt) -> Player:
        return self._players[prompt.prompt]

    def script_of(self, prompt: Prompt) -> Script:
        return self.player_of(prompt)(prompt)

    def reply(self, request: ReceivedRequest) -> Text:
        """The next line of the script that the request asks for."""
        question = read_question(request.json)
        prompt = self._by_text[question.prompt]
        assert question.tools == [tool["function"] for tool in prompt.tools]
        script = self.script_of(prompt)
        calls_before = [0, *accumulate(len(turn.calls) for turn in script)]
        turn = script[calls_before.index(question.n_calls_made)]
        calls = [(name, _written(arguments)) for name, arguments in turn.calls]
        return Text(turn.text or None, tool_calls=calls, usage=(INPUT_TOKENS, OUTPUT_TOKENS))

    def claude_rounds(self) -> dict[str, dict[str, Any]]:
        """The same for the fake `claude`: what it does, by what it is asked."""
        return {prompt.prompt: _claude_behaviour(self.script_of(prompt)) for prompt in self.prompts}


def play(server: ScriptedServer, players: Mapping[str, Iterable[Player]]) -> Cast:
    """Let the server answer the prompts of some suites as their players would."""
    cast = Cast(players)
    server.reply_with(cast.reply)
    return cast


def _claude_behaviour(script: Script) -> dict[str, Any]:
    rounds = [
        (turn.text, [(name, _written(arguments)) for name, arguments in turn.calls])
        for turn in script
    ]
    answer = "" if script[-1].calls else script[-1].text
    return {"tool_rounds": rounds if script[-1].calls else rounds[:-1], "answer": answer}


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
