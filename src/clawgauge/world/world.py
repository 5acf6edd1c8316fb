"""One simulated world: tools are called on it, and it answers.

Nothing a model can send raises: what cannot be done is an answer that says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clawgauge.world.arguments import Arguments, ArgumentsBudget, ToolAnswer, bounded_answer
from clawgauge.world.definitions import TOOL_NAMES
from clawgauge.world.machine import build_machine
from clawgauge.world.refusals import OutOfFuel, Refusal

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell
    from clawgauge.world.tools import Tool

# Far below the calls that a record keeps of one answer, so that whatever was acted on can be replayed.
MAX_CALLS = 200
_CALLS_SPENT = ToolAnswer(f"Error: {MAX_CALLS} calls were made, the most there may be; nothing was done", is_error=True)


@dataclass(frozen=True, slots=True)
class CallMade:
    """One call as the world saw it; `arguments` is None where they were not an object or too large to act on."""

    name: str
    arguments: Mapping[str, Any] | None
    is_error: bool


class World:
    """A small server with files, processes, a web and people to write to.

    The same calls on the same specification give the same answers. `seed` varies what the specification leaves open;
    left out, it is the specification's own. The first 200 calls are acted on and kept in `calls`; a later one gets an
    error for an answer. Not safe to call from two threads at once.
    """

    def __init__(self, spec: Mapping[str, Any], seed: int | None = None) -> None:
        self.machine = build_machine(spec, _seed_of(spec) if seed is None else seed)
        # Loaded with the first world: checking a suite, and a rehearsal, do without the shell.
        loaded = importlib.import_module("clawgauge.world.tools")
        self._tools: Mapping[str, Tool] = loaded.TOOLS
        self.shell: Shell = loaded.Shell(self.machine)
        self.calls: list[CallMade] = []
        self._budget = ArgumentsBudget()
        self._n_acted_on = 0

    def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Do what a model asked for and say what came of it. Never raises."""
        if len(self.calls) >= MAX_CALLS:
            return _CALLS_SPENT
        admitted = self._budget.admit(arguments)
        kept = arguments if admitted and isinstance(arguments, Mapping) else None
        answer = self._answer(name, kept, admitted)
        self.calls.append(CallMade(name, kept, answer.is_error))
        return answer

    def _answer(self, name: str, arguments: Mapping[str, Any] | None, admitted: bool) -> ToolAnswer:
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(TOOL_NAMES)
            return bounded_answer(f"Error: no tool is called '{name[:100]}'; the tools are {known}", is_error=True)
        # Nothing has happened yet when arguments are refused, not even time: a record may have lost them.
        if arguments is None:
            problem = "must be a JSON object" if admitted else "are too large, or hold what JSON cannot"
            return bounded_answer(f"Error: {name}: the arguments {problem}", is_error=True)
        machine = self.machine
        self._n_acted_on += 1
        machine.clock.advance(machine.incidentals.between(1, 4, "step", self._n_acted_on))
        machine.fuel.start_call()
        struck = machine.faults.strike(name)
        if struck is not None:
            return bounded_answer(struck, is_error=True)
        try:
            answer = tool(machine, self.shell, Arguments(name, arguments))
        except Refusal as refusal:
            return bounded_answer(f"Error: {refusal}", is_error=True)
        except OutOfFuel:
            machine.clock.advance(30)
            return bounded_answer("Error: stopped after 30 s: too much work for one call", is_error=True)
        return bounded_answer(answer.text, is_error=answer.is_error)


def _seed_of(spec: Mapping[str, Any]) -> int:
    seed = spec.get("seed", 0)
    return seed if isinstance(seed, int) else 0
