"""Words → the arguments a command gets.

Owns: parameters, command substitution, splitting, `~` and globs, in the order POSIX has them. Refuses: running the
commands itself; the interpreter hands in how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from clawgauge.world import paths
from clawgauge.world.files import FileTree
from clawgauge.world.fuel import Fuel
from clawgauge.world.globs import is_glob, matches_glob
from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.scope import Scope
from clawgauge.world.shell.tokens import Piece, ShellSyntaxError, Word

_OPERATION = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|[?$#@*!0-9])(?P<operator>:-|-|%%|%|##|#|//|/)?(?P<operand>.*)", re.DOTALL
)
_MAX_WORDS = 4_096


class Expander:
    """Expands words in one scope."""

    def __init__(self, files: FileTree, fuel: Fuel, scope: Scope, substitute: Callable[[str], str]) -> None:
        self._files = files
        self._fuel = fuel
        self._scope = scope
        self._substitute = substitute

    def words(self, words: Iterable[Word]) -> list[str]:
        """All arguments the words come to: none, one or many each."""
        expanded: list[str] = []
        for word in words:
            expanded.extend(self._fields(word))
            if len(expanded) > _MAX_WORDS:
                raise ShellSyntaxError("argument list too long")
        return expanded

    def text(self, word: Word) -> str:
        """One text: what an assignment or a redirect takes, where nothing is split."""
        return "".join(self._value(piece) for piece in self._untilded(word))

    def _fields(self, word: Word) -> list[str]:
        # Each field is built twice: as plain text, and as a pattern in which quoted characters stand for themselves.
        texts: list[str] = []
        patterns: list[str] = []
        is_open = False
        for piece in self._untilded(word):
            value = self._value(piece)
            if piece.quoted or piece.kind == "text":
                if not is_open:
                    texts.append("")
                    patterns.append("")
                    is_open = True
                texts[-1] += value
                patterns[-1] += _escaped(value) if piece.quoted else value
                continue
            for index, part in enumerate(re.split(r"[ \t\n]+", value)):
                if index > 0:
                    is_open = False
                if part:
                    if not is_open:
                        texts.append("")
                        patterns.append("")
                        is_open = True
                    texts[-1] += part
                    patterns[-1] += part
        return [name for text, pattern in zip(texts, patterns, strict=True) for name in self._globbed(text, pattern)]

    def _untilded(self, word: Word) -> tuple[Piece, ...]:
        first = word.pieces[0] if word.pieces else None
        if first is None or first.quoted or first.kind != "text":
            return word.pieces
        if first.value == "~" or first.value.startswith("~/"):
            home = Piece("text", self._scope.home, quoted=True)
            return (home, Piece("text", first.value[1:]), *word.pieces[1:])
        return word.pieces

    def _value(self, piece: Piece) -> str:
        match piece.kind:
            case "text":
                value = piece.value
            case "command":
                value = self._substitute(piece.value).rstrip("\n")
            case _:
                value = self._parameter(piece.value)
        # Before it is joined to others: `a=$a$a` in a loop would fill any memory.
        self._fuel.spend(len(value) + 1)
        return value

    def _parameter(self, expression: str) -> str:
        found = _OPERATION.fullmatch(expression)
        if found is None or (found["operator"] is None and found["operand"]):
            raise ShellSyntaxError(f"${{{expression[:60]}}}: this expansion is not supported")
        value = self._variable(found["name"])
        operand = found["operand"]
        match found["operator"]:
            case "%" | "%%" | "#" | "##" as operator:
                return self._trimmed(value, operand, operator)
            case ":-" | "-":
                return value or operand
            case "/" | "//" as operator:
                old, _, new = operand.partition("/")
                if not old:
                    return value
                times = 1 if operator == "/" else value.count(old)
                self._fuel.spend(len(value) + times * len(new))
                return value.replace(old, new, times)
        return value

    def _variable(self, name: str) -> str:
        match name:
            case "?":
                return str(self._scope.last_code)
            case "PWD":
                return self._scope.workdir
            case "#":
                return "0"
            case "$":
                return "4242"
        return self._scope.variables.get(name, "")

    def _trimmed(self, value: str, pattern: str, operator: str) -> str:
        """`value` without the shortest (`%`, `#`) or longest (`%%`, `##`) part that matches at its end or start."""
        self._fuel.spend(len(value) ** 2 // 64)
        cuts = range(len(value) + 1)
        if operator.startswith("%"):
            order = cuts if operator == "%%" else reversed(cuts)
            return next((value[:cut] for cut in order if matches_glob(pattern, value[cut:], across=True)), value)
        order = reversed(cuts) if operator == "##" else cuts
        return next((value[cut:] for cut in order if matches_glob(pattern, value[:cut], across=True)), value)

    def _globbed(self, text: str, pattern: str) -> list[str]:
        if not is_glob(pattern.replace("\\*", "").replace("\\?", "").replace("\\[", "")):
            return [text]
        found = [("/", "/")] if pattern.startswith("/") else [("", self._scope.workdir)]
        for part in pattern.split("/"):
            if part:
                found = [match for shown, path in found for match in self._children(shown, path, part)]
        return [shown for shown, _ in found] or [text]

    def _children(self, shown: str, path: str, pattern: str) -> list[tuple[str, str]]:
        """What `pattern` matches in the directory `path`, each as the user would write it and as its path."""
        prefix = shown if not shown or shown.endswith("/") else f"{shown}/"
        plain = re.sub(r"\\(.)", r"\1", pattern)
        if not is_glob(pattern):
            target = paths.resolve(plain, path)
            return [(prefix + plain, target)] if self._files.exists(target) else []
        try:
            names = self._files.names(path)
        except FileFault:
            return []
        self._fuel.spend(32 * len(names))
        return [
            (prefix + name, paths.join(path, name))
            for name in names
            if (not name.startswith(".") or pattern.startswith(".")) and matches_glob(pattern, name)
        ]


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", text)
