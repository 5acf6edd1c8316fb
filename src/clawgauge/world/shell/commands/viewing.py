"""Commands that show text: cat, head, tail, wc, tac, nl.

Owns: their output, as GNU prints it. Refuses: following a file that grows.
"""

from __future__ import annotations

from collections.abc import Callable

from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.options import Options, parse_options


def cat(call: Call) -> int:
    options = parse_options(call.args, "nbAevET", long={"number": "n"})
    texts, code = call.read_operands(options.operands)
    text = "".join(text for _, text in texts)
    if options.has("n", "b"):
        text = "".join(f"{number:>6}\t{line}" for number, line in enumerate(text.splitlines(keepends=True), start=1))
    call.print(text)
    return code


def tac(call: Call) -> int:
    texts, code = call.read_operands(parse_options(call.args).operands)
    for _, text in texts:
        call.print("".join(line + "\n" for line in reversed(text.splitlines())))
    return code


def nl(call: Call) -> int:
    texts, code = call.read_operands(parse_options(call.args, valued="bw").operands)
    lines = [line for _, text in texts for line in text.splitlines()]
    call.print("".join(f"{number:>6}\t{line}\n" for number, line in enumerate(lines, start=1)))
    return code


def _read_ends(call: Call) -> Options:
    # `head -20` is older than `head -n 20` and still what most people type.
    befores = ["", *call.args]
    args = [
        f"-n{arg[1:]}" if arg[:1] == "-" and arg[1:].isdecimal() and before not in ("-n", "-c") else arg
        for before, arg in zip(befores, call.args, strict=False)
    ]
    return parse_options(args, "qvf", "nc", {"lines": "n", "bytes": "c", "quiet": "q"})


def head(call: Call) -> int:
    options = _read_ends(call)
    if "c" in options.values:
        count = options.whole("c", 0)
        return _show(call, options, lambda text: _cut_bytes(text, 0, count))
    count = options.whole("n", 10)
    # A negative count leaves off that many lines at the end, which is what a slice does with it.
    return _show(call, options, lambda text: "".join(text.splitlines(keepends=True)[:count]))


def tail(call: Call) -> int:
    options = _read_ends(call)
    if options.has("f"):
        raise UsageFault("following a file (-f) is not supported here", 1)
    if "c" in options.values:
        count = abs(options.whole("c", 0))
        return _show(call, options, lambda text: _cut_bytes(text, -count, None) if count else "")
    count = options.whole("n", 10)
    if options.value("n").startswith("+"):
        return _show(call, options, lambda text: "".join(text.splitlines(keepends=True)[max(0, count - 1) :]))
    count = abs(count)
    return _show(call, options, lambda text: "".join(text.splitlines(keepends=True)[-count:] if count else []))


def _cut_bytes(text: str, start: int, end: int | None) -> str:
    return text.encode("utf-8", "replace")[start:end].decode("utf-8", "replace")


def _show(call: Call, options: Options, cut: Callable[[str], str]) -> int:
    texts, code = call.read_operands(options.operands, "cannot open '{}' for reading: ")
    for index, (name, text) in enumerate(texts):
        if len(texts) > 1 and not options.has("q"):
            call.print(f"{'' if index == 0 else chr(10)}==> {name} <==\n")
        call.print(cut(text))
    return code


def wc(call: Call) -> int:
    options = parse_options(call.args, "lwcm", long={"lines": "l", "words": "w", "bytes": "c", "chars": "m"})
    shown = [letter for letter in "lwcm" if options.has(letter)] or ["l", "w", "c"]
    texts, code = call.read_operands(options.operands)
    rows = []
    for name, text in texts:
        counts = {"l": text.count("\n"), "w": len(text.split()), "c": _byte_size(call, name, text), "m": len(text)}
        rows.append(([counts[letter] for letter in shown], "" if name == "-" else f" {name}"))
    if len(options.operands) > 1:
        rows.append(([sum(column) for column in zip(*(row for row, _ in rows), strict=True)], " total"))
    width = max((len(str(count)) for row, _ in rows for count in row), default=1)
    if len(shown) == 1 and len(rows) == 1:
        width = 1
    elif not options.operands:
        width = 7  # of a stream the counts cannot be foreseen, so GNU leaves room
    for counts_shown, name in rows:
        call.print(" ".join(f"{count:>{width}}" for count in counts_shown) + f"{name}\n")
    return code


def _byte_size(call: Call, name: str, text: str) -> int:
    """The size on disk of a named file, which may hold more than its text."""
    try:
        return call.machine.files.node(call.resolve(name)).size if name != "-" else len(text.encode())
    except FileFault:
        return len(text.encode())
