"""A line of its own before every prompt, so that no cache of prompt beginnings can answer. Pure.

Owns: the line, and where it goes: before whatever of the prompt's text comes first on the wire, which is the system
prompt where there is one. Refuses: what a server's own template puts before that; it is the same for every call, and a
cache may still hold it.
"""

from __future__ import annotations

import hashlib

import msgspec

from clawgauge.journal import CellKey
from clawgauge.records import Prompt

_ID_CHARS = 12


def make_prefix(salt: bytes, key: CellKey) -> str:
    """The line of one cell: the same for every attempt at it, another for every cell, repeat and run."""
    # The part that differs comes first: nothing before it can be shared.
    digest = hashlib.blake2b(repr(tuple(key)).encode(), key=salt).hexdigest()
    return f"[{digest[:_ID_CHARS]} request id]"


def prefixed(prompt: Prompt, prefix: str) -> Prompt:
    """The prompt as it is sent."""
    if prompt.system:
        return msgspec.structs.replace(prompt, system=f"{prefix}\n{prompt.system}")
    return msgspec.structs.replace(prompt, prompt=f"{prefix}\n{prompt.prompt}")
