"""sed, as far as people use it on one line: s, d, p, q, a, i, c with line numbers and patterns as addresses.

Owns: its small language. Refuses: the hold space, labels and branches, by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from clawgauge.world.fuel import Fuel
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.expressions import compile_expression
from clawgauge.world.shell.options import Options, parse_options

_NUMBER = re.compile(r"\d{1,9}")
_REFERENCE = re.compile(r"\\(.)|(&)", re.DOTALL)
_HIT_COST = 32


@dataclass(slots=True)
class _Address:
    """A line number, the last line (`$`), or a pattern."""

    number: int = 0
    last: bool = False
    pattern: Any = None

    def hits(self, number: int, line: str, is_last: bool) -> bool:
        if self.pattern is not None:
            return self.pattern.search(line) is not None
        return is_last if self.last else number == self.number


@dataclass(slots=True)
class _Edit:
    """One command with its addresses; `within` says that a range is open."""

    letter: str
    start: _Address | None = None
    end: _Address | None = None
    negated: bool = False
    pattern: Any = None
    text: str = ""
    flags: str = ""
    within: bool = field(default=False)

    def applies(self, number: int, line: str, is_last: bool) -> bool:
        return self._in_range(number, line, is_last) != self.negated

    def _in_range(self, number: int, line: str, is_last: bool) -> bool:
        if self.start is None:
            return True
        if self.end is None:
            return self.start.hits(number, line, is_last)
        if self.within:
            self.within = not (self.end.hits(number, line, is_last) or 0 < self.end.number <= number)
            return True
        if self.start.hits(number, line, is_last):
            self.within = not 0 < self.end.number <= number
            return True
        return False


def sed(call: Call) -> int:
    args = ["-i" if arg.startswith("-i.") else arg for arg in call.args]
    options = parse_options(
        args, "nErsi", "e", {"in-place": "i", "quiet": "n", "regexp-extended": "E", "expression": "e"}
    )
    scripts, operands = options.values.get("e", []), options.operands
    if not scripts:
        if not operands:
            raise UsageFault("no script specified", 1)
        scripts, operands = [operands[0]], operands[1:]
    script = "\n".join(scripts)
    if not options.has("i"):
        texts, code = call.read_operands(operands)
        call.print(_run(call, script, options, "".join(text for _, text in texts)))
        return code
    code = 0
    for operand in operands:
        path = call.resolve(operand)
        try:
            before = call.machine.files.read(path)
            after = _run(call, script, options, before)
            if after != before:
                call.machine.files.write(path, after)
        except FileFault as fault:
            code = call.complain(f"can't read {operand}: {fault}", 2)
    return code


def _run(call: Call, script: str, options: Options, text: str) -> str:
    edits = _Script(script, extended=options.has("E", "r")).read()
    lines = text.splitlines()
    shown: list[str] = []
    for number, line in enumerate(lines, start=1):
        call.machine.fuel.spend((len(line) + 1) * (1 + len(edits)))
        goes_on = _edit_line(
            edits, number, line, number == len(lines), shown, quiet=options.has("n"), fuel=call.machine.fuel
        )
        if not goes_on:
            break
    ending = "\n" if shown and (text.endswith("\n") or len(shown) < len(lines)) else ""
    return "\n".join(shown) + ending


def _edit_line(
    edits: list[_Edit], number: int, line: str, is_last: bool, shown: list[str], *, quiet: bool, fuel: Fuel
) -> bool:
    """Apply the script to one line; false where it says to quit."""
    after: list[str] = []
    for edit in edits:
        # The line as it is by now: each `s` may have made it longer.
        fuel.spend(len(line) + len(edit.text))
        if not edit.applies(number, line, is_last):
            continue
        match edit.letter:
            case "d":
                shown.extend(after)
                return True
            case "s":
                line, changed = _substituted(edit, line, fuel)
                if changed and "p" in edit.flags:
                    shown.append(line)
            case "p":
                shown.append(line)
            case "=":
                shown.append(str(number))
            case "i":
                shown.append(edit.text)
            case "a":
                after.append(edit.text)
            case "c":
                shown.append(edit.text)
                return True
            case "q":
                shown.extend([] if quiet else [line])
                return False
    shown.extend([] if quiet else [line])
    shown.extend(after)
    return True


def _substituted(edit: _Edit, line: str, fuel: Fuel) -> tuple[str, bool]:
    which = int(found[0]) if (found := _NUMBER.search(edit.flags)) else 1
    everywhere = "g" in edit.flags
    n_references = len(_REFERENCE.findall(edit.text))
    pieces: list[str] = []
    at = count = 0
    for hit in edit.pattern.finditer(line):
        count += 1
        # Paid before it is made: a replacement may hold the match many times over.
        fuel.spend(_HIT_COST + len(edit.text) + n_references * len(hit[0]))
        if count < which:
            continue
        pieces += [line[at : hit.start()], _replacement(edit.text, hit)]
        at = hit.end()
        if not everywhere:
            break
    return "".join(pieces) + line[at:], bool(pieces)


def _replacement(text: str, hit: Any) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[2]:
            return str(hit[0])
        escaped = found[1]
        if escaped in "123456789":
            group = int(escaped)
            return (hit[group] or "") if group <= len(hit.groups()) else ""
        return {"n": "\n", "t": "\t"}.get(escaped, escaped)

    return _REFERENCE.sub(fill, text)


class _Script:
    """Reads a script into edits."""

    def __init__(self, text: str, *, extended: bool) -> None:
        self._text = text
        self._at = 0
        self._extended = extended

    def read(self) -> list[_Edit]:
        edits: list[_Edit] = []
        while True:
            while self._peek() and self._peek() in " \t\n;":
                self._at += 1
            if not self._peek():
                return edits
            edits.append(self._read_edit())

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _fail(self, message: str) -> UsageFault:
        return UsageFault(f"-e expression #1, char {self._at + 1}: {message}", 1)

    def _read_edit(self) -> _Edit:
        start = self._read_address()
        end = None
        if start is not None and self._peek() == ",":
            self._at += 1
            end = self._read_address()
            if end is None:
                raise self._fail("unexpected `,'")
        while self._peek() == " ":
            self._at += 1
        negated = self._peek() == "!"
        self._at += negated
        letter = self._peek()
        self._at += 1
        edit = _Edit(letter, start, end, negated)
        if letter == "s":
            self._read_substitution(edit)
        elif letter and letter in "aic":
            edit.text = self._read_text()
        elif not letter or letter not in "dpq=":
            raise self._fail(f"the command '{letter}' is not supported here" if letter else "missing command")
        return edit

    def _read_address(self) -> _Address | None:
        if self._peek() == "$":
            self._at += 1
            return _Address(last=True)
        if self._peek() == "/":
            self._at += 1
            pattern = self._read_until("/")
            ignore_case = self._peek() == "I"
            self._at += ignore_case
            return _Address(pattern=compile_expression(pattern, extended=self._extended, ignore_case=ignore_case))
        found = _NUMBER.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return _Address(number=int(found[0]))

    def _read_substitution(self, edit: _Edit) -> None:
        delimiter = self._peek()
        if not delimiter or delimiter in "\\\n":
            raise self._fail("unterminated `s' command")
        self._at += 1
        pattern = self._read_until(delimiter)
        edit.text = self._read_until(delimiter)
        found = re.compile(r"[gpIi\d]*").match(self._text, self._at)
        edit.flags = found[0] if found else ""
        self._at += len(edit.flags)
        if self._peek() and self._peek() not in " ;\n}":
            raise self._fail("unknown option to `s'")
        ignore_case = bool(set("Ii") & set(edit.flags))
        edit.pattern = compile_expression(pattern, extended=self._extended, ignore_case=ignore_case)

    def _read_until(self, delimiter: str) -> str:
        pieces = []
        while (char := self._peek()) != delimiter:
            if not char:
                raise self._fail("unterminated `s' command or address regex")
            self._at += 1
            if char == "\\" and self._peek():
                char = self._peek() if self._peek() == delimiter else f"\\{self._peek()}"
                self._at += 1
            pieces.append(char)
        self._at += 1
        return "".join(pieces)

    def _read_text(self) -> str:
        end = self._text.find("\n", self._at)
        if self._text[self._at : self._at + 2] == "\\\n":
            self._at += 2
            end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        text = self._text[self._at : end].lstrip()
        self._at = end
        return text.removeprefix("\\")
