"""One command of ours being run: its options, what it is given, how it speaks, and how it says no."""

import getopt
import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.files import FileTree
from clawgauge.world.machine import Machine
from clawgauge.world.paths import resolve

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell


class NotSimulated(Refusal):
    """What a real machine would do and this one does not. Told to the model even where it throws errors away."""


@dataclass(slots=True)
class Options:
    """What was given: the values by letter or word (a flag's is empty), and the operands."""

    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)

    def has(self, *options: str) -> bool:
        return any(option in self.values for option in options)

    def all(self, option: str) -> list[str]:
        return self.values.get(option, [])

    def value(self, option: str, default: str = "") -> str:
        return (self.all(option) or [default])[-1]

    def members(self, option: str) -> list[str]:
        return [part.strip() for part in self.value(option).split(",") if part.strip()]

    def whole(self, option: str, default: int) -> int:
        text = self.value(option, str(default))
        if not re.fullmatch(r"[+-]?\d{1,12}", text):
            raise Refusal(f"invalid number: '{text[:40]}'")
        return int(text)


@dataclass(slots=True)
class Call:
    name: str
    args: list[str]
    machine: Machine
    shell: "Shell"
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
        self.machine.fuel.spend(len(text) + 32)
        self.out.append(text)
        return code

    def complain(self, text: str, code: int = 1) -> int:
        return self.say(f"{self.name}: {text}\n", code)

    def say(self, text: str, code: int = 1) -> int:
        self.err.append(text)
        return code

    def resolve(self, path: str) -> str:
        return resolve(path, self.workdir)

    def each(
        self,
        operands: Sequence[str],
        work: Callable[[str, str], int | None],
        complaint: str = "{}: {}",
    ) -> int:
        """Do something with each operand and its path, and go on where one fails, which `complaint` tells."""
        code = 0
        for operand in operands:
            try:
                code = work(operand, self.resolve(operand)) or code
            except FileFault as fault:
                code = self.complain(complaint.format(operand, fault))
        return code

    def require_operands(self, message: str = "missing operand") -> list[str]:
        if not self.options.operands:
            raise Refusal(message)
        return self.options.operands


TABLE = tomllib.loads(pathlib.Path(__file__).with_name("commands.toml").read_text("utf-8"))
NATIVE, ABSENT, GUARDED = (
    frozenset(TABLE["native"]),
    tuple(TABLE["absent"]),
    tuple(TABLE["guarded"]),
)


class Command:
    """A command and the options it reads, as `commands.toml` has them. A `raw` one puts its words in order itself."""

    def __init__(self, run: Callable[[Call], int], table: Mapping[str, str], *, raw: bool) -> None:
        self.run, self.raw = run, raw
        long, idle = table.get("long", "").split(), table.get("idle", "")
        self.short = table.get("short", "") + idle
        self.idle = {*idle, *table.get("idle_words", "").split()}
        items = [item.rstrip("=").partition(":") for item in long]
        self.letters = {word: letter or word for word, _, letter in items}
        self.words = [re.sub(":.=?", "=" if item[-1] == "=" else "", item) for item in long]

    def parse(self, args: Sequence[str]) -> Options:
        """Read `args` in the manner of getopt: `-la`, `-n5`, `-n 5`, `--lines=5`, `--lines 5`, `--`."""
        options = Options()
        end = [*args, "--"].index("--")
        idle = self.idle - {*self.letters}
        waiting = [
            arg for arg in args[:end] if arg[:2] != "--" or arg[2:].partition("=")[0] not in idle
        ]
        while waiting:
            try:
                # Not `gnu_getopt`, which goes by a variable of the host's.
                found, waiting = getopt.getopt(waiting, self.short, self.words)
            except getopt.GetoptError as error:
                if "not recognized" not in error.msg:
                    raise Refusal(error.msg) from None
                dashes = "--" if "--" in error.msg else "-"
                raise NotSimulated(
                    f"option '{dashes}{error.opt[:60]}' is not supported here", 2
                ) from None
            for dashed, value in found:
                word = dashed.lstrip("-")
                options.values.setdefault(
                    self.letters.get(word, word) if dashed[1] == "-" else word, []
                ).append(value)
            options.operands += waiting[:1]
            del waiting[:1]
        options.operands += args[end + 1 :]
        return options


COMMANDS: dict[str, Command] = {}


def command(
    *names: str, raw: bool = False
) -> Callable[[Callable[[Call], int]], Callable[[Call], int]]:

    def enter(function: Callable[[Call], int]) -> Callable[[Call], int]:
        for name in names:
            COMMANDS[name] = Command(function, TABLE.get(name, TABLE.get(names[0], {})), raw=raw)
        return function

    return enter


def human(size: int) -> str:
    """`4.0K`, `18G`: as GNU tools write sizes with -h, one decimal below ten, always rounded up."""
    if size < 1024:
        return str(size)
    unit = next((unit for unit in range(1, 5) if -(-size // 1024**unit) < 1024), 5)
    tenths = -(-size * 10 // 1024**unit)
    return f"{f'{tenths // 10}.{tenths % 10}' if tenths < 100 else -(-size // 1024**unit)}{' KMGTP'[unit]}"


def fill(pattern: str, form: str, values: Mapping[str, str], what: str) -> str:
    """`form` with each directive written out: `pattern` finds its width (`10`, `-10`, `04`) and its name."""

    def written(found: re.Match[str]) -> str:
        if found[2] not in values:
            raise NotSimulated(f"{what} '{found[0][:40]}' is not supported here")
        text, width = values[found[2]], int(found[1].lstrip("-0") or 0)
        return (
            text.ljust(width)
            if found[1][:1] == "-"
            else text.rjust(width, "0" if found[1][:1] == "0" else " ")
        )

    return re.sub(pattern, written, form, flags=re.DOTALL)


def unescape(form: str) -> str:
    return form.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (), gap: str = " ") -> str:
    """Rows as columns, each as wide as its widest cell; those numbered in `left` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = [f"{'<' if number in left else '>'}{width}" for number, width in enumerate(widths)]
    return "".join(f"{gap.join(map(format, row, forms)).rstrip()}\n" for row in rows)
