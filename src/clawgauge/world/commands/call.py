"""One command of ours being run: its options, what it is given, how it speaks and says no."""

import getopt
import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.files import FileTree
from clawgauge.world.machine import Machine
from clawgauge.world.paths import resolve

if TYPE_CHECKING:
    from clawgauge.world.shell import Shell

TABLE: dict[str, Any] = tomllib.loads(
    pathlib.Path(__file__).with_name("commands.toml").read_text("utf-8")
)
NATIVE = frozenset(TABLE["native"])
ABSENT: tuple[str, ...] = tuple(TABLE["absent"])
GUARDED: tuple[str, ...] = tuple(TABLE["guarded"])
_PRINT_FUEL = 32


class NotSimulated(Refusal):
    """What a real machine would do and this one does not.

    It is told to the model even where that throws errors away.
    """


@dataclass(slots=True)
class Options:
    """What a command was given.

    The values are by letter, or by word where an option has no letter (a flag's is empty); the
    operands are the words that are no options.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)

    def has(self, *options: str) -> bool:
        """Whether any of them was given."""
        return any(option in self.values for option in options)

    def all(self, option: str) -> list[str]:
        return self.values.get(option, [])

    def value(self, option: str, default: str = "") -> str:
        """The last value of an option."""
        values = self.all(option)
        return values[-1] if values else default

    def members(self, option: str) -> list[str]:
        """The members of a list with commas."""
        parts = [part.strip() for part in self.value(option).split(",")]
        return [part for part in parts if part]

    def whole(self, option: str, default: int) -> int:
        text = self.value(option, str(default))
        if not re.fullmatch(r"[+-]?\d{1,12}", text):
            raise Refusal(f"invalid number: '{text[:40]}'")
        return int(text)


@dataclass(slots=True)
class Call:
    """A command and what it was called with; what it prints is collected in `out` and `err`."""

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
        """Print to standard output, and give the exit code back."""
        self.machine.fuel.spend(len(text) + _PRINT_FUEL)
        self.out.append(text)
        return code

    def complain(self, text: str, code: int = 1) -> int:
        """Print a line to standard error, with the command's name; give the exit code back."""
        return self.say(f"{self.name}: {text}\n", code)

    def say(self, text: str, code: int = 1) -> int:
        """Print to standard error as it is, and give the exit code back."""
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
        """Do something with each operand and its path, and give the last exit code that is not 0.

        It goes on where one fails, which is told by `complaint`, filled with operand and fault.
        """
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


Run: TypeAlias = Callable[[Call], int]


class Command:
    """A command and the options it reads, as `commands.toml` has them.

    A `raw` one puts its words in order itself.
    """

    def __init__(self, run: Run, table: Mapping[str, str], *, raw: bool) -> None:
        self.run = run
        self.raw = raw
        idle_letters = table.get("idle", "")
        self.short = table.get("short", "") + idle_letters
        self.idle = {*idle_letters, *table.get("idle_words", "").split()}
        self.letters: dict[str, str] = {}  # of each long option; itself where it has none
        self.words: list[str] = []  # as getopt has them
        for item in table.get("long", "").split():
            word, _, letter = item.rstrip("=").partition(":")
            self.letters[word] = letter or word
            self.words.append(f"{word}=" if item.endswith("=") else word)

    def parse(self, args: Sequence[str]) -> Options:
        """Read `args` in the manner of getopt: `-la`, `-n5`, `-n 5`, `--lines=5`, `--`.

        Raises `NotSimulated` for an option that is not in the table.
        """
        options = Options()
        end = [*args, "--"].index("--")
        waiting = [arg for arg in args[:end] if not self._is_idle_word(arg)]
        while waiting:
            pairs, waiting = self._parse_options(waiting)
            for dashed, value in pairs:
                options.values.setdefault(self._key_of(dashed), []).append(value)
            options.operands += waiting[:1]
            del waiting[:1]
        options.operands += args[end + 1 :]
        return options

    def _is_idle_word(self, arg: str) -> bool:
        if not arg.startswith("--"):
            return False
        word = arg[2:].partition("=")[0]
        return word in self.idle and word not in self.letters

    def _parse_options(self, args: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
        """The options up to the first operand, and what is left."""
        try:
            # Not `gnu_getopt`, which goes by a variable of the host's.
            return getopt.getopt(args, self.short, self.words)
        except getopt.GetoptError as error:
            if "not recognized" not in error.msg:
                raise Refusal(error.msg) from None
            dashes = "--" if "--" in error.msg else "-"
            raise NotSimulated(
                f"option '{dashes}{error.opt[:60]}' is not supported here", 2
            ) from None

    def _key_of(self, dashed: str) -> str:
        """The letter of an option, or its word where it has none."""
        word = dashed.lstrip("-")
        is_long = dashed[1] == "-"
        return self.letters.get(word, word) if is_long else word


COMMANDS: dict[str, Command] = {}


def command(*names: str, raw: bool = False) -> Callable[[Run], Run]:
    """Make a function the command of these names.

    One that has no options of its own in the table has those of the first name.
    """

    def enter(run: Run) -> Run:
        usual_options = TABLE.get(names[0], {})
        for name in names:
            COMMANDS[name] = Command(run, TABLE.get(name, usual_options), raw=raw)
        return run

    return enter
