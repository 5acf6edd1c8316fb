"""One command of ours being run: its options, what it is given, how it speaks, and how it says no."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clawgauge.world import paths
from clawgauge.world.files import FileTree
from clawgauge.world.machine import Machine
from clawgauge.world.refusals import FileFault

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell

_SIZE = re.compile(r"(\d{1,12})(?:([KMGT])(i?B)?|[bc])?", re.IGNORECASE)


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
    flags: str
    valued: str
    long: Mapping[str, str]
    idle: frozenset[str]
    valued_words: tuple[str, ...]
    raw: bool

    def takes_value(self, option: str) -> bool:
        return option in self.valued_words or (len(option) == 1 and option in self.valued)


COMMANDS: dict[str, Command] = {}


def command(*names: str, **table: Any) -> Callable[[Callable[[Call], int]], Callable[[Call], int]]:
    """Enter a function into the table of commands, with its options as `read_options` has them, or with `raw`."""

    def enter(function: Callable[[Call], int]) -> Callable[[Call], int]:
        COMMANDS.update(dict.fromkeys(names, _entry(function, **table)))
        return function

    return enter


def _entry(
    run: Callable[[Call], int],
    flags: str = "",
    valued: str = "",
    long: str = "",
    idle: str = "",
    idle_words: str = "",
    *,
    raw: bool = False,
) -> Command:
    items = [(*item.removesuffix("=").partition(":")[::2], item.endswith("=")) for item in long.split()]
    by_word = {word: letter or word for word, letter, _ in items}
    valued_words = tuple(word for word, letter, takes_value in items if takes_value and not letter)
    return Command(run, flags, valued, by_word, frozenset([*idle, *idle_words.split()]), valued_words, raw)


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

    def all(self, option: str) -> list[str]:
        self.asked.add(option)
        return self.values.get(option, [])

    def value(self, option: str, default: str = "") -> str:
        return (self.all(option) or [default])[-1]

    def members(self, option: str) -> list[str]:
        """The parts of a value that is a list with commas."""
        return [part.strip() for part in self.value(option).split(",") if part.strip()]

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

    def print(self, text: str, code: int = 0) -> int:
        """Say it on standard output; the code to return."""
        self.machine.fuel.spend(len(text) + 32)
        self.out.append(text)
        return code

    def complain(self, text: str, code: int = 1) -> int:
        """Say what is wrong on standard error, after the command's name; the code to return."""
        return self.say(f"{self.name}: {text}\n", code)

    def say(self, text: str, code: int = 1) -> int:
        """Standard error as it is; the code to return."""
        self.err.append(text)
        return code

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


def read_options(args: Sequence[str], **table: Any) -> Options:
    """The options of a part of a command. `long` is written `all:a max-depth:d= sort=`: a letter after the colon, `=`
    where a value follows."""
    return parse_options(_entry(lambda call: 0, **table), args)


def parse_options(command: Command, args: Sequence[str]) -> Options:
    """Read `args` in the manner of getopt: `-la`, `-n5`, `-n 5`, `--lines=5`, `--lines 5`, `--`."""
    options = Options()
    waiting = list(reversed(args))

    def take(option: str, value: str | None, fault: str) -> None:
        if value is None and not waiting:
            raise UsageFault(fault)
        options.values.setdefault(option, []).append(waiting.pop() if value is None else value)

    while waiting:
        arg = waiting.pop()
        if arg == "--":
            options.operands.extend(reversed(waiting))
            break
        if arg.startswith("--"):
            word, has_value, value = arg[2:].partition("=")
            option = command.long.get(word, word)
            if word not in command.long and word not in command.idle:
                raise NotSimulated(f"option '--{word[:60]}' is not supported here", 2)
            if command.takes_value(option):
                take(option, value if has_value else None, f"option '--{word}' requires an argument")
            elif has_value and option not in command.idle:
                raise UsageFault(f"option '--{word}' doesn't allow an argument")
            else:
                options.flags.add(option)
        elif arg.startswith("-") and len(arg) > 1:
            for index, letter in enumerate(arg[1:], start=2):
                if letter in command.valued:
                    take(letter, arg[index:] or None, f"option requires an argument -- '{letter}'")
                    break
                if letter not in command.flags and letter not in command.idle:
                    raise NotSimulated(f"option '-{letter}' is not supported here", 2)
                options.flags.add(letter)
        else:
            options.operands.append(arg)
    return options


def human(size: int) -> str:
    """`4.0K`, `18G`: as GNU tools write sizes with -h, one decimal below ten, always rounded up."""
    if size < 1024:
        return str(size)
    unit, unit_size = 0, 1024
    while -(-size // unit_size) >= 1024 and unit < 4:
        unit, unit_size = unit + 1, unit_size * 1024
    tenths = -(-size * 10 // unit_size)
    return f"{f'{tenths // 10}.{tenths % 10}' if tenths < 100 else -(-size // unit_size)}{'KMGTP'[unit]}"


def read_size(text: str) -> int:
    """`100`, `4K`, `18G`, `1MB`: a number of bytes as GNU tools read it."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageFault(f"invalid number: '{text[:40]}'")
    base = 1000 if (found[3] or "").upper() == "B" else 1024
    return int(found[1]) * int(base ** ("KMGT".index(found[2].upper()) + 1 if found[2] else 0))


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (), gap: str = " ") -> str:
    """Rows as columns, each as wide as its widest cell; those numbered in `left` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        gap.join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)
