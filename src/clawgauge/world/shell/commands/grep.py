"""grep, over files, directories and standard input.

Owns: its options and output, as GNU prints it. Refuses: look-around and back-references.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import re2

from clawgauge.world.globs import matches_glob
from clawgauge.world.paths import base
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.expressions import compile_expression
from clawgauge.world.shell.options import Options, parse_options

_LONG = {
    "ignore-case": "i", "invert-match": "v", "count": "c", "line-number": "n", "recursive": "r", "quiet": "q",
    "files-with-matches": "l", "only-matching": "o", "extended-regexp": "E", "fixed-strings": "F", "regexp": "e",
    "max-count": "m", "include": "I", "word-regexp": "w", "no-filename": "h", "with-filename": "H", "no-messages": "s",
    "after-context": "A", "before-context": "B", "context": "C", "color": "Z", "colour": "Z",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Search:
    options: Options
    pattern: Any
    shows_names: bool

    def hits(self, line: str) -> bool:
        found = self.pattern.fullmatch(line) if self.options.has("x") else self.pattern.search(line)
        return (found is not None) != self.options.has("v")


def grep(call: Call) -> int:
    options = parse_options(call.args, "ivcnrRqloEFPGwhHsxaLyZ", "emABCI", _LONG)
    patterns = options.values.get("e", [])
    operands = options.operands
    if not patterns:
        if not operands:
            raise UsageFault("usage: grep [OPTION]... PATTERNS [FILE]...")
        patterns, operands = [operands[0]], operands[1:]
    recursive = options.has("r", "R")
    files, code = _files(call, operands or (["."] if recursive else []), options)
    named = options.has("H") or (not options.has("h") and (recursive or len(operands) > 1))
    search = _Search(options, _compile(options, patterns), named)
    hit = False
    for name, text in files if operands or recursive else [("(standard input)", call.stdin.take_all())]:
        hit = _search_text(call, search, name, text) or hit
    return 0 if hit and (code == 0 or options.has("q")) else code or 1


def egrep(call: Call) -> int:
    call.args = ["-E", *call.args]
    return grep(call)


def fgrep(call: Call) -> int:
    call.args = ["-F", *call.args]
    return grep(call)


def _compile(options: Options, patterns: list[str]) -> Any:
    parts = [part for pattern in patterns for part in pattern.split("\n")]
    extended = options.has("E", "P", "F")
    if options.has("F"):
        parts = [re2.escape(part) for part in parts]
    joined = ("|" if extended else "\\|").join(parts)
    if options.has("w"):
        joined = rf"\b({joined})\b" if extended else rf"\b\({joined}\)\b"
    return compile_expression(joined, extended=extended, ignore_case=options.has("i", "y"))


def _files(call: Call, operands: list[str], options: Options) -> tuple[list[tuple[str, str]], int]:
    """The texts to search, by the names to show, and 2 where one could not be read."""
    found: list[tuple[str, str]] = []
    code = 0
    for operand in operands:
        path = call.resolve(operand)
        targets = [(operand, path)]
        if call.machine.files.is_directory(path):
            if not options.has("r", "R"):
                code = call.complain(f"{operand}: Is a directory", 2)
                continue
            inside = [inner for inner in call.machine.files.inside(path) if not call.machine.files.is_directory(inner)]
            stem = len(path.rstrip("/"))
            targets = [(operand.rstrip("/") + inner[stem:], inner) for inner in inside]
            if not options.operands[1:] and "e" not in options.values:
                targets = [(inner[stem + 1 :], inner) for inner in inside]
            wanted = options.values.get("I")
            targets = [pair for pair in targets if not wanted or any(matches_glob(g, base(pair[1])) for g in wanted)]
        for name, target in targets:
            try:
                found.append((name, call.machine.files.read(target)))
            except FileFault as fault:
                code = 2 if options.has("s") else call.complain(f"{name}: {fault}", 2)
    return found, code


def _search_text(call: Call, search: _Search, name: str, text: str) -> bool:
    options = search.options
    lines = text.splitlines()
    call.machine.fuel.spend(len(text))
    hits = [index for index, line in enumerate(lines) if search.hits(line)][: options.whole("m", len(lines))]
    prefix = f"{name}:" if search.shows_names else ""
    if options.has("q"):
        pass
    elif options.has("l", "L"):
        if bool(hits) == options.has("l"):
            call.print(f"{name}\n")
    elif options.has("c"):
        call.print(f"{prefix}{len(hits)}\n")
    elif options.has("o"):
        for index in hits:
            number = f"{index + 1}:" if options.has("n") else ""
            for found in search.pattern.finditer(lines[index]):
                if found[0]:
                    call.print(f"{prefix}{number}{found[0]}\n")
    else:
        _print_lines(call, search, name, lines, hits)
    return bool(hits)


def _print_lines(call: Call, search: _Search, name: str, lines: list[str], hits: list[int]) -> None:
    around = search.options.whole("C", 0)
    before, after = search.options.whole("B", around), search.options.whole("A", around)
    shown: dict[int, str] = {}
    for hit in hits:
        for index in range(max(0, hit - min(before, 1_000)), min(len(lines), hit + min(after, 1_000) + 1)):
            shown.setdefault(index, "-")
        shown[hit] = ":"
        call.machine.fuel.spend(1 + min(before + after, 2_000))
    previous = None
    for index in sorted(shown):
        if (before or after) and previous is not None and index > previous + 1:
            call.print("--\n")
        mark = shown[index]
        number = f"{index + 1}{mark}" if search.options.has("n") else ""
        call.print(f"{name + mark if search.shows_names else ''}{number}{lines[index]}\n")
        previous = index
