"""How much a document becomes in memory, told from its bytes before anything of it is decoded.

Two bytes, `[]`, become seventy, and what is nested deeply ends a program that walks it. So the size
of a file bounds nothing by itself: whoever decodes a stranger's file without knowing its shape asks
here first. Texts inside it are not counted, and cost what they are long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

Format = Literal["json", "json5", "toml"]


MAX_DEPTH = 128


class Limits(NamedTuple):
    """At most so many values (of lists and objects, these themselves among them), one inside
    another so deeply.

    Where `depth` is None, what nests too deeply is left to the decoder."""

    values: int
    depth: int | None


# A suite of one's own work may have 64 MiB, nearly all of it text; a value costs up to 140 bytes
# beside its text.
DOCUMENT_LIMITS = Limits(values=4_000_000, depth=MAX_DEPTH)
# The same where how deep it is shows once it is decoded, which costs less.
VALUE_LIMITS = DOCUMENT_LIMITS._replace(depth=None)
# A program's settings, with what they include.
SETTINGS_LIMITS = Limits(values=500_000, depth=MAX_DEPTH)
# One line of what somebody else wrote: an answer that is kept as JSON may be 200 levels deep by
# itself.
LINE_LIMITS = Limits(values=500_000, depth=256)
# One line of a run folder. Readers that pass over a field and readers that take it count the same
# lines.
RECORD_LIMITS = Limits(values=500_000, depth=None)

_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_PIECE_BYTES = 1 << 20
_DOUBLE_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SINGLE_QUOTED = rb"'[^'\\]*+(?:\\.[^'\\]*+)*+'"


class _Syntax(NamedTuple):
    """How texts and comments look in a format, the group `rest` one that does not end, and what is
    before each value.

    `is_cut_at_lines` where three quotes can belong together, which the end of a piece must not
    part."""

    text: re.Pattern[bytes]
    before_values: tuple[bytes, ...]
    is_cut_at_lines: bool = False


def _any_of(*patterns: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"|".join(patterns), re.DOTALL)


_SYNTAXES: Mapping[Format, _Syntax] = {
    "json": _Syntax(
        text=_any_of(_DOUBLE_QUOTED, rb'(?P<rest>".*)'),
        before_values=(b",", b"[", b"{"),
    ),
    "json5": _Syntax(
        text=_any_of(
            _DOUBLE_QUOTED,
            _SINGLE_QUOTED,
            rb"//[^\r\n]*+[\r\n]",
            rb"/\*.*?\*/",
            rb"(?P<rest>[\"'/].*)",
        ),
        before_values=(b",", b"[", b"{"),
    ),
    "toml": _Syntax(
        text=_any_of(
            # The inner group is atomic: Python before 3.11.5 misreads a possessive repeat of a
            # choice.
            rb'"""(?:(?>[^"\\]++|\\.|"(?!"")))*+"{3,5}',
            rb"'''.*?'{3,5}",
            rb'(?!""")"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"',
            rb"(?!''')'[^'\n]*+'",
            rb"#[^\n]*+\n",
            rb"(?P<rest>[\"'#].*)",
        ),
        before_values=(b",", b"[", b"{", b"="),
        is_cut_at_lines=True,
    ),
}


def find_excess(
    data: bytes, limits: Limits = DOCUMENT_LIMITS, format: Format = "json"
) -> str | None:
    """What a document has too much of, in words for a refusal; None where it may be decoded.

    It need not be well formed: what is not is for its decoder to refuse."""
    if limits.depth is None and len(data) <= limits.values:
        return None  # too short for so many
    before_values = _SYNTAXES[format].before_values
    n_values = sum(map(data.count, before_values))
    is_shallow = limits.depth is None or data.count(b"[") + data.count(b"{") <= limits.depth
    if n_values <= limits.values and is_shallow:
        return None
    # Some of these may stand inside texts.
    n_values = 0
    brackets = bytearray()
    for piece in _without_texts(data, _SYNTAXES[format]):
        n_values += sum(map(piece.count, before_values))
        if n_values > limits.values:
            return f"more than {limits.values:,} values"
        if limits.depth is not None:
            brackets += piece.translate(_ONE_KIND, _NOT_BRACKETS)
    if limits.depth is not None and _is_deeper(brackets, limits.depth):
        return f"values nested more than {limits.depth} levels deep"
    return None


def count_values(line: bytes) -> int:
    """How many values a line may hold, at most: what stands inside its texts is counted too."""
    return 1 + line.count(b"[") + line.count(b"{") + line.count(b",")


def nests_deeper(value: Any, depth: int) -> bool:
    """Whether a decoded document, records and all, has more levels than that. It is walked a level
    at a time."""
    containers = [value]
    for _ in range(depth):
        inner_containers = []
        for container in containers:
            for value_inside in _values_in(container):
                if isinstance(value_inside, dict | list | tuple | msgspec.Struct):
                    inner_containers.append(value_inside)
        containers = inner_containers
        if not containers:
            return False
    return True


def _values_in(container: Any) -> Iterable[Any]:
    if isinstance(container, dict):
        return container.values()
    if isinstance(container, msgspec.Struct):
        return [getattr(container, field) for field in container.__struct_fields__]
    items: Iterable[Any] = container
    return items


def _is_deeper(brackets: bytearray, depth: int) -> bool:
    """Each round takes away what holds nothing more: there are as many rounds as levels."""
    for _ in range(depth):
        shallower = brackets.replace(b"[]", b"")
        if len(shallower) == len(brackets):
            return False
        brackets = shallower
    return b"[]" in brackets


def _without_texts(data: bytes, syntax: _Syntax) -> Iterator[bytes]:
    """The document piece by piece, its texts and comments left out: never more than a piece of it
    is copied."""
    rests: list[int] = []

    def drop(text: re.Match[bytes]) -> bytes:
        if text.lastgroup is not None:
            rests.append(text.start())
        return b""

    start = 0
    while start < len(data):
        end = min(start + _PIECE_BYTES, len(data))
        if syntax.is_cut_at_lines and end < len(data):
            end = data.find(b"\n", end) + 1 or len(data)
        yield syntax.text.sub(drop, data[start:end])
        if not rests:
            start = end
            continue
        # The last text goes on behind this piece: it is passed over where it stands.
        text_start = start + rests.pop()
        text = syntax.text.match(data, text_start)
        if text is None or text.lastgroup is not None:
            return  # it never ends: nobody can decode that
        start = text.end()
