"""Options of commands, in the manner of getopt.

Owns: `-la`, `-n5`, `-n 5`, `--lines=5`, `--`. Refuses: options a command does not list, in getopt's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clawgauge.world.shell.call import UsageFault


@dataclass(slots=True)
class Options:
    """What was given: flags and values by their short letter, and the operands."""

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)

    def has(self, *letters: str) -> bool:
        return any(letter in self.flags for letter in letters)

    def value(self, letter: str, default: str = "") -> str:
        return self.values[letter][-1] if letter in self.values else default

    def whole(self, letter: str, default: int) -> int:
        """A value that must be a whole number."""
        text = self.value(letter, str(default))
        if not text.lstrip("+-").isdecimal() or len(text) > 12:
            raise UsageFault(f"invalid number: '{text[:40]}'", 1)
        return int(text)


def parse_options(
    args: Sequence[str], flags: str = "", valued: str = "", long: Mapping[str, str] | None = None, *, mixed: bool = True
) -> Options:
    """Read `args`. `long` maps a long option to its letter; with `mixed` false the first operand ends the options."""
    options = Options()
    waiting = list(reversed(args))
    while waiting:
        arg = waiting.pop()
        if arg == "--":
            options.operands.extend(reversed(waiting))
            break
        if arg.startswith("--"):
            _read_long(arg, waiting, options, valued, long or {})
        elif arg.startswith("-") and len(arg) > 1:
            _read_short(arg, waiting, options, flags, valued)
        else:
            options.operands.append(arg)
            if not mixed:
                options.operands.extend(reversed(waiting))
                break
    return options


def _read_long(arg: str, waiting: list[str], options: Options, valued: str, long: Mapping[str, str]) -> None:
    name, has_value, value = arg[2:].partition("=")
    letter = long.get(name)
    if letter is None:
        raise UsageFault(f"unrecognized option '--{name[:60]}'")
    if letter not in valued:
        options.flags.add(letter)
        return
    if not has_value:
        if not waiting:
            raise UsageFault(f"option '--{name}' requires an argument")
        value = waiting.pop()
    options.values.setdefault(letter, []).append(value)


def _read_short(arg: str, waiting: list[str], options: Options, flags: str, valued: str) -> None:
    for index, letter in enumerate(arg[1:], start=1):
        if letter in valued:
            value = arg[index + 1 :]
            if not value:
                if not waiting:
                    raise UsageFault(f"option requires an argument -- '{letter}'")
                value = waiting.pop()
            options.values.setdefault(letter, []).append(value)
            return
        if letter not in flags:
            raise UsageFault(f"invalid option -- '{letter}'")
        options.flags.add(letter)
