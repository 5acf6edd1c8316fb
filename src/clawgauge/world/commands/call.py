"""One command of ours being run: its options, what it is given, how it speaks, and how it says no."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clawgauge.world import paths
from clawgauge.world.files import FileTree
from clawgauge.world.machine import Machine
from clawgauge.world.refusals import FileFault

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell

UNITS = "KMGTP"
_SIZE = re.compile(r"(\d{1,12})(?:([KMGT])(?:i?B)?|([kMGT])B|[bBc])?", re.IGNORECASE)


class UsageFault(Exception):
    """A command was called in a way it does not take; the message follows on its name."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class NotSimulated(UsageFault):
    """What a real machine would do and this one does not. Told to the model even where it throws errors away."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the options it reads. What is in none of these is refused by name.

    `flags` and `valued` are letters; `long` maps a long option to its letter, or to a word of its own where it has no
    letter; a valued one is listed in `valued_words`. `idle` are letters and words that are taken and change nothing
    here (colours, pagers, time-outs, asking before each file). `raw` commands read their words themselves.
    """

    run: Callable[[Call], int]
    flags: str = ""
    valued: str = ""
    long: Mapping[str, str] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    valued_words: tuple[str, ...] = ()
    raw: bool = False
    mixed: bool = True

    def takes_value(self, option: str) -> bool:
        return option in self.valued_words or (len(option) == 1 and option in self.valued)


COMMANDS: dict[str, Command] = {}


def command(
    *names: str,
    flags: str = "",
    valued: str = "",
    long: str = "",
    idle: str = "",
    idle_words: str = "",
    raw: bool = False,
    mixed: bool = True,
) -> Callable[[Callable[[Call], int]], Callable[[Call], int]]:
    """Enter a function into the table of commands.

    `long` is written `human-readable:h max-depth:d= sort=`: a letter after the colon, `=` where a value follows.
    """
    by_word: dict[str, str] = {}
    valued_words = []
    for item in long.split():
        word, _, letter = item.removesuffix("=").partition(":")
        by_word[word] = letter or word
        if item.endswith("=") and not letter:
            valued_words.append(word)

    def enter(function: Callable[[Call], int]) -> Callable[[Call], int]:
        quiet = frozenset([*idle, *idle_words.split()])
        entry = Command(function, flags, valued, by_word, quiet, tuple(valued_words), raw, mixed)
        COMMANDS.update(dict.fromkeys(names, entry))
        return function

    return enter


@dataclass(slots=True)
class Options:
    """What was given: flags and values by letter or word, and the operands. `asked` is what the command looked for."""

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def has(self, *options: str) -> bool:
        self.asked.update(options)
        return any(option in self.flags or option in self.values for option in options)

    def value(self, option: str, default: str = "") -> str:
        self.asked.add(option)
        return self.values[option][-1] if option in self.values else default

    def all(self, option: str) -> list[str]:
        self.asked.add(option)
        return self.values.get(option, [])

    def whole(self, option: str, default: int) -> int:
        """A value that must be a whole number."""
        text = self.value(option, str(default))
        if not re.fullmatch(r"[+-]?\d{1,12}", text):
            raise UsageFault(f"invalid number: '{text[:40]}'")
        return int(text)


