"""Foreign texts in a page: JSON that cannot end its script, and long texts cut, grouped and compressed."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clawgauge.characters import well_formed
from clawgauge.journal import encode_document

_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
TEXT_BUDGET_BYTES = 7_000_000
"""Compressed; as base64 it is a third more."""
_BLOCK_CHARS = 200_000
_HELD_CHARS = 64_000_000
# Each about 0.7 of the one before, down to what still tells one text from another.
_CUTS = tuple(round(65_536 / 2 ** (n / 2)) for n in range(21))


def embed_json(value: Any) -> str:
    """`value` for a `<script type="application/json">`: nothing in it that HTML could act on."""
    # A tag, a comment or an entity cannot begin without one of the three.
    return encode_document(value, pretty=False).decode().translate(_IN_SCRIPT)


def show_json(value: Any) -> str:
    """`value` as a person reads it; for showing, never for parsing, since a number may be no JSON number."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    return text if len(text) <= 100 else json.dumps(value, ensure_ascii=False, indent=2, default=str)


Packed: TypeAlias = Any
"""A JSON value with `Text` in it."""


class Text(str):
    """A string that may be cut. In the page a cut one is `{"t": the beginning, "n": its whole length}`."""

    __slots__ = ()


@dataclass(frozen=True)
class TextBlocks:
    """Compressed groups of values in base64. Value i is in the last block whose entry in `starts` is at most i."""

    blocks: list[str]
    starts: list[int]
    cut_chars: int
    n_cut: int


class TextStore:
    """Takes one value after another and gives them back packed. The longest texts are the first to be cut."""

    def __init__(self, budget_bytes: int = TEXT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._values: list[Packed] = []
        self._n_chars = 0
        self._level = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Packed) -> int:
        self._values.append(_cut(value, _CUTS[self._level]))
        self._n_chars += _n_chars(self._values[-1])
        while self._n_chars > _HELD_CHARS and not self._is_cut_short:
            self._cut_all()
        return len(self._values) - 1

    def pack(self) -> TextBlocks:
        """Everything, within the budget as far as cutting texts can bring it there."""
        while True:
            blocks, starts = _compress(self._values)
            size_bytes = sum(map(len, blocks)) * 3 // 4
            if size_bytes <= self._budget_bytes or self._is_cut_short:
                n_cut = sum(1 for value in self._values for text in _texts(value) if isinstance(text, _CutText))
                return TextBlocks(blocks, starts, _CUTS[self._level], n_cut)
            # Compressing is slow: cut at once to about what will fit.
            wanted_chars = self._n_chars * self._budget_bytes // size_bytes
            while self._n_chars > wanted_chars and not self._is_cut_short:
                self._cut_all()

    @property
    def _is_cut_short(self) -> bool:
        return self._level == len(_CUTS) - 1

    def _cut_all(self) -> None:
        self._level += 1
        self._values = [_cut(value, _CUTS[self._level]) for value in self._values]
        self._n_chars = sum(map(_n_chars, self._values))


class _CutText(Text):
    """The beginning of a text of `n_whole` characters."""

    n_whole: int

    __slots__ = ("n_whole",)


def _map_texts(value: Packed, change: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    return [_map_texts(item, change) for item in value] if isinstance(value, list) else value


def _cut(value: Packed, limit: int) -> Packed:
    def shorten(text: str) -> str:
        if not isinstance(text, Text) or len(text) <= limit:
            return text
        cut = _CutText(text[:limit])
        cut.n_whole = text.n_whole if isinstance(text, _CutText) else len(text)
        return cut

    return _map_texts(value, shorten)


def _texts(value: Packed) -> list[str]:
    found: list[str] = []
    _map_texts(value, found.append)
    return found


def _n_chars(value: Packed) -> int:
    return sum(map(len, _texts(value)))


def _plain(text: str) -> Any:
    return {"t": well_formed(text), "n": text.n_whole} if isinstance(text, _CutText) else well_formed(text)


def _compress(values: Sequence[Packed]) -> tuple[list[str], list[int]]:
    """The values in groups of about as many characters, and the number of each group's first."""
    blocks: list[str] = []
    starts: list[int] = []
    start = n_chars = 0
    for end, value in enumerate(values, start=1):
        n_chars += _n_chars(value)
        if n_chars >= _BLOCK_CHARS or end == len(values):
            plain = [_map_texts(one, _plain) for one in values[start:end]]
            encoded = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
            # No time stamp: the same folders give the same page.
            blocks.append(b64encode(gzip.compress(encoded.encode(), mtime=0)).decode())
            starts.append(start)
            start, n_chars = end, 0
    return blocks, starts
