"""What is read of a GGUF file before llama.cpp is started with it: the model's own window, and no more."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.embedded import gguf
from clawgauge.providers.embedded.provider import Embedded

NUMBER = 4
TEXT = 8
ARRAY = 9
LLAMA = {
    "general.architecture": "llama",
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.block_count": 30,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
}
BYTES_PER_TOKEN = 30 * 3 * (64 + 64) * 2
GIB = 1 << 30


def packed_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def header(facts: Mapping[str, int | str], *more: bytes, version: int = 3) -> bytes:
    """The first part of a GGUF file; `more` are entries that are packed already."""
    entries = []
    for name, value in facts.items():
        if isinstance(value, str):
            entries.append(packed_text(name) + struct.pack("<I", TEXT) + packed_text(value))
        else:
            entries.append(packed_text(name) + struct.pack("<II", NUMBER, value))
    entries += more
    return b"GGUF" + struct.pack("<IQQ", version, 1, len(entries)) + b"".join(entries)


def texts(name: str, *items: str) -> bytes:
    """An entry that is a list of texts."""
    head = packed_text(name) + struct.pack("<IIQ", ARRAY, TEXT, len(items))
    return head + b"".join(map(packed_text, items))


def shape_of(folder: Path, content: bytes) -> gguf.ModelShape | None:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return gguf.read_shape(path)


def test_the_window_and_what_it_takes_are_read(tmp_path: Path) -> None:
    """Whatever stands between the facts, and however long the words of the tokenizer after them are."""
    languages = texts("general.languages", "en", "de")
    words = packed_text("tokenizer.ggml.tokens") + b"never read"
    content = header({}, languages)[24:]
    facts = header(LLAMA)[24:]
    whole = b"GGUF" + struct.pack("<IQQ", 3, 1, len(LLAMA) + 2) + content + facts + words
    assert shape_of(tmp_path, whole) == gguf.ModelShape(8192, BYTES_PER_TOKEN)


def test_a_model_without_shared_heads_keeps_all_of_them(tmp_path: Path) -> None:
    facts = {name: value for name, value in LLAMA.items() if not name.endswith("_kv")}
    shape = shape_of(tmp_path, header(facts))
    assert shape is not None and shape.cache_bytes_per_token == 3 * BYTES_PER_TOKEN


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        b"not a model at all, and longer than a header",
        header(LLAMA, version=1),
        header(LLAMA)[:60],
        header({**LLAMA, "llama.context_length": 0}),
        header({**LLAMA, "llama.attention.head_count": 4_000_000_000}),
        header({"general.architecture": "llama"}),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 2**63) + struct.pack("<Q", 2**62),
        header({}, packed_text("x") + struct.pack("<I", 77)),
        header({}, packed_text("x") + struct.pack("<IIQ", ARRAY, NUMBER, 2**60)),
        header({}, packed_text("x") + struct.pack("<IIQ", ARRAY, TEXT, 2**60)),
        header({}, packed_text("x") + struct.pack("<IIQ", ARRAY, ARRAY, 1)),
    ],
)
def test_a_file_that_tells_nothing_is_no_fault(content: bytes, tmp_path: Path) -> None:
    """Cut short, of another kind, or made to be large: llama.cpp says what is wrong with it."""
    assert shape_of(tmp_path, content) is None


def test_a_file_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert gguf.read_shape(tmp_path / "gone.gguf") is None


@pytest.mark.parametrize(
    ("free_bytes", "slots", "table", "window"),
    [
        (16 * GIB, 1, {}, 8192),
        (4 * BYTES_PER_TOKEN * 6000, 1, {}, 5120),
        (4 * BYTES_PER_TOKEN * 6000, 4, {}, 4096),
        (0, 1, {}, 4096),
        (0, 1, {"context": 6000}, 6000),
        (16 * GIB, 1, {"context": 1 << 20}, 8192),
    ],
)
def test_a_window_is_the_models_own_as_far_as_memory_allows(
    free_bytes: int,
    slots: int,
    table: dict[str, Any],
    window: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table's word counts more than memory, and nothing more than what the model was made for."""

    class Memory:
        available = free_bytes

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    path = tmp_path / "model.gguf"
    path.write_bytes(header(LLAMA))
    settings = ProviderSettings("embedded", "embedded", extra=table, concurrency=slots)
    assert asyncio.run(Embedded(settings).find_window(str(path))) == window
