"""What the header of a GGUF file says of the model's window, and what memory a window takes.

The file may come from anyone: nothing in it is believed beyond bounds, and nothing is read but its
first part.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

_MAGIC = b"GGUF"
_OLDEST_VERSION = 2
_MAX_ENTRIES = 1_000
_MAX_TEXT_BYTES = 1 << 20
_MAX_HEADER_BYTES = 64 << 20
_MAX_WINDOW = 16_777_216
_MAX_DIMENSION = 1 << 20
_BYTES_PER_VALUE = 2
"""llama.cpp keeps keys and values as 16-bit numbers unless told otherwise."""
_TEXT = 8
_ARRAY = 9
# The formats of single values, by the number of their type.
_FORMATS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip


class ModelShape(NamedTuple):
    """How long a text a model was made for, and what llama.cpp keeps of each of its tokens."""

    window: int
    cache_bytes_per_token: int


class _UnreadableHeader(Exception):
    """The file is no GGUF file, or one that says more than a header may."""


def read_shape(path: Path) -> ModelShape | None:
    """The shape of the model in a file; None where the file does not tell it."""
    try:
        with path.open("rb") as file:
            return _find_shape(_read_facts(file))
    except (OSError, _UnreadableHeader, struct.error):
        return None


def _find_shape(facts: Mapping[str, object]) -> ModelShape | None:
    architecture = facts.get("general.architecture")

    def count(name: str, limit: int) -> int | None:
        value = facts.get(f"{architecture}.{name}")
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= limit:
            return value
        return None

    window = count("context_length", _MAX_WINDOW)
    n_layers = count("block_count", _MAX_DIMENSION)
    n_heads = count("attention.head_count", _MAX_DIMENSION)
    width = count("embedding_length", _MAX_DIMENSION)
    if window is None or n_layers is None or n_heads is None or width is None:
        return None
    n_kept_heads = count("attention.head_count_kv", _MAX_DIMENSION) or n_heads
    head_width = width // n_heads
    key_width = count("attention.key_length", _MAX_DIMENSION) or head_width
    value_width = count("attention.value_length", _MAX_DIMENSION) or head_width
    per_layer = n_kept_heads * (key_width + value_width) * _BYTES_PER_VALUE
    return ModelShape(window=window, cache_bytes_per_token=max(1, n_layers * per_layer))


def _read_facts(file: BinaryIO) -> dict[str, object]:
    """The single values of the header, up to the words of the tokenizer, which may be many."""
    if file.read(4) != _MAGIC or _read_number(file, "I") < _OLDEST_VERSION:
        raise _UnreadableHeader
    _read_number(file, "Q")  # tensors
    n_entries = _read_number(file, "Q")
    facts: dict[str, object] = {}
    for _ in range(min(n_entries, _MAX_ENTRIES)):
        key = _read_text(file)
        if key.startswith("tokenizer."):
            break
        facts[key] = _read_value(file, _read_number(file, "I"))
        if file.tell() > _MAX_HEADER_BYTES:
            raise _UnreadableHeader
    return facts


def _read_value(file: BinaryIO, kind: int) -> object:
    """A value of this type; of an array nothing is kept."""
    if kind == _TEXT:
        return _read_text(file)
    if kind != _ARRAY:
        return _read_number(file, _format_of(kind))
    item_kind = _read_number(file, "I")
    n_items = _read_number(file, "Q")
    if item_kind == _TEXT:
        for _ in range(n_items):
            _read_text(file)
            if file.tell() > _MAX_HEADER_BYTES:
                raise _UnreadableHeader
        return None
    n_bytes = n_items * struct.calcsize(f"<{_format_of(item_kind)}")
    if n_bytes > _MAX_HEADER_BYTES:
        raise _UnreadableHeader
    file.seek(n_bytes, 1)
    return None


def _format_of(kind: int) -> str:
    if kind not in _FORMATS:
        raise _UnreadableHeader
    return _FORMATS[kind]


def _read_number(file: BinaryIO, number_format: str) -> int:
    """A number; whole unless it is a fact of no interest here. Raises `struct.error` at the end."""
    packed = struct.Struct(f"<{number_format}")
    (number,) = packed.unpack(file.read(packed.size))
    whole: int = number
    return whole


def _read_text(file: BinaryIO) -> str:
    n_bytes = _read_number(file, "Q")
    if n_bytes > _MAX_TEXT_BYTES:
        raise _UnreadableHeader
    return file.read(n_bytes).decode("utf-8", "replace")
