"""One simulated machine, with tools called on it under OpenClaw's names.

`tools.toml` describes them.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clawgauge.world import TOOL_NAMES
from clawgauge.world.effects import ArgumentsBudget, FileFault, OutOfFuel, Refusal, ToolAnswer
from clawgauge.world.machine import check_world
from clawgauge.world.paths import resolve
from clawgauge.world.tools import TOOLS, Arguments, path_argument

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell

# Far below the calls that a record keeps of one answer, so that whatever was acted on can be
# replayed.
MAX_CALLS = 200
MAX_ANSWER_BYTES = 16_384
_TIMEOUT_S = 30
_CALLS_SPENT = ToolAnswer(
    f"Error: {MAX_CALLS} calls were made, the most there may be; nothing was done", is_error=True
)
_STOPPED = ToolAnswer(
    f"Error: stopped after {_TIMEOUT_S} s: too much work for one call", is_error=True
)


class World:
    """A small server; not safe to call from two threads.

    The first 200 calls are acted on and kept in `calls`.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.machine = check_world(spec)
        # Loaded with the first one: checking a suite, and a rehearsal, do without the shell.
        self.shell: Shell = importlib.import_module("clawgauge.world.shell").Shell(self.machine)
        # The name and the arguments of each; None where they were not an object or too large to act
        # on.
        self.calls: list[tuple[str, Mapping[str, Any] | None]] = []
        self._budget = ArgumentsBudget()
        self._n_acted_on = 0

    def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Do what a model asked for and say what came of it.

        Never raises: what cannot be done is said there.
        """
        if len(self.calls) >= MAX_CALLS:
            return _CALLS_SPENT
        is_admitted = self._budget.admit(arguments)
        kept = arguments if is_admitted and isinstance(arguments, Mapping) else None
        try:
            answer = self._answer(name, kept, is_admitted=is_admitted)
        except Refusal as refusal:
            answer = ToolAnswer(f"Error: {refusal}", is_error=True)
        except OutOfFuel:
            self.machine.clock.advance(_TIMEOUT_S)
            answer = _STOPPED
        self.calls.append((name, kept))
        return _bound(answer)

    def _answer(
        self, name: str, arguments: Mapping[str, Any] | None, *, is_admitted: bool
    ) -> ToolAnswer:
        if name not in TOOL_NAMES:
            raise Refusal(
                f"no tool is called '{name[:100]}'; the tools are {', '.join(TOOL_NAMES)}"
            )
        # Nothing has happened yet when arguments are refused, not even time: a record may have lost
        # them.
        if arguments is None:
            problem = "are too large, or hold what JSON cannot"
            if is_admitted:
                problem = "must be a JSON object"
            raise Refusal(f"{name}: the arguments {problem}")
        machine = self.machine
        self._n_acted_on += 1
        machine.clock.advance(machine.draw(1, 4, "step", self._n_acted_on))
        machine.fuel.start_call()
        errors = machine.errors.get(name)
        if errors:
            return ToolAnswer(errors.pop(0), is_error=True)
        return self._act(Arguments(name, arguments))

    def _act(self, arguments: Arguments) -> ToolAnswer:
        try:
            if arguments.tool == "exec":
                return self._run_command(arguments)
            answer = TOOLS[arguments.tool](self.machine, arguments)
        except FileFault as fault:
            path = path_argument(self.machine, arguments)
            raise Refusal(f"{path[:300]}: {fault}") from None
        return ToolAnswer(answer) if isinstance(answer, str) else answer

    def _run_command(self, arguments: Arguments) -> ToolAnswer:
        machine = self.machine
        workdir = resolve(arguments.text("workdir", machine.home), machine.home)
        command = arguments.text("command")
        if not machine.files.is_directory(workdir):
            raise Refusal(f"workdir {workdir[:300]}: No such directory")
        output = self.shell.run(command, workdir)
        text = output.text.rstrip("\n")
        if output.code != 0:
            exit_code = f"(exit code {output.code})"
            text = f"{text}\n{exit_code}" if text else exit_code
        is_error = output.code != 0 or bool(machine.notices)
        return ToolAnswer(text or "(no output)", is_error)


def _bound(answer: ToolAnswer) -> ToolAnswer:
    """Of a long answer its head and its tail, with a line that says so between them."""
    encoded = answer.text.encode("utf-8", "replace")
    if len(encoded) <= MAX_ANSWER_BYTES:
        return ToolAnswer(encoded.decode(), answer.is_error)
    notice = f"\n[… {len(encoded)} bytes in all; the middle is left out …]\n"
    half = (MAX_ANSWER_BYTES - len(notice.encode())) // 2
    head = encoded[:half].decode("utf-8", "ignore")
    tail = encoded[-half:].decode("utf-8", "ignore")
    return ToolAnswer(f"{head}{notice}{tail}", answer.is_error)
