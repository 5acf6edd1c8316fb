"""The conversation of a call in the order in which a model is to read it, for the wire formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from clawgauge.providers.base import Call

_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 64


class PastCall(NamedTuple):
    """An earlier call of a tool, as it is sent back to the model, and its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    answer: str


class PastTurn(NamedTuple):
    """An earlier turn of the model, as it is sent back to it."""

    text: str
    calls: list[PastCall]
    reasoning: str = ""
    replay: object = None


def conversation(call: Call) -> Iterator[str | PastTurn]:
    """What the user said, as texts, and the model's turns, in order.

    That is the messages before the prompt, the prompt, and the turns since.
    """
    make_past_calls = _PastCallMaker(call)
    for index, message in enumerate(call.messages):
        if message.role == "user":
            yield message.content
        elif message.role == "assistant":
            results = []
            for later in call.messages[index + 1 :]:
                if later.role != "tool":
                    break
                results.append(later.content)
            invocations = [(called.name, called.arguments) for called in message.calls]
            yield PastTurn(message.content, make_past_calls(invocations, results))
    if call.prompt or not call.messages:
        yield call.prompt
    for turn in call.history:
        invocations = [(invocation.name, invocation.arguments) for invocation in turn.calls]
        yield PastTurn(
            text=turn.text,
            calls=make_past_calls(invocations, turn.answers),
            reasoning=turn.reasoning,
            replay=turn.replay,
        )


class _PastCallMaker:
    """Makes the past calls of one request, with ids, and names that servers accept.

    The ids are ours: servers differ in what they send, some send none, and one family takes nothing
    but nine letters and digits. They are counted from the start of the conversation, so a call
    keeps its id in every later request.
    """

    def __init__(self, call: Call) -> None:
        self._n_calls = 0
        self._offered_names: dict[str, str] = {}
        for tool in call.tools:
            name = tool["function"]["name"]
            self._offered_names[name.lower()] = name

    def __call__(
        self, invocations: Iterable[tuple[str, Any]], answers: Iterable[str]
    ) -> list[PastCall]:
        """The calls of one turn, from names and arguments. One without an answer is left out."""
        past_calls = []
        for (name, arguments), answer in zip(invocations, answers, strict=False):
            self._n_calls += 1
            past_call = PastCall(
                id=f"call{self._n_calls:05d}",
                name=self._sendable_name(name),
                # Malformed ones go back as none: servers that parse them again would refuse the
                # request, and the answer beside them tells the model what was wrong.
                arguments=arguments if isinstance(arguments, dict) else {},
                answer=answer,
            )
            past_calls.append(past_call)
        return past_calls

    def _sendable_name(self, name: str) -> str:
        """The tool's name as it was offered.

        A name that the model made up is sent as servers accept names, or they refuse the request.
        """
        offered_name = self._offered_names.get(name.lower())
        if offered_name:
            return offered_name
        return _UNSENDABLE.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"
