"""Ways to write a key so that it does not stand there as it is, and what a reader makes of each."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from clawgauge.reports.clean import clean_cell, clean_terminal

PIECE = 8
UNSEEN = [
    "\u200b", "\u00ad", "\u2060", "\ufeff", "\u200d", "\ufe0f", "\u034f", "\u0301", "\u202e", "\u2066", "\U000e0041",
    "\x00", "\x01", "\x08", "\r", "\x7f", "\x85", "\x1b[31m", "\x1b[0m", "\x9b1m", "\x1b]0;title\x07", "\x1bPq\x1b\\",
    "\x1b(B", "\ufffd", "\ue000",
]  # fmt: skip
# Inside base64 or hexadecimal digits, accents and C1 controls are not looked for.
UNSEEN_IN_CODES = [
    mark
    for mark in UNSEEN
    if mark not in ("\u0301", "\u034f", "\x85", "\x9b1m", "\ufffd", "\ue000")
]
ESCAPES: list[Callable[[str], str]] = [
    lambda one: one,
    lambda one: f"%{ord(one):02x}",
    lambda one: f"%{ord(one):02X}",
    lambda one: f"%2525{ord(one):02X}",
    lambda one: f"%u{ord(one):04x}",
    lambda one: f"\\u{ord(one):04x}",
    lambda one: f"\\\\\\u{ord(one):04X}",
    lambda one: f"\\u{{{ord(one):x}}}",
    lambda one: f"\\x{ord(one):02x}",
    lambda one: f"\\{ord(one):03o}",
    lambda one: f"&#{ord(one)};",
    lambda one: f"&#x{ord(one):X};",
    lambda one: f"&amp;#0{ord(one)};",
    lambda one: chr(ord(one) + 0xFEE0),
]
CODES: list[Callable[[bytes], str]] = [
    lambda data: base64.b64encode(data).decode(),
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    lambda data: base64.b64encode(b"x" + data).decode(),
    lambda data: base64.b64encode(b"xy" + data + b"z").decode(),
    lambda data: base64.encodebytes(b"xyz" * 20 + data).decode(),
    lambda data: data.hex(),
    lambda data: data.hex().upper(),
    lambda data: data.hex(":"),
    lambda data: data.hex(" ", 2),
    lambda data: ", ".join(f"0x{byte:02x}" for byte in data),
]


def unescaped_twice(text: str) -> str:
    """As a screen would show it after a browser and two readers of JSON."""
    for _ in range(2):
        text = html.unescape(unquote(clean_terminal(text)))
        text = re.sub(
            r"(?:\\+|%)[uU]\{?([0-9a-fA-F]{2,4})\}?", lambda found: chr(int(found[1], 16)), text
        )
        text = re.sub(r"\\+x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
        text = text.translate({0xFEE0 + code: code for code in range(0x21, 0x7F)})
    return clean_terminal(text)


def decoded_once(text: str) -> Iterator[str]:
    """What other programs make of a text; written without a line of the program's own."""
    yield clean_terminal(text)
    yield clean_cell(text)
    yield unquote(text)
    yield html.unescape(text)
    yield re.sub(r"\\+[uU]\{?([0-9a-fA-F]{2,4})\}?", lambda found: chr(int(found[1], 16)), text)
    yield re.sub(r"\\+x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
    yield re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
    yield text.translate({0xFEE0 + code: code for code in range(0x21, 0x7F)})
    yield unescaped_twice(text)
    joined = text.replace("\n", "").replace("-", "+").replace("_", "/")
    for run in re.findall(r"[A-Za-z0-9+/]{10,}", joined):
        for shift in range(4):
            part = run[shift:]
            part = part[: len(part) - (len(part) % 4 == 1)]
            yield binascii.a2b_base64(part + "=" * (-len(part) % 4)).decode("utf-8", "ignore")
    digits = re.sub(r"0x|[ :,\n]", "", text)
    for run in re.findall(r"[0-9a-fA-F]{16,}", digits):
        for shift in range(2):
            part = run[shift:]
            yield bytes.fromhex(part[: len(part) // 2 * 2]).decode("utf-8", "ignore")


def is_readable(text: str, key: str, depth: int = 2) -> bool:
    """Whether eight characters of the key in a row are in the text, or in what it says when decoded."""
    pieces = [key[at : at + PIECE].lower() for at in range(len(key) - PIECE + 1)]
    if any(piece in text.lower() for piece in pieces):
        return True
    others = {other for other in decoded_once(text) if other != text} if depth else ()
    return any(is_readable(other, key, depth - 1) for other in others)
