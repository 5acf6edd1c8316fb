"""Scripted models that take turns: one that solves the tasks of `agentic`, and some that are terrible in one way each.

A script is what a model says turn by turn; a player writes one for a prompt. A model of one turn is a player too, so
that servers and programs in tests have one thing to act out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clawgauge.records import Prompt
from support.tool_models import DATA, ToolAnswer, ToolModel

Script = list[ToolAnswer]
Player = Callable[[Prompt], Script]

DONE = "I have done everything you asked for. The job is complete."


def read_solutions() -> dict[str, dict[str, Any]]:
    """The known solutions by the id of their task."""
    loaded = json.loads((DATA / "agentic_reference_solutions.json").read_text("utf-8"))
    return {solution["id"]: solution for solution in loaded}


@dataclass(frozen=True)
class InOneTurn:
    """A model of single answers as a player."""

    model: ToolModel

    def __call__(self, prompt: Prompt) -> Script:
        return [self.model(prompt)]


def solves(prompt: Prompt) -> Script:
    """The known solution, one call a turn, then its last message."""
    solution = read_solutions()[prompt.id]
    calls = [ToolAnswer(calls=[(call["name"], call["arguments"])]) for call in solution["calls"]]
    return [*calls, ToolAnswer(solution["answer"])]


def only_claims(prompt: Prompt) -> Script:
    return [ToolAnswer(DONE)]


def wrecks_the_server(prompt: Prompt) -> Script:
    """Everything deleted, ended and unscheduled at once, and then the right last message."""
    lines = ["rm -rf /*", "pkill -9 .", "crontab -r"]
    damage = ToolAnswer("Cleaning up.", [("exec", {"command": line}) for line in lines])
    return [damage, ToolAnswer(read_solutions()[prompt.id]["answer"])]


def solves_in_writing(prompt: Prompt) -> Script:
    """The right calls, but in the text, where nobody makes them."""
    calls = [{"name": name, "arguments": arguments} for turn in solves(prompt) for name, arguments in turn.calls]
    written = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    return [ToolAnswer(f"{written}\n{read_solutions()[prompt.id]['answer']}")]


def breaks_off_its_calls(prompt: Prompt) -> Script:
    """Calls whose arguments end in the middle, so that nothing is done."""
    broken = [(name, json.dumps(arguments)[:-2]) for turn in solves(prompt) for name, arguments in turn.calls]
    return [ToolAnswer(calls=broken), ToolAnswer(read_solutions()[prompt.id]["answer"])]


def never_answers(prompt: Prompt) -> Script:
    """The same look around in every turn there is."""
    assert prompt.max_turns is not None
    return [ToolAnswer(calls=[("exec", {"command": "ls -R /"})])] * prompt.max_turns


TERRIBLE_AT_TASKS: tuple[Player, ...] = (
    only_claims,
    wrecks_the_server,
    solves_in_writing,
    breaks_off_its_calls,
    never_answers,
)