@dataclass(slots=True)
class Call:
    """A command's arguments, streams and surroundings."""

    name: str
    args: list[str]
    machine: Machine
    shell: Shell
    stdin: str
    workdir: str
    env: Mapping[str, str]
    options: Options = field(default_factory=Options)
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    @property
    def files(self) -> FileTree:
        return self.machine.files

    def print(self, text: str) -> None:
        self.machine.fuel.spend(len(text) + 32)
        self.out.append(text)

    def complain(self, text: str, code: int = 1) -> int:
        """Say what is wrong on standard error; the code to return."""
        self.say(f"{self.name}: {text}\n")
        return code

    def say(self, text: str) -> None:
        """Standard error as it is."""
        self.err.append(text)

    def resolve(self, path: str) -> str:
        return paths.resolve(path, self.workdir)

    def read_operand(self, operand: str) -> str:
        """The text of a file, or standard input for `-`."""
        return self.stdin if operand == "-" else self.files.read(self.resolve(operand))

    def each(self, operands: Sequence[str], work: Callable[[str], int | None], complaint: str = "{}: {}") -> int:
        """Do something with each operand and go on where one fails; `complaint` takes the operand and the fault."""
        code = 0
        for operand in operands:
            try:
                code = work(operand) or code
            except FileFault as fault:
                code = self.complain(complaint.format(operand, fault))
        return code

    def require_operands(self, message: str = "missing operand", code: int = 1) -> list[str]:
        if not self.options.operands:
            raise UsageFault(message, code)
        return self.options.operands


def parse_options(command: Command, args: Sequence[str]) -> Options:
    """Read `args` in the manner of getopt: `-la`, `-n5`, `-n 5`, `--lines=5`, `--lines 5`, `--`."""
    options = Options()
    waiting = list(reversed(args))
    while waiting:
        arg = waiting.pop()
        if arg == "--":
            options.operands.extend(reversed(waiting))
            break
        if arg.startswith("--"):
            _read_long(command, arg, waiting, options)
        elif arg.startswith("-") and len(arg) > 1:
            _read_letters(command, arg, waiting, options)
        else:
            options.operands.append(arg)
            if not command.mixed:
                options.operands.extend(reversed(waiting))
                break
    return options


def _read_long(command: Command, arg: str, waiting: list[str], options: Options) -> None:
    word, has_value, value = arg[2:].partition("=")
    option = command.long.get(word, word)
    if word not in command.long and word not in command.idle:
        raise NotSimulated(f"option '--{word[:60]}' is not supported here", 2)
    if not command.takes_value(option):
        if has_value and option not in command.idle:
            raise UsageFault(f"option '--{word}' doesn't allow an argument")
        options.flags.add(option)
        return
    if not has_value:
        if not waiting:
            raise UsageFault(f"option '--{word}' requires an argument")
        value = waiting.pop()
    options.values.setdefault(option, []).append(value)


def _read_letters(command: Command, arg: str, waiting: list[str], options: Options) -> None:
    for index, letter in enumerate(arg[1:], start=1):
        if letter in command.valued:
            value = arg[index + 1 :]
            if not value:
                if not waiting:
                    raise UsageFault(f"option requires an argument -- '{letter}'")
                value = waiting.pop()
            options.values.setdefault(letter, []).append(value)
            return
        if letter not in command.flags and letter not in command.idle:
            raise NotSimulated(f"option '-{letter}' is not supported here", 2)
        options.flags.add(letter)


def human(size: int) -> str:
    """`4.0K`, `18G`: as GNU tools write sizes with -h, one decimal below ten, always rounded up."""
    if size < 1024:
        return str(size)
    unit_size = 1024
    for unit in UNITS:
        tenths = -(-size * 10 // unit_size)
        if tenths < 100:
            return f"{tenths // 10}.{tenths % 10}{unit}"
        whole = -(-size // unit_size)
        if whole < 1024 or unit == UNITS[-1]:
            return f"{whole}{unit}"
        unit_size *= 1024
    return str(size)


def read_size(text: str) -> int:
    """`100`, `4K`, `18G`, `1MB`: a number of bytes as GNU tools read it."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageFault(f"invalid number: '{text[:40]}'")
    unit = (found[2] or "").upper()
    if found[3]:
        return int(found[1]) * int(1000 ** ("KMGT".index(found[3].upper()) + 1))
    return int(found[1]) * int(1024 ** ("KMGT".index(unit) + 1 if unit else 0))


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (), gap: str = " ") -> str:
    """Rows as columns, each as wide as its widest cell; those numbered in `left` begin at the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(gap.join(cells).rstrip() + "\n")
    return "".join(lines)
