"""A model that is right in a given share of all prompts: a coin is thrown for each text, and its side is kept.

What it says hangs on the text alone, so that a run that was killed and one that was not are told the same.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from clawgauge.suites.document import Place
from clawgauge.suites.draw import Drawing, Swap, draw_texts
from clawgauge.suites.load import suite_path
from support.http_exchange import ReceivedRequest
from support.scripted_play import read_question
from support.scripted_server import Text
from support.task_models import Script, read_ways
from support.tool_models import (
    ToolAnswer,
    always_calls,
    gives_no_arguments,
    read_answer,
    read_references,
)

SUITES = ("core", "native_tools", "restraint", "agentic", "tool_use")
N_DRAWINGS = 3
_USAGE = (4_000, 7)


def in_drawing(answer: Any, swap: Swap) -> Any:
    """An answer of drawing 0 as another drawing has it, with whole numbers and moments written as the suites do."""
    if isinstance(answer, dict):
        return {key: in_drawing(value, swap) for key, value in answer.items()}
    if isinstance(answer, list):
        return [in_drawing(value, swap) for value in answer]
    if isinstance(answer, float) and answer.is_integer():
        whole = swap.value(int(answer))
        return answer if whole == answer else whole
    return swap.value(re.sub(r"(\d)T(\d)", r"\1 \2", answer) if isinstance(answer, str) else answer)


@functools.cache
def _entries(suite: str) -> dict[str, dict[str, Any]]:
    listed = tomllib.loads(suite_path(suite).read_text("utf-8"))["prompts"]
    return {entry["id"]: entry for entry in listed}


@functools.cache
def _right_answers(suite: str) -> dict[str, Any]:
    return {each["id"]: each["right"][0] for each in read_references(suite) if each.get("right")}


def right_script(prompt: Prompt, drawing: int) -> Script | None:
    """What a model says, turn by turn, that is right; None where nobody knows."""
    if prompt.suite == "agentic":
        way = read_ways(drawing)[prompt.id][0]
        return [*(ToolAnswer(calls=[call]) for call in way.calls), ToolAnswer(way.answer)]
    answer = _right_answers(prompt.suite).get(prompt.id)
    if answer is None:
        return None
    entry = _entries(prompt.suite)[prompt.variant_of or prompt.id]
    if not drawing or not entry.get("draw"):
        return [read_answer(answer)]
    swap = Swap(draw_texts(entry, Drawing(drawing, prompt.suite), Place(prompt.suite)))
    return [read_answer(in_drawing(answer, swap))]


def wrong_script(prompt: Prompt, *, makes_call: bool) -> Script:
    """What is wrong: a call where none is wanted; the right tool with nothing in it; or only talk."""
    if prompt.suite == "restraint" and prompt.tools:
        return [always_calls(prompt)]
    if makes_call and prompt.expected_tools and prompt.tools:
        return [gives_no_arguments(prompt)]
    return [ToolAnswer("I would rather not say.")]


@functools.cache
def known_texts() -> dict[str, tuple[Prompt, int]]:
    """Every text of the suites, by what it says, as written or as a drawing has it."""
    texts: dict[str, tuple[Prompt, int]] = {}
    for drawing in range(N_DRAWINGS + 1):
        for suite in SUITES:
            for prompt in load_suite(suite, drawing=drawing).prompts:
                texts.setdefault(_key(prompt.prompt, prompt.system), (prompt, drawing))
    return texts


def _key(prompt: str, system: str | None) -> str:
    return f"{system or ''}\0{prompt}"


class CoinModel:
    """Answers a scripted server's requests, right in a share `rate` of the texts; `rates` has other
    shares for single suites."""

    def __init__(
        self, rate: float, seed: int = 0, rates: Mapping[str, float] | None = None
    ) -> None:
        self._rate = rate
        self._rates = dict(rates or {})
        self._seed = seed

    def is_right(self, prompt: Prompt, drawing: int) -> bool:
        return self._throw("", prompt, drawing) < self._rates.get(prompt.suite, self._rate)

    def makes_call(self, prompt: Prompt, drawing: int) -> bool:
        """Whether it calls the right tool where it is wrong: in half of the cases."""
        return self.is_right(prompt, drawing) or self._throw("call", prompt, drawing) < 0.5

    def _throw(self, coin: str, prompt: Prompt, drawing: int) -> float:
        text = f"{self._seed}{coin} {prompt.suite}/{prompt.id} {drawing}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return number / 2**64

    def reply(self, request: ReceivedRequest) -> Text:
        body = request.json
        question = read_question(body)
        system = next((m["content"] for m in body["messages"] if m["role"] == "system"), None)
        prompt, drawing = known_texts()[_key(question.prompt, system)]
        script = right_script(prompt, drawing) if self.is_right(prompt, drawing) else None
        if script is None:
            script = wrong_script(prompt, makes_call=self.makes_call(prompt, drawing))
        calls_before = [0, *accumulate(len(turn.calls) for turn in script)]
        turn = script[calls_before.index(question.n_calls_made)]
        calls = [(name, _written(arguments)) for name, arguments in turn.calls]
        return Text(turn.text or None, tool_calls=calls, usage=_USAGE)


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
