"""Foreign texts inside the page: as JSON that cannot end its script, the long ones cut, grouped and
compressed."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.journal import encode_document

_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Compressed; as base64 it is a third more.
TEXT_BUDGET_BYTES = 7_000_000
_BLOCK_CHARS = 200_000
_MAX_HELD_CHARS = 64_000_000
_ONE_LINE_CHARS = 100
# The lengths to cut at, one after the other: each about 0.7 of the one before, down to what still
# tells one text from another.
_CUT_LENGTHS = tuple(round(65_536 / 2 ** (n / 2)) for n in range(21))


def embed_json(value: Any) -> str:
    """`value` for a `<script type="application/json">`: nothing in it that HTML could act on."""
    # A tag, a comment or an entity cannot begin without one of the three characters.
    return encode_document(value, pretty=False).decode().translate(_IN_SCRIPT)


def show_json(value: Any) -> str:
    """`value` as a person reads it, on one line where it is short.

    Never for parsing: a number may be no JSON number."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    if len(text) <= _ONE_LINE_CHARS:
        return text
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


class Text(str):
    """A string that may be cut. In the page, one that was cut is an object: `t` is its beginning,
    `n` its whole length."""

    __slots__ = ("n_whole",)

    n_whole: int

    @property
    def is_cut(self) -> bool:
        return hasattr(self, "n_whole")

    def cut(self, limit: int) -> Text:
        if len(self) <= limit:
            return self
        cut = Text(self[:limit])
        cut.n_whole = self.n_whole if self.is_cut else len(self)
        return cut


@dataclass(frozen=True, slots=True)
class TextBlocks:
    """Compressed groups of values in base64. Value i is in the last block whose entry in `starts`
    is at most i. `n_cut` texts were cut to `cut_chars` characters."""

    blocks: list[str]
    starts: list[int]
    cut_chars: int
    n_cut: int


class TextStore:
    """Takes one JSON value with `Text` in it after another, and gives them back packed, the longest
    texts cut first."""

    def __init__(self, budget_bytes: int = TEXT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._values: list[Any] = []
        self._n_chars = 0
        # How far texts have been cut: an index into _CUT_LENGTHS.
        self._cut_level = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Any) -> int:
        """Keeps `value`; returns its number."""
        shortened = _cut(value, self._cut_chars)
        self._values.append(shortened)
        self._n_chars += _count_chars(shortened)
        self._cut_down_to(_MAX_HELD_CHARS)
        return len(self._values) - 1

    def pack(self) -> TextBlocks:
        while True:
            blocks, starts = _compress(self._values)
            size_bytes = sum(len(block) for block in blocks) * 3 // 4
            is_shortest = self._cut_level == len(_CUT_LENGTHS) - 1
            if size_bytes <= self._budget_bytes or is_shortest:
                return TextBlocks(
                    blocks=blocks,
                    starts=starts,
                    cut_chars=self._cut_chars,
                    n_cut=_count_cut_texts(self._values),
                )
            # Compressing is slow: cut at once to about what will fit.
            self._cut_down_to(self._n_chars * self._budget_bytes // size_bytes)

    @property
    def _cut_chars(self) -> int:
        return _CUT_LENGTHS[self._cut_level]

    def _cut_down_to(self, n_chars: int) -> None:
        while self._n_chars > n_chars and self._cut_level < len(_CUT_LENGTHS) - 1:
            self._cut_level += 1
            self._values = [_cut(value, self._cut_chars) for value in self._values]
            self._n_chars = sum(_count_chars(value) for value in self._values)


def _map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """`value` with every string in it changed; the keys of objects stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return value


def _cut(value: Any, limit: int) -> Any:
    def cut_text(text: str) -> str:
        return text.cut(limit) if isinstance(text, Text) else text

    return _map_texts(value, cut_text)


def _texts_in(value: Any) -> list[str]:
    texts: list[str] = []
    _map_texts(value, texts.append)
    return texts


def _count_chars(value: Any) -> int:
    return sum(len(text) for text in _texts_in(value))


def _count_cut_texts(values: Sequence[Any]) -> int:
    n_cut = 0
    for value in values:
        for text in _texts_in(value):
            if isinstance(text, Text) and text.is_cut:
                n_cut += 1
    return n_cut


def _as_json_text(text: str) -> Any:
    if isinstance(text, Text) and text.is_cut:
        return {"t": well_formed(text), "n": text.n_whole}
    return well_formed(text)


def _compress(values: Sequence[Any]) -> tuple[list[str], list[int]]:
    """The blocks, and the number of the first value of each."""
    blocks: list[str] = []
    starts: list[int] = []
    start = 0
    n_chars = 0
    for end, value in enumerate(values, start=1):
        n_chars += _count_chars(value)
        if n_chars < _BLOCK_CHARS and end < len(values):
            continue
        blocks.append(_compress_block(values[start:end]))
        starts.append(start)
        start = end
        n_chars = 0
    return blocks, starts


def _compress_block(values: Sequence[Any]) -> str:
    plain = [_map_texts(value, _as_json_text) for value in values]
    encoded = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    # No time stamp: the same folders give the same page.
    return b64encode(gzip.compress(encoded.encode(), mtime=0)).decode()
