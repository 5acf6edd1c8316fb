"""Commands that turn lines into other lines: sort, uniq, cut, tr, tee, seq.

Owns: their output, as GNU prints it. Refuses: locales; letters sort by code point.
"""

from __future__ import annotations

import re

from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.sizes import UNITS
from clawgauge.world.shell.options import Options, parse_options

_NUMBER = re.compile(r"\s*(-?\d{1,15}(?:\.\d{1,9})?)([KMGT]?)")
_LIST_ITEM = re.compile(r"(\d{0,6})(-?)(\d{0,6})")


def sort(call: Call) -> int:
    options = parse_options(
        call.args, "nrhufbVs", "kto", {"reverse": "r", "numeric-sort": "n", "human-numeric-sort": "h", "unique": "u"}
    )
    texts, code = call.read_operands(options.operands, "cannot read: {}: ")
    code *= 2
    lines = [line for _, text in texts for line in text.splitlines()]
    call.machine.fuel.spend(16 * len(lines))
    key = options.value("k")
    letters = options.flags | set(re.sub(r"[\d.,]", "", key))
    column = int(found[0]) if (found := re.match(r"\d{1,4}", key)) else 0
    separator = options.value("t") or None

    def rank(line: str) -> tuple[float, str]:
        text = line
        if column:
            fields = line.split(separator)
            last = re.search(r",(\d{1,4})", key)
            text = " ".join(fields[column - 1 : int(last[1]) if last else None])
        return _number(text) if letters & {"n", "h"} else 0.0, text.lower() if "f" in letters else text

    lines.sort(key=lambda line: (rank(line), line), reverse="r" in letters)
    if options.has("u"):
        lines = list({rank(line): line for line in reversed(lines)}.values())[::-1]
    text = "".join(f"{line}\n" for line in lines)
    if "o" not in options.values:
        call.print(text)
        return code
    call.machine.files.write(call.resolve(options.value("o")), text)
    return code


def _number(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[1]) * 1024 ** (UNITS.index(found[2]) + 1 if found[2] else 0) if found else 0.0


def uniq(call: Call) -> int:
    options = parse_options(call.args, "cdui", long={"count": "c", "repeated": "d", "unique": "u"})
    texts, code = call.read_operands(options.operands[:1])
    runs: list[tuple[str, int]] = []
    for line in texts[0][1].splitlines() if texts else []:
        previous = runs[-1][0] if runs else None
        same = previous is not None and (line.lower() == previous.lower() if options.has("i") else line == previous)
        if same:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    for line, count in runs:
        if (options.has("d") and count == 1) or (options.has("u") and count > 1):
            continue
        call.print(f"{count:>7} {line}\n" if options.has("c") else f"{line}\n")
    return code


def cut(call: Call) -> int:
    options = parse_options(call.args, "s", "dfcb", {"delimiter": "d", "fields": "f", "characters": "c"})
    by_field = "f" in options.values
    if not by_field and not ({"c", "b"} & options.values.keys()):
        raise UsageFault("you must specify a list of bytes, characters, or fields", 1)
    wanted = _wanted(options.value("f") or options.value("c") or options.value("b"))
    delimiter = options.value("d", "\t")
    if len(delimiter) != 1:
        raise UsageFault("the delimiter must be a single character", 1)
    texts, code = call.read_operands(options.operands)
    for line in (line for _, text in texts for line in text.splitlines()):
        if not by_field:
            call.print("".join(char for at, char in enumerate(line, start=1) if _is_in(at, wanted)) + "\n")
        elif delimiter in line:
            fields = [field for at, field in enumerate(line.split(delimiter), start=1) if _is_in(at, wanted)]
            call.print(delimiter.join(fields) + "\n")
        elif not options.has("s"):
            call.print(f"{line}\n")
    return code


def _wanted(text: str) -> list[tuple[int, int]]:
    ranges = []
    for item in text.split(","):
        found = _LIST_ITEM.fullmatch(item)
        if not found or item in ("", "-"):
            raise UsageFault(f"invalid field range '{item[:40]}'", 1)
        first = int(found[1] or 1)
        ranges.append((first, int(found[3] or 10**6) if found[2] else first))
    return ranges


def _is_in(place: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= place <= last for first, last in ranges)


def tr(call: Call) -> int:
    options = parse_options(call.args, "dscC", mixed=False)
    sets = [_characters(operand) for operand in options.operands[:2]]
    if not sets or (len(sets) < 2 and not options.has("d", "s")):
        raise UsageFault("missing operand", 1)
    text = call.stdin.take_all()
    first = set(sets[0])
    if options.has("c", "C"):
        first = set(text) - first
    if options.has("d"):
        text = "".join(char for char in text if char not in first)
    elif len(sets) == 2:
        source = sorted(first) if options.has("c", "C") else sets[0]
        target = sets[1] + sets[1][-1:] * (len(source) - len(sets[1]))
        table = dict(zip(source, target, strict=False))
        text = "".join(table.get(char, char) for char in text)
    if options.has("s"):
        squeezed = set(sets[-1])
        text = "".join(char for at, char in enumerate(text) if at == 0 or char != text[at - 1] or char not in squeezed)
    call.print(text)
    return 0


_CLASSES = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "[:digit:]": "0123456789",
    "[:space:]": " \t\n\r\v\f",
    "[:blank:]": " \t",
    "[:punct:]": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
}
_CLASSES["[:alpha:]"] = _CLASSES["[:upper:]"] + _CLASSES["[:lower:]"]
_CLASSES["[:alnum:]"] = _CLASSES["[:alpha:]"] + _CLASSES["[:digit:]"]


def _characters(text: str) -> str:
    for name, members in _CLASSES.items():
        text = text.replace(name, members)
    text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    return re.sub(r"(\w)-(\w)", lambda found: _span(found[1], found[2]), text)


def _span(first: str, last: str) -> str:
    return "".join(map(chr, range(ord(first), min(ord(last), ord(first) + 256) + 1)))


def tee(call: Call) -> int:
    options = parse_options(call.args, "ai", long={"append": "a"})
    text = call.stdin.take_all()
    call.print(text)
    code = 0
    for operand in options.operands:
        try:
            call.machine.files.write(call.resolve(operand), text, append=options.has("a"))
        except FileFault as fault:
            code = call.complain(f"{operand}: {fault}")
    return code


def seq(call: Call) -> int:
    numbers = _numbers_of(parse_options(call.args))
    for number in range(*numbers):
        call.print(f"{number}\n")
    return 0


def _numbers_of(options: Options) -> tuple[int, int, int]:
    if not 1 <= len(options.operands) <= 3 or not all(re.fullmatch(r"-?\d{1,9}", word) for word in options.operands):
        raise UsageFault("give one to three whole numbers", 1)
    numbers = [int(word) for word in options.operands]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    if step == 0:
        raise UsageFault("invalid Zero increment value: '0'", 1)
    return first, numbers[-1] + (1 if step > 0 else -1), step
