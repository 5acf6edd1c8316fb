"""JSON that nobody should send, made from a random source: wrong types everywhere, absurd numbers, broken text.

Owns: the hostile values, putting them into a proper document, and writing it with tokens that JSON does not have.
Everything is decided by the `random.Random` handed in, so a case can be made again from its seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

HOSTILE_TEXTS = (
    "",
    " \n\t",
    "\x00\x01\x1b[31m\x7f",
    "\ud800",
    "\udfff\ud83d",
    "a\ud83d",
    "\ude00b",
    "\u2028\u2029\u0085\u202e\ufeff",
    '`free -h` and "df -h" and $ du -sh\n<tool>free</tool>[tool: df]',
    "<think>never closed",
    "</think></think><think><think>",
    '```json\n{"a": NaN}\n```',
    '<tool_call>{"name": "free", "arguments": ' + "[" * 300,
    "(((((((((a+)+)+)+)+b" * 50,
    "\N{COMBINING ACUTE ACCENT}" * 500,
    "none, null; true\x00false",
    "../../../etc/passwd",
    "429",
    "x" * 70_000,
    "é" * 40_000,
)
STRAY_BYTES = (b"\r", b"\n", b"\r\n\r\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"data:", b'"')
HOSTILE_KEYS = ("", "\ud800", "error", "choices", "delta", "type", "a" * 3000, "__proto__", "0")


@dataclass(frozen=True)
class Token:
    """Written as it stands, in place of a value."""

    text: str


HOSTILE_TOKENS = (
    Token("NaN"),
    Token("-Infinity"),
    Token("1e999"),
    Token("-1e-999"),
    Token("9" * 30),
    Token("9" * 5000),
    Token("0." + "3" * 5000),
    Token("00012"),
    Token("[" * 150 + "]" * 150),
    Token("[" * 900 + "]" * 900),
    Token('{"a":' * 950 + "1" + "}" * 950),
    Token("[" * 100_000 + "]" * 100_000),
    Token("[" * 5000),
    Token('{"a":1,"a":2,"a":{"a":3}}'),
    Token(""),
    Token("undefined"),
    Token("'single'"),
    Token('"raw \t tab and \x00 nul"'),
    Token('"bad escape \\x \\u12"'),
    Token("/* comment */ 1"),
)
PLAIN_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**40, [], {}, [[]], [None],
    [{}], {"": None}, "text", "stop",
)  # fmt: skip


def hostile_value(rng: Random) -> Any:
    """Something other than what belongs here."""
    kind = rng.random()
    if kind < 0.45:
        return deepcopy(rng.choice(PLAIN_VALUES))
    if kind < 0.75:
        return rng.choice(HOSTILE_TEXTS)
    if kind < 0.95:
        return rng.choice(HOSTILE_TOKENS)
    if kind < 0.98:
        return {rng.choice(HOSTILE_KEYS): hostile_value(rng) for _ in range(rng.randrange(4))}
    return [hostile_value(rng) for _ in range(rng.randrange(4))]


def spoil(value: Any, rng: Random, n_places: int) -> Any:
    """A copy of `value` with that many places, keys or values, replaced, removed, doubled or wrapped."""
    spoilt = deepcopy(value)
    for _ in range(n_places):
        places = list(_places(spoilt))
        if not places:
            return hostile_value(rng)
        _spoil_at(*rng.choice(places), rng)
    return spoilt


def _spoil_at(holder: Any, key: Any, rng: Random) -> None:
    action = rng.random()
    if action < 0.7:
        holder[key] = hostile_value(rng)
    elif action < 0.8:
        del holder[key]
    elif action < 0.9:
        holder[key] = rng.choice(
            (
                [holder[key]],
                {"a": holder[key]},
                [holder[key], deepcopy(holder[key])],
                str(holder[key]),
            )
        )
    elif isinstance(holder, dict):
        holder[rng.choice(HOSTILE_KEYS)] = hostile_value(rng)
    else:
        holder.insert(key, hostile_value(rng))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for key, item in enumerate(value):
            yield value, key
            yield from _places(item)


def write_json(value: Any, *, ascii_only: bool) -> str:
    """The document as text, tokens as they stand; lone surrogates are always escaped, or no bytes could hold them."""
    if isinstance(value, Token):
        return value.text
    if isinstance(value, dict):
        members = (
            f"{write_json(str(k), ascii_only=ascii_only)}:{write_json(v, ascii_only=ascii_only)}"
            for k, v in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write_json(item, ascii_only=ascii_only) for item in value) + "]"
    if isinstance(value, str) and not ascii_only:
        try:
            value.encode()
        except UnicodeEncodeError:
            return json.dumps(value)
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def encode_text(text: str, rng: Random) -> bytes:
    """Mostly UTF-8; now and then something a server with other habits would send."""
    if rng.random() < 0.85:
        return text.encode("utf-8", "surrogatepass")
    encoding = rng.choice(
        ("utf-16", "utf-16-be", "utf-32-le", "latin-1", "cp1252", "shift_jis", "utf-7", "utf-8-sig")
    )
    return text.encode(encoding, "replace")


def damage(data: bytes, rng: Random, n_places: int) -> bytes:
    """The bytes with that many places flipped, cut out, repeated, or filled with noise."""
    damaged = bytearray(data)
    for _ in range(n_places):
        at = rng.randrange(len(damaged) + 1)
        length = rng.choice((1, 1, 2, 8, 64))
        action = rng.randrange(5)
        if action == 0 and at < len(damaged):
            damaged[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            del damaged[at : at + length]
        elif action == 2:
            damaged[at:at] = rng.randbytes(length)
        elif action == 3:
            damaged[at:at] = damaged[at : at + length]
        else:
            damaged[at:at] = rng.choice(
                (b"\r", b"\n", b"\r\n\r\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"data:", b'"')
            )
    return bytes(damaged)
