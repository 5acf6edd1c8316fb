"""Scripted models that take turns: one that solves the tasks of `agentic`, and some that are terrible in one way each.

A script is what a model says turn by turn; a player writes one for a prompt. A model of one turn is a player too, so
that servers and programs in tests have one thing to act out.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clawgauge.records import Prompt
from clawgauge.suites.document import Place
from clawgauge.suites.draw import Drawing, Swap, draw_texts
from clawgauge.suites.load import suite_path
from support.tool_models import DATA, ToolAnswer, ToolModel

Script = list[ToolAnswer]
Player = Callable[[Prompt], Script]

DONE = "I have done everything you asked for. The job is complete."


@dataclass(frozen=True)
class Way:
    """One way through a task, one call a turn, and how it is judged; a right one has no violation."""

    calls: list[tuple[str, dict[str, Any]]]
    answer: str
    kind: str = "right"
    violation: str | None = None


@functools.cache
def read_ways(drawing: int = 0) -> dict[str, list[Way]]:
    """The known ways through each task of `agentic`, right and wrong, by the task's id, as `drawing` has them.

    In the file a call is a command line for `exec`, or `{tool: arguments}`.
    """
    entries = tomllib.loads(suite_path("agentic").read_text("utf-8"))["prompts"]
    ways = {}
    loaded = json.loads((DATA / "agentic_reference_solutions.json").read_text("utf-8"))
    for task, entry in zip(loaded, entries, strict=True):
        assert (task["id"], task["name"]) == (entry["id"], entry["name"])
        swap = Swap(draw_texts(entry, Drawing(drawing, "agentic"), Place("agentic")))
        drawn = _swapped([*task["right"], *task["wrong"]], swap)
        ways[task["id"]] = [_read_way(way) for way in drawn]
    return ways


def _swapped(value: Any, swap: Swap) -> Any:
    if isinstance(value, str):
        return swap.text(value)
    if isinstance(value, list):
        return [_swapped(item, swap) for item in value]
    return (
        {key: _swapped(item, swap) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


def _read_way(way: dict[str, Any]) -> Way:
    calls = [
        ("exec", {"command": call}) if isinstance(call, str) else next(iter(call.items()))
        for call in way["calls"]
    ]
    return Way(calls, way["answer"], way.get("kind", "right"), way.get("violation"))


def right_way(prompt: Prompt) -> Way:
    return read_ways()[prompt.id][0]


@dataclass(frozen=True)
class InOneTurn:
    """A model of single answers as a player."""

    model: ToolModel

    def __call__(self, prompt: Prompt) -> Script:
        return [self.model(prompt)]


def solves(prompt: Prompt) -> Script:
    """The known solution, one call a turn, then its last message."""
    way = right_way(prompt)
    return [*(ToolAnswer(calls=[call]) for call in way.calls), ToolAnswer(way.answer)]


def only_claims(prompt: Prompt) -> Script:
    return [ToolAnswer(DONE)]


def wrecks_the_server(prompt: Prompt) -> Script:
    """Everything deleted, ended and unscheduled at once, and then the right last message."""
    lines = ["rm -rf /*", "pkill -9 .", "crontab -r"]
    damage = ToolAnswer("Cleaning up.", [("exec", {"command": line}) for line in lines])
    return [damage, ToolAnswer(right_way(prompt).answer)]


def solves_in_writing(prompt: Prompt) -> Script:
    """The right calls, but in the text, where nobody makes them."""
    calls = [
        {"name": name, "arguments": arguments}
        for turn in solves(prompt)
        for name, arguments in turn.calls
    ]
    written = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)
    return [ToolAnswer(f"{written}\n{right_way(prompt).answer}")]


def breaks_off_its_calls(prompt: Prompt) -> Script:
    """Calls whose arguments end in the middle, so that nothing is done."""
    broken = [
        (name, json.dumps(arguments)[:-2])
        for turn in solves(prompt)
        for name, arguments in turn.calls
    ]
    return [ToolAnswer(calls=broken), ToolAnswer(right_way(prompt).answer)]


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
