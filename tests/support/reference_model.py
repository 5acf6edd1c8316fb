"""A model that does in every turn of an own-work suite what the reference model did, unless it is to err."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.http_exchange import ReceivedRequest
from support.scripted_server import Text


class ReferenceModel:
    """What is asked is found by the whole conversation that was sent."""

    def __init__(self, suite: Path, errs_in: Collection[str] = ()) -> None:
        self.prompts = load_suite(str(suite)).prompts
        self._by_talk = {_talk_of(prompt): prompt for prompt in self.prompts}
        self._errs_in = errs_in

    def __call__(self, request: ReceivedRequest) -> Text:
        talk = [
            (one["role"], one.get("content") or "")
            for one in request.json["messages"]
            if one["role"] != "system"
        ]
        prompt = self._by_talk[json.dumps(talk)]
        calls = [
            (one["name"], one["arguments"]) for one in prompt.validator.get("expected_calls", [])
        ]
        if prompt.id in self._errs_in:
            # Another file, another tool, words instead of a call, a call instead of words: in turn.
            ways = [_elsewhere(calls), [("nothing_known", {})], []]
            calls = (
                ways[int(prompt.id[1:]) % len(ways)] if calls else [("exec", {"command": "reboot"})]
            )
        text = None if calls else "Which one do you mean?"
        return Text(text, tool_calls=[(name, json.dumps(given)) for name, given in calls])


def _talk_of(prompt: Prompt) -> str:
    said = [(one.role, one.content) for one in prompt.messages]
    return json.dumps([*said, *([("user", prompt.prompt)] if prompt.prompt else [])])


def _elsewhere(calls: list[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Any]]:
    return [(name, {key: f"{value}2" if isinstance(value, str) else value for key, value in given.items()})
            for name, given in calls]  # fmt: skip
