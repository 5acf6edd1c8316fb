"""The inputs that are remembered: one folder a kind, only such as reach code that no other there reaches."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import clawgauge
from faults.hostile_json import HOSTILE_TEXTS, HOSTILE_TOKENS, damage
from fuzz.targets import TARGETS

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
MAX_FILE_BYTES = 16_384
_SOURCE = str(Path(clawgauge.__file__).parent)
_WORDS = [
    word.encode("utf-8", "surrogatepass")
    for word in (*HOSTILE_TEXTS, *(token.text for token in HOSTILE_TOKENS))
    if len(word) < 2000
]
Arc = tuple[str, int, int]


def entries(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).iterdir())


def remember(kind: str, data: bytes, prefix: str = "") -> Path:
    path = CORPUS / kind / f"{prefix}{hashlib.sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def mutate(seeds: list[bytes], rng: Random) -> bytes:
    """One seed, or two crossed, with a few places damaged or filled with words that have hurt before."""
    data = rng.choice(seeds)
    if rng.random() < 0.3:
        other = rng.choice(seeds)
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    if rng.random() < 0.4:
        at = rng.randrange(len(data) + 1)
        end = at if rng.random() < 0.5 else min(len(data), at + rng.randrange(1, 40))
        data = data[:at] + rng.choice(_WORDS) + data[end:]
    return damage(data, rng, rng.choice((0, 1, 1, 2, 5)))[: 2 * MAX_FILE_BYTES]


def covered(kind: str, data: bytes) -> set[Arc]:
    """The steps from line to line that a target takes through the program with these bytes."""
    found: set[Arc] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_SOURCE):
            return None
        last = frame.f_code.co_firstlineno

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    sys.settrace(trace)
    try:
        TARGETS[kind](data)
    finally:
        sys.settrace(None)
    return found


def minimised(kind: str, inputs: Iterable[bytes], n_max: int, n_bytes_max: int) -> list[bytes]:
    """The fewest of these that reach what they all reach, the most telling for their size first."""
    reach = {data: covered(kind, data) for data in set(inputs) if len(data) <= MAX_FILE_BYTES}
    kept: list[bytes] = []
    done: set[Arc] = set()
    room = n_bytes_max
    while reach and len(kept) < n_max:
        best = max(reach, key=lambda data: (len(reach[data] - done) / (len(data) + 200), data))
        gained = reach.pop(best) - done
        if gained and len(best) <= room:
            kept.append(best)
            done |= gained
            room -= len(best)
        reach = {data: arcs for data, arcs in reach.items() if arcs - done}
    return kept


def shrunk(kind: str, data: bytes) -> bytes:
    """A shorter input on which the target still fails in the same way."""
    kind_of_fault = fault_of(kind, data)
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            shorter = data[:start] + data[start + size :]
            if fault_of(kind, shorter) == kind_of_fault:
                data = shorter
                break
        else:
            size //= 2
    return data


def fault_of(kind: str, data: bytes) -> str | None:
    """The kind and the place of the exception that a target ends with."""
    try:
        TARGETS[kind](data)
    except Exception as fault:
        trace = fault.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
        return f"{type(fault).__name__} at {where}"
    return None
