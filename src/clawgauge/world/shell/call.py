"""One command being run: what it is given and how it speaks.

Owns: the face every command sees. Refuses: knowing the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clawgauge.world.machine import Machine
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.scope import Scope
from clawgauge.world.shell.streams import Input, Output


class UsageFault(Exception):
    """A command was called in a way it does not take; the message follows on its name."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Call:
    """A command's arguments, streams and surroundings."""

    name: str
    args: list[str]
    machine: Machine
    scope: Scope
    stdin: Input
    out: Output
    err: Output
    # Runs another command with these arguments and streams: what `xargs` and `find -exec` need.
    run: Callable[[list[str], Input, Output, Output], int]

    def print(self, text: str) -> None:
        self.out.write(text)

    def complain(self, text: str, code: int = 1) -> int:
        """Say what is wrong on standard error; the code to return."""
        self.err.write(f"{self.name}: {text}\n")
        return code

    def resolve(self, path: str) -> str:
        return self.scope.resolve(path)

    def read_operands(self, operands: list[str], complaint: str = "{}: ") -> tuple[list[tuple[str, str]], int]:
        """The texts of the named files, or of standard input where none is named; and the exit code so far.

        `complaint` is how the command begins to say that a file cannot be read.
        """
        if not operands:
            return [("-", self.stdin.take_all())], 0
        texts = []
        code = 0
        for operand in operands:
            if operand == "-":
                texts.append(("-", self.stdin.take_all()))
                continue
            try:
                texts.append((operand, self.machine.files.read(self.resolve(operand))))
            except FileFault as fault:
                code = self.complain(f"{complaint.replace('{}', operand)}{fault}")
        return texts, code


CommandFunction = Callable[[Call], int]
